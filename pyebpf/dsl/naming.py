"""Names for maps and programs: what the author calls them, as the kernel can take it."""

from __future__ import annotations

import ast
import re
from types import FunctionType
from typing import TYPE_CHECKING, Any

from pyebpf.dsl.probe import SubprogramEntity
from pyebpf.dsl.scope import MISSING, Scope
from pyebpf.dsl.source import find_source
from pyebpf.dsl.tree import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyebpf.dsl.probe import Probe

__all__ = ["first_identifiers", "kernel_name", "unique_name"]

#: BPF_OBJ_NAME_LEN less the NUL.
LONGEST = 15
_UNFIT = re.compile(r"[^A-Za-z0-9_.]")


def kernel_name(name: str) -> str:
    """A name as the kernel takes it: letters, digits, `_` and `.`, at most 15 bytes."""
    return _UNFIT.sub("_", name)[:LONGEST]


def unique_name(name: str, taken: Iterable[str]) -> str:
    """`kernel_name`, with a number where that is taken."""
    taken = set(taken)
    wanted = kernel_name(name)
    candidate, number = wanted, 2
    while candidate in taken:
        suffix = f"_{number}"
        candidate, number = wanted[: LONGEST - len(suffix)] + suffix, number + 1
    return candidate


def first_identifiers(probes: Iterable[Probe[Any, Any]], maps: Iterable[object]) -> dict[int, str]:
    """By each map's id, the first identifier that stands for it in a probe, or in a function that a probe calls."""
    wanted = {id(each) for each in maps}
    found: dict[int, str] = {}
    seen: set[int] = set()
    for probe in probes:
        for value, name in _identifiers(probe.function, probe.scope, seen):
            if id(value) in wanted:
                found.setdefault(id(value), name)
    return found


def _identifiers(function: FunctionType, scope: Scope, seen: set[int]) -> Iterator[tuple[object, str]]:
    """Values that a function's source names, in order, each with its name."""
    if id(function) in seen:
        return
    seen.add(id(function))
    source = find_source(function)
    nodes = [node for node in walk(source.node) if isinstance(node, (ast.Name, ast.Attribute))]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0))
    for node in nodes:
        value = _value(node, scope)
        if value is MISSING:
            continue
        yield value, node.id if isinstance(node, ast.Name) else node.attr
        if isinstance(value, SubprogramEntity):
            yield from _identifiers(value.function, value.scope, seen)
        elif isinstance(value, FunctionType) and not (value.__module__ or "").startswith("pyebpf."):
            try:
                yield from _identifiers(value, Scope(value), seen)
            except Exception:  # noqa: BLE001, S112 - without source it cannot be inlined, so it names nothing
                continue


def _value(node: ast.expr, scope: Scope) -> Any:
    """The value of a name or a chain of attributes, without running properties of anything but plain objects."""
    if isinstance(node, ast.Name):
        captured = scope.captured.get(node.id, MISSING)
        return scope.function.__globals__.get(node.id, MISSING) if captured is MISSING else captured
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, scope)
        if owner is MISSING:
            return MISSING
        return getattr(owner, "__dict__", {}).get(node.attr, MISSING)
    return MISSING
