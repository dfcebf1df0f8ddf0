"""Perf buffers: copies of records to the buffer of the processor that the program runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.lvalue import temporary
from pyebpf.builder.values.methods import method_of
from pyebpf.compiler.ir import Condition as Relation
from pyebpf.errors import InvalidValue
from pyebpf.maps.buffer import Buffer, emitted, record_type
from pyebpf.specs import MapSpec
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_CURRENT_CPU
from pyebpf.uapi.helper_ids import PERF_EVENT_OUTPUT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.types import Struct

T = TypeVar("T")


NO_ROOM = "perf buffer full"


class PerfBuffer(Buffer[T]):
    """`bpf.perf_buffer(T)`: records that probes emit, one buffer a processor, in order for each."""

    def __init__(self, name: str, record: object, pages: int, *, overwrite: bool) -> None:
        self.name = name
        #: The type that records are decoded to.
        self.record_class: type[Struct] = record_type(record, "perf_buffer")
        if pages < 1 or pages & (pages - 1):
            raise InvalidValue(f"bpf.perf_buffer(pages={pages!r}): give a power of two")
        self.reader_options = {"pages": pages, "overwrite": overwrite}
        self.record = self.record_class.layout

    def __repr__(self) -> str:
        return f"<PerfBuffer {self.map_name} of {self.record_class.__name__}>"

    @property
    def lost_per_cpu(self) -> Mapping[int, int]:
        """Records that found no room (or were overwritten), by processor, as far as the buffers were read."""
        found: Mapping[int, int] = self.reader.lost_per_cpu
        return found

    if TYPE_CHECKING:

        def emit(self, record: T) -> None:
            """In a probe: send a record to user space. When the buffer is full the record is lost, and counted."""

    # -- in probes -----------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> MapSpec:
        """The spec of the map that the loader makes."""
        return MapSpec(self.map_name, MapType.PERF_EVENT_ARRAY, None, None, 0)

    def describe(self) -> str:
        return f"the perf buffer {self.map_name}"

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return method_of(p, self, name, {"emit": self._emit})

    def _emit(self, p: ProgramBuilder, value: object) -> None:
        """Send a copy of a record. Every byte is written. Without room the record is counted as dropped."""
        value = emitted(p, self, self.record, value)
        with temporary(p, self.record.size) as slot:
            address = p.b.slot_address(slot)
            p.store_value(address, 0, self.record, value)
            handle = self.handle(p)
            size = p.b.const(self.record.size)
            status = p.b.call(PERF_EVENT_OUTPUT, p.context, handle, p.b.const(BPF_F_CURRENT_CPU), address, size)
        with p.b.if_(Compare(Relation.NE, status, p.b.const(0))):
            count_drop(p, NO_ROOM, self.map_name)
