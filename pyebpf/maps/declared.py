"""`LoadedMap`: the common part of the maps that a module declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.values.map_pointers import MapPointer
from pyebpf.errors import InvalidValue
from pyebpf.maps.store import Stored
from pyebpf.types import type_of

if TYPE_CHECKING:
    from pyebpf.types import Type

__all__ = ["LoadedMap", "bpf_type"]


class LoadedMap(Stored, MapPointer):
    """A declared map: an entity inside probes, Python values outside, while it is bound to a store."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.map_name}>"

    def _not_loaded(self) -> str:
        return f"map {self.map_name} is not loaded: read and write it inside `with bpf:`"


def bpf_type(declared: Any, what: str) -> Type:
    """The type that an argument means, or InvalidValue."""
    found = type_of(declared)
    if found is None:
        raise InvalidValue(
            f"{what}={declared!r} is no BPF type: give an integer type, char[N], u8[N], a Struct class, or a tuple of "
            "such"
        )
    return found
