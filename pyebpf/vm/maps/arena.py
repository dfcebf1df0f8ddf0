"""Arenas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.vm.maps.base import VmMap
from pyebpf.vm.memory import ArenaRegion

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ArenaMap"]

_PAGE = 4096
_ARENA_BASE = 1 << 44


class ArenaMap(VmMap):
    """BPF_MAP_TYPE_ARENA: `max_entries` pages that user space shares; programs reach them by 32-bit addresses.

    `base` is where user space has them mapped: `MapSpec.extra`, or an address of the machine's choice.
    """

    def begin(self) -> None:
        self.base = self.spec.extra or _ARENA_BASE
        self.region = ArenaRegion(self.spec.name, self.max_entries, self.base)
        self.memory.arena = self.region

    def allocate(self, count: int) -> int:
        """User address of `count` pages in a row, 0 if there are not as many."""
        first = self.region.allocate(count)
        return 0 if first is None else self.base + first * _PAGE

    def free(self, address: int, count: int) -> None:
        """Give pages back; they read as zeros then."""
        self.region.free((address - self.base & 0xFFFF_FFFF) // _PAGE, count)

    def elements(self, cpu: int) -> Iterator[tuple[bytes, int]]:  # noqa: ARG002 - there are none
        return iter(())
