"""The perf buffer in a probe: copies of records to the buffer of the processor that the program runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.entity import describe
from pyebpf.builder.values.lvalue import temporary
from pyebpf.builder.values.map_pointers import MapPointer
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import rvalue
from pyebpf.builder.values.records import RecordLiteral
from pyebpf.builder.values.references import Reference
from pyebpf.compiler.ir import Condition as Relation
from pyebpf.specs import MapSpec
from pyebpf.types import Struct, StructType
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.helper_ids import PERF_EVENT_OUTPUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.types import Type

__all__ = ["NO_ROOM", "PerfBufferEntity"]

#: Helper number of enum bpf_func_id (since Linux 4.4), and its flag BPF_F_CURRENT_CPU.
_CURRENT_CPU = 0xFFFF_FFFF

NO_ROOM = "perf buffer full"


class PerfBufferEntity(MapPointer):
    """Perf buffers, one a processor, of records of one type."""

    def __init__(self, name_source: str | Callable[[], str], record: Type) -> None:
        self._name_source = name_source
        self.record = record

    @property
    def spec(self) -> MapSpec:
        """The spec of the map that the loader makes."""
        return MapSpec(self.map_name, MapType.PERF_EVENT_ARRAY, None, None, 0)

    def describe(self) -> str:
        return f"the perf buffer {self.map_name}"

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        return method_of(p, self, name, {"emit": self.emit})

    def emit(self, p: ProgramBuilder, value: Any) -> None:
        """Send a copy of a record. Every byte is written. Without room the record is counted as dropped."""
        value = rvalue(p, value)
        given = value.type if isinstance(value, RecordLiteral | Reference) else None
        if isinstance(value, Struct):
            given = value.layout
        if isinstance(self.record, StructType) and given != self.record:
            p.fail(f"{self.describe()} takes {self.record.name} records, not {describe(value)}")
        if isinstance(value, Reference):
            value.check(p)
        with temporary(p, self.record.size) as slot:
            address = p.b.slot_address(slot)
            p.store_value(address, 0, self.record, value)
            handle = self.handle(p)
            size = p.b.const(self.record.size)
            status = p.b.call(PERF_EVENT_OUTPUT, p.context, handle, p.b.const(_CURRENT_CPU), address, size)
        with p.b.if_(Compare(Relation.NE, status, p.b.const(0))):
            count_drop(p, NO_ROOM, self.map_name)
