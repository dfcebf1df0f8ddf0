"""Loops over maps."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from pyebpf.script import Script
from tests.dsl.fake_target import FakeTarget
from tests.support.scripts import printed

FILL = '@n["a"] = 3; @n["b"] = 5; @n["c"] = 7;'


def test_a_loop_goes_over_keys_and_values() -> None:
    """Of every entry once; variables of the script are carried through it."""
    text = printed(
        f"BEGIN {{ {FILL} $sum = 0; for ($kv : @n) {{ $sum += $kv.1; @seen[$kv.0] = $kv.1 * 2; }} "
        "print($sum); clear(@n); }"
    )
    assert text == "15\n@seen[a]: 6\n@seen[b]: 10\n@seen[c]: 14\n"


def test_a_loop_removes_what_it_goes_over() -> None:
    """The key is a copy, which stays."""
    text = printed(
        f'BEGIN {{ {FILL} for ($kv : @n) {{ if ($kv.1 > 4) {{ delete(@n, $kv.0); printf("%s ", $kv.0); }} }} }}'
    )
    assert sorted(text.split("@")[0].split()) == ["b", "c"]
    assert text.endswith("@n[a]: 3\n")


def test_a_loop_is_left_by_break_and_return() -> None:
    """`return` leaves the probe, also from within a loop in a loop."""
    text = printed(
        f"BEGIN {{ {FILL} @count = 0; for ($kv : @n) {{ if ($kv.1 == 5) {{ continue; }} @count++; }} print(@count); "
        "$i = 0; for ($kv : @n) { $i++; break; } print($i); "
        'for ($kv : @n) { for ($other : @n) { return; } } print("never"); } END { clear(@n); clear(@count); }'
    )
    assert text == "@count: 2\n1\n"


def test_a_while_is_left_by_break_without_a_drop() -> None:
    """Only a loop that goes on at the limit is counted."""
    from tests.support.scripts import printed_by

    script = Script("BEGIN { $i = 0; while ($i < 100) { $i++; if ($i == 50) { break; } } print($i); }")
    found: dict[str, int] = {}
    assert printed_by(script, lambda _: found.update(script.dropped)) == "50\n"
    assert found == {}


def test_a_while_that_goes_on_is_cut_off_and_counted() -> None:
    """After 1024 iterations on kernels that do not end loops themselves."""
    from tests.support.scripts import printed_by

    script = Script("BEGIN { $i = 0; while (1) { $i++; } print($i); }")
    found: dict[str, int] = {}
    assert printed_by(script, lambda _: found.update(script.dropped)) == "1024\n"
    assert found == {"loop cut off by the kernel's limit": 1}


def test_a_loop_goes_over_what_functions_gather() -> None:
    """All processors' parts put together, in the loop as by their keys."""
    text = printed(
        "BEGIN { @c[1] = count(); @c[1] = count(); @s[2] = sum(-5); @a[3] = avg(-3); @a[3] = avg(-4); "
        "@lo[4] = min(7); @lo[4] = min(-6); @hi[5] = max((uint64)-1); @hi[5] = max(2); "
        "for ($kv : @c) { print($kv); } for ($kv : @s) { print($kv.1 + 1); } for ($kv : @a) { print($kv); } "
        "for ($kv : @lo) { print($kv); } for ($kv : @hi) { print($kv); } "
        "print((@a[3], @lo[4], @hi[5], @lo[1])); clear(@c); clear(@s); clear(@a); clear(@lo); clear(@hi); }"
    )
    assert text == "(1, 2)\n-4\n(3, -3)\n(4, -6)\n(5, 18446744073709551615)\n(-3, -6, 18446744073709551615, 0)\n"


@pytest.mark.parametrize("function", ["hist(1)", "lhist(1, 0, 10, 1)", "stats(1)"])
def test_a_loop_over_what_is_no_number_is_refused(function: str) -> None:
    """As in bpftrace."""
    kind = function.partition("(")[0]
    with pytest.raises(CompileError, match=rf"@h is filled by {kind}\(\), which a loop does not go over"):
        Script(f"BEGIN {{ @h[1] = {function}; for ($kv : @h) {{ print($kv.0); }} }}").compile(FakeTarget())


def test_a_loop_reads_the_entries_of_those_around_it() -> None:
    """Its body is a function of its own, and theirs are others."""
    text = printed(
        'BEGIN { @e[1] = 5; @x["b"] = count(); for ($kv : @e) { for ($k : @x) { print(($kv, $k, len(@e))); } } '
        "clear(@e); clear(@x); }"
    )
    assert text == "((1, 5), (b, 1), 1)\n"


def test_a_loop_is_handed_the_variables_that_it_uses() -> None:
    """And no others, for which its state on the stack has no room; of functions in it and loops within it, too."""
    made = " ".join([f"$v{n} = (uint64)pid * {n};" for n in range(36)])
    shown = " ".join([f"@sum += $v{n};" for n in range(36)])
    text = (
        "fn add($x : uint64) : uint64 { $y = $x + 1; return $y; } "
        f"BEGIN {{ @a[1] = 2; @a[3] = 4; @b[5] = 6; {made} $n = 0; $m = 0; $last = 0; "
        "for ($kv : @a) { $n += $kv.1; if ($kv.0 == 3) { $last = add($n > 2 ? $v7 : $v9); } "
        "for ($in : @b) { $m += $in.1 * $v1; } } "
        f"{shown} print(($n, $m == 12 * pid, $last == 7 * pid + 1, @sum == 630 * pid)); "
        "clear(@a); clear(@b); clear(@sum); }"
    )
    assert printed(text) == "(6, true, true, true)\n"
