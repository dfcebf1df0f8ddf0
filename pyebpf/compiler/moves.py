"""Parallel moves: several values to their places at once, as single moves in an order that loses none.

A place is a register (0 to 9) or a spill slot (`slot_place(n)`). Constants, which need no source, are made last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

#: Places from here on are spill slots.
SLOTS = 1 << 16

#: (destination, source)
Move = tuple[int, int]


def slot_place(slot: int) -> int:
    """The place of spill slot `slot`."""
    return SLOTS + slot


def is_slot(place: int) -> bool:
    """Whether a place is in memory."""
    return place >= SLOTS


def order_moves(moves: Mapping[int, int], free: Collection[int], emergency: int) -> tuple[list[Move], bool]:
    """An order for `moves` (destination to source, all at once), with cycles and memory-to-memory moves taken apart.

    Each move of the answer has a register on at least one side. `free` are registers that nobody needs afterwards;
    they may be sources. Where none is free, slots `emergency` and `emergency + 1` help out; the second value says
    whether they did.
    """
    pending = {destination: source for destination, source in moves.items() if destination != source}
    if not pending:
        return [], False
    readers: dict[int, int] = {}
    for source in pending.values():
        readers[source] = readers.get(source, 0) + 1
    order: list[Move] = []
    used_emergency = False

    def unused() -> int | None:
        """A register that holds nothing needed, now or afterwards."""
        return next((register for register in free if not readers.get(register)), None)

    def scratch() -> int | None:
        """A register that holds nothing needed now: an unused one, or a destination whose turn is still to come."""
        register = unused()
        if register is not None:
            return register
        for register in pending:
            if not is_slot(register) and not readers.get(register):
                return register
        return None

    def move(destination: int, source: int) -> None:
        nonlocal used_emergency
        if is_slot(destination) and is_slot(source):
            register = scratch()
            if register is not None:
                order.append((register, source))
                order.append((destination, register))
            else:
                # Lend a register: any will do, since it gets its value back.
                used_emergency = True
                order.append((slot_place(emergency + 1), 0))
                order.append((0, source))
                order.append((destination, 0))
                order.append((0, slot_place(emergency + 1)))
        else:
            order.append((destination, source))

    ready = [destination for destination in pending if not readers.get(destination)]
    while pending:
        # Stores first: they free registers that memory-to-memory moves may want.
        while ready:
            ready.sort(key=lambda place: (not is_slot(place), is_slot(pending[place]), place), reverse=True)
            destination = ready.pop()
            source = pending.pop(destination)
            move(destination, source)
            readers[source] -= 1
            if not readers[source] and source in pending:
                ready.append(source)
        if pending:
            # Only cycles are left. Copy one place aside and let its reader take the copy.
            place = min(pending)
            reader = next(destination for destination, source in pending.items() if source == place)
            aside = unused()
            if aside is None or any(is_slot(d) and is_slot(s) for d, s in pending.items()):
                # Through memory: registers are scarce, or the other moves want the only one.
                used_emergency = True
                aside = slot_place(emergency)
                move(aside, place)
            else:
                order.append((aside, place))
            pending[reader] = aside
            readers[aside] = readers.get(aside, 0) + 1
            readers[place] -= 1
            if not readers[place]:
                ready.append(place)
    return order, used_emergency
