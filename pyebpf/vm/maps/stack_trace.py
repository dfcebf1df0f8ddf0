"""Stack traces."""

from __future__ import annotations

from pyebpf.uapi.errno_table import EEXIST, EINVAL, ENOENT
from pyebpf.uapi.flags import BPF_ANY
from pyebpf.vm.maps.base import VmMap


class StackTraceMap(VmMap):
    """BPF_MAP_TYPE_STACK_TRACE: frames by number, in as many 8-byte words as a value has, zeros behind them.

    The kernel's number is a hash of the frames; here it is the first free place, the same one for equal frames.
    """

    def begin(self) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}

    def number(self, frames: tuple[int, ...]) -> int:
        """Keep frames, the innermost first, and return their number; -EEXIST if every place is taken."""
        frames = frames[: self.value_size // 8]
        found = self._numbers.get(frames)
        if found is not None:
            return found
        free = next((n for n in range(len(self._numbers) + 1) if n not in self._numbers.values()), 0)
        if free >= self.max_entries:
            return -EEXIST
        self._numbers[frames] = free
        return free

    def entries(self) -> dict[bytes, bytes]:
        return {
            number.to_bytes(4, "little"): b"".join(frame.to_bytes(8, "little") for frame in frames).ljust(
                self.value_size, b"\0"
            )
            for frames, number in self._numbers.items()
        }

    def lookup_elem(self, key: bytes) -> bytes | None:
        return self.entries().get(key)

    def delete(self, key: bytes) -> int:
        number = int.from_bytes(key, "little")
        for frames, kept in self._numbers.items():
            if kept == number:
                del self._numbers[frames]
                return 0
        return -ENOENT

    def write(self, key: bytes, value: bytes, flags: int = BPF_ANY) -> int:  # noqa: ARG002 - the kernel's alone
        return -EINVAL
