"""Bytes as the kernel lays them out: tracepoint records, structs by their BTF, from named values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pyebpf.builder.values.kernel_objects import integer_type
from pyebpf.errors import InvalidValue, closest
from pyebpf.vm.memory import USER_END, Memory, Region

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.target import KernelMember, KernelType, Target
    from pyebpf.types.tracepoint import TracepointField, TracepointFormat

    Value = int | str | bytes | Mapping[str, "Value"] | list["Value"]

_FIRST_USER = 0x7F00_0000_0000
_PAGE = 4096
_POINTER = 8


class KernelMemory:
    """Places values in a machine's memory."""

    def __init__(self, memory: Memory, target: Target) -> None:
        self.memory = memory
        self.target = target
        self._user = _FIRST_USER

    def user(self, data: str | bytes) -> int:
        """Address of user memory that holds `data`; text ends with a NUL."""
        raw = data.encode("utf-8", "surrogateescape") + b"\0" if isinstance(data, str) else data
        address = self._user
        self.memory.give(address, raw or b"\0")
        self._user += max(len(raw) + _PAGE & ~(_PAGE - 1), _PAGE)
        assert self._user < USER_END
        return address

    def kernel(self, data: str | bytes, name: str = "memory") -> int:
        """Address of kernel memory that holds `data`; text ends with a NUL."""
        raw = data.encode("utf-8", "surrogateescape") + b"\0" if isinstance(data, str) else data
        return self.memory.add(Region("kernel", name, bytearray(raw)))

    def object(self, type_: KernelType, members: Mapping[str, Value]) -> int:
        """Address of a struct with these members, numbers as a probe reads them; all others are zero."""
        region = Region("kernel", type_.c_name, bytearray(type_.size))
        address = self.memory.add(region)
        self.set(address, type_, members)
        return address

    def set(self, address: int, type_: KernelType, members: Mapping[str, Value]) -> None:
        """Change members of a struct that `object` made."""
        found = self.memory.find(address)
        if found is None:
            raise InvalidValue(f"{address:#x} is the address of no kernel object")
        data, start, _ = found
        for name, value in members.items():
            self._put_member(data, start, self.target.member(type_, name), value, f"{type_.c_name}.{name}")

    def _put_member(self, data: bytearray, start: int, member: KernelMember, value: Value, what: str) -> None:
        if member.bit_size:
            if not isinstance(value, int):
                raise InvalidValue(f"{what} is a bit-field: give a number")
            first, last = member.bit_offset // 8, (member.bit_offset + member.bit_size + 7) // 8
            shift, mask = member.bit_offset % 8, (1 << member.bit_size) - 1
            old = int.from_bytes(data[start + first : start + last], "little")
            new = old & ~(mask << shift) | _unsigned(value, member.bit_size, what) << shift
            data[start + first : start + last] = new.to_bytes(last - first, "little")
            return
        raw = self._bytes(member.type, value, what)
        data[start + member.offset : start + member.offset + len(raw)] = raw

    def _bytes(self, type_: KernelType, value: Value, what: str) -> bytes:
        if isinstance(value, int):
            if type_.size not in (1, 2, 4, 8):
                raise InvalidValue(f"{what} is {type_.c_name}, not a number")
            number = integer_type(type_)
            order: Literal["little", "big"] = "big" if number is not None and number.big_endian else "little"
            return _unsigned(value, 8 * type_.size, what).to_bytes(type_.size, order)
        element = type_.element
        if type_.kind == "pointer":
            if isinstance(value, str | bytes):
                address = self.kernel(value, what)
            elif isinstance(value, list) or element is None or not element.composite:
                raise InvalidValue(f"{what} is {type_.c_name}: give an address, text, or members by name")
            else:
                address = self.object(element, value)
            return address.to_bytes(_POINTER, "little")
        if isinstance(value, str | bytes):
            raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
            if type_.kind != "array" and isinstance(value, str):
                raise InvalidValue(f"{what} is {type_.c_name}, not text")
            if len(raw) > type_.size:
                raise InvalidValue(f"{what} is {type_.c_name}: {len(raw)} bytes do not fit")
            return raw.ljust(type_.size, b"\0")
        if isinstance(value, list):
            if type_.kind != "array" or element is None or len(value) > (type_.length or len(value)):
                raise InvalidValue(f"{what} is {type_.c_name}: {len(value)} items do not fit")
            return b"".join(self._bytes(element, item, f"{what}[{n}]") for n, item in enumerate(value))
        if not type_.composite:
            raise InvalidValue(f"{what} is {type_.c_name}: it has no members")
        data = bytearray(type_.size)
        for name, item in value.items():
            self._put_member(data, 0, self.target.member(type_, name), item, f"{what}.{name}")
        return bytes(data)

    # --- tracepoints ---

    def record(self, category: str, layout: TracepointFormat, values: Mapping[str, Value]) -> bytes:
        """A tracepoint's record; fields that are not given are zero.

        Text for a pointer is put into user memory for system calls, else into the kernel's.
        """
        fields = {each.name: each for each in layout.fields}
        data = bytearray(max((each.offset + each.size for each in layout.fields), default=_POINTER))
        for name, value in values.items():
            if name not in fields:
                raise InvalidValue(f"{category}:{layout.name} has no field {name}{closest(name, fields)}")
            each = fields[name]
            raw = self._field(category, each, value, len(data), data)
            data[each.offset : each.offset + each.size] = raw
        return bytes(data) + bytes(-len(data) % _POINTER)

    def _field(self, category: str, each: TracepointField, value: Value, end: int, data: bytearray) -> bytes:
        if isinstance(value, str | bytes):
            raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
            if each.location is not None:
                data += raw + b"\0"
                start = end - (each.offset + each.size if each.location == "__rel_loc" else 0)
                return (len(raw) + 1 << 16 | start).to_bytes(4, "little")
            if each.pointer:
                place = self.user if category == "syscalls" else self.kernel
                return place(value).to_bytes(each.size, "little")
            if each.length is None or len(raw) > each.size:
                raise InvalidValue(f"field {each.name} is {each.type}, {each.size} bytes: {value!r} does not fit")
            return raw.ljust(each.size, b"\0")
        if isinstance(value, list) and each.length and each.element is not None and len(value) <= each.length:
            size = each.element[0]
            raw = b"".join(_unsigned(item, 8 * size, f"field {each.name}").to_bytes(size, "little") for item in value)
            return raw.ljust(each.size, b"\0")
        if not isinstance(value, int) or each.length is not None:
            raise InvalidValue(f"field {each.name} is {each.type}: {value!r} does not fit")
        return _unsigned(value, 8 * each.size, f"field {each.name}").to_bytes(each.size, "little")


def _unsigned(value: Value, bits: int, what: str) -> int:
    """The bits of a number, signed or not. Raises InvalidValue if it does not fit."""
    if not isinstance(value, int):
        raise InvalidValue(f"{what} is a number, not {value!r}")
    if not -(1 << bits - 1) <= value < 1 << bits:
        raise InvalidValue(f"{what} has {bits} bits: {value} does not fit")
    return value & (1 << bits) - 1
