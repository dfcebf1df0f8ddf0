"""Arenas: memory that programs and a process read and write alike, at offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pyebpf.builder.values.entity import describe
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import to_int
from pyebpf.compiler.ir import Op
from pyebpf.errors import InvalidValue
from pyebpf.maps.declared import LoadedMap
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64, IntType, type_of
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_MMAPABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.types import Type

T = TypeVar("T")

_MAX_PAGES = 1 << 20  # of the smallest size; where pages are larger, the loader refuses sooner


def base_name(name: str) -> str:
    """The name of the hidden map that has the address of an arena in the process that loaded it."""
    return f".arena_{name}"


class Arena(LoadedMap):
    """`bpf.arena(pages=n)`: in a probe `arena.at(offset, T)` is a T there; here `memory` is the bytes."""

    def __init__(self, name: str, pages: int) -> None:
        if not 0 < pages < _MAX_PAGES:
            raise InvalidValue(f"bpf.arena(pages={pages!r}): give 1 to {_MAX_PAGES - 1}, which are less than 4 GiB")
        self.name = name
        self.pages = pages

    def __repr__(self) -> str:
        return f"<Arena {self.map_name} of {self.pages} pages>"

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

    def write(self, offset: int, value: object) -> None:
        """Copy a record to `offset`."""
        layout, memory = self._layout(type(value)), self.memory
        self._check(offset, layout.size, len(memory))
        memory[offset : offset + layout.size] = layout.encode(value)

    def _layout(self, type_: object) -> Type:
        found = type_of(type_)
        if found is None:
            raise InvalidValue(f"{type_!r} is not a type: give a Struct, an integer type or an array type")
        return found

    def _check(self, offset: int, size: int, room: int) -> None:
        if not 0 <= offset <= room - size:
            raise InvalidValue(f"{size} bytes at {offset} lie outside the arena {self.map_name} of {room}")

    if TYPE_CHECKING:

        def at(self, offset: int, type_: type[T]) -> T:
            """In a probe: the T at `offset`, which is read and written in place."""

    # -- in probes -----------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> MapSpec:
        """The spec of the map that the loader makes."""
        return MapSpec(self.map_name, MapType.ARENA, None, None, self.pages, BPF_F_MMAPABLE)

    @property
    def base(self) -> MapSpec:
        """An array whose one value is the arena's address in the process."""
        return MapSpec(base_name(self.map_name), MapType.ARRAY, U32, U64, 1)

    def describe(self) -> str:
        return f"the arena {self.map_name}"

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return method_of(p, self, name, {"at": self._at})

    def _at(self, p: ProgramBuilder, offset: object, type_: object) -> object:
        """The record or array of `type_` at `offset` bytes, which must be known to lie inside."""
        if not p.target.has("isa:addr_space_cast"):
            p.fail("this kernel has no arenas (since Linux 6.9)")
        found = type_of(type_)
        if found is None or isinstance(found, IntType):
            p.fail(
                f"at(offset, {describe(type_)}): give a Struct or an array type, of which parts are read and written"
            )
        p.arena = p.arena or self
        if p.arena is not self:
            p.fail(f"a program uses one arena: {p.arena.map_name} or {self.map_name}")
        size = self.pages * p.target.page_size
        number = to_int(p, offset).value
        low, high = p.b.bounds(number)
        if low < 0 or high + found.size > size:
            p.fail(
                f"this offset may lie outside {self.describe()}, 0 to {size - found.size} for a {found.name}: test it "
                "first, or mask it"
            )
        base = p.b.load(p.b.emit(Op.MAP_VALUE, symbol=p.use_map(self.base)), 0, 8)
        handle = self.handle(p)
        address = p.b.emit(Op.ARENA, handle, p.b.binary(Op.ADD, base, number))
        p.b.assume_non_null(address)
        return p.load_value(Lvalue(base=address, owner=self.describe(), shared=True), found)
