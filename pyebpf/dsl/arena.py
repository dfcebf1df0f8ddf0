"""`bpf.arena()`: memory that programs and this process share at will."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pyebpf.builder.arena import ArenaEntity
from pyebpf.dsl.maps import Bound
from pyebpf.errors import InvalidValue
from pyebpf.types import type_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.specs import MapSpec

__all__ = ["Arena"]

T = TypeVar("T")
_MOST_PAGES = 1 << 20  # of the smallest size; where pages are larger, the loader refuses sooner


class Arena(Bound, ArenaEntity):
    """`bpf.arena(pages=n)`: in a probe `arena.at(offset, T)` is a T there; here `memory` is the bytes."""

    def __init__(self, pages: int, name: str) -> None:
        if not 0 < pages < _MOST_PAGES:
            raise InvalidValue(f"bpf.arena(pages={pages!r}): give 1 to {_MOST_PAGES - 1}, which are less than 4 GiB")
        self.name = name
        ArenaEntity.__init__(self, self.current_name, pages)

    def __repr__(self) -> str:
        return f"<Arena {self.current_name()} of {self.pages} pages>"

    def specs(self) -> Sequence[MapSpec]:
        """The arena, and the map that tells programs where it is."""
        return self.spec, self.base

    @property
    def memory(self) -> memoryview:
        """The bytes themselves. Raises NotLoaded outside `with`."""
        found: memoryview = self.store.window().memory
        return found

    def read(self, offset: int, type_: type[T]) -> T:
        """A copy of the T at `offset`: a program may write to it meanwhile. Raises InvalidValue outside the arena."""
        layout, memory = self._layout(type_), self.memory
        self._check(offset, layout.size, len(memory))
        found: T = layout.decode(bytes(memory[offset : offset + layout.size]))
        return found

    def write(self, offset: int, value: Any) -> None:
        """Copy a record to `offset`."""
        layout, memory = self._layout(type(value)), self.memory
        self._check(offset, layout.size, len(memory))
        memory[offset : offset + layout.size] = layout.encode(value)

    def _layout(self, type_: Any) -> Any:
        found = type_of(type_)
        if found is None:
            raise InvalidValue(f"{type_!r} is no type: give a Struct, an integer type or an array type")
        return found

    def _check(self, offset: int, size: int, room: int) -> None:
        if not 0 <= offset <= room - size:
            raise InvalidValue(f"{size} bytes at {offset} lie outside the arena {self.current_name()} of {room}")

    if TYPE_CHECKING:

        def at(self, offset: int, type_: type[T]) -> T:  # type: ignore[override]  # as a probe writes it
            """In a probe: the T at `offset`, which is read and written in place."""
