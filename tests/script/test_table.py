"""The outcomes that the table of docs/bpftrace-scripts.md is made of, on a made-up kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.dsl.fake_target import FakeTarget
from tests.script.table import outcome, scripts, table

if TYPE_CHECKING:
    from pathlib import Path

SCRIPTS = {
    "fine": "kprobe:tcp_sendmsg { @ = sum(arg1); }",
    "few": "kprobe:tcp_sendmsg { @ = sum(arg3); }",
    "part": "kprobe:static_one { @ = count(); }",
    "word": "kprobe:tcp_sendmsg { nothing(); }",
}
OUTCOMES = {
    "fine": ("yes", []),
    "few": ("told", ["tcp_sendmsg has no arg3 on this kernel: the last one is arg2"]),
    "part": (
        "no",
        ["the compiler made static_one.isra.0 of static_one, with parameters that may differ: probe that"],
    ),
    "word": ("no", ["there is no function nothing()"]),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_outcome_has_its_reasons(name: str) -> None:
    """A script compiles, is told something, cannot be attached, or is refused."""
    assert outcome(SCRIPTS[name], f"{name}.bt", FakeTarget()) == OUTCOMES[name]


def test_a_table_has_a_row_for_what_is_not_the_same(tmp_path: Path) -> None:
    """Counts, the names of scripts that compile everywhere, and the reasons of the others."""
    for name in ("fine", "word"):
        (tmp_path / f"{name}.bt").write_text(SCRIPTS[name])
    (text,) = table(scripts(f"Mine={tmp_path}"), {"1.0": FakeTarget(), "2.0": FakeTarget()})
    assert text == (
        "### Mine\n\n| | 1.0 | 2.0 |\n|---|---:|---:|\n| yes | 1 | 1 |\n| told | 0 | 0 |\n| no | 1 | 1 |\n\n"
        "`yes` on all: fine.\n\n| script | 1.0 | 2.0 | what |\n|---|---|---|---|\n"
        "| word | no | no | there is no function nothing() |\n"
    )
