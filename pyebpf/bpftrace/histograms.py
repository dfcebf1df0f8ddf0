"""Histograms of `hist()` and `lhist()` as bpftrace draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_WIDTH = 52
_SUFFIXES = ("", "K", "M", "G", "T", "P", "E")


def log2_begin(index: int, bits: int) -> tuple[int, str]:
    """The least value of bucket `index` (bucket 0 is for negative ones), and its label.

    Each power of two is cut into 2**bits buckets.
    """
    if index <= 2 << bits:
        return index - 1, str(index - 1)
    number = index - 1
    power = (number >> bits) - 1
    part = (1 << bits) + (number & ((1 << bits) - 1))
    decade = power // 10
    return part << power, f"{part << (power - 10 * decade)}{_SUFFIXES[decade]}"


def log2_borders(index: int, bits: int) -> tuple[int | None, int]:
    """The least and the greatest value of bucket `index`."""
    return log2_begin(index, bits)[0] if index else None, log2_begin(index + 1, bits)[0] - 1


def linear_label(number: int, step: int) -> str:
    """A border of a bucket; in units of 1024 where all of them have such."""
    if step % 1024 or not number:
        return str(number)
    if number % (1 << 20) == 0:
        return f"{number >> 20}M"
    return f"{number >> 10}K" if number % 1024 == 0 else str(number)


def log2_lines(counts: Sequence[int], bits: int, divisor: int = 1) -> Iterator[str]:
    """The lines of a histogram of powers of two, from the first bucket that counted to the last."""

    def heading(index: int) -> str:
        if index == 0:
            return "(..., 0)"
        (begin, label), (end, last) = log2_begin(index, bits), log2_begin(index + 1, bits)
        # Two buckets with suffixes are never taken for one number.
        return f"[{label}]" if end == begin + 1 and index <= 2 << bits else f"[{label}, {last})"

    yield from _lines(counts, divisor, heading)


def linear_lines(counts: Sequence[int], least: int, step: int) -> Iterator[str]:
    """The lines of a histogram of equal steps; its first bucket is for what is below, its last for what is above."""

    def heading(index: int) -> str:
        if index == 0:
            return f"(..., {linear_label(least, step)})"
        begin = least + (index - 1) * step
        if index == len(counts) - 1:
            return f"[{linear_label(begin, step)}, ...)"
        if step == 1:
            return f"[{begin}]"
        return f"[{linear_label(begin, step)}, {linear_label(begin + step, step)})"

    yield from _lines(counts, 1, heading)


def divided(count: int, divisor: int) -> int:
    """The count of a bucket as print() shows it; a negative divisor is a large one, of 64 bits."""
    return count // divisor if divisor > 0 else 0


def _lines(counts: Sequence[int], divisor: int, heading: Callable[[int], str]) -> Iterator[str]:
    used = [index for index, count in enumerate(counts) if count]
    if not used:
        return
    shown = [divided(count, divisor) for count in counts]
    most = max(shown)
    for index in range(used[0], used[-1] + 1):
        bar = "@" * (shown[index] * _WIDTH // most if most else 0)
        yield f"{heading(index):<16}{shown[index]:>8} |{bar:<{_WIDTH}}|"
