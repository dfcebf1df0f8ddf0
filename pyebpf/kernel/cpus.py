"""Processor lists under /sys/devices/system/cpu."""

from __future__ import annotations

from functools import cache

from pyebpf.errors import MalformedData

_DIRECTORY = "/sys/devices/system/cpu"
_MAX_ELEMENTS = 1 << 20


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Numbers of a list as the kernel prints it ("0-3,8"). Raises MalformedData."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        try:
            low, high = int(first), int(last) if dash else int(first)
        except ValueError:
            raise MalformedData(f"not a list of processors: {text.strip()!r}") from None
        if not 0 <= low <= high < _MAX_ELEMENTS:
            raise MalformedData(f"not a list of processors: {text.strip()!r}")
        numbers += range(low, high + 1)
    return tuple(numbers)


def _read(name: str) -> tuple[int, ...]:
    with open(f"{_DIRECTORY}/{name}", encoding="utf-8") as file:
        return parse_cpu_list(file.read())


def online_cpus() -> tuple[int, ...]:
    """Processors that run now; perf events can be opened on these only."""
    return _read("online")


@cache
def possible_cpus() -> int:
    """Number of slots of a per-CPU value: one for each processor that may ever come. Fixed at boot."""
    return _read("possible")[-1] + 1
