"""Perf events: counters, samples and breakpoints; programs see registers, period and address."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pyebpf.attach.decorators import Decorators
from pyebpf.builder.context import ProgramContext
from pyebpf.builder.values.integers import Int
from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue, closest
from pyebpf.specs.attach_point import AttachSpec
from pyebpf.types import U64
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.attach.decorators import TracingDecorator
    from pyebpf.builder.program import ProgramBuilder


@dataclass(frozen=True, slots=True)
class PerfEvent(AttachSpec):
    """A perf event.

    `type` and `config` of struct perf_event_attr; `frequency` in Hz or else `period` in events; one on each online
    processor, on the first of them alone (`first_cpu`), or of one process `pid`.
    """

    type: int
    config: int
    period: int = 0
    frequency: int = 0
    pid: int = -1
    first_cpu: bool = False

    program_type = ProgramType.PERF_EVENT

    def __str__(self) -> str:
        rate = f"at {self.frequency} Hz" if self.frequency else f"every {self.period}"
        return f"perf event {self._event()} {rate}"

    def _event(self) -> str:
        """As perf(1) calls it, where the kernel's enums have a name."""
        from pyebpf.uapi.perf import Hardware, PerfType, Software

        for type_, events in ((PerfType.HARDWARE, Hardware), (PerfType.SOFTWARE, Software)):
            if self.type == type_ and any(self.config == each for each in events):
                return events(self.config).name.lower().replace("_", "-")
        return f"{self.type}:{self.config}"

    def program_context(self) -> PerfEventProgramContext:
        return PerfEventProgramContext(self)


@dataclass(frozen=True, slots=True)
class Breakpoint(AttachSpec):
    """Each time that the processor touches a place in memory, by its debug registers.

    `place` is an address, or a symbol: the kernel's, or with `pid` a process's ("name" or "FILE:name"). `access` is
    "w" (writes), "rw" (reads and writes) or "x" (the instruction there is run); `length` in bytes: 1, 2, 4 or 8.
    """

    place: int | str
    length: int = 8
    access: str = "w"
    pid: int = -1

    program_type = ProgramType.PERF_EVENT

    def __str__(self) -> str:
        where = f"{self.place:#x}" if isinstance(self.place, int) else self.place
        return f"breakpoint {where}/{self.length}:{self.access}"

    def program_context(self) -> PerfEventProgramContext:
        return PerfEventProgramContext(self)


#: struct bpf_perf_event_data after its registers, whose size depends on the machine: name and offset.
PERF_EVENT_FIELDS = {"sample_period": 0, "addr": 8}
#: Size of the user-visible registers, and where the instruction pointer stands in them.
REGISTERS = {"x86_64": (168, 128), "aarch64": (272, 256)}


Event: TypeAlias = PerfEvent | Breakpoint


class PerfEventProgramContext(ProgramContext[Event]):
    """Parameters are `ip`, `sample_period` and `addr`."""

    def field(self, p: ProgramBuilder, name: str) -> object:
        registers, instruction_pointer = REGISTERS[p.target.arch]
        offsets = {"ip": instruction_pointer, **{key: registers + offset for key, offset in PERF_EVENT_FIELDS.items()}}
        if name not in offsets:
            p.fail(f"a perf event's context has no field {name}{closest(name, offsets)}: it has {', '.join(offsets)}")
        return Int(p.b.load(p.context, offsets[name], 8), U64)


#: PERF_TYPE_SOFTWARE and its events, enum perf_sw_ids.
SOFTWARE = 1
SOFTWARE_EVENTS = {
    "cpu_clock": 0,
    "task_clock": 1,
    "page_faults": 2,
    "context_switches": 3,
    "cpu_migrations": 4,
    "page_faults_min": 5,
    "page_faults_maj": 6,
    "alignment_faults": 7,
    "emulation_faults": 8,
}
#: PERF_TYPE_HARDWARE and its events, enum perf_hw_id.
HARDWARE = 0
HARDWARE_EVENTS = {
    "cpu_cycles": 0,
    "instructions": 1,
    "cache_references": 2,
    "cache_misses": 3,
    "branch_instructions": 4,
    "branch_misses": 5,
    "bus_cycles": 6,
    "stalled_cycles_frontend": 7,
    "stalled_cycles_backend": 8,
    "ref_cpu_cycles": 9,
}
ACCESSES = ("w", "rw", "x")
LENGTHS = (1, 2, 4, 8)
#: The greatest period and frequency: the kernel's numbers have a sign.
_MOST = (1 << 63) - 1
#: Events whose number is a time in nanoseconds.
CLOCKS = ("cpu_clock", "task_clock")


class PerfEventDecorators(Decorators):
    """Probes at perf events."""

    def sample(self, frequency: int = 99, *, pid: int = -1) -> TracingDecorator:
        """Run on every processor `frequency` times a second of its time at work (PERF_COUNT_SW_CPU_CLOCK).

        `pid` limits it to one process.
        """
        _check_number("sample", "frequency", frequency)
        if frequency <= 0:
            raise InvalidValue(f"@bpf.sample(frequency={frequency}): give samples a second, such as 99")
        event = PerfEvent(SOFTWARE, SOFTWARE_EVENTS["cpu_clock"], frequency=frequency, pid=pid)
        return self._tracing("sample", (f"{frequency} Hz",), (event,))

    def software_event(self, name: str, *, period: int = 1, pid: int = -1) -> TracingDecorator:
        """Run on every `period`-th software event, such as "page_faults"; of a clock, every `period` nanoseconds."""
        _check_name("software_event", name, SOFTWARE_EVENTS)
        _check_number("software_event", "period", period)
        if period <= 0:
            raise InvalidValue(
                f"@bpf.software_event(period={period}): give a number of "
                f"{'nanoseconds' if name in CLOCKS else 'events'}"
            )
        event = PerfEvent(SOFTWARE, SOFTWARE_EVENTS[name], period=period, pid=pid)
        return self._tracing("software_event", (name,), (event,))

    def hardware_event(self, name: str, *, period: int = 0, frequency: int = 0, pid: int = -1) -> TracingDecorator:
        """Run on every `period`-th event of the processor's own counters, such as "cache_misses".

        Or `frequency` times a second. Virtual machines mostly have no such counters: then it is NotSupported.
        """
        _check_name("hardware_event", name, HARDWARE_EVENTS)
        _check_rate("hardware_event", period, frequency)
        event = PerfEvent(HARDWARE, HARDWARE_EVENTS[name], period=period, frequency=frequency, pid=pid)
        return self._tracing("hardware_event", (name,), (event,))

    def perf_event(
        self,
        *,
        type: int,  # noqa: A002 - the kernel's word
        config: int,
        period: int = 0,
        frequency: int = 0,
        pid: int = -1,
    ) -> TracingDecorator:
        """Run on a perf event by struct perf_event_attr's `type` and `config`.

        Every `period` events, or `frequency` times a second.
        """
        _check_rate("perf_event", period, frequency)
        event = PerfEvent(type, config, period=period, frequency=frequency, pid=pid)
        return self._tracing("perf_event", (f"{type}:{config}",), (event,))

    def breakpoint(self, place: int | str, length: int = 8, access: str = "w", *, pid: int = -1) -> TracingDecorator:
        """Run each time that `length` bytes of memory are written ("w"), read or written ("rw"), or run ("x").

        `place` is an address, or a symbol of the kernel; with `pid` a symbol of that process: "name", or "FILE:name"
        for one of its libraries'. A processor has four such places at most, and memory is aligned to its length.
        """
        if access not in ACCESSES:
            raise InvalidValue(f"@bpf.breakpoint(access={access!r}): it is one of {', '.join(map(repr, ACCESSES))}")
        if access != "x" and length not in LENGTHS:
            raise InvalidValue(f"@bpf.breakpoint(length={length}): it is 1, 2, 4 or 8 bytes")
        if isinstance(place, int) and access != "x" and place % length:
            raise InvalidValue(f"@bpf.breakpoint({place:#x}): not aligned to its length of {length} bytes")
        spec = Breakpoint(place, 8 if access == "x" else length, access, pid)
        return self._tracing("breakpoint", (str(spec),), (spec,))


def _check_name(decorator: str, name: str, names: Mapping[str, int]) -> None:
    if name not in names:
        raise InvalidValue(
            f"@bpf.{decorator}({name!r}): no such event{closest(name, names)}; there are {', '.join(names)}"
        )


def _check_number(decorator: str, name: str, number: int) -> None:
    if number > _MOST:
        raise InvalidValue(f"@bpf.{decorator}({name}={number}): it is {_MOST} at most")


def _check_rate(decorator: str, period: int, frequency: int) -> None:
    _check_number(decorator, "period", period)
    _check_number(decorator, "frequency", frequency)
    if (period > 0) == (frequency > 0):
        raise InvalidValue(f"@bpf.{decorator}: give period=, in events, or frequency=, in Hz")
