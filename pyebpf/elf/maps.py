"""Maps of an object: BTF-defined ones of section .maps, legacy ones of section maps, and global data."""

from __future__ import annotations

import re
from struct import unpack_from
from typing import TYPE_CHECKING

from pyebpf.btf import Array, DataSec, Int, Ptr, Struct, Var
from pyebpf.errors import MalformedData, closest
from pyebpf.specs import MapKind, MapSpec
from pyebpf.types import INTEGERS, U32, CharArray, IntType, array_of
from pyebpf.types import U8 as BYTE
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyebpf.btf import Btf, Node
    from pyebpf.elf.file import ElfFile, Section, Symbol
    from pyebpf.types import Type

__all__ = ["BTF_MAPS", "LEGACY_MAPS", "data_map", "is_data", "map_name", "read_maps"]

BTF_MAPS, LEGACY_MAPS = ".maps", "maps"
_DATA = re.compile(r"\.(?:data|rodata|bss)(?:\..*)?")
_READ_ONLY_FOR_PROGRAMS, _MAPPABLE = 1 << 7, 1 << 10  # BPF_F_RDONLY_PROG, BPF_F_MMAPABLE
_MOST_NAME = 15
_LEGACY_SIZE = 20
_NUMBERS = {"type", "key_size", "value_size", "max_entries", "map_flags"}
_TYPES = {"key", "value"}
# Members that a MapSpec cannot say, and what to do instead.
_REFUSED = {
    "values": "initial contents of maps of maps and programs are not read: fill the map after loading",
    "pinning": "pinning is not done by loading: pin the map by its descriptor",
    "numa_node": "the NUMA node cannot be chosen: leave it out",
    "map_extra": "map_extra cannot be set: leave it out",
}


def map_name(name: str) -> str:
    """`name` as the kernel takes it: at most 15 of [A-Za-z0-9_.]."""
    return re.sub(r"[^A-Za-z0-9_.]", "_", name)[:_MOST_NAME]


def is_data(section: Section) -> bool:
    """Whether a section is global data, which becomes an array map of one value."""
    return section.allocated and not section.executable and _DATA.fullmatch(section.name) is not None


def data_map(section: Section, name: str) -> MapSpec:
    """The map of that name for a section of global data. .rodata is closed to programs, and frozen."""
    constant = section.name.startswith(".rodata")
    flags = _READ_ONLY_FOR_PROGRAMS if constant else 0
    initial = ((bytes(4), section.data),) if section.data.strip(b"\0") else ()
    return MapSpec(
        name,
        MapKind.ARRAY,
        U32,
        array_of(BYTE, max(section.size, 1)),
        1,
        flags=flags | _MAPPABLE,
        initial=initial,
        frozen=constant,
    )


def read_maps(elf: ElfFile, btf: Btf | None) -> dict[str, MapSpec]:
    """The maps that an object defines, by symbol, in the order of the file. MalformedData names what is wrong."""
    maps: dict[str, MapSpec] = {}
    section = elf.find(BTF_MAPS)
    if section is not None:
        if btf is None:
            raise MalformedData("the object has maps but no BTF that describes them: compile it with -g")
        maps |= {name: _btf_map(btf, name, var) for name, var in _variables(btf, section)}
    legacy = elf.find(LEGACY_MAPS)
    if legacy is not None:
        maps |= {symbol.name: _legacy_map(elf, legacy, symbol) for symbol in _objects(elf, legacy)}
    return maps


def _objects(elf: ElfFile, section: Section) -> Iterator[Symbol]:
    found = (
        s for s in elf.symbols if s.section == section.number and s.kind in ("STT_OBJECT", "STT_NOTYPE") and s.name
    )
    yield from sorted(found, key=lambda symbol: symbol.value)


def _legacy_map(elf: ElfFile, section: Section, symbol: Symbol) -> MapSpec:
    """struct bpf_map_def { unsigned int type, key_size, value_size, max_entries, map_flags; };"""  # noqa: D400, D403 - C
    definition = section.data[symbol.value : symbol.value + (symbol.size or _LEGACY_SIZE)]
    if len(definition) < _LEGACY_SIZE or definition[_LEGACY_SIZE:].strip(b"\0"):
        raise MalformedData(f"map {symbol.name} is no struct bpf_map_def: define it in section .maps, with BTF")
    order = "<" if elf.byteorder == "little" else ">"
    kind, key, value, entries, flags = unpack_from(order + "5I", definition)
    return _spec(symbol.name, kind, _bytes(symbol.name, key), _bytes(symbol.name, value), entries, flags)


def _variables(btf: Btf, section: Section) -> Iterator[tuple[str, Var]]:
    for type_id in btf.find(section.name):
        node = btf.type_by_id(type_id)
        if isinstance(node, DataSec):
            for variable in node.variables:
                var = btf.type_by_id(variable.type)
                if isinstance(var, Var):
                    yield var.name, var


def _btf_map(btf: Btf, name: str, var: Var) -> MapSpec:
    """A map as libbpf's macros declare it: numbers are lengths of arrays pointed to, types are pointed to."""
    definition = btf.type_by_id(btf.resolve(var.type))
    if not isinstance(definition, Struct):
        raise MalformedData(f"map {name} is not defined by a struct")
    numbers: dict[str, int] = {}
    types: dict[str, Type] = {}
    for member in definition.members:
        if member.name in _REFUSED:
            raise MalformedData(f"map {name}, {member.name}: {_REFUSED[member.name]}")
        if member.name not in _NUMBERS | _TYPES:
            hint = closest(member.name, _NUMBERS | _TYPES)
            raise MalformedData(f"map {name} has the unknown attribute {member.name!r}{hint}")
        pointer = btf.type_by_id(btf.resolve(member.type))
        if not isinstance(pointer, Ptr):
            raise MalformedData(f"map {name}, {member.name}: not written with __uint or __type")
        pointed = btf.type_by_id(btf.resolve(pointer.type))
        if member.name in _TYPES:
            types[member.name] = _codec(btf, name, pointed)
        elif isinstance(pointed, Array):
            numbers[member.name] = pointed.length
        else:
            raise MalformedData(f"map {name}, {member.name}: not written with __uint")
    sides = []
    for side in ("key", "value"):
        size = numbers.get(f"{side}_size")
        given = types.get(side)
        if given is not None and size not in (None, given.size):
            raise MalformedData(f"map {name}: {side}_size is {size}, but the {side}'s type has {given.size} bytes")
        sides.append(given or _bytes(name, size or 0))
    flags = numbers.get("map_flags", 0)
    return _spec(name, numbers.get("type", 0), sides[0], sides[1], numbers.get("max_entries", 0), flags)


def _spec(name: str, kind: int, key: Type | None, value: Type | None, entries: int, flags: int) -> MapSpec:
    try:
        known = MapKind(kind)
    except ValueError:
        called = MapType(kind).name if kind in MapType._value2member_map_ else f"of type {kind}"
        raise MalformedData(f"map {name} is {called}, a kind that pyebpf does not make") from None
    if known in (MapKind.RINGBUF, MapKind.PERF_EVENT_ARRAY):
        key = value = None
    return MapSpec(map_name(name), known, key, value, entries, flags=flags)


def _bytes(name: str, size: int) -> Type | None:
    if size > 1 << 20:
        raise MalformedData(f"map {name} has keys or values of {size} bytes")
    return array_of(BYTE, size) if size else None


def _integers() -> Mapping[tuple[int, bool], IntType]:
    plain = (kind for kind in INTEGERS.values() if not kind.big_endian and not kind.is_bool)
    return {(kind.size, kind.signed): kind for kind in plain}


def _codec(btf: Btf, name: str, node: Node) -> Type:
    """The Python side of a key or value: integers and char arrays as such, everything else as its bytes."""
    if isinstance(node, Int) and (node.size, node.signed) in _integers():
        return _integers()[node.size, node.signed]
    if isinstance(node, Array):
        element = btf.type_by_id(btf.resolve(node.type))
        if isinstance(element, Int) and element.size == 1 and element.signed and 0 < node.length < 1 << 20:
            return CharArray(node.length)
    size = btf.size_of(node.id)
    made = _bytes(name, size)
    if made is None:
        raise MalformedData(f"map {name}: a key or value of type {node.name or 'struct'} has no size")
    return made
