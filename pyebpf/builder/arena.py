"""An arena in a probe: memory that programs and a process read and write alike, at offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.values.entity import Entity, describe
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import to_int
from pyebpf.compiler.ir import Op
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64, IntType, type_of
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_MMAPABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.builder.program import ProgramBuilder

__all__ = ["ArenaEntity", "base_name"]

_MOST_NAME = 15


def base_name(name: str) -> str:
    """The name of the hidden map that has the address of an arena in the process that loaded it."""
    return f".{name}"[:_MOST_NAME]


class ArenaEntity(Entity):
    """`pages` pages of memory. A program has at most one arena."""

    def __init__(self, name_source: str | Callable[[], str], pages: int) -> None:
        self._name_source = name_source
        self.pages = pages

    @property
    def map_name(self) -> str:
        """The map's name in the kernel."""
        return self._name_source if isinstance(self._name_source, str) else self._name_source()

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

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        return method_of(p, self, name, {"at": self.at})

    def at(self, p: ProgramBuilder, offset: Any, type_: Any) -> Any:
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
        handle = p.b.emit(Op.MAP, symbol=p.use_map(self.spec))
        address = p.b.emit(Op.ARENA, handle, p.b.binary(Op.ADD, base, number))
        p.b.assume_non_null(address)
        return p.load_value(Lvalue(base=address, owner=self.describe(), shared=True), found)
