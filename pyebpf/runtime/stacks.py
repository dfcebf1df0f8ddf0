"""`Stacks`: call stacks by number, as addresses or as frames with names."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from pyebpf.builder.intrinsics.stacks import MISSED
from pyebpf.maps.stack_trace import StackTraceMap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from pyebpf.maps.store import MapStore
    from pyebpf.runtime.processes import ProcessWatch
    from pyebpf.symbols.frame import Frame
    from pyebpf.symbols.stacks import Symbols


class Stacks(StackTraceMap):
    """Stacks by the numbers of `kstack()` and `ustack()`: a mapping from numbers to addresses, and their names.

    A number below 0 is an empty stack. Names come from what is known when they are asked for; of processes that end
    before that, from what was found while they lived.
    """

    def __init__(self, maps: Mapping[str, MapStore], symbols: Symbols, watch: ProcessWatch | None = None) -> None:
        super().__init__(maps)
        self._symbols = symbols
        self._watch = watch

    def see(self, pid: int) -> bool:
        """Take note of what a process has mapped, for when it has ended; False if it has, or is a kernel thread.

        For processes that no `ustack()` comes from: it sees to that itself.
        """
        with self._alone():
            return self._symbols.processes.see(pid)

    def _alone(self) -> AbstractContextManager[object]:
        """Keep the thread away that takes note of processes, after it has done so of those known by now."""
        if self._watch is None:
            return nullcontext()
        self._watch.catch_up()
        return self._watch.lock

    def kernel(self, number: int, *, tracer: bool = False) -> tuple[Frame, ...]:
        """Frames of a `kstack()`, the innermost first: each has `name`, `offset`, `module`, `address`.

        Without those of the tracer itself, unless asked for with `tracer`: the program, and what calls it. Of a stack
        that was not kept, which is counted as dropped, one frame `[missed]`.
        """
        from pyebpf.symbols.stacks import without_tracer

        frames = _missed(number) or self._symbols.kernel_frames(self.frames(number))
        return frames if tracer else without_tracer(frames)

    def user(self, number: int, pid: int, *, source: bool = False) -> tuple[Frame, ...]:
        """Frames of a `ustack()` of process `pid`, the innermost first; of a dropped one as `kernel`.

        With `source`, frames have `file` and `line`, and a call that was `inlined` has a frame of its own, where a file
        or its debug file has DWARF, which is read for the source files that addresses come from.
        """
        addresses = self.frames(number)
        with self._alone():
            return _missed(number) or self._symbols.user_frames(pid, addresses, source=source)

    def user_places(self, number: int, pid: int) -> tuple[tuple[str, int], ...]:
        """For each frame of a `ustack()` the build id of its file, in hexadecimal, and its offset there.

        They say the same on every machine: names can be found elsewhere, or later. Code in no file that has a build id
        has "" and its address.
        """
        addresses = self.frames(number)
        with self._alone():
            find = self._symbols.processes.file_place
            return tuple(find(pid, address) or ("", address) for address in addresses)

    def user_function(self, address: int, pid: int) -> Frame:
        """The function of process `pid` at an address, such as a pointer to a function that an argument had."""
        with self._alone():
            return self._symbols.user_frames(pid, (address,))[0]

    def hurry(self, patience: Callable[[], float]) -> None:
        """Name frames by what is known already, once this gives 0 or less: no more files are read."""
        self._symbols.processes.hurry(patience)

    def prepare(self) -> None:
        """Read the kernel's symbols now: a tenth of a second that is not there when names are asked for in a hurry."""
        self._symbols.kernel.read()

    @property
    def given_up(self) -> Mapping[str, str]:
        """Files whose symbols are not read, since that would take too much time or memory, with the reasons."""
        return self._symbols.processes.given_up

    @property
    def hidden(self) -> str:
        """Reason why kernel functions have no names, in one line; empty if they have."""
        return self._symbols.kernel.hidden


def _missed(number: int) -> tuple[Frame, ...]:
    if number != MISSED:
        return ()
    from pyebpf.symbols.frame import Frame

    return (Frame("", 0, "missed", 0),)
