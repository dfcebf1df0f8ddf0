"""The outcomes that the table of docs/bpftrace-scripts.md is made of, on a made-up kernel."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.dsl.fake_target import FakeTarget
from tests.script.attached import Outcome, arguments_of, outcome, scripts
from tests.script.table import read, table

if TYPE_CHECKING:
    from pathlib import Path

    from pyebpf.script import Script

SCRIPTS = {
    "fine": "kprobe:tcp_sendmsg { @ = sum(arg1); }",
    "few": "kprobe:tcp_sendmsg { @ = sum(arg3); }",
    "part": "kprobe:static_one { @ = count(); }",
    "word": "kprobe:tcp_sendmsg { nothing(); }",
}
PART = "the compiler made static_one.isra.0 of static_one, with parameters that may differ: probe that"
OUTCOMES = {
    "fine": ("yes", []),
    "few": ("told", ["tcp_sendmsg has no arg3 on this kernel: the last one is arg2"]),
    "part": ("told", [PART]),
    "word": ("no", ["there is no function nothing()"]),
}


def compiled(script: Script) -> None:
    """Stands for attaching: what the made-up kernel can do."""
    script.specs(FakeTarget())


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_outcome_has_its_reasons(name: str) -> None:
    """A script is attached, is told something, or is refused."""
    assert outcome(SCRIPTS[name], f"{name}.bt", FakeTarget(), compiled) == OUTCOMES[name]


def test_the_reason_is_what_was_told_before() -> None:
    """A function that is not there says why better than the kernel's refusal; a program may be missing."""
    from pyebpf.errors import NotFound

    def refused(_: Script) -> None:
        raise NotFound("the kernel says no")

    assert outcome(SCRIPTS["part"], "part.bt", FakeTarget(), refused) == ("no", [PART])
    assert outcome(SCRIPTS["few"], "few.bt", FakeTarget(), refused) == ("no", ["the kernel says no"])
    text = "uprobe:/no/such/file:main { @ = count(); }"
    assert outcome(text, "file.bt", FakeTarget(), refused) == ("program", ["the kernel says no"])


def test_a_script_that_reads_an_argument_gets_one() -> None:
    """But not for a comment that speaks of it."""
    assert arguments_of("BEGIN { print($1); }") == ["1"]
    assert arguments_of("// $1 is not used\nBEGIN { }") == []


def test_a_table_has_a_row_for_what_is_not_the_same(tmp_path: Path) -> None:
    """Counts, the names of scripts that run everywhere, and the reasons of the others."""
    for name in ("fine", "word"):
        (tmp_path / f"{name}.bt").write_text(SCRIPTS[name])
    ((collection, files),) = scripts(f"Mine={tmp_path}").items()
    assert (collection, list(files)) == ("Mine", ["fine", "word"])
    lines = [
        json.dumps({"collection": collection, "script": name, **Outcome(*OUTCOMES[name])._asdict()}) for name in files
    ]
    kernel = read("\n".join(["Linux says hello", *lines]))
    everywhere, mine = table({"1.0": kernel, "2.0": kernel})
    counts = (
        "| | 1.0 | 2.0 |\n|---|---:|---:|\n| yes | 1 | 1 |\n| told | 0 | 0 |\n| program | 0 | 0 |\n| no | 1 | 1 |\n"
    )
    assert everywhere == f"All collections:\n\n{counts}"
    assert mine == (
        f"### Mine\n\n{counts}\n`yes` on all: fine.\n\n| script | 1.0 | 2.0 | what |\n|---|---|---|---|\n"
        "| word | no | no | there is no function nothing() |\n"
    )
