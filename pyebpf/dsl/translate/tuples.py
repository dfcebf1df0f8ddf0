"""Whether a value, or what is in it, is known at compile time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.context import Context
from pyebpf.builder.ssa.conditions import Always, Test
from pyebpf.builder.values.entity import Entity, RunTimeValue, describe as described
from pyebpf.builder.values.tuples import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["TupleValue", "described", "is_built", "is_run_time"]


def is_run_time(value: object) -> bool:
    """Whether a value, or anything in a tuple, list or dictionary of values, is known only at run time.

    The context itself is what its name stands for, known as that; what has it in it is known only at run time.
    """
    if isinstance(value, (RunTimeValue, Test)):
        return not isinstance(value, Always)
    if isinstance(value, (tuple, list)) or type(value) is dict:
        return _has_run_time(value, set())
    return False


def _has_run_time(value: Iterable[object], seen: set[int]) -> bool:
    """The same of a container; one that stands in it more than once is looked into once."""
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, (tuple, list)) or type(each) is dict:
            if id(each) not in seen:
                seen.add(id(each))
                if _has_run_time(each, seen):
                    return True
        elif isinstance(each, Context) or is_run_time(each):
            return True
    return False


def is_built(value: object) -> bool:
    """Whether a value is the builder's: an entity or a test."""
    return isinstance(value, (Entity, Test))
