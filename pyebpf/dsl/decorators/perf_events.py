"""`@bpf.sample`, `@bpf.software_event`, `@bpf.perf_event`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.dsl.decorators.base import Decorators
from pyebpf.errors import InvalidValue
from pyebpf.specs import PerfEvent

if TYPE_CHECKING:
    from pyebpf.dsl.decorators.base import TracingDecorator

__all__ = ["PerfEventDecorators"]

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
#: Events whose number is a time in nanoseconds.
CLOCKS = ("cpu_clock", "task_clock")


class PerfEventDecorators(Decorators):
    """Probes at perf events."""

    def sample(self, *, frequency: int = 99, pid: int = -1) -> TracingDecorator:
        """Run on every processor `frequency` times a second of its time at work (PERF_COUNT_SW_CPU_CLOCK).

        `pid` limits it to one process.
        """
        if frequency <= 0:
            raise InvalidValue(f"@bpf.sample(frequency={frequency}): give samples a second, such as 99")
        event = PerfEvent(SOFTWARE, SOFTWARE_EVENTS["cpu_clock"], frequency=frequency, pid=pid)
        return self._tracing("sample", (f"{frequency} Hz",), (event,))

    def software_event(self, name: str, *, period: int = 1, pid: int = -1) -> TracingDecorator:
        """Run on every `period`-th software event, such as "page_faults"; of a clock, every `period` nanoseconds."""
        if name not in SOFTWARE_EVENTS:
            from pyebpf.errors import closest

            raise InvalidValue(
                f"@bpf.software_event({name!r}): no such event{closest(name, SOFTWARE_EVENTS)}; there are "
                f"{', '.join(SOFTWARE_EVENTS)}"
            )
        if period <= 0:
            raise InvalidValue(
                f"@bpf.software_event(period={period}): give a number of "
                f"{'nanoseconds' if name in CLOCKS else 'events'}"
            )
        event = PerfEvent(SOFTWARE, SOFTWARE_EVENTS[name], period=period, pid=pid)
        return self._tracing("software_event", (name,), (event,))

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
        if (period > 0) == (frequency > 0):
            raise InvalidValue("@bpf.perf_event: give period=, in events, or frequency=, in Hz")
        event = PerfEvent(type, config, period=period, frequency=frequency, pid=pid)
        return self._tracing("perf_event", (f"{type}:{config}",), (event,))
