"""Perf events and breakpoints: the registers, the period and the address of a sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pyebpf.builder.contexts.base import ProgramContext
from pyebpf.builder.values.integers import Int
from pyebpf.errors import closest
from pyebpf.specs.attach.perf_events import Breakpoint, PerfEvent
from pyebpf.types import U64

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder

__all__ = ["PERF_EVENT_FIELDS", "REGISTERS", "PerfEventProgramContext"]

#: struct bpf_perf_event_data after its registers, whose size depends on the machine: name and offset.
PERF_EVENT_FIELDS = {"sample_period": 0, "addr": 8}
#: Size of the user-visible registers, and where the instruction pointer stands in them.
REGISTERS = {"x86_64": (168, 128), "aarch64": (272, 256)}


Event: TypeAlias = PerfEvent | Breakpoint


class PerfEventProgramContext(ProgramContext[Event]):
    """Parameters are `ip`, `sample_period` and `addr`."""

    def field(self, p: ProgramBuilder, name: str) -> Any:
        registers, instruction_pointer = REGISTERS[p.target.arch]
        offsets = {"ip": instruction_pointer, **{key: registers + offset for key, offset in PERF_EVENT_FIELDS.items()}}
        if name not in offsets:
            p.fail(f"a perf event's context has no field {name}{closest(name, offsets)}: it has {', '.join(offsets)}")
        return Int(p.b.load(p.context, offsets[name], 8), U64)
