"""Parallel moves: any mapping of places, in an order that loses no value."""

from __future__ import annotations

from hypothesis import example, given, strategies as st

from pyebpf.compiler.moves import is_slot, order_moves, slot_place

REGISTERS = st.integers(0, 9)
PLACES = REGISTERS | st.integers(0, 5).map(slot_place)
EMERGENCY = 40
CYCLE_OF_ALL = {register: (register + 1) % 10 for register in range(10)}
SLOTS_CROSSED = {slot_place(0): slot_place(1), slot_place(1): slot_place(0)}


@given(st.dictionaries(PLACES, PLACES, max_size=16), st.sets(REGISTERS, max_size=3))
@example(CYCLE_OF_ALL, set())
@example(CYCLE_OF_ALL | SLOTS_CROSSED, set())
@example(SLOTS_CROSSED, {3})
@example({9: slot_place(0), slot_place(0): 9}, set())
@example({slot_place(0): slot_place(1)}, set())
def test_every_place_gets_its_value(moves: dict[int, int], spare: set[int]) -> None:
    """One after the other, the moves give what all at once would; besides, only free registers change."""
    free = tuple(sorted(spare - moves.keys()))
    order, emergency = order_moves(moves, free, EMERGENCY)
    initial = {place: f"old {place}" for place in [*range(10), *(slot_place(n) for n in range(6))]}
    state = dict(initial)
    for destination, source in order:
        assert not (is_slot(destination) and is_slot(source))
        state[destination] = state[source]
    for destination, source in moves.items():
        assert state[destination] == initial[source]
    touched = {place for place in initial if state[place] != initial[place]}
    assert touched <= moves.keys() | set(free)
    used = {place for move in order for place in move if place >= slot_place(EMERGENCY)}
    assert used <= {slot_place(EMERGENCY), slot_place(EMERGENCY + 1)}
    assert emergency == bool(used)


def test_a_free_register_saves_memory() -> None:
    """A cycle of registers turns through a free one: one move more than there are registers in it."""
    order, emergency = order_moves({1: 2, 2: 3, 3: 1}, (0,), EMERGENCY)
    assert not emergency
    assert len(order) == 4


def test_one_free_register_serves_one_cycle_after_the_other() -> None:
    """Once a cycle's copy has been taken, the register that held it is free for the next cycle."""
    order, emergency = order_moves({1: 2, 2: 1, 3: 4, 4: 3, 5: 6, 6: 5}, (0,), EMERGENCY)
    assert not emergency
    assert len(order) == 9


def test_nothing_moves_that_is_in_place() -> None:
    """A value that stays costs nothing."""
    assert order_moves({1: 1, slot_place(2): slot_place(2)}, (), EMERGENCY) == ([], False)
