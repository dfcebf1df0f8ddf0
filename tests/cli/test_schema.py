"""`pyebpf schema`: the schema of each shipped tool, its errors and its help."""

from __future__ import annotations

import json

import pytest

from pyebpf.cli import main
from pyebpf.cli.catalogue import find
from pyebpf.cli.parser import parse
from pyebpf.cli.schema import schema_of
from pyebpf.tool import SummaryTool
from tests.programs.record import command_lines

LINES = {line: (tool, options) for line, tool, options in command_lines()}
UNITS = {1_000: "_ns", 1_000_000: "_ns", 10**9: "_ns", 1024: "_bytes", 1 << 20: "_bytes"}


@pytest.mark.parametrize("line", LINES)
def test_every_field_of_a_tool_has_a_type(line):
    """With every set of options: a time, known types, and an object for losses."""
    tool, options = LINES[line]
    schema = schema_of(tool, options)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    *records, losses = schema["oneOf"]
    assert records
    assert list(losses["properties"]) == ["time", "dropped"]
    for each in records:
        assert next(iter(each["properties"])) == "time"
        assert each["properties"]["time"]["format"] == "date-time"
        assert [name for name, field in each["properties"].items() if not field.get("type")] == []


@pytest.mark.parametrize("line", LINES)
def test_a_number_in_another_unit_has_a_field_in_the_base_unit(line):
    """A heading may have milliseconds and KB; the field ends in _ns or _bytes."""
    tool, options = LINES[line]
    columns = list(tool.columns_for(options))
    columns += tool.lines.columns if isinstance(tool, SummaryTool) and tool.lines is not None else []
    fields = [c for c in columns if c.scale != 1 and c.field is not None]
    assert [c for c in fields if not c.field_name().endswith(UNITS[c.scale])] == []


def test_the_command(capsys):
    """The same as JSON; options change it."""
    assert main(["schema", "tcplife", "-w", "-t"]) == 0
    schema = json.loads(capsys.readouterr().out)
    tool = find("tcplife")
    assert schema == schema_of(tool, parse(tool, ["-w", "-t"])[0])
    assert schema["title"] == "pyebpf tcplife"
    assert list(schema["oneOf"][0]["properties"])[:5] == ["time", "elapsed_ns", "pid", "comm", "ip_version"]
    assert main(["schema", "tcplife"]) == 0
    assert "elapsed_ns" not in capsys.readouterr().out


def test_help(capsys):
    """The command's own."""
    for asked in ("-h", "--help"):
        assert main(["schema", asked]) == 0
        assert capsys.readouterr().out.startswith("usage: pyebpf schema TOOL|FILE.py [options]\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "pyebpf schema: name a tool; `pyebpf list` has them all; see pyebpf schema --help\n"),
        (["tcplif"], "tcplif"),
        (["tcplife", "--no-such"], "--no-such"),
    ],
)
def test_usage_errors(capsys, arguments, message):
    """One line on standard error, and status 2."""
    assert main(["schema", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


def test_a_tool_of_a_file(capsys, tmp_path):
    """With its own options, as `pyebpf run` takes it."""
    file = tmp_path / "mine.py"
    file.write_text("from pyebpf.programs.tcpconnect import TOOL\n", encoding="utf-8")
    assert main(["schema", str(file), "-c"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(["schema", "tcpconnect", "-c"]) == 0
    assert json.loads(capsys.readouterr().out) == found
