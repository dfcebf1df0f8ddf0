"""Records, strings and arrays: every byte written, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from pyebpf.builder.values.comparisons import compare
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.builder.values.operations import binary, length, truth
from pyebpf.builder.values.records import StructConstructor
from pyebpf.builder.values.strings import String, StringSource
from pyebpf.errors import CompileError
from pyebpf.types import (
    BE16,
    BE32,
    BE64,
    INTEGERS,
    S64,
    U8,
    U32,
    U64,
    CharArray,
    Struct,
    Type,
    field,
    u8,
    u16,
    u32,
    u64,
)
from tests.builder.harness import Probe

if TYPE_CHECKING:
    from collections.abc import Callable


class Inner(Struct):
    left: u8
    right: u32


class Outer(Struct):
    flag: u8
    at: u64
    inner: Inner
    name: str = field(CharArray(7))
    raw: bytes = field(U8[3], default=b"xyz")
    cells: list[int] = field(BE16[3], default=[1, 2, 3])
    last: u16 = 9


def filled(p: Probe, size: int, byte: int = 0xAA) -> Any:
    """Stack memory with something else in it."""
    address = p.b.slot_address(p.b.slot(-(-size // 8) * 8))
    for at in range(0, -(-size // 8) * 8, 8):
        p.b.store(address, at, p.b.const(int.from_bytes(bytes([byte]) * 8, "little")), 8)
    return address


def memory(type_: Type, write: Callable[[Probe, Any], None], *words: int) -> bytes:
    """Bytes that `write` leaves in memory that held something else."""
    found = bytearray()
    for at in range(type_.size):
        p = Probe()
        address = filled(p, type_.size)
        write(p, address)
        p.b.ret(p.b.load(address, at, 1))
        found.append(p.run(*words))
    return bytes(found)


def test_a_record_is_written_whole() -> None:
    """Fields at their offsets, defaults, zeros in every hole: as the codec of user space writes it."""

    def write(p: Probe, address: Any) -> None:
        inner = StructConstructor(Inner).call(p, (p.number(0), 5), {})
        p.store_value(
            address, 0, Outer.layout, StructConstructor(Outer).call(p, (1, p.number(1, U64), inner), {"name": "ab"})
        )

    wanted = Outer(1, (1 << 64) - 2, Inner(0x34, 5), "ab", b"xyz", [1, 2, 3], 9)
    assert memory(Outer.layout, write, 0x1234, -2) == wanted.to_bytes()


def test_a_record_known_while_compiling_is_written_whole() -> None:
    value = Outer(1, 2, Inner(3, 4), "name", b"abc", [7, 8, 9])
    assert memory(Outer.layout, lambda p, a: p.store_value(a, 0, Outer.layout, value)) == value.to_bytes()


@settings(max_examples=200)
@given(st.sampled_from(sorted(INTEGERS)), st.integers(-(1 << 63), (1 << 64) - 1))
def test_numbers_are_stored_and_read_back_as_their_types_wrap_them(name: str, word: int) -> None:
    p = Probe()
    type_ = INTEGERS[name]
    address = filled(p, 8)
    p.store_value(address, 0, type_, p.number(0))
    p.ret(p.load_value(Lvalue(base=address), type_))
    assert p.run(word) == S64.wrap(type_.wrap(S64.wrap(word)))


@pytest.mark.parametrize("type_", [BE16, BE32, BE64], ids=str)
def test_constants_in_network_order_are_swapped_while_compiling(type_: Any) -> None:
    assert memory(type_, lambda p, a: p.store_value(a, 0, type_, 0x1234)) == (0x1234).to_bytes(type_.size, "big")


@pytest.mark.parametrize("source", [1, 2, 5, 16, 23])
@pytest.mark.parametrize("size", [1, 2, 5, 16, 23])
def test_strings_are_cut_or_filled_to_their_destination(source: int, size: int) -> None:
    """At most N-1 bytes, a NUL, zeros to the end."""
    text = "abcdefghijklmnopqrstuvw"[: source - 1]

    def write(p: Probe, address: Any) -> None:
        memory = filled(p, source)
        p.store_value(memory, 0, CharArray(source), text)
        p.store_value(address, 0, CharArray(size), p.load_value(Lvalue(base=memory), CharArray(source)))

    assert memory(CharArray(size), write) == text[: size - 1].encode().ljust(size, b"\0")


@pytest.mark.parametrize(("size", "destination"), [(None, 9), (4, 9), (20, 9)])
def test_a_source_is_read_into_its_place_and_no_further(size: int | None, destination: int) -> None:
    """The smaller of its own size and the destination's; zeroed memory to write to."""
    asked: list[int] = []

    def read_into(p: Any, address: Any, count: int) -> None:
        asked.append(count)
        p.b.store(address, 0, p.b.const(ord("x")), 1)

    def write(p: Probe, address: Any) -> None:
        p.store_value(address, 0, CharArray(destination), StringSource("text()", read_into, size))

    assert memory(CharArray(destination), write) == b"x".ljust(destination, b"\0")
    assert set(asked) == {min(size or destination, destination)}


@pytest.mark.parametrize(
    ("left", "right", "same"), [("ab", "ab", 1), ("ab", "abc", 0), ("", "", 1), ("abcdefgh", "abcdefgi", 0)]
)
def test_strings_of_different_sizes_are_compared_to_the_end(left: str, right: str, same: int) -> None:
    for sizes in ((9, 17), (17, 9), (12, 12)):
        p = Probe()
        places = [filled(p, size) for size in sizes]
        for memory, size, text in zip(places, sizes, (left, right), strict=True):
            p.store_value(memory, 0, CharArray(size), text)
        first, second = (
            p.load_value(Lvalue(base=memory), CharArray(size)) for memory, size in zip(places, sizes, strict=True)
        )
        p.ret(compare(p, "==", first, second))
        assert p.run() == same


@pytest.mark.parametrize("untrusted", [False, True])
@pytest.mark.parametrize("text", ["", "a", "ab", "ababc", "abcdefgh", "xabcdefghij", "aaaaaaaaaaaaaaa"])
def test_text_looked_for_is_found_where_python_finds_it(text: str, untrusted: bool) -> None:
    """`in` and `endswith`, of literals shorter and longer than a word; behind an untrusted string's NUL is junk."""
    literals = ("", "a", "b", "bc", "abc", "abcdefgh", "bcdefghij", "xabcdefghij", "aaaaaaaaa", "aaaaaaaaaaaaaaa", "hx")
    for literal in literals:
        for name in ("in", "endswith"):
            p = Probe()
            memory = filled(p, 16)
            p.store_value(memory, 0, CharArray(16), text)
            if untrusted:
                for at in range(len(text) + 1, 16):
                    p.b.store(memory, at, p.b.const(ord("abc"[at % 3])), 1)
            found = p.load_value(Lvalue(base=memory, untrusted=untrusted), CharArray(16))
            if name == "in":
                p.ret(found.contains(p, literal))
                wanted = literal in text
            else:
                p.ret(found.attribute(p, name).call(p, (literal,), {}))
                wanted = text.endswith(literal)
            assert p.run() == wanted, (text, name, literal)


def test_one_of_several_prefixes_or_suffixes() -> None:
    """A tuple of literals, as Python's methods take it; an empty tuple is never met."""
    for name in ("startswith", "endswith"):
        for several in (("x", "ab"), ("cd", "x"), ("x", "y"), (), ("",)):
            p = Probe()
            memory = filled(p, 8)
            p.store_value(memory, 0, CharArray(8), "abcd")
            p.ret(p.load_value(Lvalue(base=memory), CharArray(8)).attribute(p, name).call(p, (several,), {}))
            assert p.run() == getattr("abcd", name)(several)


@pytest.mark.parametrize("text", ["", "a", "ab", "abc", "abcd"])
def test_startswith_and_comparison_with_a_literal_are_pythons(text: str) -> None:
    for literal in ("", "a", "ab", "abc", "b", "abx"):
        for name in ("startswith", "==", "!="):
            p = Probe()
            memory = filled(p, 5)
            p.store_value(memory, 0, CharArray(5), text)
            string = p.load_value(Lvalue(base=memory), CharArray(5))
            if name == "startswith":
                p.ret(string.attribute(p, name).call(p, (literal,), {}))
                wanted = text.startswith(literal)
            else:
                p.ret(compare(p, name, string, literal))
                wanted = (text == literal) == (name == "==")
            assert p.run() == wanted


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 9, 16, 30, 33])
def test_length_is_the_bytes_before_the_nul(size: int) -> None:
    for count in range(size):
        p = Probe()
        memory = filled(p, size)
        p.store_value(memory, 0, CharArray(size), "x" * count)
        p.ret(length(p, p.load_value(Lvalue(base=memory), CharArray(size))))
        assert p.run() == count


def test_characters_are_compared_with_one_byte() -> None:
    p = Probe()
    memory = filled(p, 4)
    p.store_value(memory, 0, CharArray(4), "a/b")
    string = p.load_value(Lvalue(base=memory), CharArray(4))
    p.ret(compare(p, "==", string.item(p, 1), "/"))
    with pytest.raises(CompileError, match="a character is one byte and 'ab' is 2: compare it with one"):
        compare(p, "==", string.item(p, 0), "ab")
    assert p.run() == 1


def outer(p: Probe) -> Any:
    return StructConstructor(Outer).call(p, (1, 2, Inner(1, 2), "ab"), {}).local(p)


def string(_p: Probe, size: int = 8) -> String:
    return String(CharArray(size), Lvalue(slot=_p.b.slot(size)))


REFUSALS = {
    "a missing field": (
        lambda p: StructConstructor(Outer).call(p, (1,), {"inner": Inner(1, 2)}),
        "Outer needs a value for at, name: every field without a default must be given",
    ),
    "too many fields": (lambda p: StructConstructor(Inner).call(p, (1, 2, 3), {}), "Inner has 2 fields, 3 values were"),
    "a misspelt field": (
        lambda p: StructConstructor(Inner).call(p, (1,), {"rigth": 3}),
        r"Inner has no field rigth \(did you mean right\?\)",
    ),
    "a field given twice": (
        lambda p: StructConstructor(Inner).call(p, (1,), {"left": 3}),
        "Inner got two values for left",
    ),
    "a field that is not there": (
        lambda p: outer(p).attribute(p, "flags"),
        r"Outer has no field flags \(did you mean flag",
    ),
    "a value that does not fit": (
        lambda p: outer(p).set_attribute(p, "flag", 256),
        "256 does not fit u8, which holds 0 to 255",
    ),
    "a number as a record": (
        lambda p: outer(p).set_attribute(p, "inner", 5),
        r"5 is not of type Inner: write Inner\(…\)",
    ),
    "a record as a number": (lambda p: outer(p).set_attribute(p, "at", outer(p)), "the record Outer is not a number"),
    "a float as a number": (lambda p: outer(p).set_attribute(p, "at", 1.5), "1.5 does not fit u64: give an integer"),
    "a literal that never fits": (
        lambda p: compare(p, "==", outer(p).attribute(p, "name"), "sevenis"),
        r"'sevenis' can never fit char\[7\]: at most 6 bytes, none of them NUL",
    ),
    "strings put together": (
        lambda p: binary(p, "+", string(p), "x"),
        r"the char\[8\] has no operator \+: strings are not put together or taken apart in a probe: emit the pieces",
    ),
    "a string's bytes with gaps": (
        lambda p: string(p).item(p, slice(1, 6, 2)),
        r"a slice of a string has no step: leave the step out",
    ),
    "an order of strings": (
        lambda p: compare(p, "<", string(p), "x"),
        r"char\[8\] has no operator <: strings are compared by",
    ),
    "a string searched for another": (
        lambda p: string(p).contains(p, string(p)),
        r"only a literal can be searched for in the char\[8\], not the char\[8\]",
    ),
    "a string written by bytes": (
        lambda p: string(p).set_item(p, 0, 1),
        "cannot be changed byte by byte: assign a whole string",
    ),
    "a prefix that each event gives": (
        lambda p: string(p).attribute(p, "startswith").call(p, (string(p),), {}),
        r"startswith\(\) takes a literal, or a tuple of literals, not the char\[8\]",
    ),
    "a string compared with a number": (
        lambda p: compare(p, "==", string(p), p.number(0)),
        r"the char\[8\] cannot be compared with an s64, which is not a string",
    ),
    "a source without a destination": (
        lambda p: StringSource("user_string()", lambda *_: None).local(p),
        r"user_string\(\) has no destination that gives its size: give one, size=64 for example",
    ),
    "a source put together": (
        lambda p: binary(p, "+", StringSource("comm()", lambda *_: None, 16), "x"),
        r"comm\(\) has no operator \+",
    ),
    "a string as a number": (
        lambda p: p.store_value(filled(p, 8), 0, U32, string(p)),
        r"the char\[8\] is a string, which does not fit u32: it needs a type such as char\[16\]",
    ),
    "an index that may be outside": (
        lambda p: outer(p).attribute(p, "cells").item(p, p.number(0, U64)),
        r"this index of the be16\[3\] may lie outside 0 to 2: test it first, if 0 <= i < 3, or mask it",
    ),
    "a constant index outside": (
        lambda p: outer(p).attribute(p, "cells").item(p, 3),
        r"index 3 is outside the be16",
    ),
    "a slice of an array": (
        lambda p: outer(p).attribute(p, "cells").item(p, slice(1)),
        "has no slices: index its elements",
    ),
    "bytes that can never be equal": (
        lambda p: compare(p, "==", outer(p).attribute(p, "raw"), b"four"),
        r"b'four' has 4 bytes and can never equal u8\[3\]",
    ),
    "too few elements": (
        lambda p: outer(p).set_attribute(p, "cells", [1, 2]),
        r"2 values do not fit be16\[3\]: give 3",
    ),
    "a record that is compared": (
        lambda p: compare(p, "==", outer(p), 3),
        "the record Outer cannot be compared with 3 by ==",
    ),
    "the truth of an array": (lambda p: truth(p, outer(p).attribute(p, "cells")), "neither true nor false"),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_refused_with_the_remedy(what: str) -> None:
    build, message = REFUSALS[what]
    p = Probe()
    with pytest.raises(CompileError, match=message):
        build(p)


def test_len_of_an_array_is_known_while_compiling() -> None:
    p = Probe()
    assert length(p, outer(p).attribute(p, "cells")) == 3
