"""Where values are when a block begins: the choice by itself, given where they are on the ways to it."""

from __future__ import annotations

from pyebpf.compiler.entry import choose_entry
from pyebpf.compiler.liveness import analyse
from pyebpf.compiler.machine import (
    CALLEE_SAVED,
    FIRST_VIRTUAL,
    MachineBlock,
    MachineBranch,
    MachineFunction,
    MachineJump,
    MachineReturn,
    Node,
)
from tests.compiler.test_liveness import CALL, CTX, JEQ, A, B, C, load, store

End = tuple[dict[int, int], tuple[int, ...]]


def joined(*ends: End, parameters: tuple[int, ...] = (), nodes: tuple[Node, ...] = ()) -> dict[int, int]:
    """The entry of a block that two ways lead to, by operations of which the last stores A and what is then alive."""
    block = MachineBlock(3, parameters, [*nodes, store(A)], MachineReturn(CTX))
    blocks = [
        MachineBlock(0, (), [load(A), load(B)], MachineBranch(JEQ, A, B, 0, 1, 2)),
        MachineBlock(1, (), [], MachineJump(3, (A,) * len(parameters))),
        MachineBlock(2, (), [], MachineJump(3, (B,) * len(parameters))),
        block,
    ]
    liveness = analyse(MachineFunction("f", (CTX,), blocks, {}))
    return choose_entry(block, liveness, ends, {value: n for n, value in enumerate(parameters)}, {})


def looped(end: dict[int, int], body: list[Node], live: tuple[int, ...]) -> dict[int, int]:
    """The entry of a loop, `live` read behind it; on the way in values are where `end` says."""
    header = MachineBlock(1, (), body, MachineBranch(JEQ, CTX, CTX, 0, 1, 2))
    blocks = [
        MachineBlock(0, (), [load(value) for value in live], MachineJump(1)),
        header,
        MachineBlock(2, (), [store(value) for value in live], MachineReturn(CTX)),
    ]
    liveness = analyse(MachineFunction("f", (CTX,), blocks, {}))
    return choose_entry(header, liveness, [(end, ())], {}, {})


def test_what_one_way_has_in_memory_only_stays_there() -> None:
    """Else that way would load what may not be needed for long."""
    assert joined(({CTX: 1, A: 3}, ()), ({CTX: 1}, ())) == {CTX: 1}
    assert joined(({CTX: 1, A: 3}, ()), ({CTX: 1, A: 3}, ())) == {CTX: 1, A: 3}


def test_a_loop_begins_with_what_the_way_in_has_in_registers() -> None:
    """The ways around it are not met yet."""
    assert looped({CTX: 1, A: 3}, [], (A, B)) == {CTX: 1, A: 3}


def test_a_parameter_leaves_a_register_to_the_value_that_lives_on_in_it() -> None:
    """One way gives A, which the block needs as well: A stays in r3, though the parameter is needed first."""
    start = joined(({CTX: 1, A: 3}, (A,)), ({CTX: 1, A: 3, B: 4}, (B,)), parameters=(C,), nodes=(store(C),))
    assert start == {CTX: 1, A: 3, C: 4}


def test_what_lives_through_a_loop_that_calls_lasts() -> None:
    """In r6 to r9, whatever it is in before; as many as there are, those needed first."""
    values = tuple(range(FIRST_VIRTUAL + 1, FIRST_VIRTUAL + 6))
    end = {CTX: 1, **{value: register for register, value in enumerate(values[:4], 2)}, values[4]: 0}
    start = looped(end, [Node(CALL)], values)
    assert set(start.values()) <= set(CALLEE_SAVED)
    assert CTX in start


def test_without_calls_a_loop_leaves_values_where_they_are() -> None:
    """No register is better than the one that a value is in."""
    assert looped({CTX: 1, A: 5, B: 0}, [], (A, B)) == {CTX: 1, A: 5, B: 0}


def test_ten_values_begin_in_registers() -> None:
    """Of eleven that come in registers or none, the one needed last begins in memory."""
    values = tuple(range(FIRST_VIRTUAL + 1, FIRST_VIRTUAL + 12))
    block = MachineBlock(1, values, [store(value) for value in values], MachineReturn(CTX))
    before = MachineBlock(0, (), [load(value + 20) for value in values], MachineJump(1, tuple(v + 20 for v in values)))
    liveness = analyse(MachineFunction("f", (CTX,), [before, block], {}))
    ends = [({CTX: 1}, tuple(value + 20 for value in values))]
    start = choose_entry(block, liveness, ends, {value: n for n, value in enumerate(values)}, {})
    assert start.keys() == {CTX, *values[:9]}
    assert sorted(start.values()) == list(range(10))
