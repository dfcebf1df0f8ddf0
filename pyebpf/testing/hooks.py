"""Programs whose context is a struct of named fields: at control groups and sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyebpf.attach.fields import Bytes, IntegerField, NestedField, StructContext, WordArrayField
from pyebpf.errors import InvalidValue, closest
from pyebpf.testing.events import Programs
from pyebpf.vm.memory import Region

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.attach.fields import ContextField, FieldTable
    from pyebpf.vm import Result

    FieldValue = int | bytes | list[int] | Mapping[str, "FieldValue"] | None

_POINTER = 8


class Hooked(NamedTuple):
    """Result of a program at a hook: its return value, the context's fields after it, the memory behind it."""

    value: int
    fields: dict[str, object]
    memory: bytes
    result: Result


class HookEvents(Programs):
    """Hooks of control groups and sockets."""

    def hook(self, name: str, *, memory: bytes = b"", **fields: FieldValue) -> Hooked:
        """Run the program of a probe, by its name, with a context of these fields; others are zero.

        Numbers are as a probe reads them, addresses of IPv6 16 bytes; a field that leads to another struct, such as
        `sk`, takes that one's fields as a dictionary. `memory` is the packet, message or value of an option.
        """
        attach, program = self.program(name)
        at = attach.program_context()
        if not isinstance(at, StructContext):
            raise InvalidValue(f"{name} runs at {attach}, whose context has other forms: use run() or its own event")
        data = self._struct(at.table, fields)
        seen = at.memory()
        region = None
        if seen is not None and seen.ends is not None:
            region = Region("packet", at.memory_name, bytearray(memory))
            start = self.machine.memory.add(region)
            for offset, address in zip(seen.ends, (start, start + len(memory)), strict=True):
                if len(data) < offset + _POINTER:
                    data += bytes(offset + _POINTER - len(data))
                data[offset : offset + _POINTER] = address.to_bytes(_POINTER, "little")
        elif memory:
            raise InvalidValue(f"{name} runs at {attach}, whose context leads to no memory")
        result = self.machine.run(program, bytes(data))
        after = {key: _decoded(field, result.context) for key, field in at.table.fields.items()}
        if region is not None:
            self.machine.memory.remove(region)
        return Hooked(result.value & 0xFFFF_FFFF, after, bytes(region.data) if region is not None else b"", result)

    def _struct(self, table: FieldTable, values: Mapping[str, FieldValue]) -> bytearray:
        data = bytearray(max(field.offset + field.size for field in table.fields.values()))
        for name, value in values.items():
            field = table.fields.get(name)
            if field is None:
                raise InvalidValue(f"{table.c_name} has no field {name}{closest(name, table.fields)}")
            raw = self._encoded(table, field, value)
            data[field.offset : field.offset + field.size] = raw
        return data

    def _encoded(self, table: FieldTable, field: ContextField, value: FieldValue) -> bytes:
        what = f"{table.c_name}.{field.name}"
        if isinstance(field, IntegerField) and isinstance(value, int):
            if field.network:
                return value.to_bytes(field.network // 8, "big").ljust(field.size, b"\0")
            return (value & (1 << 8 * field.size) - 1).to_bytes(field.size, "little")
        if isinstance(field, Bytes) and isinstance(value, bytes) and len(value) == field.size:
            return value
        if isinstance(field, WordArrayField) and isinstance(value, list) and len(value) * 4 <= field.size:
            return b"".join(word.to_bytes(4, "little") for word in value).ljust(field.size, b"\0")
        if isinstance(field, NestedField) and (value is None or isinstance(value, dict)):
            if value is None:
                return bytes(_POINTER)
            region = Region("sock", field.name, self._struct(field.table, value))
            return self.machine.memory.add(region).to_bytes(_POINTER, "little")
        raise InvalidValue(f"{what} does not take {value!r}")


def _decoded(field: ContextField, data: bytes) -> object:
    raw = data[field.offset : field.offset + field.size]
    if isinstance(field, IntegerField):
        if field.network:
            return int.from_bytes(raw[: field.network // 8], "big")
        return int.from_bytes(raw, "little", signed=field.signed)
    if isinstance(field, WordArrayField):
        return [int.from_bytes(raw[at : at + 4], "little") for at in range(0, field.size, 4)]
    return raw
