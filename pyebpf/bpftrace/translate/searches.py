"""Functions of strings that look for one in another, join two, or compare bytes: `strstr`, `str_concat`, `memcmp`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace.described import printed_as_text
from pyebpf.bpftrace.translate.expressions import evaluate, known_number
from pyebpf.bpftrace.translate.members import kept
from pyebpf.bpftrace.translate.values import Embedded, Integer, Reference, Row, Text, Unknown, constant, literal_text
from pyebpf.bpftrace.value_types import natural
from pyebpf.builder.loops import ITERATORS, range_loop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.kernel_objects import KernelArray
from pyebpf.builder.values.lvalue import Lvalue, copy, movable, temporary, zero
from pyebpf.builder.values.memory import Space, at_offset, probe_read
from pyebpf.builder.values.operations import to_int
from pyebpf.builder.values.restating import element_offset
from pyebpf.builder.values.strings import String as BuilderString, until_nul
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.types import CharArray, CharFactory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

#: Characters of a string, known at run time only, that another is searched for.
MAX_SOUGHT = 128
_WORD = 8
#: Bytes of memory that no stack has room for.
_LARGE = 512
#: Bytes of a string whose end is looked for by bisection.
_BISECTED = 128
#: Bytes that memcmp() compares at most.
MAX_BYTES = 1024


def _arguments(s: Scope, node: ast.Call, count: int) -> Sequence[ast.Expression]:
    from pyebpf.bpftrace.translate.functions import arguments

    return arguments(s, node, count, count)


def text(s: Scope, node: ast.Expression, name: str) -> Text | Unknown:
    """An argument that is a string, an array of characters, or leads to characters."""
    from pyebpf.bpftrace.translate.texts import text_at

    value = evaluate(s, node)
    if isinstance(value, Text | Unknown):
        return value
    most = s.max_strlen + 1
    if isinstance(value, Reference) and isinstance(value.type.target, CharFactory):
        return text_at(s, value.value, value.type.space, most)
    if isinstance(value, Row) and natural(value.type.element).size == 1:
        size = value.type.storage.size + 1
        slot = s.p.b.slot(-(-size // 8) * 8, name="characters")
        zero(s.p, s.p.b.slot_address(slot), 0, slot.size)
        copy(s.p, s.p.b.slot_address(slot), 0, *value.lvalue.address(s.p), size - 1)
        return Text(BuilderString(CharArray(size), Lvalue(slot=slot, owner="characters", writable=False)), size)
    if isinstance(value, Embedded) and isinstance(value.entity, KernelArray) and value.entity.element.size == 1:
        length = value.entity.array_length or most
        return text_at(s, value.address(s.p), value.entity.space, min(length + 1, most))
    what = printed_as_text(value.type) or f"{value.type.name}: write str(…)"
    raise s.error(f"{name}() takes strings, and this is {what}", node)


def first_place(s: Scope, value: Text, wanted: Text, node: ast.Call) -> ir.Value:
    """The first place where a string has another, known at run time only: at each all characters are compared."""
    p, b = s.p, s.p.b
    room, sought = value.size, wanted.size - 1
    if sought > MAX_SOUGHT:
        raise s.error(f"{node.name}() looks for {MAX_SOUGHT} characters at most: cut it by str(…)", node)
    words = -(-sought // _WORD)
    slot = b.slot(-(-room // _WORD) * _WORD + words * _WORD, name="searched")
    zero(p, b.slot_address(slot), 0, slot.size)
    copy(p, b.slot_address(slot), 0, *value.kept(p).lvalue.address(p), room)
    if slot.size >= _LARGE:
        return _place_by_words(p, slot, room, wanted, words)
    part, start = wanted.kept(p).lvalue.address(p)
    answer = b.variable(hint="found")
    b.write(answer, b.const(-1))
    with range_loop(p, 0, room, 1, [answer]) as (loop, index):
        place = b.emit(Op.OFFSET, b.slot_address(slot), element_offset(p, index.value, room, 1))
        other = b.const(0)
        for position in range(sought):
            here, there = b.load(place, position, 1), b.load(part, start + position, 1)
            # All bits of the difference count, or none behind the end of what is sought.
            counts = b.binary(Op.ASHR, b.binary(Op.SUB, b.const(0), there), b.const(63))
            other = b.binary(Op.OR, other, b.binary(Op.AND, b.binary(Op.XOR, here, there), counts))
        with b.if_(Compare(Relation.EQ, other, b.const(0))):
            b.write(answer, index.value)
            b.break_(loop)
        with b.if_(Compare(Relation.EQ, b.load(place, 0, 1), b.const(0))):
            b.break_(loop)
    return b.read_final(answer)


def _place_by_words(p: ProgramBuilder, slot: ir.Slot, room: int, wanted: Text, words: int) -> ir.Value:
    """The same in memory that is on no stack, where words need not be aligned: of a text that has `room` bytes."""
    b = p.b
    sought = b.slot((words + 1) * _WORD, name="sought")
    zero(p, b.slot_address(sought), 0, sought.size)
    copy(p, b.slot_address(sought), 0, *wanted.kept(p).lvalue.address(p), min(wanted.size, sought.size))
    parts: list[tuple[ir.Value, ir.Value]] = []
    going = b.const(-1)
    for number in range(words):
        part = b.load(b.slot_address(sought), number * _WORD, _WORD)
        counts, more = until_nul(p, part, _WORD)
        parts.append((part, b.binary(Op.AND, counts, going)))
        going = b.binary(Op.AND, going, more)
    answer, absent = b.variable(hint="found"), b.variable(hint="absent")
    ends = p.target.has(ITERATORS)
    b.write(answer, b.const(-1 if ends else 0))
    b.write(absent, b.const(1))
    with range_loop(p, 0, room, 1, [answer, absent]) as (loop, index):
        place = b.emit(Op.OFFSET, b.slot_address(slot), element_offset(p, index.value, room, 1))
        differs = b.const(0)
        for number, (part, counts) in enumerate(parts):
            here = b.binary(Op.XOR, b.load(place, number * _WORD, _WORD), part)
            differs = b.binary(Op.OR, differs, b.binary(Op.AND, here, counts))
        if ends:
            with b.if_(Compare(Relation.EQ, differs, b.const(0))):
                b.write(answer, index.value)
                b.break_(loop)
            with b.if_(Compare(Relation.EQ, b.load(place, 0, 1), b.const(0))):
                b.break_(loop)
        else:
            # No branch: verifiers would go on from each iteration as from one of its own.
            before, so_far = b.read(absent), b.read(answer)
            assert before is not None
            assert so_far is not None
            either = b.binary(Op.LSHR, b.binary(Op.OR, differs, b.emit(Op.NEG, differs)), b.const(63))
            now = b.binary(Op.AND, before, either)
            b.write(absent, now)
            b.write(answer, b.binary(Op.ADD, so_far, now))
    if ends:
        b.forget(absent)
        return b.read_final(answer)
    return b.binary(Op.OR, b.read_final(answer), b.binary(Op.SUB, b.const(0), b.read_final(absent)))


def _find(s: Scope, node: ast.Call) -> Value:
    """`strstr(text, part)`: the first place of the part, from 0; -1 if it is not there."""
    first, second = _arguments(s, node, 2)
    value, wanted = text(s, first, node.name), text(s, second, node.name)
    if isinstance(value, Unknown) or isinstance(wanted, Unknown):
        return Unknown(s.p)
    if isinstance(value.source, bytes) and isinstance(wanted.source, bytes):
        return constant(s.p, value.source.find(wanted.source)) if wanted.source in value.source else _absent(s)
    if isinstance(wanted.source, bytes) and len(wanted.source) >= value.size:
        return _absent(s)
    return Integer(first_place(s, value, wanted, node), signed=True)


def _absent(s: Scope) -> Integer:
    return Integer(s.p.b.const(-1), signed=True)


def _capacity(s: Scope, node: ast.Call) -> Value:
    """`strcap(text)`: bytes that a string has room for, its NUL among them."""
    (first,) = _arguments(s, node, 1)
    value = text(s, first, node.name)
    return value if isinstance(value, Unknown) else constant(s.p, value.room)


def _default_length(s: Scope, node: ast.Call) -> Value:
    """`default_str_length()`: bytes of a string of which nothing else is said."""
    _arguments(s, node, 0)
    return constant(s.p, s.max_strlen)


def _is_text(s: Scope, node: ast.Call) -> None:
    """`assert_str(x)`: an error when the script is compiled, for what is no string."""
    (first,) = _arguments(s, node, 1)
    text(s, first, node.name)


def _joined(s: Scope, node: ast.Call) -> Value:
    """`str_concat(one, other)`: both in a string that has room for them, cut where strings are."""
    one, other = [text(s, each, node.name) for each in _arguments(s, node, 2)]
    if isinstance(one, Unknown) or isinstance(other, Unknown):
        return Unknown(s.p)
    if isinstance(one.source, bytes) and isinstance(other.source, bytes):
        both, most = one.source + other.source, max(one.size, s.max_strlen) - 1
        known = literal_text(both[:most])
        return Text(known.source, known.size, known.data, cut=len(both) > most)
    p, b = s.p, s.p.b
    room = one.size + other.size - 1
    size = min(room, max(one.size, s.max_strlen))
    slot = b.slot(-(-room // 8) * 8, name="joined")
    address = b.slot_address(slot)
    zero(p, address, 0, slot.size)
    first = one.kept(p)
    copy(p, address, 0, *first.lvalue.address(p), one.size)
    place = b.emit(Op.OFFSET, address, element_offset(p, length(p, one, first), one.size, 1))
    # Neither place is aligned: a helper copies words all the same.
    probe_read(p, Space.KERNEL, place, other.size, at_offset(p, *other.kept(p).lvalue.address(p)))
    if size < room:
        b.store(address, size - 1, b.const(0), 1)
    found = BuilderString(CharArray(size), Lvalue(slot=slot, owner="str_concat()", writable=False))
    return Text(found, size, cut=size < room)


def differ(s: Scope, one: Text, other: Text, count: int) -> Value:
    """Whether the first characters of two strings differ, of at most `count`: 1, or 0."""
    p, b = s.p, s.p.b
    (left, here), (right, there) = [movable(p, each.kept(p).lvalue, each.size).address(p) for each in (one, other)]
    answer = b.variable(hint="differs")
    b.write(answer, b.const(0))
    most = min(count, one.size, other.size)
    with range_loop(p, 0, most, 1, [answer]) as (loop, index):
        at = element_offset(p, index.value, most, 1)
        first = b.load(b.emit(Op.OFFSET, left, at), here, 1)
        second = b.load(b.emit(Op.OFFSET, right, at), there, 1)
        with b.if_(Compare(Relation.NE, first, second)):
            b.write(answer, b.const(1))
            b.break_(loop)
        with b.if_(Compare(Relation.EQ, first, b.const(0))):
            b.break_(loop)
    found = b.read_final(answer)
    b.assume_bounds(found, 0, 1)
    return Integer(found, signed=False)


def length(p: ProgramBuilder, value: Text, found: BuilderString) -> ir.Value:
    """The bytes of a string before its NUL; `found` is the string in memory."""
    if isinstance(value.source, bytes):
        return p.b.const(len(value.source))
    if value.size <= _BISECTED:
        return to_int(p, found.length(p)).value
    # Verifiers follow each way that a search takes, of two such searches each of the one for each of the other.
    with temporary(p, value.size) as slot:
        count = Text(found, value.size).write_counted(p, p.b.slot_address(slot))
    number = p.b.binary(Op.SUB, count, p.b.const(1))
    p.b.assume_bounds(number, 0, value.size - 1)
    return number


def _compare(s: Scope, node: ast.Call) -> Value:
    """`memcmp(one, other, n)`: 0, or the difference of the first bytes that differ."""
    first, second, third = _arguments(s, node, 3)
    one, other, count = kept(s, evaluate(s, first), first), kept(s, evaluate(s, second), second), known_number(s, third)
    if isinstance(one, Unknown) or isinstance(other, Unknown):
        return Unknown(s.p)
    room = min(_bytes_of(one), _bytes_of(other))
    if not 1 <= count <= room:
        raise s.error(f"memcmp() of {count} bytes: give 1 to {room}, as both have", third)
    if count > MAX_BYTES:
        raise s.error(f"memcmp() compares {MAX_BYTES} bytes at most", third)
    p, b = s.p, s.p.b
    left, right = in_memory(s, one), in_memory(s, other)
    answer = b.variable(hint="difference")
    b.write(answer, b.const(0))
    with range_loop(p, 0, count, 1, [answer]) as (loop, index):
        at = element_offset(p, index.value, count, 1)
        here = b.load(b.emit(Op.OFFSET, left, at), 0, 1)
        there = b.load(b.emit(Op.OFFSET, right, at), 0, 1)
        with b.if_(Compare(Relation.NE, here, there)):
            b.write(answer, b.binary(Op.SUB, here, there))
            b.break_(loop)
    return Integer(b.read_final(answer), signed=True)


def _bytes_of(value: Value) -> int:
    return value.room if isinstance(value, Text) else natural(value.type).size


def in_memory(s: Scope, value: Value) -> ir.Value:
    """The address of a copy of a value, as C lays it out."""
    p, type_ = s.p, natural(value.type)
    slot = p.b.slot(-(-_bytes_of(value) // 8) * 8, name="copy")
    zero(p, p.b.slot_address(slot), 0, slot.size)
    if isinstance(value, Text):
        value.copy_bytes(p, p.b.slot_address(slot), 0, value.room)
    else:
        p.store_value(p.b.slot_address(slot), 0, type_, value.operand(p))
    return p.b.slot_address(slot)


SEARCHES: dict[str, Callable[[Scope, ast.Call], Value | None]] = {
    "strstr": _find,
    "strcap": _capacity,
    "default_str_length": _default_length,
    "assert_str": _is_text,
    "str_concat": _joined,
    "memcmp": _compare,
}
