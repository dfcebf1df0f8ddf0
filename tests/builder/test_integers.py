"""The table of integers, against CPython's own integers wrapped to 64 bits."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from pyebpf.builder.ssa import ranges
from pyebpf.builder.values.comparisons import compare, contains, maximum, minimum
from pyebpf.builder.values.operations import absolute, binary, convert, to_int, unary
from pyebpf.errors import CompileError
from pyebpf.types import INTEGERS, S8, S16, S32, S64, U8, U16, U32, U64, IntType
from tests.builder.harness import Probe

ARITHMETIC = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "//": operator.floordiv,
    "%": operator.mod,
    "<<": operator.lshift,
    ">>": operator.rshift,
}
RELATIONS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
TYPES = (S8, S16, S32, S64, U8, U16, U32, U64)
EDGES = [0, 1, 2, 3, 7, 8, 63, 64, 65, 127, 128, 255, 256, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
WORDS = st.one_of(
    st.sampled_from(EDGES + [-e for e in EDGES]), st.integers(-20, 20), st.integers(-(1 << 63), (1 << 64) - 1)
)
LITERALS = st.one_of(st.integers(-20, 20), st.sampled_from([*EDGES, -1, -64, -(1 << 63), -(1 << 31)]))


def model(symbol: str, left: int, right: int, *, left_unsigned: bool, right_unsigned: bool) -> int:
    """Python's result, wrapped: unsigned if an operand is."""
    if symbol in ("<<", ">>"):
        right %= 64
    if symbol in ("//", "%") and right == 0:
        result = 0 if symbol == "//" else left
    else:
        result = ARITHMETIC[symbol](left, right)
    unsigned = left_unsigned if symbol == ">>" else left_unsigned or right_unsigned
    return (U64 if unsigned else S64).wrap(result)


def signed(value: int) -> int:
    return S64.wrap(value)


@settings(max_examples=1500, deadline=None)
@given(
    st.sampled_from(sorted(ARITHMETIC)),
    st.sampled_from(TYPES),
    st.sampled_from(TYPES),
    st.lists(st.tuples(WORDS, WORDS), min_size=6, max_size=6),
)
def test_arithmetic_is_pythons_wrapped(
    symbol: str, left_type: IntType, right_type: IntType, pairs: list[tuple[int, int]]
) -> None:
    p = Probe()
    left, right = p.number(0, left_type), p.number(1, right_type)
    try:
        result = binary(p, symbol, left, right)
    except CompileError as error:
        text = str(error)
        assert symbol in ("//", "%")
        assert U64 in (left_type, right_type)
        assert "may be negative" in text
        assert left_type.signed or right_type.signed
        return
    low, high = p.b.bounds(result.value)
    p.ret(result)
    module = p.finish()
    for pair in pairs:
        a, b = left_type.wrap(pair[0]), right_type.wrap(pair[1])
        wanted = model(symbol, a, b, left_unsigned=left_type == U64, right_unsigned=right_type == U64)
        assert result.type.wrap(p.run_module(module, a, b)) == wanted, (a, b)
        assert low <= signed(wanted) <= high, "the facts hold"


@settings(max_examples=1000, deadline=None)
@given(
    st.sampled_from(sorted(ARITHMETIC)),
    st.sampled_from(TYPES),
    LITERALS,
    st.lists(WORDS, min_size=6, max_size=6),
    st.booleans(),
)
@example("//", S64, -1, [-(1 << 63)], False)
@example("//", S64, 64, [-1, -64, -65], False)
def test_arithmetic_with_a_literal_is_pythons_wrapped(
    symbol: str, type_: IntType, literal: int, words: list[int], literal_first: bool
) -> None:
    p = Probe()
    number = p.number(0, type_)
    operands: tuple[Any, Any] = (literal, number) if literal_first else (number, literal)
    wide = literal > S64.maximum
    try:
        result = binary(p, symbol, *operands)
    except CompileError as error:
        text = str(error)
        if symbol in ("<<", ">>"):
            assert not literal_first
            assert not 0 <= literal <= 63
            assert "0 to 63" in text
        else:
            assert symbol in ("//", "%")
            assert literal == 0 or "may be negative" in text
            assert literal == 0 or (type_ == U64 and literal < 0) or (wide and type_.signed)
        return
    low, high = p.b.bounds(result.value)
    p.ret(result)
    module = p.finish()
    for word in words:
        x = type_.wrap(word)
        a, b = (literal, x) if literal_first else (x, literal)
        left_unsigned, right_unsigned = (wide, type_ == U64) if literal_first else (type_ == U64, wide)
        wanted = model(symbol, a, b, left_unsigned=left_unsigned, right_unsigned=right_unsigned)
        assert result.type.wrap(p.run_module(module, x)) == wanted, x
        assert low <= signed(wanted) <= high


@settings(max_examples=600, deadline=None)
@given(
    st.sampled_from(sorted(RELATIONS)),
    st.sampled_from(TYPES),
    st.sampled_from(TYPES),
    st.lists(st.tuples(WORDS, WORDS), min_size=6, max_size=6),
)
def test_comparison_is_exact_whatever_the_signs(
    symbol: str, left_type: IntType, right_type: IntType, pairs: list[tuple[int, int]]
) -> None:
    p = Probe()
    test = compare(p, symbol, p.number(0, left_type), p.number(1, right_type))
    p.ret(test)
    module = p.finish()
    for pair in [*pairs, (pairs[0][0], pairs[0][0])]:
        a, b = left_type.wrap(pair[0]), right_type.wrap(pair[1])
        assert p.run_module(module, a, b) == RELATIONS[symbol](a, b), (a, b)


@settings(max_examples=600, deadline=None)
@given(
    st.sampled_from(sorted(RELATIONS)),
    st.sampled_from(TYPES),
    LITERALS,
    st.lists(WORDS, min_size=6, max_size=6),
    st.booleans(),
)
def test_comparison_with_a_literal_is_exact_or_refused_as_decided(
    symbol: str, type_: IntType, literal: int, words: list[int], literal_first: bool
) -> None:
    p = Probe()
    number = p.number(0, type_)
    swapped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(symbol, symbol)
    answers = {RELATIONS[swapped if literal_first else symbol](x, literal) for x in (type_.minimum, type_.maximum)}
    inside = symbol in ("==", "!=") and type_.minimum <= literal <= type_.maximum
    operands: tuple[Any, Any] = (literal, number) if literal_first else (number, literal)
    if len(answers) == 1 and not inside:
        with pytest.raises(CompileError, match="always true" if answers.pop() else "never true"):
            compare(p, symbol, *operands)
        return
    p.ret(compare(p, symbol, *operands))
    module = p.finish()
    for word in [*words, literal]:
        x = type_.wrap(word)
        a, b = (literal, x) if literal_first else (x, literal)
        assert p.run_module(module, x) == RELATIONS[symbol](a, b)


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(["min", "max"]),
    st.sampled_from(TYPES),
    st.sampled_from(TYPES),
    st.lists(st.tuples(WORDS, WORDS), min_size=6, max_size=6),
)
def test_min_and_max_are_pythons_wrapped(
    name: str, left_type: IntType, right_type: IntType, pairs: list[tuple[int, int]]
) -> None:
    p = Probe()
    build, python = (minimum, min) if name == "min" else (maximum, max)
    result = build(p, p.number(0, left_type), p.number(1, right_type))
    low, high = p.b.bounds(result.value)
    p.ret(result)
    module = p.finish()
    for pair in pairs:
        a, b = left_type.wrap(pair[0]), right_type.wrap(pair[1])
        wanted = signed(python(a, b))
        assert p.run_module(module, a, b) == wanted
        assert low <= wanted <= high


@pytest.mark.parametrize(
    ("symbol", "type_", "bounds"),
    [
        ("~", U8, (-256, -1)),
        ("~", S16, (-(1 << 15), (1 << 15) - 1)),
        ("-", U8, (-255, 0)),
        ("-", S8, (-127, 128)),
        ("abs", S8, (0, 128)),
        ("abs", U16, (0, 65535)),
    ],
)
def test_what_is_known_of_a_number_is_known_of_its_opposite(symbol: str, type_: IntType, bounds: Any) -> None:
    """As narrowly as can be: an index made of it needs no other test."""
    p = Probe()
    number = p.number(0, type_)
    result = absolute(p, number) if symbol == "abs" else unary(p, symbol, number)
    assert p.b.bounds(result.value) == bounds


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["-", "~", "abs"]), st.sampled_from(TYPES), st.lists(WORDS, min_size=6, max_size=6))
def test_unary_operators_are_pythons_wrapped(symbol: str, type_: IntType, words: list[int]) -> None:
    p = Probe()
    number = p.number(0, type_)
    python = {"-": operator.neg, "~": operator.invert, "abs": abs}[symbol]
    if type_ == U64 and symbol != "~":
        with pytest.raises(CompileError, match=r"write s64\(x\) first"):
            absolute(p, number) if symbol == "abs" else unary(p, symbol, number)
        return
    result = absolute(p, number) if symbol == "abs" else unary(p, symbol, number)
    low, high = p.b.bounds(result.value)
    p.ret(result)
    module = p.finish()
    for word in words:
        x = type_.wrap(word)
        wanted = signed(python(x))
        assert p.run_module(module, x) == wanted
        assert low <= wanted <= high


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(TYPES), st.sampled_from(sorted(INTEGERS)), st.lists(WORDS, min_size=6, max_size=6))
def test_conversion_keeps_the_low_bits_with_the_types_sign(from_type: IntType, name: str, words: list[int]) -> None:
    p = Probe()
    result = to_int(p, convert(p, INTEGERS[name], p.number(0, from_type)))
    p.ret(result)
    module = p.finish()
    for word in words:
        x = from_type.wrap(word)
        assert p.run_module(module, x) == signed(INTEGERS[name].wrap(x))


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(TYPES),
    st.integers(-50, 50),
    st.integers(-50, 50),
    st.integers(-7, 7).filter(bool),
    st.integers(-60, 60),
)
def test_membership_in_a_range_is_pythons(type_: IntType, start: int, stop: int, step: int, word: int) -> None:
    p = Probe()
    x = type_.wrap(word)
    p.ret(contains(p, p.number(0, type_), range(start, stop, step)))
    assert p.run(x) == (x in range(start, stop, step))


@pytest.mark.parametrize(
    ("symbol", "left", "right", "message"),
    [
        ("/", U32, 2, "BPF has no fractions: write // for the quotient rounded down"),
        ("**", U32, 64, r"x \*\* n takes an n from 0 to 63 that is known at compile time: write a product in a loop"),
        ("@", U32, 2, r"there are no matrices here: write \* for a product"),
        ("//", U64, 0, "a u64 // 0: division by zero"),
        ("%", S64, 0, "an s64 % 0: division by zero"),
        ("<<", S64, 64, "shift by 64: a constant count is 0 to 63"),
        (">>", S64, -1, "shift by -1: a constant count is 0 to 63"),
        ("+", S64, 1 << 64, "18446744073709551616 does not fit 64 bits"),
        ("+", S64, 1.5, "1.5 is a float, and BPF has integers only: multiply first"),
        ("+", S64, "a", r"an s64 has no operator \+ with 'a'"),
        (
            "//",
            U64,
            -3,
            r"// of a u64 and an s64 that may be negative: write u64\(x\) to divide as unsigned, or s64\(y\)",
        ),
    ],
)
def test_refused_arithmetic_names_the_remedy(symbol: str, left: IntType, right: Any, message: str) -> None:
    p = Probe()
    with pytest.raises(CompileError, match=message) as caught:
        binary(p, symbol, p.number(0, left), right)
    assert caught.value.location is not None


@pytest.mark.parametrize(
    ("symbol", "type_", "literal", "message"),
    [
        ("<", U64, 0, "a u64 < 0 is never true: u64 holds 0 to 18446744073709551615"),
        ("==", U32, -1, "a u32 == -1 is never true: u32 holds 0 to 4294967295"),
        (">=", U8, 0, "a u8 >= 0 is always true: u8 holds 0 to 255"),
        ("<", S64, 1 << 63, "an s64 < 9223372036854775808 is always true"),
    ],
)
def test_decided_comparisons_say_so(symbol: str, type_: IntType, literal: int, message: str) -> None:
    p = Probe()
    with pytest.raises(CompileError, match=message):
        compare(p, symbol, p.number(0, type_), literal)


def test_what_is_known_while_compiling_is_never_wrapped() -> None:
    """Python answers where no operand is a run-time value."""
    p = Probe()
    assert binary(p, "<<", 1, 100) == 1 << 100
    assert binary(p, "/", 1, 2) == 0.5
    with pytest.raises(CompileError, match=r"at compile time, Python says: (integer )?division (or modulo )?by zero"):
        binary(p, "//", 1, 0)


def test_constants_that_do_not_fit_a_conversion_are_refused() -> None:
    """`u8(300)` is an error, `u8(x)` keeps the low bits."""
    with pytest.raises(CompileError, match="300 does not fit u8, which holds 0 to 255"):
        convert(Probe(), U8, 300)


def test_membership_of_a_set_is_built_in_one_order() -> None:
    """Sets of strings change their order from run to run; the code must not."""
    p = Probe()
    p.ret(contains(p, p.number(0), {3, -1, 7}))
    module = p.finish()
    assert [p.run_module(module, x) for x in (3, -1, 7, 0)] == [1, 1, 1, 0]


def test_quotients_and_comparisons_at_their_edges() -> None:
    """A divisor that may be 1 leaves a u64 of any size; a number at either end of a range may be equal."""
    assert ranges.quotient((-5, 5), (1, 9), unsigned=True) is None
    assert ranges.quotient((-5, 5), (2, 9), unsigned=True) == (0, ((1 << 64) - 1) // 2)
    assert ranges.quotient((-5, 5), (-9, -2), unsigned=True) == (0, 1)
    assert ranges.quotient((7, 9), (-9, -2), unsigned=True) == (0, 1)
    assert ranges.quotient((7, 9), (-9, 2), unsigned=True) == (0, 9)
    assert [ranges.always("==", 3, 7, number) for number in (2, 3, 7, 8)] == [False, None, None, False]
    assert [ranges.always("!=", 3, 7, number) for number in (2, 3, 7, 8)] == [True, None, None, True]


def test_shifts_are_bounded_by_the_bounds_of_their_counts() -> None:
    """By a count that may be anything, to the right: no further from 0 than before, and to the left: anywhere."""
    assert ranges.shift("<<", (1, 3), (2, 4), unsigned=False) == (4, 48)
    assert ranges.shift("<<", (-3, 1), (0, 2), unsigned=False) == (-12, 4)
    assert ranges.shift("<<", (1, 3), None, unsigned=False) is None
    assert ranges.shift("<<", (1, 3), (0, 62), unsigned=False) is None
    assert ranges.shift(">>", (-9, 9), (1, 2), unsigned=False) == (-5, 4)
    assert ranges.shift(">>", (4, 9), None, unsigned=False) == (0, 9)
    assert ranges.shift(">>", (-9, -4), None, unsigned=False) == (-9, -1)
    assert ranges.shift(">>", (-9, 9), (62, 63), unsigned=True) == (0, 3)
    assert ranges.shift(">>", (-9, 9), (0, 63), unsigned=True) is None
