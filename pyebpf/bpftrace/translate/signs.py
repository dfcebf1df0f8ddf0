"""Warnings about unsigned numbers that a script takes for signed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace.translate.values import Integer, bare
from pyebpf.bpftrace.value_types import Number
from pyebpf.types import S64

if TYPE_CHECKING:
    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.bpftrace.value_types import ValueType

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def check_compared(s: Scope, operator: str, left: Value, right: Value, node: ast.Node) -> None:
    """Warn where an unsigned number is compared with one below 0, or asked whether it is below 0.

    What a function of C returns as an int is such a number: `retval < 0` never holds.
    """
    if bare(left) is not None:
        left, right, operator = right, left, _MIRRORED.get(operator, operator)
    literal = bare(right)
    if literal is None or not isinstance(left, Integer) or not left.sure or left.signed or left.literal is not None:
        return
    if literal < 0 or (literal == 0 and operator in ("<", ">=")):
        s.concerns.setdefault(
            f"an unsigned number is never below 0, and this is compared by {operator} {literal}: cast it, (int32)x or "
            "(int64)x, if it is meant to be signed",
            node,
        )


def check_kept(s: Scope, value: Value, type_: ValueType | None, name: str, node: ast.Node) -> None:
    """Warn where an unsigned number of 64 bits is kept as a signed one, since others are assigned there, too."""
    if not isinstance(value, Integer) or not isinstance(type_, Number) or not value.sure:
        return
    is_large = value.type.size == S64.size if value.literal is None else value.literal > S64.maximum
    if not value.signed and is_large and type_.signed:
        s.concerns.setdefault(
            f"this is unsigned, and {name} is signed, as something else that is assigned to it is: numbers above "
            f"{S64.maximum} become negative there; cast it, (int64)x, if that is meant",
            node,
        )
