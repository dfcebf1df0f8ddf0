"""Blocks under construction, and the points where paths meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pyebpf.compiler import ir
from pyebpf.dataclass import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.builder.ssa.environment import Environment


@dataclass(slots=True, eq=False)
class OpenBlock:
    """A block still being filled; its values are numbered from `first`.

    Without `reachable`, what lands in it is dropped.
    """

    number: int
    first: int
    reachable: bool = True
    parameters: tuple[ir.Value, ...] = ()
    instructions: list[ir.Instruction] = field(default_factory=list)
    terminator: ir.Terminator | None = None


#: Code that a region of the program needs on each way out of it.
Cleanup: TypeAlias = "Callable[[], object]"


@dataclass(slots=True, eq=False)
class Edge:
    """A path to a join: the block that it comes from, what it knows, and the regions that it may be leaving."""

    block: OpenBlock
    environment: Environment
    regions: tuple[Cleanup, ...]


@dataclass(slots=True, eq=False)
class Join:
    """A point still to come that several paths lead to.

    `FunctionBuilder.start` places it and merges what the paths know.
    """

    hint: str = ""
    edges: list[Edge] = field(default_factory=list)
    placed: bool = False


@dataclass(slots=True, eq=False)
class Loop:
    """A loop under construction: `exit` is where `break` goes, `latch` where `continue` goes."""

    exit: Join
    latch: Join


def successors(block: OpenBlock) -> list[int]:
    """Numbers of the blocks that may come next."""
    match block.terminator:
        case ir.Jump(target=target):
            return [target]
        case ir.Branch(then=then, otherwise=otherwise) | ir.MayGoto(then=then, otherwise=otherwise):
            return [then, otherwise]
        case _:
            return []
