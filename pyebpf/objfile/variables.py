"""Global variables of an object, set before it is loaded: `const volatile` ones are its options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import InvalidValue, MalformedData, NotFound, closest
from pyebpf.objfile.maps import is_data, variables
from pyebpf.types import StructType
from pyebpf.types.from_btf import type_from_btf

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyebpf.btf import Btf, Node
    from pyebpf.elf.headers import Section
    from pyebpf.elf.relocations import RelocatableFile
    from pyebpf.types import Type


def with_values(elf: RelocatableFile, btf: Btf | None, values: Mapping[str, object]) -> RelocatableFile:
    """The file with these values in place of those that its variables have.

    NotFound for a name that no variable has, InvalidValue for a value that does not fit, MalformedData for what cannot
    be set.
    """
    if btf is None:
        raise MalformedData("the object has no BTF, which has the types of its variables: compile it with -g")
    places = {name: (section, node) for name, section, node in _variables(elf, btf)}
    data = bytearray(elf.data)
    for name, value in values.items():
        if name not in places:
            raise NotFound(f"the object has no variable {name!r}{closest(name, list(places))}")
        section, node = places[name]
        if not elf.contents(section):
            raise MalformedData(
                f"variable {name} is in section {section.name}, which has no bytes in the object: declare it "
                f"const volatile, or write map {section.name} after it is made"
            )
        kind = type_from_btf(btf, name, node)
        start = next((s.value for s in elf.symbols if s.section == section.number and s.name == name), section.size)
        if start + kind.size > section.size:
            raise MalformedData(f"variable {name} does not lie inside section {section.name}")
        data[section.offset + start : section.offset + start + kind.size] = _encode(name, kind, value)
    return elf._replace(data=bytes(data))


def _encode(name: str, kind: Type, value: object) -> bytes:
    if isinstance(value, bytes) and len(value) == kind.size:
        return value
    if isinstance(kind, StructType):  # its class was made here just now: nobody has a record of it
        raise InvalidValue(f"variable {name}: give the {kind.size} bytes of a {kind.c_name}, as struct.pack makes them")
    try:
        return kind.encode(value)
    except InvalidValue as error:
        raise InvalidValue(f"variable {name}: {error}") from None


def _variables(elf: RelocatableFile, btf: Btf) -> Iterator[tuple[str, Section, Node]]:
    """Each variable of global data: its name, section and type."""
    for section in filter(is_data, elf.sections):
        for name, var in variables(btf, section):
            yield name, section, btf.type_by_id(btf.resolve(var.type))
