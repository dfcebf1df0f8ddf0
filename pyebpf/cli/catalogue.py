"""The tools there are: the modules of `pyebpf.programs`, one a tool."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pyebpf.cli.report import UsageError
from pyebpf.errors import closest
from pyebpf.output.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.tool import Tool

__all__ = ["find", "names", "print_list"]

HELP = """\
usage: pyebpf list

Names the tools and tells what each does. `pyebpf TOOL --help` tells more.
"""
PACKAGE = "pyebpf.programs"
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
    """The names of all tools, sorted."""
    return sorted(name.replace("_", "-") for name in _modules())


def spelt_out(name: str, arguments: list[str]) -> tuple[str, list[str]]:
    """A tool's own name and arguments, for one of `ALIASES` too."""
    if name not in ALIASES:
        return name, arguments
    tool, *first = ALIASES[name]
    return tool, [*first, *arguments]


def find(name: str) -> Tool[..., Any, Any]:
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
        raise UsageError("pyebpf", f"there is no tool {name!r}{closest(name, names())}", "pyebpf list")
    tool: Tool[..., Any, Any] = found.TOOL
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
    """`pyebpf list`: the name of each tool and what it does; a line each, but folded for a terminal."""
    sink = Sink.of(sys.stdout)
    if arguments in (["-h"], ["--help"]):
        sink.write(HELP)
        return 0
    if arguments:
        raise UsageError("pyebpf list", f"unexpected argument {arguments[0]!r}")
    from textwrap import fill

    width = 79 if sys.stdout.isatty() else 1000
    for name in names():
        sink.line(fill(f"{name:<15} {_summary(name.replace('-', '_'))}", width, subsequent_indent=" " * 16))
    return 0
