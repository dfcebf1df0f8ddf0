"""Addresses to names: sizes, labels inside functions, unknown sizes, gaps."""

from __future__ import annotations

from hypothesis import given, strategies as st

from pyebpf.elf.symbol_table import SymbolTable

TABLE = SymbolTable(
    [(100, 50, b"outer"), (120, 10, b"inner"), (125, 0, b"label"), (200, 0, b"open"), (300, 0, b""), (400, 1, b"byte")]
)


def name(address):
    found = TABLE.find(address)
    return found and (found.name, found.start, found.offset)


def test_the_innermost_symbol_names_an_address():
    """A symbol inside another wins while it lasts; a label does not end the function it stands in."""
    assert name(99) is None
    assert name(100) == ("outer", 100, 0)
    assert name(119) == ("outer", 100, 19)
    assert name(120) == ("inner", 120, 0)
    assert name(127) == ("inner", 120, 7)
    assert name(130) == name(130) == ("outer", 100, 30)
    assert name(150) is None


def test_a_symbol_of_unknown_size_reaches_to_the_next():
    """... or to the end of what it stands in."""
    assert name(299) == ("open", 200, 99)
    assert name(300) is name(399) is None
    assert name(400) == ("byte", 400, 0)
    assert name(401) is None
    assert SymbolTable([]).find(5) is None


@given(
    st.dictionaries(st.integers(0, 60), st.integers(1, 40), max_size=12),
    st.integers(0, 110),
)
def test_it_finds_what_a_search_through_all_finds(symbols, address):
    """With sizes known, the answer is the covering symbol that starts last."""
    table = SymbolTable([(start, size, str(start).encode()) for start, size in symbols.items()])
    covering = [start for start, size in symbols.items() if start <= address < start + size]
    found = table.find(address)
    assert (found and found.start) == (max(covering) if covering else None)


def test_of_several_names_the_plainest_is_taken():
    """Of the same bytes; another size is another symbol, and what has no name is none."""
    names = (b"__open64", b"open64", b"_open", b"")
    table = SymbolTable([*[(16, 8, name) for name in names], (16, 4, b"a"), (32, 8, b"__x")])
    assert [table.find(address) for address in (16, 33)] == [("open64", 16, 0), ("__x", 32, 1)]
