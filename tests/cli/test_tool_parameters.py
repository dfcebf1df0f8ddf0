"""docs/write-a-tool.md: its tables of parameters are the code's; choices are in --help."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from pyebpf import BPF
from pyebpf.cli.parser import build_parser
from pyebpf.dataclass import MISSING, fields
from pyebpf.errors import InvalidValue
from pyebpf.tasks import Call
from pyebpf.tool import Column, EventTool, StackTool, SummaryTool, Tool, argument, dataclass, flag, option

PAGE = (Path(__file__).parents[2] / "docs/write-a-tool.md").read_text(encoding="utf-8")


def written(function):
    """A signature without annotations, as the page has it."""
    parts = []
    for parameter in inspect.signature(function).parameters.values():
        default = parameter.default
        if parameter.kind is parameter.VAR_POSITIONAL:
            parts.append(f"*{parameter.name}")
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        shown = "MISSING" if default is MISSING else repr(default).replace("'", '"')
        parts.append(parameter.name if default is parameter.empty else f"{parameter.name}={shown}")
    return f"{function.__name__}({', '.join(parts)})"


@pytest.mark.parametrize("function", [option, flag, argument])
def test_the_signatures_of_fields(function):
    """Names, order and defaults."""
    assert f"`{written(function)}`" in PAGE


def table(heading):
    """The rows of the first table below a heading."""
    text = PAGE.partition(f"\n### {heading}\n")[2].partition("\n\n- ")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    assert rows
    return [[cell.strip() for cell in row] for row in rows]


def test_each_parameter_of_a_field_is_explained():
    """Once, in one table for all three."""
    told = [name for row in table("Options")[: _first_table_length()] for name in re.findall(r"`(\w+)`", row[0])]
    declared = {name for each in (option, flag, argument) for name in inspect.signature(each).parameters}
    assert sorted(told) == sorted(declared)


def _first_table_length():
    text = PAGE.partition("\n### Options\n")[2].partition("\n### ")[0]
    return sum(line.startswith("| `") for line in text.splitlines())


def default_of(field):
    """A default as the table has it."""
    if field.default_factory is not MISSING:
        return f"`{field.default_factory()!r}`"
    return "" if field.default is MISSING else f"`{field.default!r}`".replace("'", '"')


def test_each_parameter_of_a_tool_is_explained():
    """With its class and its default."""
    common = {field.name for field in fields(Tool)}
    declared = {(field.name, "every tool", default_of(field)) for field in fields(Tool)}
    for kind in (EventTool, SummaryTool, StackTool):
        own = [field for field in fields(kind) if field.name not in common]
        declared |= {(field.name, f"`{kind.__name__}`", default_of(field)) for field in own}
    assert {(row[0].strip("`"), kind, row[2]) for row in table("Tools") for kind in row[1].split(", ")} == declared


@dataclass(frozen=True)
class Options:
    """What to do."""

    how: str = option("--how", default="fast", help="how to do it", choices=("fast", "100%", "slow"))
    named: str = option("--named", default="up", help="up or down", choices=("up", "down"))
    where: str = argument("WHERE", help="the place", choices=("here", "there"), default="here")


def test_choices_are_in_the_help():
    """Unless it names them all already; the default is there in any case."""
    tool = EventTool(
        name="choosy",
        doc="A tool.",
        tracing="nothing",
        options=Options,
        build=lambda _: BPF(),
        records=lambda *_: iter(()),
    )
    text = " ".join(build_parser(tool).format_help().split())
    assert "how to do it (one of fast, 100%, slow; default: fast)" in text
    assert "up or down (default: up)" in text
    assert "the place (one of here, there; default: here)" in text


def test_the_letter_d_of_stack_tools():
    """It is --delimited; the seconds are an argument, or --duration."""
    tool = StackTool(
        name="stacks",
        doc="A tool.",
        tracing="nothing",
        options=type(Options()),
        build=lambda _: BPF(),
        collect=lambda *_: [],
    )
    text = build_parser(tool).format_help()
    assert "-d, --delimited" in text
    assert re.search(r"^  --duration SECONDS", text, re.MULTILINE)
    assert "Its letter `-d` is `--delimited`" in PAGE


def test_options_have_the_types_of_their_annotations_and_keep_to_their_bounds():
    """In the library as on the command line: fractions have bounds, a flag is True or False, text is text."""

    @dataclass(frozen=True)
    class Options:
        least: float = option("--least", default=1.0, help="h", minimum=0, maximum=5)
        quiet: bool = flag("--quiet", help="h")
        word: str | None = option("--word", help="h")

    tool = EventTool(
        name="t", doc="T.", tracing="t", options=Options, build=lambda _: None, record=Call, columns=(Column("PID", 7),)
    )
    tool.check(Options(least=5.0, quiet=True, word="a"))
    for given, message in (
        ({"least": 5.5}, "least: 5.5 is above 5"),
        ({"least": float("inf")}, "least: inf is above 5"),
        ({"least": float("nan")}, "least: nan is not a number"),
        ({"quiet": 1}, "quiet=1: give True or False, not int"),
        ({"quiet": "no"}, "quiet='no': give True or False, not str"),
        ({"word": b"x"}, "word=b'x': give text or None, not bytes"),
        ({"word": 5}, "word=5: give text or None, not int"),
    ):
        with pytest.raises(InvalidValue, match=re.escape(message)):
            tool.check(Options(**given))
