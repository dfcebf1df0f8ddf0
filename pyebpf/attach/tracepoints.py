"""Tracepoints: through perf events, raw, raw with BTF types, and raw with an argument that programs may change."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from pyebpf.attach.decorators import Decorators
from pyebpf.builder.context import LoadAttributes, OpaqueArgument, ProgramContext
from pyebpf.builder.values.arrays import Array
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.kernel_numbers import as_number
from pyebpf.builder.values.kernel_objects import from_register, integer_type
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.builder.values.memory import Space
from pyebpf.builder.values.pointers import Pointer
from pyebpf.builder.values.strings import StringSource
from pyebpf.compiler.ir import Op, ValueType
from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import InvalidValue, NotFound, PyebpfError, closest, closest_or_all
from pyebpf.specs.attach_point import AttachSpec, is_pattern
from pyebpf.types import S64, U64, CharArray, CharFactory, PointerType, array_of
from pyebpf.types.integers import INTEGERS
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.helper_ids import PROBE_READ_KERNEL_STR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyebpf.attach.decorators import TracingDecorator
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.target import KernelType, Target
    from pyebpf.types import Type
    from pyebpf.types.tracepoint import TracepointField


#: Tracepoints that a pattern may match at most, unless its author says otherwise.
MAX_PROBES = 1000


@dataclass(frozen=True, slots=True)
class Tracepoint(AttachSpec):
    """A tracepoint through perf_event_open: `category` and `name` as under tracefs `events/`.

    Either may be a pattern ("sys_enter_re*") for at most `max_probes` tracepoints.
    """

    category: str
    name: str
    max_probes: int = MAX_PROBES

    program_type = ProgramType.TRACEPOINT

    def __str__(self) -> str:
        return f"tracepoint {self.category}:{self.name}"

    @property
    def target(self) -> str:
        return f"{self.category}:{self.name}"

    @property
    def caller_event(self) -> str:
        return self.name

    def program_context(self) -> TracepointProgramContext:
        return TracepointProgramContext(self)


@dataclass(frozen=True, slots=True)
class BareTracepoint(AttachSpec):
    """A tracepoint by its bare name, whose programs get the arguments that the kernel passes.

    `name` may be a pattern ("sched_*", of one module "xfs:xfs_*") for at most `max_probes` tracepoints.
    """

    name: str
    max_probes: int = MAX_PROBES

    @property
    def target(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class RawTracepoint(BareTracepoint):
    """A raw tracepoint (BPF_RAW_TRACEPOINT_OPEN): no BTF trust."""

    program_type = ProgramType.RAW_TRACEPOINT

    def __str__(self) -> str:
        return f"raw_tp {self.name}"

    @property
    def caller_event(self) -> str:
        return self.name

    def program_context(self) -> RawTracepointProgramContext:
        return RawTracepointProgramContext(self)


@dataclass(frozen=True, slots=True)
class BtfTracepoint(BareTracepoint):
    """A raw tracepoint whose arguments the verifier knows by BTF (BPF_TRACE_RAW_TP): typed pointers load directly."""

    program_type = ProgramType.TRACING
    attach_type = AttachType.TRACE_RAW_TP

    def __str__(self) -> str:
        return f"tp_btf {self.name}"

    @property
    def caller_event(self) -> str:
        return self.name

    def program_context(self) -> BtfTracepointProgramContext:
        return BtfTracepointProgramContext(self)


@dataclass(frozen=True, slots=True)
class WritableRawTracepoint(BareTracepoint):
    """A raw tracepoint that was declared writable ("bpf_test_finish", "nbd_send_request")."""

    program_type = ProgramType.RAW_TRACEPOINT_WRITABLE

    def __str__(self) -> str:
        return f"writable raw_tp {self.name}"

    def program_context(self) -> WritableRawTracepointProgramContext:
        return WritableRawTracepointProgramContext(self)


class TracepointProgramContext(ProgramContext[Tracepoint]):
    """Parameters are the fields of the tracepoint's record. A system call's pointers are the process's."""

    @property
    def space(self) -> Space:  # type: ignore[override] # a constant of other kinds
        return Space.USER if self.attach.category == "syscalls" else Space.KERNEL

    def expand(self, target: Target) -> Iterable[AttachSpec]:
        category, name = self.attach.category, self.attach.name
        if not is_pattern(category + name):
            return (self.attach,)
        categories = target.tracepoint_categories(category) if is_pattern(category) else (category,)
        found = [(each, event) for each in categories for event in target.tracepoints(each, name)]

        def all_names() -> Iterable[str]:
            if not categories:
                return target.tracepoint_categories("*")
            return (event for each in categories for event in target.tracepoints(each, "*"))

        like = name if categories else category
        _check_number("tracepoint", self.attach.target, len(found), self.attach.max_probes, like, all_names)
        return tuple(Tracepoint(*each) for each in found)

    def exists(self, target: Target) -> bool:
        try:
            target.tracepoint_format(self.attach.category, self.attach.name)
        except NotFound:
            return False
        return True

    def field(self, p: ProgramBuilder, name: str) -> object:
        return _field(p, self.attach.category, self.attach.name, name)


def _check_number(
    what: str, pattern: str, found: int, most: int, name: str, all_names: Callable[[], Iterable[str]]
) -> None:
    """Refuse a pattern that matches nothing, with names that are like `name`, or more than its author allows."""
    if not found:
        hint = ""
        with suppress(PyebpfError):  # targets that were recorded know no more than they were asked
            names = list(all_names())
            hint = closest(name, [*names, *(f"{each.partition('_')[0]}_*" for each in names if "_" in each)])
        raise NotFound(f"no {what} matches {pattern}{hint}")
    if found > most:
        raise InvalidValue(
            f"'{pattern}' matches {found} {what}s, more than {most}: narrow it, or allow more with "
            f"max_probes={found} (--max-probes)"
        )


S = TypeVar("S", bound=BareTracepoint)

#: Events that reading a process's memory causes.
_PAGE_FAULTS = frozenset({"page_fault_user", "page_fault_kernel"})


class KernelArgumentsProgramContext(ProgramContext[S], Generic[S]):
    """The tracepoints whose programs get the kernel's own arguments."""

    def expand(self, target: Target) -> Iterable[AttachSpec]:
        pattern = self.attach.name
        if not is_pattern(pattern):
            return (self.attach,)
        found = target.raw_tracepoints(pattern)
        place, colon, name = pattern.rpartition(":")

        def all_names() -> Iterable[str]:
            return target.raw_tracepoints(f"{place}{colon}*")

        shown = pattern.removeprefix("*:")
        _check_number("raw tracepoint", shown, len(found), self.attach.max_probes, name, all_names)
        return tuple(replace(self.attach, name=each, max_probes=MAX_PROBES) for each in found)

    def exists(self, target: Target) -> bool:
        try:
            target.raw_tracepoint(self.attach.name)
        except NotFound:
            return False
        return True

    def check_user_read(self, p: ProgramBuilder) -> None:
        """Refuse a program that would run inside itself until the kernel's stack overflows.

        A kernel with the function below leaves the inner run out, since Linux commit 05b24ff9b2cf ("bpf: Prevent bpf
        program recursion for raw tracepoint probes") (v6.1).
        """
        event = self.attach.name
        if event in _PAGE_FAULTS and not p.target.has_function("bpf_prog_inc_misses_counter"):
            p.fail(
                "reading a process's memory causes page faults, and before Linux 6.1 a program on "
                f"{event} would run inside itself until the kernel panics: use "
                f'@bpf.tracepoint("exceptions:{event}"), which does not'
            )


class RawTracepointProgramContext(KernelArgumentsProgramContext[RawTracepoint]):
    """Parameters are the kernel's own arguments, numbers and pointers that the verifier does not trust."""

    def field(self, p: ProgramBuilder, name: str) -> object:
        return _raw_argument(p, self.attach.name, name, trusted=False)


class BtfTracepointProgramContext(KernelArgumentsProgramContext[BtfTracepoint]):
    """Parameters are the kernel's own arguments; objects load directly."""

    def load_attributes(self, target: Target) -> LoadAttributes:
        found = target.raw_tracepoint(self.attach.name)
        return LoadAttributes(found.btf_id, found.module)

    def without_types(self) -> RawTracepoint:
        return RawTracepoint(self.attach.name)

    def field(self, p: ProgramBuilder, name: str) -> object:
        return _raw_argument(p, self.attach.name, name, trusted=True)


class WritableRawTracepointProgramContext(KernelArgumentsProgramContext[WritableRawTracepoint]):
    """Parameters are the kernel's arguments; what the first points to may be written, a number as `argument[0]`."""

    def default_return(self, program_type: ProgramType) -> int | None:
        return 0

    def field(self, p: ProgramBuilder, name: str) -> object:
        from pyebpf.builder.values.kernel_references import WritableReference

        try:
            parameters = p.target.raw_tracepoint_parameters(self.attach.name)
        except NotFound as error:
            p.fail(str(error))
        first = parameters[0] if parameters else None
        element = None if first is None else first.type.element
        if first is None or first.name != name or element is None:
            return _raw_argument(p, self.attach.name, name, trusted=False)
        register = p.b.load(p.context, 0, 8, result=ValueType.POINTER)
        if element.composite:
            return WritableReference(register, element, trusted=True)
        number = integer_type(element)
        if number is None:
            p.fail(f"{name} points to a {element.c_name}, which is not supported in probes")
        return Array(array_of(number, 1), Lvalue(base=register, owner=f"the argument {name}"))


#: Arguments that supported kernels lack, and the release that brought each.
_SINCE = {
    # Linux commit c504e5c2f964 ("net: skb: introduce kfree_skb_reason()").
    ("kfree_skb", "reason"): "5.17",
}


def _raw_argument(p: ProgramBuilder, event: str, name: str, *, trusted: bool) -> object:
    """An argument of a raw tracepoint by its name; a `trusted` pointer is one that the verifier knows."""
    try:
        arguments = p.target.raw_tracepoint_parameters(event)
    except NotFound as error:
        p.fail(str(error))
    for index, argument in enumerate(arguments):
        if argument.name == name:
            type_ = argument.type
            element = type_.element
            if trusted and _is_opaque(type_):
                reason = f"the verifier gives no {type_.c_name}, which its argument {name} is"
                raise OpaqueArgument(reason, p.b.where)
            # Even where the type is known, the verifier hands out a number for `void *` and pointers to integers.
            typed = trusted and element is not None and element.composite and element.size > 0
            register = p.b.load(p.context, 8 * index, 8, result=ValueType.POINTER if typed else ValueType.SCALAR)
            if typed and argument.nullable:
                register, typed = as_number(p, register), False
            return from_register(p, register, type_, trusted=typed)
    kind = "BTF" if trusted else "raw"
    since = _SINCE.get((event, name))
    if since is not None:
        p.fail(
            f"{kind} tracepoint {event} has no argument {name} on this kernel: it came with Linux {since}; read it "
            f'only where has_field("struct trace_event_raw_{event}", "{name}") says that it is there'
        )
    p.fail(f"{kind} tracepoint {event} has no argument {name}{closest_or_all(name, [a.name for a in arguments])}")


def _is_opaque(type_: KernelType) -> bool:
    """Whether the verifier refuses to read an argument where it knows the types of all (btf_ctx_access).

    It takes numbers, and pointers to structs that BTF defines, to numbers and to nothing.
    """
    element = type_.element
    if type_.kind != "pointer" or element is None:
        return False
    if element.composite:
        return element.size == 0
    return element.kind not in ("int", "void")


def _field(p: ProgramBuilder, category: str, event: str, name: str) -> object:
    try:
        field = p.target.tracepoint_format(category, event).field(name)
    except NotFound as error:
        p.fail(str(error))
    if field.location is not None:
        return _dynamic(p, field)
    if field.length is not None:
        return _array(p, field)
    if field.pointer:
        space = Space.USER if category == "syscalls" else Space.KERNEL
        return Pointer(p.b.load(p.context, field.offset, 8), _pointed(field.type), space)
    element = field.element
    if element is None or element[0] not in (1, 2, 4, 8):
        p.fail(f"{field.type} {name} of {field.size} bytes is not supported in probes")
    if category == "syscalls":
        from pyebpf.attach.call_arguments import call_argument_type  # other tracepoints need none of it

        # The low part is the value (little-endian machines only).
        type_ = call_argument_type(p.target, field)
        element = type_.size, type_.signed
    size, signed = min(element[0], field.size), element[1] if field.size >= element[0] else field.signed
    value = p.b.load(p.context, field.offset, size, signed=signed)
    if size == U64.size:
        return Int(value, S64 if signed else U64)
    return Int(value, S64, INTEGERS[f"{'s' if signed else 'u'}{8 * size}"])


def _pointed(type_: str) -> Type | CharFactory | None:
    """The target of a pointer by its C type: text, an array of texts (argv), else None: not known."""
    words = type_.replace("const", "").replace("*", " * ").split()
    if words == ["char", "*", "*"]:
        return PointerType(CharFactory())
    return CharFactory() if words == ["char", "*"] else None


def _array(p: ProgramBuilder, field: TracepointField) -> object:
    """An array that stands in the record itself: text, or numbers."""
    element = field.element
    if element is None or not field.length:
        p.fail(f"{field.type} {field.name}[] is not supported in probes")
    place = Lvalue(base=p.context, offset=field.offset, writable=False, fixed=True)
    if "char" in field.type.split():
        return p.load_value(place, CharArray(field.length))
    size, signed = element
    return p.load_value(place, array_of(INTEGERS[f"{'s' if signed else 'u'}{8 * size}"], field.length))


def _dynamic(p: ProgramBuilder, field: TracepointField) -> StringSource:
    """A `__data_loc` or `__rel_loc` string: its place in the record stands in the record."""
    if "char" not in field.type.split():
        p.fail(f"{field.location} {field.type} {field.name}: only text can be read from a field of variable place")

    def read_into(program: ProgramBuilder, destination: ir.Value, length: int) -> None:
        location = program.b.load(program.context, field.offset, 4)
        offset = program.b.emit(Op.AND, location, program.b.const(0xFFFF))
        if field.location == "__rel_loc":
            offset = program.b.emit(Op.ADD, offset, program.b.const(field.offset + 4))
        text = program.b.emit(Op.OFFSET, program.context, offset)
        program.b.call(PROBE_READ_KERNEL_STR, destination, program.b.const(length), text)

    remedy = (
        f"annotate the parameter, {field.name}: char[64] for example, or the local, kept: char[64] = ctx.{field.name}"
    )
    return StringSource(f"field {field.name}", read_into, None, p.b.where, remedy)


class TracepointDecorators(Decorators):
    """Probes at the kernel's tracepoints."""

    def tracepoint(self, *targets: str, optional: bool = False, max_probes: int = MAX_PROBES) -> TracingDecorator:
        """Run at tracepoints, each "category:name" as under tracefs `events/`. Parameters are fields of its record.

        With `*`, `?` or `[...]` in it a target stands for all that match, at most `max_probes`. With `optional`,
        targets that the kernel lacks are left out.
        """
        places = []
        for target in targets:
            category, colon, name = target.partition(":")
            if not colon or not category or not name or ":" in name:
                raise InvalidValue(
                    f'@bpf.tracepoint({target!r}): write "category:name", such as "syscalls:sys_enter_openat"'
                )
            places.append(Tracepoint(category, name, max_probes))
        return self._tracing("tracepoint", targets, places, optional=optional)

    def raw_tracepoint(self, *targets: str, optional: bool = False, max_probes: int = MAX_PROBES) -> TracingDecorator:
        """Run at tracepoints by their bare names, before any record is made; cheaper to attach.

        Parameters are the kernel's arguments. A name with `*`, `?` or `[...]` stands for all that match, at most
        `max_probes`: "sched_*", of a module "xfs:xfs_*". With `optional`, targets that the kernel lacks are left out.
        """
        _bare("raw_tracepoint", targets)
        places = [RawTracepoint(target, max_probes) for target in targets]
        return self._tracing("raw_tracepoint", targets, places, optional=optional)

    def btf_tracepoint(self, *targets: str, optional: bool = False, max_probes: int = MAX_PROBES) -> TracingDecorator:
        """`raw_tracepoint` whose pointers the verifier knows (tp_btf, since Linux 5.5): objects load directly."""
        _bare("btf_tracepoint", targets)
        places = [BtfTracepoint(target, max_probes) for target in targets]
        return self._tracing("btf_tracepoint", targets, places, optional=optional)

    def raw_tracepoint_writable(self, *targets: str, optional: bool = False) -> TracingDecorator:
        """`raw_tracepoint` at one that was declared writable, such as "nbd_send_request" (since Linux 5.2).

        What the first argument points to is read and written directly: `request.flags = 0`; a number is `error[0]`.
        """
        places = map(WritableRawTracepoint, targets)
        return self._tracing("raw_tracepoint_writable", targets, places, optional=optional)


def _bare(decorator: str, targets: tuple[str, ...]) -> None:
    for target in targets:
        if ":" in target and not is_pattern(target):
            raise InvalidValue(f'@bpf.{decorator}({target!r}): write the bare name, "{target.rpartition(":")[2]}"')
