"""Functions that make texts and bytes: `str`, `kstr`, `buf`, `ntop`, `strcontains`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.described import printed_as_text
from pyebpf.bpftrace.translate import arrays, names, searches
from pyebpf.bpftrace.translate.expressions import as_integer, evaluate, known_number, known_text, number
from pyebpf.bpftrace.translate.type_names import space_of_numbers
from pyebpf.bpftrace.translate.values import (
    Condition,
    Elements,
    Embedded,
    Integer,
    Reference,
    Row,
    Special,
    Text,
    Unknown,
    Value,
    bare,
    constant,
    literal_text,
)
from pyebpf.bpftrace.value_types import AF_INET, AF_INET6, Buffer, Inet
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.arrays import Array
from pyebpf.builder.values.kernel_numbers import as_number
from pyebpf.builder.values.kernel_objects import CharacterArray, KernelArray
from pyebpf.builder.values.lvalue import Lvalue, copy, movable, zero
from pyebpf.builder.values.memory import Space, at_offset, probe_read, probe_read_string, probe_read_value
from pyebpf.builder.values.strings import StringSource
from pyebpf.compiler.ir import Condition as Relation, Op

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir


def space_of(s: Scope, value: Value) -> Space:
    """The memory that an address is of: a pointer knows, a number is the process's in probes of system calls, too."""
    if isinstance(value, Reference):
        return value.type.space
    if isinstance(value, Embedded):
        return value.entity.space
    return Space.USER if s.point.target in ("syscalls", "raw_syscalls") else space_of_numbers(s)


def text_at(s: Scope, address: ir.Value, space: Space, size: int) -> Text:
    """The C string at an address, of at most `size` bytes with its NUL."""

    def read_into(p: ProgramBuilder, destination: ir.Value, length: int) -> ir.Value:
        return probe_read_string(p, space, destination, length, address)

    source = StringSource("str()", read_into, size, s.p.b.where, counts=True)
    return Text(source, size, cut=size == s.max_strlen + 1)


def _str(s: Scope, node: ast.Call, *, space: Space | None = None) -> Value:
    """`str(pointer)`, `str(pointer, length)`, `str($1)`."""
    if not 1 <= len(node.arguments) <= 2:
        raise s.error(f"{node.name}() takes an address, and a length", node)
    first = node.arguments[0]
    written = _written(s, first)
    if written is not None:
        length = number(s, node.arguments[1]) if len(node.arguments) == 2 else None
        if length is None or length.literal is not None:
            known = None if length is None else max(length.literal or 0, 0)
            return names.bounded_text(s, written[:known], node)
        return _cut(s, names.bounded_text(s, written, node), length.value, node, space)
    value = evaluate(s, first)
    if node.name == "str" and isinstance(value, Integer) and (digits := _digits(value)) is not None:
        value = literal_text(digits)
    most = s.max_strlen + 1  # and its NUL
    size = most
    if len(node.arguments) == 2:
        length = number(s, node.arguments[1])
        if length.literal is not None and length.literal < 0:
            raise s.error(f"{node.name}() takes a length of 0 or more", node.arguments[1])
        if length.literal is None:
            return _cut(s, value, length.value, node, space)
        size = min(max(length.literal, 1), most)
        if isinstance(value, Text):
            return _shortened(value, length.literal)
    if isinstance(value, Unknown | Text):
        return value
    if isinstance(value, Embedded) and isinstance(value.entity, KernelArray):
        if value.entity.element.size != 1:
            raise s.error("str() takes bytes, and these are larger", first)
        size = min(size, (value.entity.array_length or size) + 1)
        return text_at(s, value.address(s.p), value.entity.space, size)
    return text_at(s, _address(s, value, node), space or space_of(s, value), size)


def _address(s: Scope, value: Value, node: ast.Call) -> ir.Value:
    """The address that a call takes first: a pointer, or a number, but no such as becomes text when it is printed."""
    if what := printed_as_text(value.type):
        raise s.error(f"{node.name}() takes an address, and this is {what}", node.arguments[0])
    return as_integer(s, value, node.arguments[0]).value


def _written(s: Scope, node: ast.Expression) -> bytes | None:
    """A text of the script or of the command line; None of anything else."""
    if isinstance(node, ast.PositionalParameter):
        given = s.script.arguments
        return given[node.number - 1].encode("utf-8", "surrogateescape") if node.number <= len(given) else b""
    if isinstance(node, ast.Binary) and node.operator == "+" and isinstance(node.left, ast.PositionalParameter):
        return (_written(s, node.left) or b"")[max(known_number(s, node.right), 0) :]  # without its beginning
    return node.value if isinstance(node, ast.String) else None


def _digits(value: Integer) -> bytes | None:
    """A number that the script wrote, or computed of such, as it wrote it; None of an address, and of an enum's."""
    written = bare(value)
    return None if written is None or printed_as_text(value.type) else b"%d" % written


def _shortened(text: Text, length: int) -> Text:
    """`str(text, length)`, as bpftrace has it: of a literal so many bytes, of others one less, for the NUL."""
    source = text.source
    if isinstance(source, bytes):
        return literal_text(source[: max(length, 0)])
    size = min(max(length, 1), text.size)
    if isinstance(source, StringSource):
        return Text(source, size)

    def read_into(p: ProgramBuilder, destination: ir.Value, room: int) -> None:
        copy(p, destination, 0, *source.lvalue.address(p), min(room, size) - 1)

    return Text(StringSource("str()", read_into, size), size)


def _cut(s: Scope, value: Value, length: ir.Value, node: ast.Call, space: Space | None) -> Value:
    """`str(pointer, n)` with an n that is known at run time: the bytes that there are, the rest of the room zeros."""
    if isinstance(value, Unknown):
        return value
    most = s.max_strlen + 1
    if isinstance(value, Text):
        address, where = at_offset(s.p, *value.kept(s.p).lvalue.address(s.p)), Space.KERNEL
    else:
        address, where = _address(s, value, node), space or space_of(s, value)

    def read_into(p: ProgramBuilder, destination: ir.Value, room: int) -> ir.Value:
        b = p.b
        wanted = b.variable(hint="length")
        b.write(wanted, b.const(room))
        with b.if_(Compare(Relation.ULT, length, b.const(room))):
            b.write(wanted, b.emit(Op.REFINE, length))
        with b.if_(Compare(Relation.EQ, length, b.const(0))):
            b.write(wanted, b.const(1))
        size = b.read_final(wanted)
        b.assume_bounds(size, 1, room)
        return probe_read_string(p, where, destination, size, address)

    return Text(StringSource("str()", read_into, most, s.p.b.where, counts=True), most, cut=True)


def _kstr(s: Scope, node: ast.Call) -> Value:
    return _str(s, node, space=Space.KERNEL)


def _buf(s: Scope, node: ast.Call) -> Value:
    """`buf(pointer, length)`: bytes as they are."""
    if not 1 <= len(node.arguments) <= 2:
        raise s.error("buf() takes an address, and a length", node)
    value = evaluate(s, node.arguments[0])
    if isinstance(value, Unknown):
        return value
    p, most = s.p, s.max_strlen
    if isinstance(value, Text) and not isinstance(value.source, CharacterArray):
        return _bytes_of(s, value, node)
    if isinstance(value, Row | Elements) and (row := arrays.row_of(s, value, node)) is not None:
        return _bytes_of_row(s, row, node)
    if len(node.arguments) == 2:
        length = number(s, node.arguments[1])
    elif isinstance(value, Text):
        assert isinstance(value.source, CharacterArray)
        length = constant(p, value.source.array_length or most)
    elif isinstance(value, Embedded) and isinstance(value.entity, KernelArray):
        length = constant(p, (value.entity.array_length or 0) * value.entity.element.size)
    else:
        raise s.error("buf() of an address takes a length: buf(pointer, 16)", node)
    b = p.b
    size = min(length.literal, most) if length.literal is not None else most
    if size < 1:
        raise s.error("buf() takes a length above 0", node)
    space = space_of(s, value)
    if isinstance(value, Text):
        assert isinstance(value.source, CharacterArray)
        address, space = value.source.string_address(p), value.source.space
    else:
        address = value.address(p) if isinstance(value, Embedded) else _address(s, value, node)
    type_ = Buffer(size)
    storage = type_.storage
    slot = b.slot(-(-storage.size // 8) * 8, name="buf")
    place = b.slot_address(slot)
    zero(p, place, 0, slot.size)
    count = b.variable(hint="length")
    b.write(count, b.const(size))
    if length.literal is None:
        with b.if_(Compare(Relation.ULT, length.value, b.const(size))):
            b.write(count, b.emit(Op.REFINE, length.value))
    found = b.read_final(count)
    b.assume_bounds(found, 0, size)
    b.store(place, 0, found, 4)
    # No more than is asked for: a page behind it that cannot be read would leave nothing but zeros.
    wanted = size if length.literal is not None else found
    probe_read(p, space, b.slot_address(slot, 4), wanted, address)
    return Special(type_, p.load_value(Lvalue(slot=slot, owner="buf()", writable=False), storage))


def _bytes_of(s: Scope, value: Text, node: ast.Call) -> Value:
    """`buf(text, n)`: the first n bytes of a string, with those behind its end."""
    p, b = s.p, s.p.b
    wanted = known_number(s, node.arguments[1]) if len(node.arguments) == 2 else value.room
    if wanted < 1:
        raise s.error("buf() takes a length above 0", node)
    type_ = Buffer(wanted)
    slot = b.slot(-(-type_.storage.size // 8) * 8, name="buf")
    place = b.slot_address(slot)
    zero(p, place, 0, slot.size)
    b.store(place, 0, b.const(wanted), 4)
    value.copy_bytes(p, place, 4, wanted)
    return Special(type_, p.load_value(Lvalue(slot=slot, owner="buf()", writable=False), type_.storage))


def _bytes_of_row(s: Scope, row: Row, node: ast.Call) -> Value:
    """`buf(array)`, `buf(array, n)`: the bytes of an array that the program keeps, the first n of them."""
    p, b, room = s.p, s.p.b, row.type.storage.size
    wanted = known_number(s, node.arguments[1]) if len(node.arguments) == 2 else room
    if not 1 <= wanted <= room:
        raise s.error(f"buf() of {wanted} bytes: give 1 to {room}, as the array has", node)
    type_ = Buffer(wanted)
    slot = b.slot(-(-type_.storage.size // 8) * 8, name="buf")
    place = b.slot_address(slot)
    zero(p, place, 0, slot.size)
    b.store(place, 0, b.const(wanted), 4)
    copy(p, place, 4, *row.lvalue.address(p), wanted)
    return Special(type_, p.load_value(Lvalue(slot=slot, owner="buf()", writable=False), type_.storage))


def _ntop(s: Scope, node: ast.Call) -> Value:
    """`ntop(address)`, `ntop(family, address)`; an address is a number, or an array of 4 or 16 bytes."""
    if not 1 <= len(node.arguments) <= 2:
        raise s.error("ntop() takes a family and an address", node)
    value = arrays.bytes_of(s, evaluate(s, node.arguments[-1]), node.arguments[-1])
    if isinstance(value, Unknown):
        return value
    p, b = s.p, s.p.b
    slot = b.slot(24, name="inet")
    place = b.slot_address(slot)
    zero(p, place, 0, 24)
    if isinstance(value, Row):
        found_array = value.operand(p)
        assert isinstance(found_array, Array)
        value = Elements(found_array)
    if isinstance(value, Elements):
        type_ = value.entity.type
        if type_.size not in (4, 16):
            raise s.error(f"ntop() takes an address of 4 or 16 bytes, and this has {type_.size}", node.arguments[-1])
        found = AF_INET6 if type_.size == 16 else AF_INET
        family = number(s, node.arguments[0]).value if len(node.arguments) == 2 else b.const(found)
        b.store(place, 0, family, 8)
        copy(p, place, 8, *value.entity.lvalue.address(p), type_.size)
        return Special(Inet(), p.load_value(Lvalue(slot=slot, owner="ntop()", writable=False), Inet().storage))
    array = value.entity if isinstance(value, Embedded) and isinstance(value.entity, KernelArray) else None
    size = array.element.size * (array.array_length or 0) if array is not None else 4
    if size not in (4, 16):
        raise s.error(f"ntop() takes an address of 4 or 16 bytes, and this has {size}", node.arguments[-1])
    if len(node.arguments) == 2:
        family = number(s, node.arguments[0]).value
    else:
        family = b.const(AF_INET6 if size == 16 else AF_INET)
    b.store(place, 0, family, 8)
    if array is not None and isinstance(value, Embedded):
        probe_read(p, array.space, b.slot_address(slot, 8), size, value.address(p))
    else:
        b.store(place, 8, as_integer(s, value, node.arguments[-1]).value, 4)
    return Special(Inet(), p.load_value(Lvalue(slot=slot, owner="ntop()", writable=False), Inet().storage))


def _contains(s: Scope, node: ast.Call) -> Value:
    """`strcontains(text, "part")`."""
    if len(node.arguments) != 2:
        raise s.error("strcontains() takes two strings", node)
    value, wanted = [searches.text(s, each, node.name) for each in node.arguments]
    if isinstance(value, Unknown) or isinstance(wanted, Unknown):
        return Unknown(s.p)
    if not isinstance(wanted.source, bytes):
        place = searches.first_place(s, value, wanted, node)
        return Condition(Compare(Relation.SGE, place, s.p.b.const(0)))
    part = wanted.source.decode("utf-8", "surrogateescape")
    if isinstance(value.source, bytes):
        from pyebpf.builder.ssa.conditions import Always

        return Condition(Always(wanted.source in value.source))
    if len(wanted.source) >= value.size:
        from pyebpf.builder.ssa.conditions import Always

        return Condition(Always(holds=False))
    return Condition(value.kept(s.p).contains(s.p, part))


def character(s: Scope, value: Text, index: Integer, node: ast.Node) -> Value:
    """A character of a string; 0 behind its room."""
    from pyebpf.bpftrace.translate.expressions import wrapped

    p, b = s.p, s.p.b
    source = value.source
    if isinstance(source, CharacterArray):
        if index.literal is not None and source.array_length and not 0 <= index.literal < source.array_length:
            raise s.error(f"index {index.literal} lies outside the array of {source.array_length}", node)
        place = b.binary(Op.ADD, as_number(p, source.string_address(p)), index.value)
        return Integer(probe_read_value(p, source.space, place, 0, 1, signed=True), signed=True, size=1)
    if isinstance(source, bytes) and index.literal is not None and 0 <= index.literal < len(value.data):
        return constant(p, int.from_bytes(value.data[index.literal :][:1], signed=True))
    kept_text = value.kept(p)
    if index.literal is not None:
        item = as_integer(s, wrapped(s, kept_text.item(p, index.literal), node), node)
        return Integer(b.emit(Op.SEXT, item.value, size=1), signed=True, size=1)
    address, offset = movable(p, kept_text.lvalue, value.size).address(p)
    found = b.variable(hint="character")
    b.write(found, b.const(0))
    with b.if_(Compare(Relation.ULT, index.value, b.const(value.size))):
        place = b.binary(Op.ADD, b.emit(Op.REFINE, index.value), b.const(offset))
        b.write(found, b.load(b.emit(Op.OFFSET, address, place), 0, 1, signed=True))
    return Integer(b.read_final(found), signed=True, size=1)


def _pton(s: Scope, node: ast.Call) -> Value:
    """`pton("127.0.0.1")`: the 4 or 16 bytes of an Internet address, in network order."""
    from ipaddress import ip_address

    if len(node.arguments) != 1:
        raise s.error("pton() takes an address in quotes", node)
    text = known_text(s, node.arguments[0])
    try:
        found = ip_address(text)
    except ValueError:
        raise s.error(f"{text} is no address of IPv4 or IPv6", node.arguments[0]) from None
    return arrays.of_bytes(s, found.packed, node)


TEXTS: dict[str, Callable[[Scope, ast.Call], Value | None]] = {
    "str": _str,
    "kstr": _kstr,
    "buf": _buf,
    "ntop": _ntop,
    "pton": _pton,
    "strcontains": _contains,
}
