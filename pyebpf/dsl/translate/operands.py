"""Operands in the order of the source: what one has read stays as it was while the next are evaluated.

Numbers are loaded where they are read. Strings, bytes and tuples stand in memory, so they are copied if what follows
may write there: a call, or a property of a record's class.
"""

from __future__ import annotations

import ast
import functools
from types import BuiltinFunctionType
from typing import TYPE_CHECKING

from pyebpf.builder.intrinsics.base import Intrinsic
from pyebpf.builder.values.arrays import Bytes
from pyebpf.builder.values.records import RecordLiteral
from pyebpf.builder.values.strings import String
from pyebpf.builder.values.tuples import TupleReference, TupleValue
from pyebpf.dataclass import dataclass
from pyebpf.types import IntType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.dsl.translate.frame import Frame

_WRITERS = ast.Call, ast.NamedExpr
#: What neither calls nor writes, as most operands are.
_STILL = frozenset([ast.Constant, ast.Name])


def operands(f: Frame, nodes: Sequence[ast.expr]) -> list[object]:
    """The values of expressions that Python evaluates one after the other."""
    return [taken_before(f, f.expression(node), *nodes[number:]) for number, node in enumerate(nodes, 1)]


def taken_before(f: Frame, value: object, *following: ast.AST) -> object:
    """A value as it is before other expressions are evaluated."""
    return frozen(f.p, value) if may_change(f, *following) else value


def all_taken_before(f: Frame, values: list[object], *following: ast.AST) -> list[object]:
    """Values as they are before other expressions are evaluated."""
    return [frozen(f.p, each) for each in values] if may_change(f, *following) else values


def may_change(f: Frame, *nodes: ast.AST) -> bool:
    """Whether evaluating the nodes may change what stands in memory."""
    nodes = tuple([node for node in nodes if type(node) not in _STILL])
    return bool(nodes) and any(
        (f.p.known.properties and found.reads) or not all(_only_computes(f, called) for called in found.called)
        for found in map(_parts, nodes)
    )


def frozen(p: ProgramBuilder, value: object) -> object:
    """A value that nothing changes any more, if it is one that Python cannot change."""
    match value:
        case String() | Bytes() | TupleReference():
            return value.local(p)
        case RecordLiteral() if not value.plain:
            found = value.local(p)
            found.fresh = True
            return found
        case TupleValue(elements=elements):
            return TupleValue(tuple(frozen(p, each) for each in elements), value.kind)
        case tuple() if hasattr(value, "_fields"):
            make: Callable[..., object] = type(value)
            return make(*(frozen(p, each) for each in value))
        case tuple() | list() if type(value) in (tuple, list):
            return type(value)(frozen(p, each) for each in value)
    return value


def _only_computes(f: Frame, called: ast.expr | None) -> bool:
    """Whether a call makes a record, converts or asks, by a name from outside; None stands for `:=`."""
    if not isinstance(called, ast.Name) or f.binds(called.id):
        return False
    found = f.scope.outside(called.id)
    if isinstance(found, Intrinsic):
        return found.__name__ != "loop"  # it calls a function of the author's
    return isinstance(found, (type, IntType, BuiltinFunctionType))


@dataclass(frozen=True)
class _Parts:
    """Functions that an expression calls, None standing for an assignment, and whether it reads attributes."""

    called: tuple[ast.expr | None, ...]
    reads: bool


@functools.lru_cache(maxsize=4096)
def _parts(node: ast.AST) -> _Parts:
    inside = [*ast.walk(node)]
    called = [each.func if isinstance(each, ast.Call) else None for each in inside if isinstance(each, _WRITERS)]
    return _Parts(tuple(called), any(isinstance(each, ast.Attribute) for each in inside))
