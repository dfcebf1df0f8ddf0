"""A tracepoint's `format` file: where each field of its record lies.

    name: sched_switch
    ID: 314
    format:
    <TAB>field:unsigned short common_type;<TAB>offset:0;<TAB>size:2;<TAB>signed:0;
    ...
    <blank line>
    <TAB>field:char prev_comm[16];<TAB>offset:8;<TAB>size:16;<TAB>signed:0;
    <TAB>field:__data_loc char[] cmd;<TAB>offset:60;<TAB>size:4;<TAB>signed:0;

    print fmt: ...

Offsets and sizes are the kernel's and are taken as they stand; only the C declarations are read with tolerance, since
any macro's text may stand there (Linux `kernel/trace/trace_events.c`, f_show).
"""

from __future__ import annotations

import re
from typing import Literal

from pyebpf.dataclass import dataclass
from pyebpf.errors import FormatError, NotFound, closest

# Names whose width is the same in every Linux ABI of 64 bits: size in bytes, and whether signed. `char` is unsigned
# here, as the kernel is built (-funsigned-char since Linux 6.2), and text in any case.
C_INTEGERS: dict[str, tuple[int, bool]] = {
    "bool": (1, False),
    "char": (1, False),
    "signed char": (1, True),
    "unsigned char": (1, False),
    **dict.fromkeys(("short", "short int", "signed short"), (2, True)),
    **dict.fromkeys(("unsigned short", "unsigned short int", "short unsigned int"), (2, False)),
    **dict.fromkeys(("int", "signed int", "signed"), (4, True)),
    **dict.fromkeys(("unsigned", "unsigned int", "uint"), (4, False)),
    **dict.fromkeys(("long", "long int", "long long", "long long int"), (8, True)),
    **dict.fromkeys(("unsigned long", "long unsigned int", "unsigned long long"), (8, False)),
    **{f"{prefix}u{size * 8}": (size, False) for prefix in ("", "__") for size in (1, 2, 4, 8)},
    **{f"{prefix}s{size * 8}": (size, True) for prefix in ("", "__") for size in (1, 2, 4, 8)},
    **{f"uint{size * 8}_t": (size, False) for size in (1, 2, 4, 8)},
    **{f"int{size * 8}_t": (size, True) for size in (1, 2, 4, 8)},
    "size_t": (8, False),
    "ssize_t": (8, True),
    # The kernel's own, of system calls above all: their records give every argument 8 bytes (linux/types.h and others).
    **dict.fromkeys(("pid_t", "clockid_t", "timer_t", "key_t", "mqd_t", "rwf_t", "daddr_t"), (4, True)),
    **dict.fromkeys(("key_serial_t", "__kernel_pid_t", "__kernel_timer_t", "__kernel_clockid_t"), (4, True)),
    **dict.fromkeys(("uid_t", "gid_t", "qid_t", "mode_t", "dev_t", "gfp_t", "fmode_t", "socklen_t"), (4, False)),
    **dict.fromkeys(("__kernel_uid32_t", "__kernel_gid32_t", "__kernel_mode_t", "__poll_t"), (4, False)),
    **dict.fromkeys(("umode_t", "sa_family_t", "old_uid_t", "old_gid_t"), (2, False)),
    **dict.fromkeys(("off_t", "loff_t", "time_t", "clock_t", "__kernel_old_time_t", "__kernel_off_t"), (8, True)),
    **dict.fromkeys(("aio_context_t", "sector_t", "ino_t", "uintptr_t"), (8, False)),
}

LOCATIONS: tuple[Literal["__data_loc", "__rel_loc"], ...] = ("__data_loc", "__rel_loc")
#: Of system calls. Text and memory that arguments point to, `__filename_val`, which their records have since Linux
#: commit baa031b7bd2c ("tracing: Allow syscall trace events to read more than one user parameter") (in v6.19), are in
#: the trace buffer alone: a program is given the arguments.
_CALL = "sys_enter_"
# A record, whatever its dynamic arrays, stays below the trace buffer's page.
MAX_RECORD = 1 << 16
ATTRIBUTE = re.compile(r"\s*(\w+):(-?\d{1,9})", re.ASCII)
# The array may stand before the name ("char[] cmd", with a location) or behind it ("u8 saddr[sizeof(struct x)]").
DECLARATION = re.compile(
    r"(?P<type>[^\[\]]*?)(?P<before>\[[^\[\]]*\])?\s*(?P<name>[A-Za-z_]\w*)\s*(?P<after>(\[[^\[\]]*\])*)", re.ASCII
)
FUNCTION_POINTER = re.compile(r"\(\s*\*\s*(?P<name>[A-Za-z_]\w*)\s*\)", re.ASCII)


@dataclass(frozen=True, slots=True)
class TracepointField:
    """One field: `offset` and `size` in bytes from the record's start, `type` its C type without array and location.

    `length` is None for a scalar, else the number of elements: 0 for a flexible array and, as their length stands in
    the record, for every field with a `location`. Such a field holds a u32: length << 16 | offset, the offset counted
    from the record's start (`__data_loc`) or from the field's own end (`__rel_loc`, since Linux 5.18).

    A syscall's fields all take 8 bytes, whatever their type: there the type says what the register held.
    """

    name: str
    type: str
    offset: int
    size: int
    signed: bool
    length: int | None = None
    location: Literal["__data_loc", "__rel_loc"] | None = None

    @property
    def pointer(self) -> bool:
        """Whether the value is an address."""
        return self.type.endswith("*") or self.type.endswith("*const") or "(*" in self.type

    @property
    def bare_type(self) -> str:
        """The C type without `const` and `volatile`."""
        return " ".join(word for word in self.type.split() if word not in {"const", "volatile"})

    @property
    def named(self) -> tuple[int, bool] | None:
        """Size in bytes and signedness of the type by its name; None where the name can't tell."""
        return C_INTEGERS.get(self.bare_type)

    @property
    def element(self) -> tuple[int, bool] | None:
        """Size in bytes and signedness of the value or, in an array, of one element; None where the name can't tell."""
        if self.pointer:
            return 8, False
        known = self.named
        if known is not None:
            return known
        if self.location is not None or self.length == 0:
            return None
        count = self.length or 1
        return (self.size // count, self.signed) if self.size % count == 0 else None


@dataclass(frozen=True, slots=True)
class TracepointFormat:
    """A tracepoint's record. `common` has the fields that every record begins with, which programs can't read."""

    name: str
    id: int
    common: tuple[TracepointField, ...]
    fields: tuple[TracepointField, ...]

    def field(self, name: str) -> TracepointField:
        """The field of that name. Raises NotFound with the closest names."""
        for each in self.fields:
            if each.name == name:
                return each
        if any(each.name == name for each in self.common):
            raise NotFound(f"tracepoint {self.name}: programs can't read {name!r}, nor any other common field")
        raise NotFound(
            f"tracepoint {self.name} has no field {name!r}{closest(name, [each.name for each in self.fields])}"
        )

    @property
    def size(self) -> int:
        """Bytes to the end of the last field: what a program may read."""
        return max((each.offset + each.size for each in (*self.common, *self.fields)), default=0)


def parse_format(text: str) -> TracepointFormat:
    """Read the text of a `format` file. Raises FormatError."""
    name, number = "", -1
    fields: dict[str, TracepointField] = {}
    for line in text.split("\n"):
        key, colon, rest = line.strip().partition(":")
        if key == "print fmt":
            break
        if not colon:
            continue
        if key == "name":
            name = rest.strip()
        elif key == "ID":
            number = _number(rest.strip(), line)
        elif key == "field":
            field = _field(rest)
            fields.setdefault(field.name, field)
    if not name or number < 0:
        raise FormatError("this is not a tracepoint format: it lacks its name or its ID line")
    common = tuple(field for field in fields.values() if field.name.startswith("common_"))
    own = tuple(field for field in fields.values() if not field.name.startswith("common_"))
    if name.startswith(_CALL):
        own = tuple(field for field in own if field.location is None)
    return TracepointFormat(name, number, common, own)


def _number(text: str, line: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise FormatError(f"tracepoint format: {line.strip()[:80]!r} has no number")
    return int(text)


def _field(rest: str) -> TracepointField:
    declaration, _, attributes = rest.partition(";")
    values: dict[str, int] = {}
    for attribute in attributes.split(";"):
        match = ATTRIBUTE.fullmatch(attribute.rstrip())
        if match:
            values[match[1]] = int(match[2])
    offset, size = values.get("offset", -1), values.get("size", -1)
    if not (0 <= offset <= MAX_RECORD and 0 <= size <= MAX_RECORD):
        raise FormatError(f"tracepoint format: field {declaration[:80]!r} has no offset or size that could be one")
    name, type_, length, location = _declaration(declaration.strip(), size)
    return TracepointField(name, type_, offset, size, bool(values.get("signed", 0)), length, location)


def _declaration(text: str, size: int) -> tuple[str, str, int | None, Literal["__data_loc", "__rel_loc"] | None]:
    """Name, C type, array length and location of a declaration."""
    location = next((each for each in LOCATIONS if text.startswith(each + " ")), None)
    if location is not None:
        text = text.removeprefix(location).strip()
    match = DECLARATION.fullmatch(text) if len(text) < 1000 else None
    if match is None or not match["type"].strip():
        match = FUNCTION_POINTER.search(text[:1000])
        if match is None:
            raise FormatError(f"tracepoint format: {text[:80]!r} declares no field")
        return match["name"], text, None, location
    type_ = match["type"].strip()
    if location is not None:
        return match["name"], type_, 0, location
    bounds = match["after"] or match["before"]
    return match["name"], type_, _length(type_, bounds, size) if bounds else None, location


def _length(type_: str, bounds: str, size: int) -> int:
    """Elements of an array: the number in brackets or, where an expression stands there, what fits its size."""
    length = 1
    for bound in bounds[1:-1].split("]["):
        if not re.fullmatch(r"\d{1,5}", bound.strip(), re.ASCII):
            element, _ = C_INTEGERS.get(type_, (1, False))
            return size // element
        length *= int(bound)
    return length
