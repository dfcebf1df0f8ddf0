"""`InFlight`: the time from one event to another that names the same thing, such as a request or a packet.

    from pyebpf.in_flight import InFlight, LatencyHistogram

    requests = InFlight(bpf)
    latency = LatencyHistogram(bpf, options)

    @bpf.raw_tracepoint("block_rq_issue")
    def on_issue(rq: KernelObject) -> None:
        requests.start(rq)

    @bpf.raw_tracepoint("block_rq_complete")
    def on_complete(rq: KernelObject) -> None:
        latency.add(requests.end(rq))

Methods are written in the language: a probe's author could have. For calls there is `@bpf.call`.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from pyebpf import now, u64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf import Module

__all__ = ["InFlight", "LatencyHistogram"]


#: Units by the options' fields, the first one first; nanoseconds in each.
_UNITS = {"milliseconds": "msecs", "nanoseconds": "nsecs"}
_NANOSECONDS = {"nsecs": 1, "usecs": 1_000, "msecs": 1_000_000}


class InFlight:
    """Things that have started and not ended, at most `size` of them, each with its time.

    A thing is a number or a kernel object, which stands for its address. One that starts again starts anew. What finds
    no room is not followed, and counted as dropped under `name` (in_flight, then in_flight_2 and so on); `oldest_first`
    lets go of the oldest instead, for things of which some never end.
    """

    def __init__(self, bpf: Module, *, size: int = 65_536, name: str = "", oldest_first: bool = False) -> None:
        declare = bpf.lru_hash if oldest_first else bpf.hash
        self.began = declare(key=u64, value=u64, size=size, name=name or _free_name(bpf))

    def start(self, thing: Any) -> None:
        """In a probe: the thing starts now."""
        self.began[thing] = now()

    def end(self, thing: Any) -> int | None:
        """In a probe: the thing ends. Return the nanoseconds since its start; None if that was not seen."""
        began = self.began.pop(thing, 0)
        return now() - began if began else None

    def cancel(self, thing: Any) -> None:
        """In a probe: forget the thing."""
        del self.began[thing]

    def __len__(self) -> int:
        """The number of things under way, counted in user space."""
        return len(self.began)


class LatencyHistogram:
    """A histogram of times of a log2 scale, for each key if there is one, in the unit that a tool's options ask for.

    Options are the fields `milliseconds` and `nanoseconds`; `unit` is that without them.
    """

    def __init__(
        self,
        bpf: Module,
        options: object,
        *,
        name: str = "latency",
        key: Any = None,
        label: str = "",
        unit: str = "usecs",
    ) -> None:
        unit = next((unit for field, unit in _UNITS.items() if getattr(options, field, False)), unit)
        self.factor = _NANOSECONDS[unit]
        if key is None:
            self.histogram: Any = bpf.log2_hist(unit=unit, name=name)
        else:
            self.histogram = bpf.log2_hist(key=key, label=label, unit=unit, name=name)

    def add(self, elapsed: int | None, key: Any = None) -> None:
        """In a probe: count a time, nanoseconds, of a key; None, of what was not seen to start, is not counted."""
        if elapsed is not None:
            if key is None:
                self.histogram.add(elapsed // self.factor)
            else:
                self.histogram[key].add(elapsed // self.factor)


def _free_name(bpf: Module) -> str:
    """The first name that no map of the module has."""
    taken = {each.name for each in bpf.maps}
    return next(name for name in _names() if name not in taken)


def _names() -> Iterator[str]:
    yield "in_flight"
    for number in count(2):
        yield f"in_flight_{number}"
