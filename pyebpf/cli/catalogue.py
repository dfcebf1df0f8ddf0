"""The tools there are: the modules of `pyebpf.programs`, one a tool, and those of other distributions."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyebpf.cli.report import UsageError, note
from pyebpf.errors import closest
from pyebpf.output.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import EntryPoint

    from pyebpf.tool import AnyTool

PACKAGE = "pyebpf.programs"
#: The group of entry points by which other distributions add tools: each names a `TOOL`.
GROUP = "pyebpf.tools"
#: Names that the book has for a tool with arguments: `qdisc-fq` is `qdisclat fq`.
ALIASES = {
    f"qdisc-{name}": ("qdisclat", name.replace("-", "_"))
    for name in ("fq", "cbq", "cbs", "codel", "fq_codel", "red", "tbf")
}


def _modules() -> Iterator[str]:
    from pkgutil import iter_modules

    spec = find_spec(PACKAGE)
    for module in iter_modules(spec.submodule_search_locations if spec else ()):
        if not module.name.startswith("_"):
            yield module.name


def names() -> list[str]:
    """The names of the tools that pyebpf ships, sorted."""
    return sorted(name.replace("_", "-") for name in _modules())


def other_names() -> list[str]:
    """The names of the tools of other distributions, sorted."""
    return list(_others())


def _others() -> dict[str, EntryPoint]:
    """Tools of other distributions, by name; pyebpf's own names stay its own."""
    from importlib.metadata import entry_points

    own = {*names(), *ALIASES}
    return {each.name: each for each in sorted(entry_points(group=GROUP)) if each.name not in own}


def _load(entry: EntryPoint) -> AnyTool:
    """A tool of another distribution. Raises UsageError where it is none."""
    from pyebpf.tool import Tool

    try:
        found = entry.load()
    except Exception as error:
        # Whatever went wrong is the other distribution's affair; the name says whose.
        raise UsageError("pyebpf", f"tool {entry.name} ({entry.value}): {type(error).__name__}: {error}") from error
    if not isinstance(found, Tool):
        raise UsageError("pyebpf", f"tool {entry.name} ({entry.value}) is {found!r}, not a tool of pyebpf.tool")
    return found


def spelt_out(name: str, arguments: list[str]) -> tuple[str, list[str]]:
    """A tool's own name and arguments, for one of `ALIASES` too."""
    if name not in ALIASES:
        return name, arguments
    tool, *first = ALIASES[name]
    return tool, [*first, *arguments]


def find(name: str) -> AnyTool:
    """The tool of a name. Raises UsageError, with the names most like it."""
    module = name.replace("-", "_")
    path = f"{PACKAGE}.{module}"
    try:
        found = import_module(path) if module.isidentifier() and not module.startswith("_") else None
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        found = None
    if found is None:
        others = _others()
        if name in others:
            return _load(others[name])
        from pyebpf.cli.peer_tools import answer_for

        unknown = f"there is no tool {name!r}{closest(name, [*names(), *others])}"
        if "{" in name or ":" in name:
            raise UsageError("pyebpf", f"a script stands behind -e: pyebpf -e '{name}'", "pyebpf --help")
        raise UsageError("pyebpf", answer_for(name) or unknown, "pyebpf list")
    tool: AnyTool = found.TOOL
    return tool


def _summary(module: str) -> str:
    """The first line of a module's docstring, read without running the module."""
    from ast import literal_eval
    from tokenize import COMMENT, NL, STRING, generate_tokens

    spec = find_spec(f"{PACKAGE}.{module}")
    source = spec.loader.get_source(spec.name) if spec and spec.loader else None  # type: ignore[attr-defined]  # every loader of files and archives has it
    lines = iter((source or "").splitlines(keepends=True))
    for token in generate_tokens(lambda: next(lines, "")):
        if token.type == STRING:
            return str(literal_eval(token.string)).strip().partition("\n")[0].rstrip(".")
        if token.type not in {COMMENT, NL}:
            break
    return ""


def print_list(arguments: list[str]) -> int:
    """`pyebpf list`: the name of each tool and what it does; a line each, but folded for a terminal.

    With patterns, the attach points that match; words are looked for in the tools' names and summaries, too.
    """
    if not arguments:
        _print_tools(_summaries())
        return 0
    from pyebpf.cli.attach_points import run_list

    words: set[str] = set()
    looked = False
    if all(each.replace("-", "").isalnum() for each in arguments) and not arguments[0].startswith("-"):
        summaries, looked = _summaries(), True
        found = {each: _about(each, summaries) for each in arguments}
        words = {each for each, tools in found.items() if tools}
        _print_tools({name: summaries[name] for tools in found.values() for name in tools})
    return run_list(arguments, words, looked=looked)


def _about(word: str, summaries: dict[str, str]) -> list[str]:
    """The tools that have a word in their names or summaries."""
    return [name for name, text in summaries.items() if word.lower() in f"{name} {text}".lower()]


def _summaries() -> dict[str, str]:
    """Summaries of the tools, by name."""
    summaries = {name: _summary(name.replace("-", "_")) for name in names()}
    for name, entry in _others().items():
        try:
            summaries[name] = _load(entry).summary
        except UsageError as error:
            note(f"pyebpf list: {error}")
    return summaries


def _print_tools(summaries: dict[str, str]) -> None:
    from textwrap import fill

    sink = Sink.of(sys.stdout)
    width = 79 if sys.stdout.isatty() else 1000
    for name, summary in sorted(summaries.items()):
        sink.line(fill(f"{name:<15} {summary}", width, subsequent_indent=" " * 16))
