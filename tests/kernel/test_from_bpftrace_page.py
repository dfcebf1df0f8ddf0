"""The Python and the commands of docs/from-bpftrace.md are compiled for this kernel, and nothing is attached.

One kernel is enough: the page is about the languages, and what a kernel lacks other tests are about.
"""

from __future__ import annotations

import functools
import linecache
import re
import shlex
import textwrap
from typing import TYPE_CHECKING

import pytest

import pyebpf
from pyebpf import BPF
from pyebpf.bcc.scripts import TraceOptions, distribution_script, trace_script
from pyebpf.bcc.specs import parse_distribution, parse_trace
from pyebpf.cli.catalogue import find
from pyebpf.cli.parser import parse_example
from pyebpf.runtime.loaded import Loaded
from pyebpf.script import Script
from pyebpf.target import Recorder
from tests.support.python import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.target import Target

pytestmark = pytest.mark.any_kernel
PAGE = (ROOT / "docs" / "from-bpftrace.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PROBE = next(block for block in BLOCKS if block.endswith("    ...\n"))
COMMANDS = re.findall(r"^pyebpf .*", PAGE, re.MULTILINE)
#: A cell of code alone.
CELL = re.compile(r" *`([^`]+)` *")


class Attaching(Recorder):
    """This kernel, as if it could attach everything: what is compiled is not attached here."""

    def has(self, feature: str) -> bool:
        return feature.startswith("attach:") or super().has(feature)

    @functools.cache  # noqa: B019 - the target ends with the file's tests
    def functions(self, pattern: str) -> tuple[str, ...]:
        return super().functions(pattern)


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """One for all, which has read BTF once."""
    with Loaded() as loaded:
        made = Attaching(loaded.target())
        made.functions("vfs_*")  # what it opens stays open to the end
        made.tracepoint_format("sched", "sched_switch")
        yield made


def cells(heading: str, column: int) -> list[str]:
    """Code of a column of the table below a heading: of cells that are code alone."""
    table = PAGE.partition(f" {heading}\n")[2].partition("\n#")[0]
    rows = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return [cell[1] for row in rows if (cell := CELL.fullmatch(row[column]))]


def check(source: str, target: Target) -> None:
    """Compile what a block of Python declares; a one-liner's has the page's names and `bpf` before it."""
    file = f"<page {abs(hash(source))}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = {name: getattr(pyebpf, name) for name in pyebpf.__all__} | {"bpf": BPF(), "__name__": "page"}
    exec(compile(source, file, "exec", dont_inherit=True), names)
    bpf: BPF = names["bpf"]
    assert bpf.specs(target).programs


@pytest.mark.parametrize("decorator", cells("Probes", 2))
def test_a_decorator_is_taken(decorator: str, target: Target) -> None:
    """Of an empty probe."""
    parameters = "(ctx)" if ".iter(" in decorator else "()"
    declarations = PROBE.partition("@bpf.")[0]
    check(f"{declarations}{decorator}\ndef probe{parameters} -> None:\n    return\n", target)


@pytest.mark.parametrize("statement", cells("Values", 2) + cells("Statements", 2))
def test_a_statement_is_compiled(statement: str, target: Target) -> None:
    """In the page's probe."""
    check(PROBE.replace("    ...\n", textwrap.indent(statement, "    ") + "\n"), target)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block != PROBE])
def test_a_block_is_compiled(block: str, target: Target) -> None:
    """Its probes."""
    check(block, target)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_compiled(command: str, target: Target) -> None:
    """A script, specifications, or a tool's line."""
    _, name, *arguments = shlex.split(command)
    if name == "-e":
        script = Script(arguments[0])
    elif name == "argdist":
        kind = {"-C": "count", "-H": "hist"}[arguments[0]]
        script = Script(distribution_script([(kind, parse_distribution(arguments[1]))]))
    elif name == "trace":
        script = Script(trace_script([parse_trace(arguments[0])], TraceOptions()))
    else:
        tool = find(name)
        assert tool.build(parse_example(tool, shlex.join([name, *arguments]))[0]).specs(target).programs
        return
    assert script.specs(target).programs


def test_the_page_has_rows() -> None:
    """As many as this file found, so that none is left out."""
    assert [len(cells(each, 2)) for each in ("Probes", "Values", "Statements")] == [15, 18, 23]
    assert (len(BLOCKS), len(COMMANDS)) == (11, 23)
