"""The bases of the nodes of a script's tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass, field, fields

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, guarded=False)
class Node:
    """A part of a script: its characters `start` to before `end`, counted from the script's begin."""

    start: int = field(compare=False, repr=False)
    end: int = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, guarded=False)
class Expression(Node):
    """A part with a value, or in the place of one."""


@dataclass(frozen=True, slots=True, guarded=False)
class Statement(Node):
    """A part of a block."""


@dataclass(frozen=True, slots=True, guarded=False)
class Type(Node):
    """A type as it is written: not yet looked up."""


def nodes(node: object) -> Iterator[Node]:
    """A node, or each of a tuple, and all that is in it, in the order of the script."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting.extend(reversed(part))
        elif isinstance(part, Node):
            yield part
            waiting.extend(getattr(part, each.name) for each in reversed(fields(part)))
