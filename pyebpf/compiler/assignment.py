"""The output of register assignment: operations on real registers that still know the values they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.machine import NONE, MachineBranch, MachineJump, MachineReturn, Node
from pyebpf.dataclass import dataclass, field

if TYPE_CHECKING:
    from pyebpf.compiler.liveness import Liveness
    from pyebpf.compiler.machine import MachineFunction, MachineTerminator


@dataclass(slots=True)
class Placed:
    """An operation on real registers.

    `origin` is the operation over virtual ones that it stands for, None if the allocator added it.

    `slot_of` names the virtual register whose spill slot a load, store reads or writes; its offset is known only when
    all are placed.
    """

    node: Node
    origin: Node | None = None
    slot_of: int = NONE


@dataclass(slots=True)
class BlockState:
    """A block after assignment: where values are at its ends, virtual register to real one, and its operations."""

    start: dict[int, int] = field(default_factory=dict)
    end: dict[int, int] = field(default_factory=dict)
    placed: list[Placed] = field(default_factory=list)
    #: The terminator's operands in registers.
    test: tuple[int, int] = (NONE, NONE)


@dataclass(frozen=True, slots=True)
class Assignment:
    """Registers for every block.

    `spilled` values also live in memory, those `in_memory` (parameters) from the edges on.
    """

    function: MachineFunction
    liveness: Liveness
    states: dict[int, BlockState]
    spilled: dict[int, None]
    in_memory: frozenset[int]


def on_registers(node: Node, result: int, dst: int, src: int, arguments: tuple[int, ...] = ()) -> Node:
    """A node with its registers replaced."""
    return Node(
        node.op,
        result,
        dst,
        src,
        node.offset,
        node.imm,
        node.symbol,
        arguments,
        node.test,
        node.where,
        node.comment,
    )


def replaced_terminator(terminator: MachineTerminator, state: BlockState) -> MachineTerminator:
    """A terminator on real registers."""
    if isinstance(terminator, MachineBranch):
        left, right = state.test
        return MachineBranch(
            terminator.test, left, right, terminator.imm, terminator.then, terminator.otherwise, terminator.where
        )
    if isinstance(terminator, MachineReturn):
        return MachineReturn(0, terminator.where)
    return MachineJump(terminator.target, (), terminator.where)
