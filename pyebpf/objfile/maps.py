"""Maps of an object: BTF-defined ones of section .maps, legacy ones of section maps, and global data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from struct import unpack_from
from typing import TYPE_CHECKING

from pyebpf.btf import Array, Composite, DataSec, Enumeration, Ptr, Struct, TypeTag, Var
from pyebpf.dataclass import replace
from pyebpf.errors import MalformedData, closest
from pyebpf.specs import MapSpec
from pyebpf.specs.map_traits import MAP_TRAITS, Key, Value
from pyebpf.specs.maps import MapTypes
from pyebpf.types import U8 as BYTE, U32, BytesType, array_of
from pyebpf.types.from_btf import bytes_of, type_from_btf
from pyebpf.types.prefix import prefix
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_MMAPABLE, BPF_F_RDONLY_PROG

if TYPE_CHECKING:
    from pyebpf.btf import Btf, Member
    from pyebpf.elf.headers import Section
    from pyebpf.elf.relocations import RelocatableFile
    from pyebpf.elf.symbols import Symbol
    from pyebpf.types import Type

BTF_MAPS, LEGACY_MAPS = ".maps", "maps"
ARENA_DATA = ".addr_space.1"
"""Section of the variables that lie in the arena."""
_DATA = re.compile(r"\.(?:data|rodata|bss)(?:\..*)?")
_MAX_NAME = 15
_LEGACY_SIZE, _LEAST_LEGACY_SIZE = 20, 16
_PREFIX_LENGTH = 4  # bytes before an LPM key's data
_PINNING = "pinning"
_OPEN_VALUES = (Value.ANY, Value.TRACE)
_NUMBERS = {_PINNING, "type", "key_size", "value_size", "max_entries", "map_flags", "numa_node", "map_extra"}
_TYPES = {"key", "value"}
_VALUES = "values"
#: Structs in a map's value that the kernel looks after (kernel/bpf/btf.c, btf_get_field_type).
_STRUCTS = frozenset(
    {"bpf_spin_lock", "bpf_res_spin_lock", "bpf_timer", "bpf_wq", "bpf_refcount", "bpf_task_work"}
    | {"bpf_list_head", "bpf_rb_root"}
)
#: Tags of pointers to kernel objects, of the kernel's own and of a processor's.
_TAGS = frozenset({"kptr", "kptr_untrusted", "percpu_kptr", "uptr"})


def map_name(name: str) -> str:
    """`name` as the kernel takes it: at most 15 of [A-Za-z0-9_.]."""
    return re.sub(r"[^A-Za-z0-9_.]", "_", name)[:_MAX_NAME]


def is_legacy(section: Section) -> bool:
    """Whether a section holds legacy definitions: libbpf's "maps", or "maps/NAME" of other loaders."""
    return section.name == LEGACY_MAPS or section.name.startswith(f"{LEGACY_MAPS}/")


def is_data(section: Section) -> bool:
    """Whether a section is global data, which becomes an array map of one value."""
    return section.allocated and not section.has_code and _DATA.fullmatch(section.name) is not None


def data_map(section: Section, data: bytes, name: str, described: MapTypes | None = None) -> MapSpec:
    """The map of that name for a section of global data. .rodata is closed to programs, and frozen.

    `described` is for one with variables that the kernel looks after, which can't be mapped into memory.
    """
    constant = section.name.startswith(".rodata")
    flags = (BPF_F_RDONLY_PROG if constant else 0) | (BPF_F_MMAPABLE if described is None else 0)
    initial = ((bytes(4), data),) if data.strip(b"\0") else ()
    return MapSpec(
        name,
        MapType.ARRAY,
        U32,
        array_of(BYTE, max(section.size, 1)),
        1,
        flags=flags,
        initial=initial,
        frozen=constant,
        btf=described,
    )


class ElfMaps(Mapping[str, MapSpec]):
    """The maps of an object by symbol. Each is read when it is asked for, so that one that can't be spoils no other.

    Names in the kernel are cut to 15 characters; where two would be the same, they get a number.
    """

    def __init__(self, makers: Mapping[str, Callable[[], MapSpec]]) -> None:
        self._makers = makers
        self._made: dict[str, MapSpec] = {}
        #: The name that the kernel is given, by symbol.
        self.names: dict[str, str] = {}
        for symbol in makers:
            name = short = map_name(symbol)
            while name in self.names.values():
                name = f"{short[:12]}.{len(self.names)}"
            self.names[symbol] = name

    def __getitem__(self, symbol: str) -> MapSpec:
        if symbol not in self._made:
            self._made[symbol] = replace(self._makers[symbol](), name=self.names[symbol])
        return self._made[symbol]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def read_maps(elf: RelocatableFile, btf: Btf | None, types: Callable[[], bytes]) -> ElfMaps:
    """The maps that an object defines, by symbol, in the order of the file.

    `types` gives the object's BTF as a kernel takes it, asked for if a map needs it.
    """
    maps: dict[str, Callable[[], MapSpec]] = {}
    section = elf.find(BTF_MAPS)
    if section is not None:
        if btf is None:
            raise MalformedData("the object has maps but no BTF that describes them: compile it with -g")
        arena = elf.find(ARENA_DATA)
        data = elf.contents(arena) if arena is not None else b""
        for name, var in variables(btf, section):
            maps[name] = partial(_btf_map, btf, name, var.type, types, arena=data)
    for legacy in (each for each in elf.sections if is_legacy(each)):
        symbols = list(_objects(elf, legacy))
        maps |= {each.name: partial(_legacy_map, elf, legacy, each, len(symbols)) for each in symbols}
    return ElfMaps(maps)


def read_contents(elf: RelocatableFile, btf: Btf | None) -> dict[str, dict[int, str]]:
    """The maps or programs that a map begins with, `.values = { [3] = &inner }`: by its symbol, then by index."""
    section = elf.find(BTF_MAPS)
    if section is None or btf is None:
        return {}
    places = {symbol.name: symbol.value for symbol in elf.symbols if symbol.section == section.number}
    found: dict[str, dict[int, str]] = {}
    for name, var in variables(btf, section):
        values = next((member for member in _members(btf, var) if member.name == _VALUES), None)
        if values is None or name not in places:
            continue
        start = places[name] + values.bit_offset // 8
        following = min((place for place in places.values() if place > places[name]), default=section.size)
        for relocation in elf.relocations.get(section.number, ()):
            if start <= relocation.offset < following:
                found.setdefault(name, {})[(relocation.offset - start) // 8] = relocation.symbol.name
    return found


def read_pinned(elf: RelocatableFile, btf: Btf | None) -> frozenset[str]:
    """Symbols of the maps that the source wants pinned by their names, `__uint(pinning, LIBBPF_PIN_BY_NAME)`."""
    section = elf.find(BTF_MAPS)
    found = set()
    for name, var in variables(btf, section) if btf is not None and section is not None else ():
        assert btf is not None
        for member in _members(btf, var):
            pointer = btf.type_by_id(btf.resolve(member.type))
            array = btf.type_by_id(btf.resolve(pointer.type)) if isinstance(pointer, Ptr) else None
            if member.name == _PINNING and isinstance(array, Array) and array.length:
                found.add(name)
    return frozenset(found)


def _objects(elf: RelocatableFile, section: Section) -> Iterator[Symbol]:
    found = (
        s for s in elf.symbols if s.section == section.number and s.kind in ("STT_OBJECT", "STT_NOTYPE") and s.name
    )
    yield from sorted(found, key=lambda symbol: symbol.value)


def _legacy_map(elf: RelocatableFile, section: Section, symbol: Symbol, count: int) -> MapSpec:
    """`struct bpf_map_def { unsigned int type, key_size, value_size, max_entries, map_flags; };`, one of `count`.

    As in libbpf before 1.0: without sizes of symbols all definitions have one size; `map_flags` may be missing, and
    what follows it must be 0.
    """
    data = elf.contents(section)
    size = symbol.size or len(data) // count
    definition = data[symbol.value : symbol.value + size]
    if len(definition) < size or size < _LEAST_LEGACY_SIZE or (not symbol.size and len(data) % count):
        raise MalformedData(
            f"map {symbol.name} is not a struct bpf_map_def (four or five of unsigned int; it has {len(definition)} "
            "bytes): define it in section .maps, with BTF"
        )
    if definition[_LEGACY_SIZE:].strip(b"\0"):
        raise MalformedData(
            f"map {symbol.name} has more than a struct bpf_map_def: {size} bytes, of which those behind map_flags are "
            "not 0, as other loaders' definitions have them (iproute2's struct bpf_elf_map): define it in section "
            ".maps, with BTF"
        )
    order = "<" if elf.byteorder == "little" else ">"
    names = ("type", "key_size", "value_size", "max_entries", "map_flags")
    numbers = unpack_from(order + "5I", definition.ljust(_LEGACY_SIZE, b"\0"))
    return _spec(symbol.name, dict(zip(names, numbers, strict=True)), {}, None)


def variables(btf: Btf, section: Section) -> Iterator[tuple[str, Var]]:
    """The variables that BTF has of a section, by name."""
    for type_id in btf.find(section.name):
        node = btf.type_by_id(type_id)
        if isinstance(node, DataSec):
            for variable in node.variables:
                var = btf.type_by_id(variable.type)
                if isinstance(var, Var):
                    yield var.name, var


def _members(btf: Btf, var: Var) -> tuple[Member, ...]:
    """The members of the struct that defines a map."""
    definition = btf.type_by_id(btf.resolve(var.type))
    return definition.members if isinstance(definition, Composite) else ()


def _btf_map(
    btf: Btf,
    name: str,
    type_id: int,
    object_types: Callable[[], bytes],
    depth: int = 0,
    arena: bytes = b"",
) -> MapSpec:
    """A map as libbpf's macros declare it: numbers are lengths of arrays pointed to, types are pointed to."""
    definition = btf.type_by_id(btf.resolve(type_id))
    if not isinstance(definition, Struct):
        raise MalformedData(f"map {name} is not defined by a struct")
    numbers: dict[str, int] = {}
    types: dict[str, Type] = {}
    ids = dict.fromkeys(_TYPES, 0)
    inner: MapSpec | None = None
    for member in definition.members:
        if member.name == _VALUES:
            inner = _inner_map(btf, name, member.type, object_types, depth)
            continue
        if member.name not in _NUMBERS | _TYPES:
            hint = closest(member.name, _NUMBERS | _TYPES | {_VALUES})
            raise MalformedData(f"map {name} has the unknown attribute {member.name!r}{hint}")
        pointer = btf.type_by_id(btf.resolve(member.type))
        if isinstance(pointer, Enumeration) and member.name in _NUMBERS and pointer.enumerators:
            numbers[member.name] = pointer.enumerators[
                0
            ].value  # libbpf's __ulong, for what an array's length can't say
            continue
        if not isinstance(pointer, Ptr):
            raise MalformedData(f"map {name}, {member.name}: not written with __uint or __type")
        pointed = btf.type_by_id(btf.resolve(pointer.type))
        if member.name in _TYPES:
            owned = is_kernel_owned(btf, pointed.id)
            types[member.name] = BytesType(btf.size_of(pointed.id)) if owned else type_from_btf(btf, name, pointed)
            ids[member.name] = pointed.id
        elif isinstance(pointed, Array):
            numbers[member.name] = pointed.length
        else:
            raise MalformedData(f"map {name}, {member.name}: not written with __uint")
    made = _spec(name, numbers, types, inner)
    if made.type is MapType.ARENA and arena.strip(b"\0"):
        made = replace(made, initial=((b"", arena),))
    if not is_kernel_owned(btf, ids["value"]):
        return made
    if made.traits.key is not Key.NONE and not ids["key"]:
        raise MalformedData(f"map {name}: its key needs a type, __type(key, …), since its value has one that matters")
    return replace(made, btf=MapTypes(object_types(), ids["key"], ids["value"]))


def is_kernel_owned(btf: Btf, type_id: int) -> bool:
    """Whether a value of this type has a part that only the kernel may touch: it finds these in the map's BTF."""
    waiting, seen = [type_id], {0}
    while waiting:
        node = btf.type_by_id(btf.resolve(waiting.pop()))
        if node.id in seen:
            continue
        seen.add(node.id)
        if isinstance(node, Ptr):
            pointed = btf.type_by_id(node.type)
            if isinstance(pointed, TypeTag) and pointed.name in _TAGS:
                return True
        elif isinstance(node, Array):
            waiting.append(node.type)
        elif isinstance(node, Composite):
            if node.name in _STRUCTS:
                return True
            waiting += [member.type for member in node.members]
    return False


def _inner_map(btf: Btf, name: str, type_id: int, object_types: Callable[[], bytes], depth: int) -> MapSpec | None:
    """The shape of the maps in a map of maps, as `__array(values, struct { … })` gives it; None for other kinds."""
    array = btf.type_by_id(btf.resolve(type_id))
    pointer = btf.type_by_id(btf.resolve(array.type)) if isinstance(array, Array) else None
    if not isinstance(pointer, Ptr) or depth:
        raise MalformedData(f"map {name}, values: not written with __array, or maps nested deeper than one level")
    pointed = btf.type_by_id(btf.resolve(pointer.type))
    if not isinstance(pointed, Struct):
        return None
    return _btf_map(btf, f"{name[: _MAX_NAME - 6]}.inner", pointed.id, object_types, 1)


def _spec(name: str, numbers: Mapping[str, int], types: Mapping[str, Type], inner: MapSpec | None) -> MapSpec:
    number = numbers.get("type", 0)
    try:
        kind, traits = MapType(number), MAP_TRAITS[MapType(number)]
    except (KeyError, ValueError):
        raise MalformedData(f"map {name} is of type {number}, which no kernel up to Linux 6.18 has") from None
    sides = {}
    for side, fixed in (("key", traits.key not in (Key.ANY, Key.PREFIX)), ("value", traits.value not in _OPEN_VALUES)):
        size, given = numbers.get(f"{side}_size"), types.get(side)
        if given is not None and size not in (None, given.size):
            raise MalformedData(f"map {name}: {side}_size is {size}, but the {side}'s type has {given.size} bytes")
        # What the kind fixes is left to it, unless the source says more.
        sides[side] = given if given is not None or fixed else bytes_of(name, size or 0)
    if traits.key is Key.NONE:
        sides["key"] = None
    elif traits.key is Key.PREFIX and sides["key"] is not None and sides["key"].size > _PREFIX_LENGTH:
        sides["key"] = prefix(sides["key"].size - _PREFIX_LENGTH)
    if traits.value is Value.NONE:
        sides["value"] = None
    return MapSpec(
        map_name(name),
        kind,
        sides["key"],
        sides["value"],
        numbers.get("max_entries", 0),
        flags=numbers.get("map_flags", 0),
        numa_node=numbers.get("numa_node"),
        extra=numbers.get("map_extra", 0),
        inner_map=inner,
    )
