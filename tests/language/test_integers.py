"""Integers: each line of the table, over extreme operands, against CPython."""

from __future__ import annotations

import itertools

import pytest

from tests.language.harness import Case, message_of
from tests.language.model import run

SIGNED = [0, 1, -1, 2, -3, 7, -64, 63, 65, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63), 1 - (1 << 63)]
UNSIGNED = [0, 1, 2, 3, 63, 64, 127, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 2, (1 << 64) - 1]
VALUES = {
    "s": SIGNED,
    "t": SIGNED,
    "u": UNSIGNED,
    "v": UNSIGNED,
    "i": [0, 1, -1, 5, -7, (1 << 31) - 1, -(1 << 31)],
    "w": [0, 1, 3, (1 << 31), (1 << 32) - 1],
    "b": [0, -1, 1, 127, -128],
    "c": [0, 1, 7, 255],
    "q": [0, 1],
}
PAIRS = ["st", "su", "us", "uv", "iw", "wi", "si", "uw", "bc", "qu", "sq"]
LITERALS = [0, 1, -1, 3, -7, 10, 255, (1 << 31), (1 << 63) - 1, -(1 << 63), 1 << 63, (1 << 64) - 1]


def agree(body: str, names: str, most: int = 200) -> int:
    """Compare the evaluator with CPython over the extremes of the parameters named; how many were compared."""
    parameters = ", ".join(names)
    case = Case(body, parameters)
    compared = 0
    for values in itertools.islice(itertools.product(*(VALUES[name] for name in names)), most):
        given = dict(zip(names, values, strict=True))
        assert case.evaluate(**given) == run(body, parameters, given), given
        compared += 1
    return compared


def both_ways(expression: str) -> str:
    """Leave the value, and half of it: the second tells an s64 from a u64."""
    return f"out[0].r0 = {expression}\nout[0].r1 = ({expression}) >> 1"


@pytest.mark.parametrize("sign", ["+", "-", "*", "&", "|", "^", "<<"])
@pytest.mark.parametrize("pair", PAIRS)
def test_arithmetic_is_pythons_wrapped_to_s64_or_with_a_u64_to_u64(sign, pair):
    agree(both_ways(f"{pair[0]} {sign} {pair[1]}"), pair)


@pytest.mark.parametrize("sign", ["+", "-", "*", "&", "|", "^"])
@pytest.mark.parametrize("name", "su")
def test_a_literal_is_s64_and_from_2_to_the_63_on_u64(sign, name):
    for literal in LITERALS:
        agree(both_ways(f"{name} {sign} {literal}"), name)
        agree(both_ways(f"{literal} {sign} {name}"), name)


@pytest.mark.parametrize("pair", PAIRS)
def test_right_shifts_round_down_by_the_type_of_the_left(pair):
    agree(both_ways(f"{pair[0]} >> {pair[1]}"), pair)


@pytest.mark.parametrize("count", [0, 1, 7, 31, 32, 63])
def test_shifts_by_a_literal(count):
    agree(
        f"out[0].r0 = s >> {count}\nout[0].r1 = u >> {count}\nout[0].r2 = s << {count}\nout[0].r3 = u << {count}", "su"
    )


@pytest.mark.parametrize("sign", ["<<", ">>"])
@pytest.mark.parametrize("count", [-1, 64, 1 << 40])
def test_a_literal_shift_count_outside_0_to_63_is_an_error(sign, count):
    message, under = message_of(Case(f"out[0].r0 = s {sign} {count}", "s").refused())
    assert message == (f"shift by {count}: a constant count is 0 to 63 (one known only at run time is taken modulo 64)")
    assert under == f"s {sign} {count}"


@pytest.mark.parametrize("sign", ["//", "%"])
@pytest.mark.parametrize("pair", ["st", "ti", "iw", "wi", "uv", "uw", "wu", "bc", "cb", "uq", "sq", "uc"])
def test_division_rounds_down_and_by_a_run_time_zero_gives_0_and_the_dividend(sign, pair):
    assert agree(both_ways(f"{pair[0]} {sign} {pair[1]}"), pair) >= 20


@pytest.mark.parametrize("sign", ["//", "%"])
@pytest.mark.parametrize("literal", [1, -1, 2, -2, 3, -7, 10, 1000, 4096, (1 << 62), (1 << 63) - 1, -(1 << 63)])
def test_division_by_a_literal(sign, literal):
    agree(both_ways(f"s {sign} {literal}"), "s")
    if literal >= 0:
        agree(both_ways(f"u {sign} {literal}"), "u")


@pytest.mark.parametrize("sign", ["//", "%"])
def test_division_of_a_literal(sign):
    agree(both_ways(f"-1000 {sign} s"), "s")
    agree(both_ways(f"1000 {sign} u"), "u")
    agree(both_ways(f"{(1 << 64) - 1} {sign} u"), "u")


@pytest.mark.parametrize("expression", ["u // s", "u % s", "s // u", "i % u", "u // -3"])
def test_division_of_a_u64_and_what_may_be_negative_is_an_error(expression):
    message, under = message_of(Case(f"out[0].r0 = {expression}", "s, u, i").refused())
    assert message == (
        f"{expression.split()[1]} of a u64 and an s64 that may be negative: write u64(x) to divide as unsigned, or "
        "s64(y) to divide as signed"
    )
    assert under == expression


def test_division_of_a_u64_by_an_s64_that_was_tested_is_unsigned():
    agree("if s > 0:\n    out[0].r0 = u // s\n    out[0].r1 = u % s\n    out[0].r2 = (u // s) >> 1", "us")


@pytest.mark.parametrize("sign", ["//", "%"])
@pytest.mark.parametrize("name", ["s", "u"])
def test_division_by_a_literal_zero_is_an_error(sign, name):
    message, under = message_of(Case(f"out[0].r0 = {name} {sign} 0", name).refused())
    assert message == f"{'an s64' if name == 's' else 'a u64'} {sign} 0: division by zero"
    assert under == f"{name} {sign} 0"


def test_signs_change_by_wrapping():
    for name in "siwbcq":
        agree(f"out[0].r0 = -{name}\nout[0].r1 = abs({name})\nout[0].r2 = +{name}\nout[0].r3 = ~{name}", name)
    agree("out[0].r0 = ~u\nout[0].r1 = (~u) >> 1\nout[0].r2 = +u", "u")


@pytest.mark.parametrize(("expression", "shown"), [("-u", "-x"), ("abs(u)", "abs(x)")])
def test_the_sign_of_a_u64_cannot_be_changed(expression, shown):
    message, under = message_of(Case(f"out[0].r0 = {expression}", "u").refused())
    assert message == f"{shown} of a u64 is not supported: write s64(x) first"
    assert under == expression


@pytest.mark.parametrize("pair", PAIRS)
def test_comparisons_are_exact_whatever_the_signs(pair):
    a, b = pair
    body = "\n".join(f"out[0].r{n} = {a} {sign} {b}" for n, sign in enumerate(["<", "<=", ">", ">=", "==", "!="]))
    body += f"\nif {a} < {b}:\n    out[0].r6 = 1\nelif {a} >= {b} and {b} != {a}:\n    out[0].r6 = 2"
    body += f"\nout[0].r7 = 7 if {a} <= {b} else 8"
    agree(body, pair)


@pytest.mark.parametrize("literal", [0, 1, -1, 17, -(1 << 62), 1 << 62])
def test_comparisons_with_a_literal(literal):
    body = (
        f"out[0].r0 = s < {literal}\nout[0].r1 = {literal} <= s\nout[0].r2 = s == {literal}\nout[0].r3 = {literal} != s"
    )
    agree(body, "s")
    if literal > 0:
        agree(body.replace("s ", "u ").replace(" s", " u").replace("< s", "< u"), "u")


def test_in_compares_exactly():
    agree("out[0].r0 = s in (1, -1, t)\nout[0].r1 = s not in (t, 63)", "st")
    agree("out[0].r0 = s in (u, 7)\nout[0].r1 = u in (s, 1)\nout[0].r2 = s in range(-3, 64)", "su")
    agree(
        "out[0].r0 = s in range(-64, 66, 3)\nout[0].r1 = u in range(1, 129, 2)\nout[0].r2 = s in range(65, -70, -1)",
        "su",
    )
    agree("out[0].r0 = s in range(t)\nout[0].r1 = s in range(-1, t)", "st")


def test_chained_comparisons():
    agree("out[0].r0 = -3 < s <= t\nout[0].r1 = s == t != u\nout[0].r2 = u > s > t >= -1", "stu", 3000)
    agree("out[0].r0 = 0 <= u < 9\nout[0].r1 = 9 > w >= 0\nout[0].r2 = -128 <= b <= 5 <= c <= 255", "uwbc")


NEVER = [
    ("u < 0", "a u64 < 0 is never true: u64 holds 0 to 18446744073709551615"),
    ("u >= 0", "a u64 >= 0 is always true: u64 holds 0 to 18446744073709551615"),
    ("w == -1", "a u32 == -1 is never true: u32 holds 0 to 4294967295"),
    ("w != 4294967296", "a u32 != 4294967296 is always true: u32 holds 0 to 4294967295"),
    ("-129 > b", "an s8 < -129 is never true: s8 holds -128 to 127"),
    ("c <= 255", "a u8 <= 255 is always true: u8 holds 0 to 255"),
    (
        "s == 9223372036854775808",
        "an s64 == 9223372036854775808 is never true: s64 holds -9223372036854775808 to 9223372036854775807",
    ),
    ("u in (1, -1)", "a u64 == -1 is never true: u64 holds 0 to 18446744073709551615"),
]


@pytest.mark.parametrize(("expression", "expected"), NEVER)
def test_a_comparison_with_what_the_type_cannot_hold_is_an_error(expression, expected):
    message, under = message_of(Case(f"if {expression}:\n    out[0].r0 = 1", "s, u, w, b, c").refused())
    assert (message, under) == (expected, expression)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("s / t", "BPF has no fractions: write // for the quotient rounded down"),
        ("2 ** s", "2 ** n with an n known only at run time: write 1 << n for a power of two, n being 0 to 63"),
        ("s @ t", "there are no matrices here: write * for a product"),
        (
            "s + 1.5",
            (
                "1.5 is a float, and BPF has integers only: multiply first, then divide by // (x * 3 // 2), or scale "
                "in user space"
            ),
        ),
        ("s + 18446744073709551616", "18446744073709551616 does not fit 64 bits"),
    ],
)
def test_operators_that_have_no_meaning_are_errors_with_their_remedy(expression, expected):
    message, under = message_of(Case(f"out[0].r0 = {expression}", "s, t").refused())
    assert (message, under) == (expected, expression)


@pytest.mark.parametrize("name", "suiwbcq")
def test_conversions_keep_the_low_bits_and_read_them_back_by_the_types_sign(name):
    types = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]
    agree("\n".join(f"out[0].r{n} = {t}({name})" for n, t in enumerate(types)), name)
    agree(f"out[0].r0 = u64({name}) >> 1\nout[0].r1 = s64({name}) >> 1\nout[0].r2 = s8(u32({name}) << 3)", name)
    agree(f"out[0].r0 = bool({name})\nout[0].r1 = int({name})\nout[0].r2 = not {name}", name)


def test_narrow_numbers_are_s64_so_that_the_difference_of_two_u32_may_be_negative():
    assert Case("out[0].r0 = w - 3", "w").evaluate(w=0)[0] == -3
    agree("out[0].r0 = (w - c) >> 1\nout[0].r1 = (c - w) * 3\nout[0].r2 = q - w", "wcq")


def test_arguments_of_registers_are_cut_to_their_type():
    """The upper bits of a narrow argument's register are junk."""
    body = "out[0].r0 = i\nout[0].r1 = w\nout[0].r2 = h\nout[0].r3 = k\nout[0].r4 = b\nout[0].r5 = c\nout[0].r6 = q"
    given = {"i": -2, "w": 3_000_000_000, "h": -3, "k": 60_000, "b": -5, "c": 250, "q": 1}
    assert Case(body, "i, w, h, k, b, c, q").evaluate(**given)[:7] == list(given.values())


def test_minimum_and_maximum():
    agree("out[0].r0 = min(s, t)\nout[0].r1 = max(s, t, 3)\nout[0].r2 = min(s, -5)\nout[0].r3 = max(1, s)", "st")
    agree(
        "out[0].r0 = min(u, v)\nout[0].r1 = max(u, v) >> 1\nout[0].r2 = max(u, s)\nout[0].r3 = min(s, u)", "uvs", 3000
    )
    agree("out[0].r0 = min(i, w)\nout[0].r1 = max(i, w)\nout[0].r2 = min(c, b, w)", "iwcb", 3000)


@pytest.mark.parametrize("name", "suiwbq")
def test_the_truth_of_a_number_is_being_other_than_zero(name):
    agree(
        f"if {name}:\n    out[0].r0 = 1\nif not {name}:\n    out[0].r1 = 1\n"
        f"out[0].r2 = 5 if {name} else 6\nout[0].r3 = {name} and 9\nout[0].r4 = 0 or bool({name})",
        name,
    )


def test_and_and_or_give_the_number_that_decides():
    agree("out[0].r0 = s and t\nout[0].r1 = s or t\nout[0].r2 = s and t or 5\nout[0].r3 = not s or t > 1", "st")
    agree("out[0].r0 = s > 0 and t > 0\nout[0].r1 = s > 0 or t > 0\nout[0].r2 = (s > t) + (s < t) * 2", "st")


def test_booleans_are_numbers():
    agree("ok = s < t\nout[0].r0 = ok + ok\nout[0].r1 = -ok\nout[0].r2 = ok ^ True\nout[0].r3 = (s == t) << 5", "st")


def test_python_computes_with_constants_exactly_before_they_meet_a_run_time_number():
    agree("out[0].r0 = s + ((1 << 70) >> 68)\nout[0].r1 = s * (-7 // 2)\nout[0].r2 = s + int(2 ** 0.5 * 1000)", "s")


def test_an_unannotated_local_has_the_type_of_its_assignments():
    agree("x = s\nif t > 0:\n    x = t\nout[0].r0 = x >> 1", "st")
    agree("x = u\nif v > 1:\n    x = v\nout[0].r0 = x >> 1", "uv")
    agree("x = i\nif w:\n    x = w\nout[0].r0 = x >> 1", "iw")


def test_a_local_that_is_assigned_both_s64_and_u64_must_be_annotated():
    error = Case("x = s\nif s > 0:\n    x = u\nout[0].r0 = x", "s, u").refused()
    message, under = message_of(error)
    assert message == "x is s64 on line 4 and u64 here: annotate it, `x: u64 = …` or `x: s64 = …`"
    assert (under, error.location.line) == ("x = u", 6)
    case = Case("x: u64 = s\nif s > 0:\n    x = u\nout[0].r0 = x >> 1", "s, u")
    assert case.evaluate(s=-1, u=5)[0] == (1 << 63) - 1
    assert case.evaluate(s=1, u=1 << 63)[0] == 1 << 62


@pytest.mark.parametrize(
    ("type_", "value", "held"),
    [("u8", 300, 44), ("s8", 200, -56), ("u16", -1, 65535), ("s32", 1 << 31, -(1 << 31)), ("bool", 7, 1)],
)
def test_an_annotated_local_keeps_the_low_bits_of_each_assignment(type_, value, held):
    case = Case(f"x: {type_} = s\nout[0].r0 = x\nx = t\nout[0].r1 = x\nx += 1\nout[0].r2 = x", "s, t")
    found = case.evaluate(s=value, t=0)
    assert found[:3] == [held, 0, 1]


def test_an_annotated_local_wraps_when_it_is_added_to():
    assert Case("x: u8 = s\nfor j in range(3):\n    x += 100\nout[0].r0 = x", "s").evaluate(s=1)[0] == 301 % 256


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("x: u8 = 300", "300 does not fit u8: it holds 0 to 255"),
        ("x: s8 = -129", "-129 does not fit s8: it holds -128 to 127"),
        ("counts[1] = -1", "-1 does not fit u64, which holds 0 to 18446744073709551615"),
        ("counts[-1] = 1", "-1 does not fit u32, which holds 0 to 4294967295"),
        (
            "out[0].r0 = 9223372036854775808",
            "9223372036854775808 does not fit s64, which holds -9223372036854775808 to 9223372036854775807",
        ),
        ("out[0].r0 = u8(256)", "256 does not fit u8, which holds 0 to 255"),
        ("records[1] = Record(256, 1, 1, 'a')", "256 does not fit u8, which holds 0 to 255"),
    ],
)
def test_a_constant_that_does_not_fit_its_place_is_an_error(statement, expected):
    message, _ = message_of(Case(statement).refused())
    assert message == expected


def test_a_constant_that_is_not_negative_goes_with_either():
    """A total of u64 begins with a plain 0."""
    agree("x = 0\nfor j in range(3):\n    x = (x + u) >> 1\nout[0].r0 = x", "u")
    agree("x = 0\nif u > v:\n    x = u\nout[0].r0 = x >> 1", "uv")
    agree("best = 0\nfor j in range(3):\n    y = u - j\n    if y > best:\n        best = y\nout[0].r0 = best", "u")
    agree("x = 0\nfor j in range(3):\n    x = (x + s) >> 1\nout[0].r0 = x", "s")


@pytest.mark.parametrize("first", ["x = -1", "x = 0\nif u:\n    x -= 1"])
def test_what_is_negative_or_computed_does_not(first):
    message, _ = message_of(Case(f"{first}\nif u > 3:\n    x = u\nout[0].r0 = x", "u").refused())
    assert message.startswith("x is s64 on line 4 and u64 here: annotate it")
