"""The stacks that `kstack()` and `ustack()` have kept, by their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from struct import unpack_from
from typing import TYPE_CHECKING

from pyebpf.builder.intrinsics.stacks import ATTEMPTS, CLASSES
from pyebpf.errors import InvalidValue
from pyebpf.maps.store import each_entry
from pyebpf.types import U32

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.maps.store import MapStore

_WORD = 8


class StackTraceMap(Mapping[int, list[int]]):
    """Frames by the numbers that `kstack()` and `ustack()` gave: return addresses, the innermost first.

    `maps` are the loaded maps by name; those of stacks are the hidden ones, `.stacks` and `.deep_stacks`. A negative
    number has no frames.
    """

    def __init__(self, maps: Mapping[str, MapStore]) -> None:
        self._maps = {each.bit: maps[each.map] for each in CLASSES if each.map in maps}
        #: Those that the last release took out: a probe may just have come by one of them, and count it a moment later.
        self._released: dict[int, bytes] = {}

    def __getitem__(self, number: int) -> list[int]:
        if number < 0:
            return []
        if number > U32.maximum:
            raise InvalidValue(f"{number} is not the id of a stack")
        store = self._maps.get(number & CLASSES[-1].bit)
        value = store.lookup_elem(U32.encode(number)) if store is not None else None
        if value is None:
            value = self._released[number]
        (header,) = unpack_from("=Q", value)
        return list(unpack_from(f"={min(header & 0xFFFF_FFFF, len(value) // _WORD - 1)}Q", value, _WORD))

    def frames(self, number: int) -> list[int]:
        """Addresses of a stack, the innermost first; none for a negative number, and for one not known (any more)."""
        try:
            return self[number]
        except KeyError:
            return []

    def __iter__(self) -> Iterator[int]:
        for store in self._maps.values():
            for key, _ in each_entry(store.lookup_batches()):
                yield int.from_bytes(key, "little")

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def release(self) -> int:
        """Free the kernel's memory of the stacks that it has kept so far; how many they were.

        For whoever has printed what an interval counted. They are known until the next call, and a stack that comes
        again gets its number again; those that share a hash with another stay, so that no number changes its meaning.
        """
        self._released = {}
        for store in self._maps.values():
            entries = each_entry(store.lookup_batches())
            found = {int.from_bytes(key, "little"): value for key, value in entries}
            staying: set[int] = set()
            for number, value in found.items():
                home = unpack_from("=Q", value)[0] >> 32
                if home != number:
                    staying.update(each for each in range(home, home + ATTEMPTS) if each in found)
            self._released |= {number: value for number, value in found.items() if number not in staying}
            store.delete_batch([U32.encode(number) for number in found if number not in staying])
        return len(self._released)
