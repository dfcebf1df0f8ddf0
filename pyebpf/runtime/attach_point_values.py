"""The values that a probe is given at an attach point: fields, arguments and results, with their types and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyebpf.runtime.attach_points import RAW_TRACEPOINT, TRACEPOINT, UPROBE, USDT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyebpf.runtime.attach_points import AttachPoint
    from pyebpf.target import KernelParameter, LiveTarget
    from pyebpf.types.tracepoint import TracepointField


class Value(NamedTuple):
    """A field, an argument or a result: its C type and declaration, bytes (None: of variable length).

    `operand` says where a USDT probe has it, in the words of its assembler.
    """

    name: str
    type: str
    size: int | None
    declaration: str
    operand: str = ""


class Values(NamedTuple):
    """The values of an attach point; `values` is None where nothing tells them, `result` of no function's entry."""

    values: tuple[Value, ...] | None
    result: Value | None = None


def values_of(point: AttachPoint, target: LiveTarget) -> Values:
    """Ask for what a probe is given there. Raises NotFound, NotSupported, MalformedData."""
    if point.kind == TRACEPOINT:
        return Values(tuple(map(_field, target.tracepoint_format(point.place, point.name).fields)))
    if point.kind == RAW_TRACEPOINT:
        return Values(_raw(point.name, target))
    if point.kind == USDT:
        return Values(_operands(point))
    if point.kind == UPROBE:
        return Values(_by_debugging_information(point))
    return _of_function(f"{point.place}:{point.name}" if point.place else point.name, target)


def _field(field: TracepointField) -> Value:
    array = "" if field.length is None else f"[{field.length or ''}]"
    star = field.type.endswith("*")
    # A pointer to a function has its name inside.
    whole = field.type if "(*" in field.type else f"{field.type}{'' if star else ' '}{field.name}{array}"
    return Value(field.name, f"{field.type}{array}", None if field.location else field.size, whole)


def _raw(name: str, target: LiveTarget) -> tuple[Value, ...]:
    from pyebpf.btf.tracepoints import raw_tracepoint

    found = target.raw_tracepoint(name)
    types = (each.type for each in raw_tracepoint(target.btf(found.module), name).arguments)
    return _declared(target, found.module, zip(found.parameters, types, strict=True))


def _declared(target: LiveTarget, module: str, parameters: Iterable[tuple[KernelParameter, int]]) -> tuple[Value, ...]:
    """Parameters with their types as BTF has them: qualified, and by the names of typedefs."""
    from pyebpf.btf.printer import c_declaration

    btf = target.btf(module)
    return tuple(
        Value(each.name, c_declaration(btf, number), each.type.size, c_declaration(btf, number, each.name))
        for each, number in parameters
    )


def _of_function(function: str, target: LiveTarget) -> Values:
    from pyebpf.attach.kernel_functions import btf_function, call_arguments, callee
    from pyebpf.btf import Func, FuncProto
    from pyebpf.btf.printer import c_declaration

    found = btf_function(target, function)
    traced = callee(target, function)
    # The one parameter of a system call's function is the saved registers; probes are given the call's arguments.
    fields = call_arguments(target, traced) if traced.call else None
    values = None if fields is None else tuple(map(_field, fields.values()))
    if found is None:
        return Values(values)
    btf = target.btf(found.module)
    node = btf.type_by_id(found.btf_id)
    proto = btf.type_by_id(node.type) if isinstance(node, Func) else None
    assert isinstance(proto, FuncProto)  # target.function() has looked
    type_ = c_declaration(btf, proto.type)
    result = Value("retval", type_, found.returns.size, type_) if found.returns.kind != "void" else None
    if not traced.call:
        types = (each.type for each in proto.params)
        values = _declared(target, found.module, zip(found.parameters, types, strict=False))
    return Values(values, result)


def _by_debugging_information(point: AttachPoint) -> tuple[Value, ...] | None:
    """The parameters of a program's function; None where nothing tells them."""
    from pyebpf.symbols.parameters import listed_parameters

    found = listed_parameters(point.place, point.name, point.offsets[0])
    if found is None:
        return None
    return tuple(
        Value(each.name, each.type.c_name, each.type.size, _declaration(each.type.c_name, each.name)) for each in found
    )


def _declaration(type_: str, name: str) -> str:
    """`char *name`, `int name[3]`."""
    base = type_
    while base.endswith("]"):  # a length behind another
        base = base.rpartition("[")[0]
    return f"{base}{'' if base.endswith('*') else ' '}{name}{type_[len(base) :]}"


def _operands(point: AttachPoint) -> tuple[Value, ...]:
    """The arguments of the first place; the same ones stand elsewhere at others."""
    from pyebpf.arch import host
    from pyebpf.arch.operands import parse_argument, parse_arguments
    from pyebpf.errors import InvalidValue

    values = []
    for number, operand in enumerate(parse_arguments(point.operands[0])):
        name = f"arg{number}"
        try:
            found = parse_argument(operand, host(), symbol=lambda _: 0)
        except InvalidValue:
            values.append(Value(name, "", None, name, operand))  # of a form that probes cannot read
            continue
        type_ = f"{'s' if found.signed else 'u'}{8 * found.size}"
        values.append(Value(name, type_, found.size, f"{type_} {name}", operand))
    return tuple(values)
