"""Maps of other programs, by their pins or ids, as Python values of what their BTF says."""

from __future__ import annotations

import errno
from os import PathLike, fspath
from typing import TYPE_CHECKING

from pyebpf.errors import InvalidValue, NotFound, NotPermitted
from pyebpf.kernel import bpf
from pyebpf.kernel.errors_in_words import kernel_error
from pyebpf.objects.map import make_map
from pyebpf.specs import MapSpec
from pyebpf.specs.map_traits import MAP_TRAITS, Entries, Key, Value
from pyebpf.types import BytesType, type_of
from pyebpf.types.prefix import prefix
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from pyebpf.kernel.info import MapInfo
    from pyebpf.objects import KernelMap
    from pyebpf.types import Type

_PREFIX_LENGTH = 4  # bytes before an LPM key's data


def open_map(
    where: str | PathLike[str] | int,
    *,
    key: Type | type | None = None,
    value: Type | type | None = None,
    inner: MapSpec | None = None,
) -> KernelMap:
    """Open a map that is there already: by the path of its pin or by its id.

    Types are given as `bpf.hash` takes them: integer types, char[N], a Struct class. Those that are not given are made
    of the map's BTF; without BTF, or CAP_SYS_ADMIN to read it, keys and values are bytes. Raises InvalidValue if the
    types do not fit, NotFound if there is no such map, NotPermitted (ids need CAP_SYS_ADMIN).
    """
    key_type, value_type = _type("key", key), _type("value", value)
    _check_where(where)
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
        raise kernel_error(error, f"opening map {where}", needs=needs, meanings=meanings) from error
    try:
        spec = _described(descriptor.fileno(), key_type, value_type, inner)
    except BaseException:
        descriptor.close()
        raise
    return make_map(spec, descriptor)


def _check_where(where: object) -> None:
    """Refuse what is neither a path nor a number that can be an id."""
    if isinstance(where, bool) or not isinstance(where, str | PathLike | int):
        raise InvalidValue(f"open_map({where!r}): give the path of a pin, or the map's id, not {type(where).__name__}")
    if isinstance(where, int) and not 0 <= where < 1 << 32:
        raise InvalidValue(f"{where} is no map's id: ids are numbers of 32 bits, 1 to 4294967295")
    if not isinstance(where, int) and "\0" in fspath(where):
        raise InvalidValue(f"open_map({where!r}): a path has no NUL")


def _type(what: str, given: Type | type | None) -> Type | None:
    found = type_of(given)
    if found is None and given is not None:
        raise InvalidValue(
            f"{what}={given!r} is not a BPF type: give an integer type, char[N], u8[N] or a Struct class"
        )
    return found


def _described(fd: int, key: Type | None, value: Type | None, inner: MapSpec | None) -> MapSpec:
    """The spec that a map would be made from."""
    from pyebpf.kernel.info import map_info

    found = map_info(fd)
    kind = MapType(found.type)
    traits = MAP_TRAITS[kind]
    if key is None and traits.key is Key.PREFIX:
        key = prefix(found.key_size - _PREFIX_LENGTH) if found.key_btf_type else BytesType(found.key_size)
    elif (key is None and traits.key is Key.ANY) or (kind is MapType.CGROUP_STORAGE and found.key_size != 8):
        key = _from_btf(found, found.key_btf_type, found.key_size)
    if value is None and found.value_size and (traits.value in {Value.ANY, Value.TRACE} or found.value_size != 4):
        value = _from_btf(found, found.value_btf_type, found.value_size)
    if traits.needs_inner and inner is None:
        inner = MapSpec("inner", MapType.ARRAY, None, BytesType(4), 1)
    return MapSpec(
        found.name or "unnamed", kind, key, None if traits.value is Value.OPERATIONS else value,
        0 if traits.entries is Entries.ZERO else found.max_entries, found.flags & traits.flags & ~4,
        inner_map=inner, struct_ops="unnamed" if traits.value is Value.OPERATIONS else "", extra=found.extra,
    )  # fmt: skip


def _from_btf(found: MapInfo, number: int, size: int) -> Type:
    """The type with that number in a map's BTF; bytes where it has none, or this process may not read it."""
    if found.btf_id and number:
        from pyebpf.btf import Btf
        from pyebpf.kernel.info import btf_bytes
        from pyebpf.types.from_btf import type_from_btf

        try:
            btf = Btf(btf_bytes(found.btf_id))
        except PermissionError:
            return BytesType(size)
        made = type_from_btf(btf, found.name, btf.type_by_id(btf.resolve(number)))
        if made.size == size:
            return made
    return BytesType(size)


def section_variables(table: KernelMap) -> tuple[tuple[str, int, Type], ...]:
    """Name, offset and type of each variable in a map of global data, as its BTF has them; none of another map."""
    from pyebpf.btf import Btf, DataSec
    from pyebpf.kernel.info import btf_bytes, map_info
    from pyebpf.types.from_btf import type_from_btf

    found = map_info(table.fileno())
    if not found.btf_id or not found.value_btf_type:
        return ()
    try:
        btf = Btf(btf_bytes(found.btf_id))
    except PermissionError:
        return ()
    section = btf.type_by_id(found.value_btf_type)
    variables = []
    for each in section.variables if isinstance(section, DataSec) else ():
        if each.size:
            var = btf.type_by_id(each.type)
            kind = type_from_btf(btf, found.name, btf.type_by_id(btf.resolve(getattr(var, "type", 0))))
            variables.append((var.name, each.offset, kind if kind.size == each.size else BytesType(each.size)))
    return tuple(variables)
