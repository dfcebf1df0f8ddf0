"""Stacks and symbols as bpftrace prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class Frame(Protocol):
    """An address with its name, as symbols give it; its source where that was asked for."""

    @property
    def name(self) -> str:
        """The symbol, "" if there is none."""

    @property
    def offset(self) -> int:
        """Bytes from the start of the function."""

    @property
    def module(self) -> str:
        """The file that is mapped, the kernel or a module of it; "" if nothing is there."""

    @property
    def address(self) -> int:
        """The address."""

    @property
    def file(self) -> str:
        """Path of the source file, "" if it is not known."""

    @property
    def line(self) -> int:
        """Line there."""

    @property
    def inlined(self) -> bool:
        """Whether it stands for a call that was inlined."""


def symbol_text(frame: Frame, readable: Callable[[str], str]) -> str:
    """The name of the function that an address is in, or the address of what has no name."""
    if not frame.name:
        return f"{frame.address:#x}" if frame.address else "0"
    return readable(frame.name)


def stack_text(
    frames: Iterable[Frame], limit: int, mode: str, readable: Callable[[str], str], *, kernel: bool = False
) -> str:
    """A line for each of `limit` frames, and for the calls that were inlined into them."""
    lines = []
    for frame in _first(frames, limit):
        if mode == "raw":
            lines.append(f"{frame.address:x}")
        elif mode == "perf":
            module = "" if kernel or frame.inlined else f" ({frame.module or '[unknown]'})"
            lines.append(f"\t{frame.address:x} {_place(frame, readable, '', ' (inlined)')}{module}")
        else:
            source = f"@{frame.file}:{frame.line}" if frame.line else ""
            lines.append(f"        {_place(frame, readable, '[inlined] ', '')}{source}")
    return "".join(["\n", *(f"{line}\n" for line in lines)])


def places_text(places: Iterable[tuple[str, int]]) -> str:
    """A line for each frame: the build id of its file, of 20 bytes as the kernel has it, and the offset there."""
    lines = [f"{build_id[:40]:0<40} {offset:#04x}" if build_id else f"{offset:x}" for build_id, offset in places]
    return "".join(["\n", *(f"{line}\n" for line in lines)])


def _first(frames: Iterable[Frame], limit: int) -> Iterator[Frame]:
    for frame in frames:
        if limit <= 0:
            return
        yield frame
        limit -= not frame.inlined


def _place(frame: Frame, readable: Callable[[str], str], before: str, behind: str) -> str:
    if frame.inlined:
        return f"{before}{readable(frame.name)}{behind}"
    return f"{readable(frame.name)}+{frame.offset}" if frame.name else f"{frame.address:#x}"
