"""A probe's parameters and its context, by what the program is attached to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.annotations import KernelObject
from pyebpf.builder.entity import Entity
from pyebpf.builder.kernel_objects import as_number, from_register, plain_name
from pyebpf.builder.memory import Space
from pyebpf.builder.pointers import Pointer
from pyebpf.compiler.ir import Kind, Op
from pyebpf.errors import NotFound, closest
from pyebpf.specs import BtfTracepoint, PerfEvent, RawTracepoint, Tracepoint
from pyebpf.types import S64, U64, CharFactory, IntType, PointerType, array_of
from pyebpf.types.integers import INTEGERS

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.types.tracepoint import TracepointField

__all__ = ["Context", "context", "parameter"]

#: struct bpf_perf_event_data after its registers, whose size depends on the machine: name and offset.
PERF_EVENT_FIELDS = {"sample_period": 0, "addr": 8}
#: Size of the user-visible registers, and where the instruction pointer stands in them.
REGISTERS = {"x86_64": (168, 128), "aarch64": (272, 256)}


class Context(Entity):
    """`ctx`: what the program was called with. Its attributes are what parameters of those names would be."""

    def describe(self) -> str:
        return "the context"

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        if name == "target":
            return _target_name(p)
        return parameter(p, name, None)

    def set_attribute(self, p: ProgramBuilder, name: str, value: Any) -> None:
        p.fail(f"the context of a {p.kind.name.lower().replace('_', ' ')} program cannot be written: {name}")


def context(p: ProgramBuilder) -> Context:
    """Return the program's context as an entity."""
    return Context()


def parameter(p: ProgramBuilder, name: str, annotation: Any) -> Any:
    """Return what the target calls `name`.

    `annotation` is what the author wrote: a type of the language, KernelObject, or None.
    """
    found = _named(p, plain_name(name))
    if annotation is None or annotation is int or annotation is KernelObject:
        return found
    if isinstance(annotation, PointerType) and hasattr(found, "as_int"):
        space = found.space if isinstance(found, Pointer) else Space.KERNEL
        return Pointer(found.as_int(p).value, annotation.target, space)
    if isinstance(annotation, IntType) and hasattr(found, "convert"):
        return found.convert(p, annotation)
    return found


def _target_name(p: ProgramBuilder) -> str:
    match p.attach:
        case Tracepoint(category, name):
            return f"{category}:{name}"
        case RawTracepoint(name) | BtfTracepoint(name):
            return name
        case _:
            return str(p.attach)


def _named(p: ProgramBuilder, name: str) -> Any:
    match p.attach:
        case Tracepoint(category, event):
            return _tracepoint_field(p, category, event, name)
        case RawTracepoint(event):
            return _raw_argument(p, event, name, trusted=False)
        case BtfTracepoint(event):
            return _raw_argument(p, event, name, trusted=True)
        case PerfEvent():
            return _perf_event_field(p, name)
        case _:
            p.fail(f"{name}: this program's context has no named fields")


def _raw_argument(p: ProgramBuilder, event: str, name: str, *, trusted: bool) -> Any:
    try:
        arguments = p.target.raw_tracepoint_parameters(event)
    except NotFound as error:
        p.fail(str(error))
    for index, argument in enumerate(arguments):
        if argument.name == name:
            type_ = argument.type
            element = type_.element
            # Even where the type is known, the verifier hands out a number for `void *` and pointers to integers.
            typed = trusted and element is not None and element.composite and element.size > 0
            register = p.b.load(p.context, 8 * index, 8, kind=Kind.POINTER if typed else Kind.SCALAR)
            if typed and argument.nullable:
                register, typed = as_number(p, register), False
            return from_register(p, register, type_, trusted=typed)
    p.fail(f"raw tracepoint {event} has no argument {name}{closest(name, [a.name for a in arguments])}")


def _tracepoint_field(p: ProgramBuilder, category: str, event: str, name: str) -> Any:
    try:
        field = p.target.tracepoint_format(category, event).field(name)
    except NotFound as error:
        p.fail(str(error))
    from pyebpf.builder.integers import Int

    if field.location is not None:
        return _dynamic(p, field)
    if field.length is not None:
        return _array(p, field)
    if field.pointer:
        space = Space.USER if category == "syscalls" else Space.KERNEL
        target = CharFactory() if field.type.replace("const", "").split() == ["char", "*"] else None
        return Pointer(p.b.load(p.context, field.offset, 8), target, space)
    element = field.element
    if element is None or element[0] not in (1, 2, 4, 8):
        p.fail(f"{field.type} {name} of {field.size} bytes has no type in the language")
    # A syscall's argument fills 8 bytes whatever its type: the low part is the value (little-endian machines only).
    size, signed = min(element[0], field.size), element[1] if field.size >= element[0] else field.signed
    value = p.b.load(p.context, field.offset, size, signed=signed)
    if size == U64.size:
        return Int(value, S64 if signed else U64)
    return Int(value, S64, INTEGERS[f"{'s' if signed else 'u'}{8 * size}"])


def _array(p: ProgramBuilder, field: TracepointField) -> Any:
    """An array that stands in the record itself: text, or numbers."""
    from pyebpf.builder.operations import load
    from pyebpf.types import CharArray

    element = field.element
    if element is None or not field.length:
        p.fail(f"{field.type} {field.name}[] has no type in the language")
    if "char" in field.type.split():
        return load(p, p.context, field.offset, CharArray(field.length))
    size, signed = element
    return load(p, p.context, field.offset, array_of(INTEGERS[f"{'s' if signed else 'u'}{8 * size}"], field.length))


def _dynamic(p: ProgramBuilder, field: TracepointField) -> Any:
    """A `__data_loc` or `__rel_loc` string: its place in the record stands in the record."""
    from pyebpf.builder.strings import StringSource

    if "char" not in field.type.split():
        p.fail(f"{field.location} {field.type} {field.name}: only text can be read from a field of variable place")

    def read_into(program: ProgramBuilder, destination: Any, length: int) -> None:
        location = program.b.load(program.context, field.offset, 4)
        offset = program.b.emit(Op.AND, location, program.b.const(0xFFFF))
        if field.location == "__rel_loc":
            offset = program.b.emit(Op.ADD, offset, program.b.const(field.offset + 4))
        program.b.call(115, destination, program.b.const(length), program.b.emit(Op.OFFSET, program.context, offset))

    return StringSource(f"field {field.name}", read_into, None, p.b.where)


def _perf_event_field(p: ProgramBuilder, name: str) -> Any:
    from pyebpf.builder.integers import Int

    registers, instruction_pointer = REGISTERS[p.target.arch]
    offsets = {"ip": instruction_pointer, **{key: registers + offset for key, offset in PERF_EVENT_FIELDS.items()}}
    if name not in offsets:
        p.fail(f"a perf event's context has no field {name}{closest(name, offsets)}: it has {', '.join(offsets)}")
    return Int(p.b.load(p.context, offsets[name], 8), U64)
