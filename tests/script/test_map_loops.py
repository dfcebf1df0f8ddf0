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


def test_a_loop_over_counts_is_refused() -> None:
    """Their parts are put together by user space."""
    with pytest.raises(CompileError, match=r"a loop over @c, which count\(\) fills, is not supported yet"):
        Script("BEGIN { @c[1] = count(); for ($kv : @c) { print($kv.0); } }").compile(FakeTarget())


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
