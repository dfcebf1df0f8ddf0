"""The one ring buffer of a script: what probes ask user space to do, in the order in which they did.

A record is the number of an action and the action's values. Actions are met while programs are built, again and again
with types that get better; each combination of a place in the script and types has a number of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.compiler.ir import Condition as Relation, ValueType as Register
from pyebpf.dataclass import dataclass, field, replace
from pyebpf.maps.ringbuf import NO_ROOM, ByteRing
from pyebpf.types import U64, TupleType
from pyebpf.uapi.helper_ids import RINGBUF_RESERVE, RINGBUF_SUBMIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.bpftrace.formats import Format
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.bpftrace.value_types import ValueType
    from pyebpf.builder.program import ProgramBuilder

#: The name of the map, bytes of records that wait, and how many of the largest these are at least.
EVENTS_MAP, SIZE, _WAITING = ".events", 1 << 20, 256


@dataclass(frozen=True, slots=True)
class Action:
    """Something that user space does: `kind` is the function's name, `types` are those of the record's values.

    `format` is printf's, `map` the name of the map that it is about, `text` a layout of a time; `numbers` are known
    when the script is compiled. `trace` are lines that follow a complaint.
    """

    kind: str
    types: tuple[ValueType, ...] = ()
    format: Format | None = None
    map: str = ""
    text: str = ""
    numbers: tuple[int, ...] = ()
    trace: str = ""
    layout: TupleType = field(compare=False, default=None)  # type: ignore[assignment]  # given by `Events`

    def values(self, record: bytes) -> tuple[object, ...]:
        """The values of a record."""
        found: tuple[object, ...] = self.layout.decode(record)
        return found[1:]


class Events(ByteRing):
    """The ring buffer, of `size` bytes at least, and the actions by number."""

    def __init__(self, size: int = 0) -> None:
        super().__init__(EVENTS_MAP, max(size, SIZE))
        self.actions: list[Action] = []
        self._numbers: dict[Action, int] = {}

    def send(self, p: ProgramBuilder, action: Action, values: Sequence[Value]) -> None:
        """Ask for an action, with values of its types."""
        number = self._numbers.get(action)
        if number is None:
            number = self._numbers[action] = len(self.actions)
            layout = TupleType([U64, *(each.storage for each in action.types)])
            self.actions.append(replace(action, layout=layout))
            self.size = max(self.size, 1 << (_WAITING * layout.size - 1).bit_length())
        layout = self.actions[number].layout
        operands = (number, *(each.operand(p) for each in values))
        b = p.b
        room = b.call(RINGBUF_RESERVE, self.handle(p), b.const(layout.size), b.const(0), result=Register.POINTER)
        with b.if_(Compare(Relation.NE, room, b.const(0), null_check=True)):
            p.store_value(room, 0, layout, operands)
            b.call(RINGBUF_SUBMIT, room, b.const(0))
        with b.else_():
            count_drop(p, NO_ROOM, EVENTS_MAP)

    def action(self, record: bytes) -> tuple[Action, tuple[object, ...]]:
        """The action that a record asks for, and its values."""
        action = self.actions[int.from_bytes(record[:8], "little")]
        return action, action.values(record)
