"""What functions of C's make at compile time is bounded before they begin, however they are reached."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from tests.dsl.harness import build, message
from tests.dsl.test_meaning import results

OUTSIDE = """
import fractions, functools, itertools, math, operator, struct, textwrap, zlib
half = fractions.Fraction(3, 2)
nested = [[0] * 1000 for _ in range(900)]
packed = zlib.compress(bytes(10**6))
width = 10
"""
FUNCTION = "def made():\n    return {}\n"
PROPERTY = "class Made:\n    @property\n    def value(self):\n        return {}\nmade = Made()\n"

BITS = "this number would have some {} bits: a probe computes in 64 bits, and Python with 8,192 for it at most"
ELEMENTS = "{} elements are too many to keep at compile time, at most 1,000,000"
COPIES = "sum() copies more than {} elements to put these together: write [*itertools.chain.from_iterable(…)]"
JOINED = ELEMENTS.format("1,000,001")


@pytest.mark.parametrize("how", ["probe", "function"])
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("len(','.join('a' * 1_000_000 for _ in range(100_000)))", JOINED),
        ("len(','.join(map(str, ('a' * 1_000_000,) * 3)))", JOINED),
        ("len(str.join('a' * 1000, ['b'] * 100_000))", ELEMENTS.format("100,099,000")),
        ("len(str.replace('a' * 1_000_000, '', 'b' * 3000))", ELEMENTS.format("3,001,003,000")),
        ("len(sum([[1]] * 1_000_000, []))", COPIES.format("50,004,999")),
        ("len(sum(([1] for _ in range(100_000)), []))", COPIES.format("50,004,999")),
        ("len(sum([(1,)] * 100_000, start=()))", COPIES.format("50,004,999")),
        ("half.__pow__(1_000_000) == 1", BITS.format("4,000,000")),
        ("fractions.Fraction.__pow__(half, 1_000_000) == 1", BITS.format("4,000,000")),
        ("math.prod(x for x in range(1, 5000))", BITS.format("16,389")),
    ],
)
def test_results_are_bounded(how: str, source: str, expected: str) -> None:
    """By what is given where it has a length, by what it gives where it is an iterator."""
    outside, body = (OUTSIDE + FUNCTION.format(source), "made()") if how == "function" else (OUTSIDE, source)
    with pytest.raises(CompileError) as caught:
        build(f"results[0] = {body}", "", outside)
    assert message(caught.value)[0] == expected


@pytest.mark.parametrize("how", ["probe", "function", "property"])
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("len(','.join('a' * 3 for _ in range(3)))", 11),
        ("len(str.join(',', ['a', 'b']))", 3),
        ("len(str.replace('abc', 'b', 'de'))", 4),
        ("len(sum(([1] for _ in range(100)), []))", 100),
        ("sum([1, 2], 3) + sum([1, 2], start=3)", 12),
        ("math.prod(x for x in (2, 3)) if width else 6", 6),
        ("len('%5d' % 3) + len(f'{3:10}') + len(struct.pack('10x'))", 25),
        ("'a-b'.replace('-', '') == 'ab'", 1),
        ("len(bytes(10))", 10),
    ],
)
def test_what_is_small_is_computed(how: str, source: str, expected: int) -> None:
    """In the probe, in a function that it calls, and in a property; a generator runs where it is gone through."""
    if how == "property" and "math.prod" in source:
        source = "6"
    text = {"probe": "", "function": FUNCTION, "property": PROPERTY}[how].format(source)
    body = {"probe": source, "function": "made()", "property": "made.value"}[how]
    assert results(f"results[0] = {body}", outside=OUTSIDE + text) == [expected]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("(3).__pow__(10**9) == 1", "__pow__()"),
        ("len('a'.__mul__(2 * 10**9))", "__mul__()"),
        ("len((1).__format__('2000000000'))", "__format__()"),
        ("len('%2000000000d' % 1)", "the format '%2000000000d'"),
        ("len('%*d' % (2 * 10**9, 1))", "the format '%*d'"),
        ("len(f'{1:2000000000}')", "the format '2000000000'"),
        ("len(f'{1:{width}}')", "a width that is computed"),
        ("len(format(1, '2000000000'))", "the format '2000000000'"),
        ("len(struct.pack('2000000000x'))", "the format '2000000000x'"),
        ("len(bytearray(2 * 10**9))", "bytearray()"),
        ("len(bytes(2 * 10**9))", "bytes()"),
        ("len(zlib.decompress(packed))", "decompress()"),
    ],
)
def test_properties_have_no_large_results(source: str, expected: str) -> None:
    """Python itself calls them, so that nobody sees what they give to an operator or a call."""
    with pytest.raises(CompileError) as caught:
        build("results[0] = made.value", "", OUTSIDE + PROPERTY.format(source))
    words = message(caught.value)[0]
    assert words.startswith(f"{expected} in Made.value(), which Python itself calls here, is not bounded")


def test_what_a_generator_of_a_property_makes_is_counted() -> None:
    """Something of C's may put it together."""
    source = "len(','.join(self.long for _ in range(100_000)))\n    long = 'a' * 1_000_000"
    with pytest.raises(CompileError, match="more than 800,000 steps"):
        build("results[0] = made.value", "", OUTSIDE + PROPERTY.format(source))


def test_a_table_that_stands_in_a_list_many_times_is_looked_into_once() -> None:
    """Whether a value is known only at run time is asked of each table, not of each place that it stands in."""
    with pytest.raises(CompileError, match="2,702,703,001 elements are too many in a tuple"):
        build("results[0] = len([*itertools.chain.from_iterable([nested] * 3000)])", "", OUTSIDE)
