"""Memory of names that different paths assign strings to: each assignment copies its string there.

A name that is given one string stands for that string, where it is. Where a second one may take its place, in a loop or
on one of two paths, the name turns out to need memory (`BindingTimes.mark_string`), and the program is translated anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.values.lvalue import Lvalue, zero
from pyebpf.builder.values.references import note_change
from pyebpf.builder.values.strings import String, StringSource
from pyebpf.types import CharArray

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.function import FunctionBuilder
    from pyebpf.builder.values.entity import RunTimeValue
    from pyebpf.compiler import ir
    from pyebpf.dsl.translate.frame import Frame


def string_room(p: ProgramBuilder, value: object, room: int = 0) -> int:
    """Bytes that a string takes with its NUL: `room` if it has no size; 0 for what is not a string, or may be None."""
    match value:
        case str():
            return len(value.encode("utf-8", "surrogateescape")) + 1
        case String():
            return 0 if value.lvalue.may_be_null(p) else value.type.length
        case StringSource():
            return value.size or room
    return 0


def check_ascii(f: Frame, value: object) -> None:
    """Refuse to count the characters of a known text where its bytes would be other ones."""
    if isinstance(value, str) and not value.isascii():
        f.fail(
            f"{value!r} is not ASCII, and the strings of a probe are bytes, not characters: write .encode() behind it "
            "for its bytes, or compute this above the probe"
        )


class StringBuffers:
    """The memory of one name: a slot for each function whose frame may have it, all of one size."""

    def __init__(self, length: int) -> None:
        self.type = CharArray(length)
        self._slots: dict[FunctionBuilder, ir.Slot] = {}

    def is_here(self, value: object) -> bool:
        """Whether a value stands in the name's memory."""
        return isinstance(value, String) and value.lvalue.slot in self._slots.values()

    def here(self, p: ProgramBuilder, assigned: Iterable[RunTimeValue]) -> String:
        """The string there. `assigned` is what the name stands for already, which decides whose memory it is."""
        there = next((each for each in assigned if self.is_here(each)), None)
        if isinstance(there, String):
            return there
        if p.b not in self._slots:
            self._slots[p.b] = p.b.slot(self.type.length, name="text")
        return String(self.type, Lvalue(slot=self._slots[p.b], owner="a local"))

    def nothing(self, p: ProgramBuilder, assigned: Iterable[RunTimeValue]) -> String:
        """The string there, of a name that is None on this path.

        Its bytes are written, since verifiers before Linux 6.3 (6715df8d5d24) refuse to read what never was, and a
        body of a loop over a map is given all of it.
        """
        assigned = list(assigned)
        there = self.here(p, assigned)
        slot = there.lvalue.slot
        assert slot is not None
        if not any(map(self.is_here, assigned)):
            zero(p, p.b.slot_address(slot), 0, slot.size)
        return there

    def keep(self, p: ProgramBuilder, assigned: Iterable[RunTimeValue], value: object) -> String:
        """Copy a string there."""
        there = self.here(p, assigned)
        slot = there.lvalue.slot
        assert slot is not None
        p.store_value(p.b.slot_address(slot), 0, self.type, value)
        note_change(p, self.type)
        return there
