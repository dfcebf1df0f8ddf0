"""The ring buffer in a probe: records built in the reserved place, and a count of those that found none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.entity import describe
from pyebpf.builder.values.map_pointers import MapPointer
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import rvalue
from pyebpf.builder.values.records import RecordLiteral
from pyebpf.builder.values.references import Reference
from pyebpf.compiler.ir import Condition as Relation, Kind
from pyebpf.specs import MapSpec
from pyebpf.types import Struct, StructType
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.helper_ids import RINGBUF_RESERVE, RINGBUF_SUBMIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.types import Type

__all__ = ["NO_ROOM", "RingBufferEntity"]

NO_ROOM = "ring buffer full"


class RingBufferEntity(MapPointer):
    """A ring buffer of records of one type. `size` is bytes: a power of two from 4096 on."""

    def __init__(self, name_source: str | Callable[[], str], record: Type, size: int, flags: int = 0) -> None:
        self._name_source = name_source
        self.record = record
        self.size = size
        self.flags = flags

    @property
    def spec(self) -> MapSpec:
        """The spec of the map that the loader makes."""
        return MapSpec(self.map_name, MapType.RINGBUF, None, None, self.size, self.flags)

    def describe(self) -> str:
        return f"the ring buffer {self.map_name}"

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        return method_of(p, self, name, {"emit": self.emit})

    def emit(self, p: ProgramBuilder, value: Any) -> None:
        """Send a copy of a record; one that is still pending is built in the buffer itself.

        Every byte is written. Without room the record is counted as dropped.
        """
        value = rvalue(p, value)
        given = value.type if isinstance(value, RecordLiteral | Reference) else None
        if isinstance(value, Struct):
            given = value.layout
        if isinstance(self.record, StructType) and given != self.record:
            p.fail(f"{self.describe()} takes {self.record.name} records, not {describe(value)}")
        if isinstance(value, Reference):
            value.check(p)
        handle = self.handle(p)
        room = p.b.call(RINGBUF_RESERVE, handle, p.b.const(self.record.size), p.b.const(0), result=Kind.POINTER)
        with p.b.if_(Compare(Relation.NE, room, p.b.const(0), null_check=True)):
            p.store_value(room, 0, self.record, value)
            p.b.call(RINGBUF_SUBMIT, room, p.b.const(0))
        with p.b.else_():
            count_drop(p, NO_ROOM, self.map_name)
