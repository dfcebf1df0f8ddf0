"""Axes of charts: round numbers at their ticks, and units in which these are short."""

from __future__ import annotations

import math

from pyebpf.dataclass import dataclass

#: Units of time in seconds, and the span from which on each is used.
TIME_UNITS = (("h", 3600.0, 21_600.0), ("min", 60.0, 900.0), ("s", 1.0, 1.0), ("ms", 1e-3, 1e-3), ("us", 1e-6, 0.0))
SIZE_UNITS = (("MiB", 1 << 20), ("KiB", 1 << 10), ("bytes", 1))
#: Names of units of time that histograms have, in nanoseconds.
NANOSECONDS = {"nsecs": 1, "usecs": 1_000, "msecs": 1_000_000, "secs": 1_000_000_000}
#: Ticks of logarithmic scales, the most first: of each power that is a multiple, its products with these.
_DECADES = (((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 3))
_BYTES = tuple(((1,), every) for every in (1, 2, 5, 10))
_DURATIONS = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))


@dataclass(frozen=True)
class Axis:
    """A linear scale from `low` on, which has a tick every `step`; its labels count in units of `scale`."""

    unit: str
    scale: float
    low: float
    span: float
    step: float

    def ticks(self) -> list[tuple[float, str]]:
        """The values of the ticks, and their labels."""
        decimals = max(0, -math.floor(math.log10(self.step / self.scale) + 1e-9))
        numbers = range(math.floor(self.span / self.step + 1e-9) + 1)
        return [(self.low + n * self.step, f"{n * self.step / self.scale:,.{decimals}f}") for n in numbers]


def round_step(span: float, ticks: int) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that gives no more ticks than that."""
    rough = span / (ticks - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))


def time_axis(first: float, last: float, ticks: int) -> Axis:
    """Seconds, in the unit that suits their span."""
    span = max(last - first, 1e-6)
    unit, scale = next((name, scale) for name, scale, least in TIME_UNITS if span >= least)
    return Axis(unit, scale, first, span, round_step(span / scale, ticks) * scale)


def value_axis(most: float, unit: str, ticks: int) -> Axis:
    """From 0 to a tick at or above the highest value; of whole numbers, in steps of whole numbers.

    The unit `bytes` may become KiB or MiB.
    """
    most, scale = most or 1, 1.0
    if unit == "bytes":
        unit, scale = next((each for each in SIZE_UNITS if most >= 2 * each[1]), SIZE_UNITS[-1])
    step = round_step(most / scale, ticks) * scale
    if scale == 1:
        step = max(step, 1.0)
    return Axis(unit, scale, 0.0, math.ceil(most / step - 1e-9) * step, step)


def duration(nanoseconds: float) -> str:
    """A time in the largest unit of which it has one, with three digits or more: `1.25 ms`."""
    unit, scale = next((each for each in _DURATIONS if nanoseconds >= each[1]), _DURATIONS[-1])
    number = nanoseconds / scale
    digits = 0 if number >= 100 or number == int(number) else 1 if number >= 10 else 2
    shown = f"{number:,.{digits}f}"
    return f"{shown.rstrip('0').rstrip('.') if '.' in shown else shown} {unit}"


def size(number: float) -> str:
    """A number of bytes in the largest unit of which it has one."""
    for name, scale in (("GiB", 1 << 30), *SIZE_UNITS[:2]):
        if number >= scale:
            return f"{number / scale:,.4g} {name}"
    return f"{number:,.0f}"


def log_ticks(low: float, high: float, unit: str, most: int) -> list[tuple[float, str]]:
    """Ticks of a logarithmic scale, from `low` above 0 to `high`, at most so many, of bytes at powers of two.

    Those of a histogram's unit of time have the unit that suits each.
    """
    if high < low:
        return []
    in_bytes, scale = unit == "bytes", NANOSECONDS.get(unit)
    base = 2.0 if in_bytes else 10.0
    first, last = math.floor(math.log(low, base)), math.ceil(math.log(high, base))
    values: list[float] = []
    for factors, every in _BYTES if in_bytes else _DECADES:
        values = [f * base**n for n in range(first, last + 1) if n % every == 0 for f in factors]
        values = [value for value in values if low <= value <= high]
        if len(values) <= most:
            break
    if scale is not None:
        return [(value, duration(value * scale)) for value in values]
    return [(value, size(value) if in_bytes else f"{value:,.0f}") for value in values]
