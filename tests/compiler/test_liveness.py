"""Liveness over the machine form: what is alive where, how far away its next use is, and how much is alive at once."""

from __future__ import annotations

from pyebpf.asm import Form, find_op
from pyebpf.compiler.liveness import LOOP_EXIT, Liveness, analyse
from pyebpf.compiler.machine import (
    FIRST_VIRTUAL,
    MachineBlock,
    MachineBranch,
    MachineFunction,
    MachineJump,
    MachineReturn,
    Node,
)

LOAD = find_op("ldxdw", Form.LOAD)
STORE = find_op("stxdw", Form.STORE)
CALL = find_op("call", Form.CALL)
JEQ = find_op("jeq", Form.JUMP_REG)
CTX, A, B, C = range(FIRST_VIRTUAL, FIRST_VIRTUAL + 4)


def load(result: int) -> Node:
    return Node(LOAD, result, src=CTX)


def store(value: int) -> Node:
    return Node(STORE, dst=CTX, src=value)


def liveness(*blocks: MachineBlock) -> Liveness:
    return analyse(MachineFunction("f", (CTX,), list(blocks), {}))


def straight(*nodes: Node) -> Liveness:
    """Of one block that returns its parameter."""
    return liveness(MachineBlock(0, (), list(nodes), MachineReturn(CTX)))


def test_pressure_counts_what_the_next_operation_reads() -> None:
    """Three numbers and the context are alive at once where the third has just been made and is read next."""
    assert straight(load(A), load(B), load(C), store(C), store(B), store(A)).pressure == {0: 4}


def test_what_a_call_leaves_alive_counts_once() -> None:
    """Not its own result, nor what it reads; but what only the operation behind it reads."""
    found = straight(load(A), load(B), Node(CALL, C, arguments=(A,)), store(B), store(C))
    assert found.call_pressure == {0: 2}
    assert found.crossing == {CTX, B}


def test_a_block_without_calls_has_no_pressure_across_them() -> None:
    """-1 is told apart from a call across which nothing lives."""
    assert straight(load(A), store(A)).call_pressure == {0: -1}
    assert liveness(MachineBlock(0, (), [Node(CALL, A)], MachineReturn(A))).call_pressure == {0: 0}


def test_distances_take_the_nearest_way() -> None:
    """Of two ways to a use, one over three operations: the shorter, and one for each terminator on it."""
    found = liveness(
        MachineBlock(0, (), [load(A)], MachineBranch(JEQ, CTX, A, 0, 1, 2)),
        MachineBlock(1, (), [load(B), store(B), store(B)], MachineJump(3)),
        MachineBlock(2, (), [], MachineJump(3)),
        MachineBlock(3, (), [store(A)], MachineReturn(CTX)),
    )
    assert found.live_out[0] == {CTX: 0, A: 1}
    assert found.live_in[0] == {CTX: 0}


def test_what_is_needed_behind_a_loop_is_far_away() -> None:
    """Farther than anything in it, by `LOOP_EXIT` for each loop that is left."""
    found = liveness(
        MachineBlock(0, (), [load(A), load(B)], MachineJump(1)),
        MachineBlock(1, (), [], MachineJump(2)),
        MachineBlock(2, (), [load(C)], MachineBranch(JEQ, B, C, 0, 2, 3)),
        MachineBlock(3, (), [], MachineBranch(JEQ, B, B, 0, 1, 4)),
        MachineBlock(4, (), [store(A)], MachineReturn(CTX)),
    )
    assert LOOP_EXIT < found.live_in[3][A] < 2 * LOOP_EXIT < found.live_in[2][A]
    assert found.live_in[2][B] < LOOP_EXIT
