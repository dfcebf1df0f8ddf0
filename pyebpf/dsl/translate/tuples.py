"""Tuples with run-time values in them: they live while compiling, their elements at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.conditions import Always, Test
from pyebpf.builder.entity import Entity, RunTime, describe
from pyebpf.builder.operations import to_int

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

__all__ = ["TupleValue", "described", "is_built", "is_run_time"]


def is_run_time(value: Any) -> bool:
    """Whether a value, or anything in a tuple, list or dictionary of values, is known only on each event."""
    if isinstance(value, (RunTime, Test)):
        return not isinstance(value, Always)
    if isinstance(value, (tuple, list)):
        return any(map(is_run_time, value))
    if type(value) is dict:
        return any(map(is_run_time, value.values()))
    return False


def is_built(value: Any) -> bool:
    """Whether a value is the builder's: an entity or a test."""
    return isinstance(value, (Entity, Test))


def described(value: Any) -> str:
    """How messages call a value, in a tuple or a list, too."""
    if isinstance(value, (tuple, list)):
        inside = ", ".join(map(described, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if isinstance(value, Test):
        return "a condition"
    return describe(value)


class TupleValue(RunTime):
    """A tuple in a run-time variable: as many elements, each of one shape."""

    def __init__(self, elements: tuple[Any, ...]) -> None:
        self.elements = elements

    def describe(self) -> str:
        return f"a tuple of {len(self.elements)}"

    @property
    def parts(self) -> tuple[ir.Value, ...]:
        return tuple(part for element in self.elements if isinstance(element, RunTime) for part in element.parts)

    @property
    def shape(self) -> Hashable:
        return (
            "tuple",
            tuple(
                element.shape if isinstance(element, RunTime) else ("constant", repr(element))
                for element in self.elements
            ),
        )

    def rebuild(self, parts: tuple[ir.Value, ...]) -> TupleValue:
        rest = list(parts)
        rebuilt = []
        for element in self.elements:
            if isinstance(element, RunTime):
                count = len(element.parts)
                rebuilt.append(element.rebuild(tuple(rest[:count])))
                del rest[:count]
            else:
                rebuilt.append(element)
        return TupleValue(tuple(rebuilt))

    def local(self, p: ProgramBuilder) -> RunTime:
        """Integers become variables, so that another path may give others; the rest must be the same on each path."""
        return TupleValue(tuple(_local(p, element) for element in self.elements))

    def item(self, p: ProgramBuilder, index: Any) -> Any:
        if not isinstance(index, int) or not -len(self.elements) <= index < len(self.elements):
            p.fail(
                f"a tuple of {len(self.elements)} is indexed by a number known while compiling, not by "
                f"{describe(index)}"
            )
        return self.elements[index]

    def length(self, p: ProgramBuilder) -> int:  # noqa: ARG002 - the protocol's
        return len(self.elements)


def _local(p: ProgramBuilder, element: Any) -> Any:
    if isinstance(element, RunTime):
        return element.local(p)
    if isinstance(element, int):
        return to_int(p, element)
    return TupleValue(element).local(p) if isinstance(element, tuple) else element
