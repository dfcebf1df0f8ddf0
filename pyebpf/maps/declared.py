"""`LoadedMap`: the common part of the maps that a module declares."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyebpf.builder.values.lvalue import temporary
from pyebpf.builder.values.map_pointers import MapPointer
from pyebpf.builder.values.operations import rvalue
from pyebpf.builder.values.references import Reference
from pyebpf.errors import InvalidValue
from pyebpf.maps.store import Stored
from pyebpf.types import TupleType, type_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.types import Type


class LoadedMap(Stored, MapPointer):
    """A declared map: an entity inside probes, Python values outside, while it is bound to a store."""

    key: Type

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.map_name}>"

    def _not_loaded(self) -> str:
        return f"map {self.map_name} is not loaded: read and write it inside `with bpf:`"

    @contextmanager
    def _key(self, p: ProgramBuilder, key: object) -> Iterator[ir.Value]:
        """Address of the key: where it stands, if that is on the stack, else a copy."""
        key = rvalue(p, key)
        if isinstance(key, (tuple, list)) and not isinstance(self.key, TupleType):
            p.fail(f"the keys of {self.describe()} are {self.key.name}: write {self.key.name}(…)")
        if isinstance(key, Reference) and key.stands_ready(self.key):
            key.check(p)
            yield key.lvalue.exact(p)
            return
        with temporary(p, self.key.size) as slot:
            address = p.b.slot_address(slot)
            self._store_key(p, address, key)
            yield address

    def _store_key(self, p: ProgramBuilder, address: ir.Value, key: object) -> None:
        p.store_value(address, 0, self.key, key)


def bpf_type(declared: object, what: str) -> Type:
    """The type that an argument means, or InvalidValue."""
    found = type_of(declared)
    if found is None:
        raise InvalidValue(
            f"{what}={declared!r} is not a BPF type: give an integer type, char[N], u8[N], a Struct class, "
            "or a tuple of "
            "such"
        )
    return found
