"""Maps from specs, from pins, from ids: each as the class that fits its kind."""

from __future__ import annotations

import errno
from functools import cache
from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue, NotFound, NotPermitted
from pyebpf.kernel import bpf
from pyebpf.kernel.diagnosis import diagnose
from pyebpf.maps import python_side
from pyebpf.maps.mapping import StoredMapping
from pyebpf.maps.store import Stored
from pyebpf.objects.map import KernelMap
from pyebpf.specs import MapSpec
from pyebpf.specs.map_traits import MAP_TRAITS, Entries, Key, Value
from pyebpf.types import BytesType, type_of
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from os import PathLike

    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.types import Type

__all__ = ["Map", "make_map", "open_map"]

_WHOLE = (MapType.ARENA, MapType.STRUCT_OPS, MapType.USER_RINGBUF)


class _Values(KernelMap, Stored):
    """A kernel map that is the store of its own Python values."""

    def __init__(self, spec: MapSpec, descriptor: Descriptor | None = None) -> None:
        super().__init__(spec, descriptor)
        self._begin(self)


class Map(_Values, StoredMapping[Any, Any]):
    """One kernel map, as a mapping; owns its descriptor. Keys and values are Python values of the spec's types."""


@cache
def map_class(kind: MapType) -> type[KernelMap]:
    """The class for a kind: its Python side over its own bytes."""
    if kind in _WHOLE:
        return KernelMap
    side = python_side(kind)
    return Map if side is StoredMapping else type(side.__name__.removeprefix("Stored"), (_Values, side), {})


def make_map(spec: MapSpec, descriptor: Descriptor | None = None) -> KernelMap:
    """Make the map of a spec (or take the one that `descriptor` is of), as the class that fits its kind."""
    return map_class(spec.type)(spec, descriptor)


def open_map(
    where: str | PathLike[str] | int,
    *,
    key: Type | type[Any] | None = None,
    value: Type | type[Any] | None = None,
    inner: MapSpec | None = None,
) -> KernelMap:
    """Open a map that is there already: by the path of its pin or by its id.

    Types are given as `bpf.hash` takes them: integer types, char[N], a Struct class. Without them, keys and values are
    bytes. Raises InvalidValue if the types do not fit, NotFound if there is no such map, NotPermitted (ids need
    CAP_SYS_ADMIN).
    """
    key_type, value_type = _type("key", key), _type("value", value)
    try:
        descriptor = bpf.map_get_fd_by_id(where) if isinstance(where, int) else bpf.obj_get(where)
    except FileNotFoundError:
        raise NotFound(
            f"no map {f'has the id {where}' if isinstance(where, int) else f'is pinned at {where}'}"
        ) from None
    except OSError as error:
        no_pin = f"opening map {where}: no map is pinned there, or reading it is not permitted (EACCES)"
        meanings = {} if isinstance(where, int) else {errno.EACCES: NotPermitted(no_pin)}
        needs = ("CAP_BPF", "CAP_SYS_ADMIN")
        raise diagnose(error, f"opening map {where}", needs=needs, meanings=meanings) from error
    try:
        spec = _described(descriptor.fileno(), key_type, value_type, inner)
    except BaseException:
        descriptor.close()
        raise
    return make_map(spec, descriptor)


def _type(what: str, given: Type | type[Any] | None) -> Type | None:
    found = type_of(given)
    if found is None and given is not None:
        raise InvalidValue(f"{what}={given!r} is no BPF type: give an integer type, char[N], u8[N] or a Struct class")
    return found


def _described(fd: int, key: Type | None, value: Type | None, inner: MapSpec | None) -> MapSpec:
    """The spec that a map would be made from."""
    from pyebpf.kernel.info import map_info

    found = map_info(fd)
    kind = MapType(found.type)
    traits = MAP_TRAITS[kind]
    if (key is None and traits.key in {Key.ANY, Key.PREFIX}) or (
        kind is MapType.CGROUP_STORAGE and found.key_size != 8
    ):
        key = BytesType(found.key_size)
    if value is None and found.value_size and (traits.value in {Value.ANY, Value.TRACE} or found.value_size != 4):
        value = BytesType(found.value_size)
    if traits.needs_inner and inner is None:
        inner = MapSpec("inner", MapType.ARRAY, None, BytesType(4), 1)
    return MapSpec(
        found.name or "unnamed", kind, key, None if traits.value is Value.OPERATIONS else value,
        0 if traits.entries is Entries.ZERO else found.max_entries, found.flags & traits.flags & ~4,
        inner=inner, operations="unnamed" if traits.value is Value.OPERATIONS else "", extra=found.extra,
    )  # fmt: skip
