"""Mangled names that someone wrote to cost time or memory, or to make the demangler fail."""

from __future__ import annotations

import string
import sys

import pytest
from hypothesis import given, settings, strategies as st

from pyebpf.symbols.demangle import MAX_LENGTH, demangled
from tests.symbols.test_demangle import OTHERWISE, SHORT, WHOLE

BASE_36 = string.digits + string.ascii_uppercase

#: Calls of functions that one name may cost.
MAX_CALLS = 60_000

COSTLY = {
    "pointers": "_Z1f" + "P" * 8000 + "i",
    "types that double": "_Z1f1AIiiE" + "".join(f"1AIS{each}_S{each}_E" for each in BASE_36[::2]),
    "packs in packs": "_Z1fIJ" + "i" * 500 + "EEv" + "Dp1AIT_T_E" * 500,
    "patterns of a pack": "_Z1fIJ" + "i" * 1000 + "EEv" + "PT_" * 2000,
    "argument packs": "_Z1fI" + "J" * 8000,
    "scopes": "_ZN" + "1a" * 4000 + "E",
    "template arguments": "_ZN1a" + "IiE" * 2600 + "E",
    "parameters": "_Z1f" + "i" * 8000,
    "substitutions": "_Z1f1AIiE" + "S0_" * 2600,
    "functions in functions": "_Z" + "Z" * 90 + "1fv" + "E1g" * 90 + "v",
    "lambdas in lambdas": "_Z1f" + "NUl" * 90 + "vE_" * 90,
    "conversions to conversions": "_ZN1A" + "cvPN1A" * 60 + "cviIiEE" + "IiEE" * 60 + "v",
    "expressions": "_Z1fIX" + "ng" * 4000,
    "scopes in expressions": "_Z1fIX" + "sr1AIX" * 60 + "Li1E" + "EEE1b" * 60,
    "types read again": "_Z1fIiEvZ1gIiEvT_"
    + "PT_" * 500
    + "E1a"
    + "".join(f"S{each}_" for each in BASE_36[1:20]) * 100,
    "thunks": "_Z" + "GTt" * 2600 + "1f",
    "modules": "_Z" + "W1a" * 2600 + "1f",
    "a long length": "_Z" + "9" * 8000,
    "a long literal": "_Z1fILi" + "9" * 8000 + "EEvv",
    "suffixes": "_Z1fv" + ".1.1.1" * 1300 + "!",
    "clones": "_Z1fv" + ".a.1" * 2000,
    "Rust: types in types": "_RINvC1a1b" + "T" * 3000,
    "Rust: paths in paths": "_R" + "Nv" * 2000 + "C1a" + "1b" * 2000,
    "Rust: what refers back": "_RINvC1a1bTuuuuuuuuuuE" + "TB7_B7_B7_B7_E" * 500 + "E",
    "Rust: types that double": "_RINvC1a1bTuuuuuuuuuuETB7_B7_B7_B7_B7_B7_ETBj_Bj_Bj_Bj_Bj_Bj_ETBD_BD_BD_BD_BD_BD_E"
    "TBX_BX_BX_BX_BX_BX_ETB1h_B1h_B1h_B1h_B1h_B1h_ETB1G_B1G_B1G_B1G_B1G_B1G_EE",
    "Rust: lifetimes": "_RINvC1a1bFG" + "z" * 8 + "_EuE",
    "Rust: a long number": "_RINvC1a1bKj" + "f" * 8000 + "_E",
    "Rust: punycode": "_RNvC1au256_" + "9" * 256,
    "Rust: older form": "_ZN" + "1a" * 3900 + "17h0123456789abcdefE",
    "Rust: lengths": "_ZN" + "17h" * 2600,
}


def _calls(name: str, *, parameters: bool) -> int:
    count = 0

    def on_call(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(on_call)
    try:
        demangled(name, parameters=parameters)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("kind", COSTLY)
def test_costly_names_cost_little(kind: str) -> None:
    """The number of calls is bounded, and so is the text."""
    name = COSTLY[kind]
    for parameters in (False, True):
        assert _calls(name, parameters=parameters) < MAX_CALLS
        assert len(demangled(name, parameters=parameters)) <= max(MAX_LENGTH, len(name))


def test_names_that_grow_too_long_are_left() -> None:
    """A name of 200 characters may stand for one of a gigabyte."""
    assert demangled(COSTLY["types that double"], parameters=True) == COSTLY["types that double"]
    assert demangled(COSTLY["Rust: types that double"]) == COSTLY["Rust: types that double"]


def test_names_are_read_deep_in_a_stack() -> None:
    """Where hardly a call is left; then they are left as they are."""

    def deeper(count: int) -> str:
        return deeper(count - 1) if count else demangled(name, parameters=True)

    name = f"_Z1f{'PK' * 30}i"
    frame, depth = sys._getframe(), 0
    while frame := frame.f_back:
        depth += 1
    room = sys.getrecursionlimit() - depth
    shown = {left: deeper(room - left) for left in (20, 40, 60, 80, 400)}
    assert shown[20] == name
    assert shown[400] == f"f(int{' const*' * 30})"
    assert {*shown.values()} == {name, shown[400]}


def test_nothing_that_a_terminal_obeys_is_decoded() -> None:
    """Escapes of control characters stay escapes."""
    assert demangled("_ZN6$u1b$A17h0123456789abcdefE") == "$u1b$A"
    assert demangled("_RINvC1a1bKc1b_KRe1b5b6d_E") == "a::b::<'\\u{1b}', \"\\u{1b}[m\">"
    assert demangled("_RNvC1au5_AB_9z") == "a::punycode{AB_9z}"


#: Pieces of both grammars, so that the text is often read for a while.
PIECES = [
    "_Z",
    "_R",
    "_ZN",
    "St",
    "S_",
    "S0_",
    "T_",
    "T0_",
    "1A",
    "3foo",
    "I",
    "J",
    "E",
    "N",
    "K",
    "P",
    "R",
    "F",
    "v",
    "i",
]
PIECES += [
    "Dp",
    "DT",
    "cl",
    "pl",
    "sr",
    "L",
    "X",
    "Z",
    "Ul",
    "E_",
    "cv",
    "C1",
    "D0",
    "M",
    "A3_",
    "fp_",
    "Li1E",
    "sZ",
    "fl",
]
PIECES += [
    "Nv",
    "C1a",
    "B_",
    "B2_",
    "s_",
    "G_",
    "L0_",
    "D",
    "p",
    "Kj1_",
    "17h0123456789abcdefE",
    ".cold",
    "@@V",
    "$LT$",
]
grammatical = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
beginnings = st.sampled_from(
    ["", "_Z1f", "_Z1fI", "_ZN1A", "_Z1fIJidEEv", "_Z1fIX", "_RNv", "_RINvC1a1b", "_ZZ1fIiEvT_E"]
)


@st.composite
def changed(draw: st.DrawFn) -> str:
    """A real name with something cut, doubled or put in."""
    name = draw(st.sampled_from([*WHOLE, *OTHERWISE, *SHORT]))
    place, end, to = sorted(draw(st.tuples(*[st.integers(0, len(name))] * 3)))
    return name[:place] + draw(st.sampled_from([*PIECES, name[end:to], name[place:to]])) + name[end:]


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.tuples(beginnings, grammatical).map("".join), changed()), st.booleans())
def test_any_text_gives_text(name: str, parameters: bool) -> None:
    """Never an error; and what is readable already is left as it is."""
    shown = demangled(name, parameters=parameters)
    assert bool(shown) == bool(name)
    assert len(shown) <= max(MAX_LENGTH, len(name))
    if not name.startswith(("_Z", "_R")):
        assert shown == name
