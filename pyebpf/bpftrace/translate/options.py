"""`getopt("name", default)`: options of a script, which stand behind `--` on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.translate.values import Condition, Value, constant, literal_text
from pyebpf.builder.ssa.conditions import Always

if TYPE_CHECKING:
    from pyebpf.bpftrace.translate.body import Scope

_WORDS = {"true": True, "1": True, "": True, "false": False, "0": False}


def option(s: Scope, node: ast.Call) -> Value:
    """The value of an option: a number, a text or a boolean, as its default is; without one it is a flag."""
    from pyebpf.bpftrace.translate.expressions import as_number, known_number, known_text
    from pyebpf.bpftrace.translate.functions import arguments

    first, *rest = arguments(s, node, 1, 3)
    name = known_text(s, first)
    s.script.asked[name] = known_text(s, rest[1]) if len(rest) > 1 else ""
    given = s.script.options.get(name)
    default = rest[0] if rest else None
    if default is None or isinstance(default, ast.Boolean):
        fallback = isinstance(default, ast.Boolean) and default.value
        value = fallback if given is None else _WORDS.get(given.lower())
        if value is None:
            raise s.error(f"--{name}={given}: it is true or false", node)
        return Condition(Always(value))
    if isinstance(default, ast.String):
        return literal_text(default.value if given is None else given.encode("utf-8", "surrogateescape"))
    number = known_number(s, default) if given is None else as_number(given)
    if number is None:
        raise s.error(f"--{name}={given}: it is a number", node)
    return constant(s.p, number)
