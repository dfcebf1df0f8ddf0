"""`pyebpf schema TOOL [options]`: the JSON Schema of what the tool prints with --json."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyebpf.cli.catalogue import find, spelt_out
from pyebpf.cli.parser import parse
from pyebpf.cli.report import UsageError
from pyebpf.output.schema import histogram_schema, record_schema, schema_of_lines, stack_schema
from pyebpf.output.sink import Sink
from pyebpf.tool import EventTool, StackTool, SummaryTool

if TYPE_CHECKING:
    from pyebpf.tool import AnyTool

HELP = """\
usage: pyebpf schema TOOL|FILE.py [options]

Prints the JSON Schema of the objects, one a line, that the tool prints with
--json and the same options: the names, types and units of their fields.
"""


def run_schema(arguments: list[str]) -> int:
    """Print the schema of a tool. Raises UsageError."""
    sink = Sink.of(sys.stdout)
    if arguments in (["-h"], ["--help"]):
        sink.write(HELP)
        return 0
    if not arguments:
        raise UsageError("pyebpf schema", "name a tool; `pyebpf list` has them all")
    if arguments[0].endswith(".py"):
        from pyebpf.cli.script import run_script

        return run_script(arguments, lambda tool, rest: _print(tool, rest, sink))
    name, rest = spelt_out(arguments[0], arguments[1:])
    return _print(find(name), rest, sink)


def _print(tool: AnyTool, arguments: list[str], sink: Sink) -> int:
    from json import dumps

    options, _ = parse(tool, arguments)
    sink.line(dumps(schema_of(tool, options), indent=2))
    return 0


def schema_of(tool: AnyTool, options: object) -> dict[str, object]:
    """The schema of a tool's lines with these options."""
    tool = tool.mode(options)
    columns = tool.columns_for(options)
    if isinstance(tool, StackTool):
        lines = [stack_schema()]
    elif columns:
        lines = [record_schema(columns, tool.record)]
    else:
        lines = [histogram_schema()]
    events = tool.lines if isinstance(tool, SummaryTool) else None
    if events is not None:
        lines.append(record_schema(events.columns, events.record))
    assert isinstance(tool, EventTool | SummaryTool | StackTool)
    return schema_of_lines(f"pyebpf {tool.name}", tool.summary, lines)
