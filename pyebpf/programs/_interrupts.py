"""Time or counts of interrupts by kind, as hardirqs and softirqs show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import InvalidValue, cpu
from pyebpf.tool import Column, dataclass, flag, option

if TYPE_CHECKING:
    from pyebpf import BPF, Struct

#: The map of totals, of histograms or of counts.
MAP = "totals"


@dataclass(frozen=True)
class InterruptOptions:
    """Options: what to count of interrupts, and how to show it."""

    nanoseconds: bool = flag("-N", "--nanoseconds", help="nanoseconds instead of microseconds")
    count: bool = flag("-C", "--count", help="how many there were instead of their time")
    distribution: bool = flag("-d", "--dist", help="histograms of the times")
    cpu: int | None = option(
        "-c", "--cpu", metavar="CPU", help="only this processor", minimum=0, maximum=8191, names="processor"
    )

    def __post_init__(self) -> None:
        """Refuse what excludes each other."""
        if self.count and (self.distribution or self.nanoseconds):
            raise InvalidValue("counts have no time: give -C, or -d and -N")


class Interrupts:
    """Totals, histograms or counts by a key, as the options ask for them."""

    def __init__(self, bpf: BPF, options: InterruptOptions, key: type[Struct]) -> None:
        self.options = options
        self.factor, unit = (1, "nsecs") if options.nanoseconds else (1000, "usecs")
        if options.distribution:
            self.histograms = bpf.log2_hist(key=key, unit=unit, name=MAP)
        else:
            self.totals = bpf.counter(key=key, name=MAP)

    def wanted(self) -> bool:
        """In a probe: whether the options ask for interrupts of this processor."""
        return self.options.cpu is None or cpu() == self.options.cpu

    def add(self, key: Any, elapsed: int) -> None:
        """In a probe: count one that took so many nanoseconds."""
        if self.options.distribution:
            self.histograms[key].add(elapsed // self.factor)
        elif self.options.count:
            self.totals[key].add()
        else:
            self.totals[key].add(elapsed)


def total_column(options: InterruptOptions) -> Column:
    """The column of the totals, by bcc's names."""
    if options.count:
        return Column("TOTAL_count", 11, ">", key="count", type="int")
    name, scale = ("TOTAL_nsecs", 1) if options.nanoseconds else ("TOTAL_usecs", 1000)
    return Column(name, 11, ">", key="count", scale=scale, decimals=0, field="total_ns", type="int")
