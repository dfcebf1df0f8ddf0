"""The one ring buffer of a script: what probes ask user space to do, in the order in which they did.

A record is the number of an action and the action's values. Long texts stand behind all others, as long as they are and
with their NULs, so that the buffer holds many records. Actions are met while programs are built, again and again with
types that get better; each combination of a place in the script and types has a number of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace.translate.values import Text
from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.lvalue import temporary
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType as Register
from pyebpf.dataclass import dataclass, field, replace
from pyebpf.maps.ringbuf import NO_ROOM, ByteRing
from pyebpf.types import U64, TupleType
from pyebpf.uapi.helper_ids import RINGBUF_OUTPUT, RINGBUF_RESERVE, RINGBUF_SUBMIT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyebpf.bpftrace.formats import Format
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.bpftrace.value_types import ValueType
    from pyebpf.builder.program import ProgramBuilder

#: The name of the map, bytes of records that wait, and how many of the largest these are at least.
EVENTS_MAP, SIZE, _WAITING = ".events", 1 << 20, 256
#: Bytes of a text that stands behind the values: a stack has no room for it, scratch memory is there in any case.
_LONG = 512


@dataclass(frozen=True, slots=True)
class Action:
    """Something that user space does: `kind` is the function's name, `types` are those of the record's values.

    `format` is printf's, `map` the name of the map that it is about, `text` a layout of a time; `numbers` are known
    when the script is compiled. `trace` are lines that follow a complaint. `behind` says of each value whether it is a
    text behind what the layout has.
    """

    kind: str
    types: tuple[ValueType, ...] = ()
    format: Format | None = None
    map: str = ""
    text: str = ""
    numbers: tuple[int, ...] = ()
    trace: str = ""
    behind: tuple[bool, ...] = ()
    layout: TupleType = field(compare=False, default=None)  # type: ignore[assignment]  # given by `Events`

    def values(self, record: bytes) -> tuple[object, ...]:
        """The values of a record."""
        size = self.layout.size
        before: Iterator[object] = iter(self.layout.decode(record[:size])[1:])
        texts = iter(record[size:].split(b"\0"))
        return tuple(
            next(texts).decode("utf-8", "surrogateescape") if behind else next(before) for behind in self.behind
        )


class Events(ByteRing):
    """The ring buffer, of `size` bytes at least, and the actions by number."""

    def __init__(self, size: int = 0) -> None:
        super().__init__(EVENTS_MAP, max(size, SIZE))
        self.actions: list[Action] = []
        self._numbers: dict[Action, int] = {}

    def send(self, p: ProgramBuilder, action: Action, values: Sequence[Value]) -> None:
        """Ask for an action, with values of its types."""
        action = replace(action, behind=tuple(map(_is_long, values)))
        number = self._numbers.get(action)
        pairs = list(zip(values, action.behind, strict=True))
        if number is None:
            number = self._numbers[action] = len(self.actions)
            layout = TupleType([U64, *(each.type.storage for each, behind in pairs if not behind)])
            self.actions.append(replace(action, layout=layout))
            longest = layout.size + sum(each.type.storage.size for each, behind in pairs if behind)
            self.size = max(self.size, 1 << (_WAITING * longest - 1).bit_length())
        layout = self.actions[number].layout
        operands = (number, *(each.operand(p) for each, behind in pairs if not behind))
        if any(action.behind):
            self._send_with_texts(p, layout, operands, [each for each, behind in pairs if behind])
            return
        b = p.b
        room = b.call(RINGBUF_RESERVE, self.handle(p), b.const(layout.size), b.const(0), result=Register.POINTER)
        with b.if_(Compare(Relation.NE, room, b.const(0), null_check=True)):
            p.store_value(room, 0, layout, operands)
            b.call(RINGBUF_SUBMIT, room, b.const(0))
        with b.else_():
            if action.kind != "exit":  # its status stands in a map, too, so that nothing is lost
                count_drop(p, NO_ROOM, EVENTS_MAP)

    def _send_with_texts(
        self, p: ProgramBuilder, layout: TupleType, operands: tuple[object, ...], texts: Sequence[Value]
    ) -> None:
        """Send a record with texts behind it. It is made in scratch memory, since its size is known at its end only."""
        b = p.b
        with temporary(p, layout.size + sum(each.type.storage.size for each in texts)) as slot:
            start, end = b.slot_address(slot), b.const(layout.size)
            p.store_value(start, 0, layout, operands)
            for each in texts:
                assert isinstance(each, Text)
                end = b.binary(Op.ADD, end, each.write_counted(p, b.emit(Op.OFFSET, start, end)))
            failed = b.call(RINGBUF_OUTPUT, self.handle(p), start, end, b.const(0))
        with b.if_(Compare(Relation.NE, failed, b.const(0))):
            count_drop(p, NO_ROOM, EVENTS_MAP)

    def action(self, record: bytes) -> tuple[Action, tuple[object, ...]]:
        """The action that a record asks for, and its values."""
        action = self.of(record)
        return action, action.values(record)

    def of(self, record: bytes) -> Action:
        """The action that a record asks for, of which the first eight bytes suffice."""
        return self.actions[int.from_bytes(record[:8], "little")]


def _is_long(value: Value) -> bool:
    """Whether it is a text that is often much shorter than it may be."""
    return isinstance(value, Text) and value.size >= _LONG and not isinstance(value.source, bytes)
