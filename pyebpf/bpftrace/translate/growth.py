"""How long `unroll` and calls of the script's functions make a probe, which has the bodies again and again.

It is reckoned before anything is built: a hundred times a hundred statements take a minute to build.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.macros import MAX_CHAIN, MAX_NODES
from pyebpf.bpftrace.translate.expressions import known_number
from pyebpf.dataclass import fields
from pyebpf.errors import CompileError

if TYPE_CHECKING:
    from pyebpf.bpftrace.translate.body import Scope

#: Copies that `unroll` makes at most.
MAX_UNROLL = 100


def check_growth(s: Scope, probe: ast.Probe) -> None:
    """Raise CompileError where bodies that are put in make a probe longer than macros may."""
    sizes: dict[str, int] = {}
    for part in (probe.predicate, probe.body):
        if part is not None:
            _put_in(s, part, (), sizes)


def _put_in(s: Scope, node: ast.Node, chain: tuple[str, ...], sizes: dict[str, int]) -> int:
    """The parts that are put in for a node."""
    total = 0
    for each in fields(node):
        value = getattr(node, each.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, ast.Node):
                total += _put_in(s, part, chain, sizes)
    match node:
        case ast.Unroll(count=count, body=body):
            total = _times(s, count) * (sum(1 for _ in ast.nodes(body)) + total)
        case ast.Call(name=name) if name in s.script.functions and name not in chain and len(chain) < MAX_CHAIN:
            if name not in sizes:
                body = s.script.functions[name].body
                sizes[name] = sum(1 for _ in ast.nodes(body)) + _put_in(s, body, (*chain, name), sizes)
            total += sizes[name]
    if total > MAX_NODES:
        raise s.error(
            f"unroll and calls of functions make this more than {MAX_NODES} parts long: repeat less, or write a loop, "
            "for ($i : 0..100) { … }",
            node,
        )
    return total


def _times(s: Scope, count: ast.Expression) -> int:
    """How often `unroll` repeats its body; 0 where that is an error, which is told when it is built."""
    try:
        times = known_number(s, count)
    except CompileError:
        return 0
    return times if 0 < times <= MAX_UNROLL else 0
