"""Arenas."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyebpf.vm.maps.base import VmMap
from pyebpf.vm.memory import ArenaRegion

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = 4096
_ARENA_BASE = 1 << 44


class Window(NamedTuple):
    """An arena's bytes, as the `window` of a loaded map has them."""

    memory: memoryview


class ArenaMap(VmMap):
    """BPF_MAP_TYPE_ARENA: `max_entries` pages that user space shares; programs reach them by 32-bit addresses.

    `base` is where user space has them mapped: `MapSpec.extra`, or an address of the machine's choice.
    """

    def begin(self) -> None:
        others = sum(arena.size for arena in self.memory.arenas)
        self.base = self.spec.extra or _ARENA_BASE + others  # no two have the same lower half
        self.region = ArenaRegion(self.spec.name, self.max_entries, self.base)
        self.memory.arenas.append(self.region)

    def window(self, *, writable: bool = True) -> Window:  # noqa: ARG002 - the interface's
        """The pages as user space maps them, which are there once it has touched them."""
        self.region.pages[:] = b"\1" * self.max_entries
        return Window(memoryview(self.region.data))

    def write(self, key: bytes, value: bytes, flags: int = 0) -> int:  # noqa: ARG002 - the interface's
        """Put in what the arena begins with."""
        self.window().memory[: len(value)] = value
        return 0

    def allocate(self, count: int) -> int:
        """User address of `count` pages in a row, 0 if there are not as many."""
        first = self.region.allocate(count)
        return 0 if first is None else self.base + first * PAGE

    def free(self, address: int, count: int) -> None:
        """Give pages back; they read as zeros then."""
        self.region.free((address - self.base & 0xFFFF_FFFF) // PAGE, count)

    def elements(self, cpu: int) -> Iterator[tuple[bytes, int]]:  # noqa: ARG002 - there are none
        return iter(())
