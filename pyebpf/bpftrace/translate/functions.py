"""Functions that a script calls: actions of user space, and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.events import Action
from pyebpf.bpftrace.formats import parse_format
from pyebpf.bpftrace.tables import Gathered
from pyebpf.bpftrace.translate import arithmetic, maps, script_functions
from pyebpf.bpftrace.translate.aggregations import AGGREGATIONS
from pyebpf.bpftrace.translate.attachments import plain
from pyebpf.bpftrace.translate.body import exited
from pyebpf.bpftrace.translate.builtins import BUILTINS, builtin, user_symbol
from pyebpf.bpftrace.translate.checks import CHECKS
from pyebpf.bpftrace.translate.expressions import (
    as_integer,
    evaluate,
    known_format,
    known_number,
    known_text,
    number,
)
from pyebpf.bpftrace.translate.inference import KINDS
from pyebpf.bpftrace.translate.library import LIBRARY
from pyebpf.bpftrace.translate.machine import MACHINE
from pyebpf.bpftrace.translate.members import kept
from pyebpf.bpftrace.translate.names import DTRACE
from pyebpf.bpftrace.translate.number_names import NUMBER_NAMES
from pyebpf.bpftrace.translate.searches import SEARCHES, differ, length, text
from pyebpf.bpftrace.translate.stacks import stack_length
from pyebpf.bpftrace.translate.texts import TEXTS
from pyebpf.bpftrace.translate.trace_pipe import TRACE_PIPE
from pyebpf.bpftrace.translate.trusted import OBJECTS
from pyebpf.bpftrace.translate.type_names import c_size
from pyebpf.bpftrace.translate.user_memory import USER_MEMORY
from pyebpf.bpftrace.translate.values import Condition, Integer, Special, Text, Unknown, Value, constant, is_unknown
from pyebpf.bpftrace.value_types import (
    Address,
    Boolean,
    KernelStack,
    KernelSymbol,
    String,
    Timestamp,
    UserStack,
    ValueType,
)
from pyebpf.builder.values.integers import Int
from pyebpf.compiler.ir import Op
from pyebpf.errors import amount, closest
from pyebpf.types import U64
from pyebpf.uapi.helper_ids import SEND_SIGNAL, SEND_SIGNAL_THREAD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.bpftrace.translate.body import Scope


def is_function(name: str) -> bool:
    """Whether the language has a function of a name."""
    return any(name in each for each in (*_TABLES, AGGREGATIONS, BUILTINS))


def function(name: str) -> Callable[[Scope, ast.Call], Value | None]:
    """The function of a name."""
    return next(each[name] for each in _TABLES if name in each)


def call(s: Scope, node: ast.Call) -> Value | None:
    """A call."""
    if not node.arguments:
        found = builtin(s, ast.Identifier(node.start, node.end, node.name))
        if found is not None:
            return found
    own = s.script.functions.get(node.name)
    if own is not None:
        return script_functions.call(s, node, own)
    for each in _TABLES:
        if node.name in each:
            return each[node.name](s, node)
    if node.name in AGGREGATIONS:
        raise s.error(f"{node.name}() is assigned to a map: @x = {node.name}(…)", node)
    if node.name in DTRACE:
        raise s.error(f"there is no function {node.name}(): write {DTRACE[node.name]}", node)
    if node.name in s.script.defines:
        raise s.error(f"#define of a function is not read: write macro {node.name}(x) {{ … }} for it", node)
    if node.name in KINDS:
        declared = f"let @name = {node.name}(…);"
        raise s.error(f"there is no function {node.name}(): a map is declared before all probes, {declared}", node)
    known = closest(node.name, [name for each in (*_TABLES, AGGREGATIONS, s.script.functions) for name in each])
    raise s.error(f"there is no function {node.name}(){known}", node)


def arguments(s: Scope, node: ast.Call, least: int, most: int) -> Sequence[ast.Expression]:
    """A call's arguments, checked for their number."""
    count = len(node.arguments)
    if not least <= count <= most:
        takes = amount(least, "argument") if least == most else f"{least} to {most} arguments"
        raise s.error(f"{node.name}() takes {takes}, not {count}", node)
    return node.arguments


def send(s: Scope, action: Action, values: Sequence[Value]) -> None:
    """Ask user space for an action; nothing while a value's type is still being found."""
    if any(map(is_unknown, values)):
        return
    s.script.events.send(s.p, action, values)


# -- printing ----------------------------------------------------------------------------------------------------------


def formatted(s: Scope, node: ast.Call) -> tuple[Action, Sequence[Value]]:
    """The action of a call with a format, and its values."""
    arguments(s, node, 1, 64)
    try:
        layout = parse_format(known_format(s, node.arguments[0]))
    except ValueError as error:
        raise s.error(str(error), node.arguments[0]) from None
    given = node.arguments[1:]
    if len(given) != len(layout.specifiers):
        raise s.error(layout.mismatch(len(given)), node)
    values = [kept(s, evaluate(s, each), each) for each in given]
    for specifier, value, each in zip(layout.specifiers, values, given, strict=True):
        if not specifier.accepts(value.type) and not isinstance(value, Unknown):
            raise s.error(f"%{specifier.kind} does not print {value.type.name}{_given(s, value, each)}", each)
    return Action(node.name, _types(values), layout), values


def _given(s: Scope, value: Value, node: ast.Expression) -> str:
    """The text that the command line has for a parameter, if it is no number, for an error; "" of anything else."""
    if not isinstance(value, Text) or not isinstance(node, ast.PositionalParameter):
        return ""
    if node.number > len(s.script.arguments):
        return ""
    text = s.script.arguments[node.number - 1]
    return f": ${node.number} is {text[:40]!r}, and no number of 64 bits"


def _printf(s: Scope, node: ast.Call) -> None:
    send(s, *formatted(s, node))


def _types(values: Sequence[Value]) -> tuple[ValueType, ...]:
    return tuple(each.type for each in values)


def _print(s: Scope, node: ast.Call) -> None:
    first, *rest = arguments(s, node, 1, 3)
    if isinstance(first, ast.Map) and (s.script.maps.is_keyed(first) or rest):
        numbers = tuple(known_number(s, each) for each in rest)
        s.script.maps.table(first)
        send(s, Action("print_map", map=f"@{first.name}", numbers=numbers), ())
        return
    if isinstance(first, ast.Map):
        if s.script.maps.table(first) is not None:
            send(s, Action("print_map", map=f"@{first.name}"), ())
        return
    if isinstance(first, ast.MapAccess):
        table = s.script.maps.table(first.map)
        if isinstance(table, Gathered) and not maps.is_readable(s.p, table):
            key = maps.key_of(s, first)
            assert key is not None
            send(s, Action("print_entry", (key.type,), map=f"@{first.map.name}"), (key,))
            return
    if rest:
        raise s.error("print() of a value takes one argument", node)
    value = kept(s, evaluate(s, first), first)
    send(s, Action("print", (value.type,)), (value,))


def _about_map(s: Scope, node: ast.Call) -> None:
    (first,) = arguments(s, node, 1, 1)
    if not isinstance(first, ast.Map):
        raise s.error(f"{node.name}() takes a map", first)
    if s.script.maps.table(first) is not None:
        send(s, Action(node.name, map=f"@{first.name}"), ())


def _delete(s: Scope, node: ast.Call) -> Value:
    first, *rest = arguments(s, node, 1, 2)
    if isinstance(first, ast.MapAccess) and not rest:
        return maps.delete(s, first.map, maps.key_of(s, first))
    if isinstance(first, ast.Map):
        key = kept(s, evaluate(s, rest[0]), rest[0]) if rest else None
        return maps.delete(s, first, key)
    raise s.error("delete() takes a map and a key: delete(@x, key)", first)


def _has_key(s: Scope, node: ast.Call) -> Value:
    first, key = arguments(s, node, 2, 2)
    if not isinstance(first, ast.Map):
        raise s.error("has_key() takes a map and a key", first)
    test = maps.has_entry(s, ast.MapAccess(node.start, node.end, first, key))
    return Unknown(s.p) if test is None else Condition(test)


def _exit(s: Scope, node: ast.Call) -> None:
    given = arguments(s, node, 0, 1)
    code = number(s, given[0]) if given else constant(s.p, 0)
    send(s, Action("exit", (code.type,)), (code,))
    status = s.p.b.binary(Op.AND, code.value, s.p.b.const(0xFF))
    s.p.b.store(exited(s.p), 0, s.p.b.binary(Op.ADD, status, s.p.b.const(1)), 8)
    s.exits = not plain(s.point.provider) and s.point.provider != "iter"
    s.leave()


def _time(s: Scope, node: ast.Call) -> None:
    given = arguments(s, node, 0, 1)
    send(s, Action("time", text=known_text(s, given[0]) if given else "%H:%M:%S\n"), ())


def _unwatch(s: Scope, node: ast.Call) -> None:
    (address,) = arguments(s, node, 1, 1)
    value = number(s, address)
    send(s, Action("unwatch", (value.type,)), (value,))


def unsafe(s: Scope, node: ast.Call) -> None:
    """Refuse what does more than look, unless that is allowed."""
    if not s.script.unsafe:
        raise s.error(f"{node.name}() changes what it looks at: allow it by --unsafe, or Script(unsafe=True)", node)


def _system(s: Scope, node: ast.Call) -> None:
    unsafe(s, node)
    _printf(s, node)


def _join(s: Scope, node: ast.Call) -> None:
    """`join(argv)`: the texts of an array of pointers."""
    from pyebpf.bpftrace.translate.texts import space_of, text_at
    from pyebpf.bpftrace.translate.values import Reference

    first, *rest = arguments(s, node, 1, 2)
    separator = known_text(s, rest[0]) if rest else " "
    value = evaluate(s, first)
    if isinstance(value, Unknown):
        return
    if not isinstance(value, Reference | Integer):
        raise s.error(f"join() takes an array of texts, not {value.type.name}", first)
    from pyebpf.types import INTEGERS

    space = space_of(s, value)
    words = Reference(value.value, INTEGERS["u64"], space)
    from pyebpf.bpftrace.translate.expressions import element

    texts: list[Value] = []
    size = max(s.max_strlen, _JOINED_SIZE)
    for position in range(_JOINED):
        address = as_integer(s, element(s, words, s.p.b.const(position), first), first)
        texts.append(text_at(s, address.value, space, size))
    send(s, Action("join", _types(texts), text=separator), texts)


#: Texts that `join` takes, and bytes of each at least, with its NUL.
_JOINED, _JOINED_SIZE = 16, 1024


# -- values ------------------------------------------------------------------------------------------------------------


def _ksym(s: Scope, node: ast.Call) -> Value:
    (first,) = arguments(s, node, 1, 1)
    return Special(KernelSymbol(), Int(number(s, first).value, U64))


def _usym(s: Scope, node: ast.Call) -> Value:
    (first,) = arguments(s, node, 1, 1)
    return user_symbol(s, number(s, first).value)


def _kaddr(s: Scope, node: ast.Call) -> Value:
    """`kaddr("name")`: the address of a symbol of the kernel."""
    (first,) = arguments(s, node, 1, 1)
    return Integer(s.p.b.emit(Op.KSYM, symbol=known_text(s, first)), signed=False)


def _stack(s: Scope, node: ast.Call) -> Value:
    from pyebpf.bpftrace.translate.stacks import stack

    return stack(s, node.name, arguments(s, node, 0, 2))


def _strftime(s: Scope, node: ast.Call) -> Value:
    layout, nanoseconds = arguments(s, node, 2, 2)
    value = number(s, nanoseconds)
    if value.type.clock == "monotonic":
        raise s.error("the monotonic clock tells no time of day: write nsecs, or nsecs(tai)", nanoseconds)
    return Special(Timestamp(known_text(s, layout), value.type.clock), Int(value.value, U64))


def _signal(s: Scope, node: ast.Call) -> None:
    import signal

    unsafe(s, node)
    (first,) = arguments(s, node, 1, 1)
    value = evaluate(s, first)
    if isinstance(value, Text):
        name = known_text(s, first).upper()
        found = signal.Signals.__members__.get(name if name.startswith("SIG") else f"SIG{name}")
        if found is None:
            raise s.error(f"there is no signal {name}", first)
        value = constant(s.p, int(found))
    helper = SEND_SIGNAL_THREAD if node.name == "signal_thread" else SEND_SIGNAL
    s.p.b.call(helper, as_integer(s, value, first).value)


def _absolute(s: Scope, node: ast.Call) -> Value:
    (first,) = arguments(s, node, 1, 1)
    value = number(s, first)
    b = s.p.b
    sign = b.binary(Op.ASHR, value.value, b.const(63))
    return Integer(b.binary(Op.SUB, b.binary(Op.XOR, value.value, sign), sign), signed=False)


def _strncmp(s: Scope, node: ast.Call) -> Value:
    """`strncmp(a, b, n)`: 0 if the first n bytes are equal, else 1."""
    first, second, third = arguments(s, node, 3, 3)
    one, other, count = text(s, first, node.name), text(s, second, node.name), known_number(s, third)
    if isinstance(one, Unknown) or isinstance(other, Unknown):
        return Unknown(s.p)
    if count < 0:
        raise s.error(f"strncmp(…, {count}): give the number of bytes to compare, 0 or more", third)
    if isinstance(one.source, bytes):
        one, other = other, one
    if not isinstance(other.source, bytes):
        return differ(s, one, other, count)
    if isinstance(one.source, bytes):
        same = one.source[:count] == other.source[:count]
        return constant(s.p, 0 if same else 1)
    if count <= len(other.source):
        test = arithmetic.begins_with(s.p, one, other.source[:count])
    else:
        test = arithmetic.compare_texts(s.p, "==", one, other)
    b = s.p.b
    return Integer(b.binary(Op.XOR, b.truth_value(test), b.const(1)), signed=False)


def _bswap(s: Scope, node: ast.Call) -> Value:
    """`bswap(n)`: the bytes of a number in the other order."""
    (first,) = arguments(s, node, 1, 1)
    given = evaluate(s, first)
    if isinstance(given.type, Boolean | Address):
        raise s.error(f"bswap() takes an integer, and this is {given.type.name}: cast it to one of a size", first)
    value = as_integer(s, given, first)
    if isinstance(value, Unknown):
        return value
    size = c_size(value.type)  # of a literal the size that it needs
    b = s.p.b
    swapped = b.binary(Op.AND, value.value, b.const(0xFF)) if size == 1 else b.emit(Op.SWAP, value.value, size=size)
    return Integer(swapped, signed=False, size=size)


def _sized(s: Scope, node: ast.Call) -> Value:
    """`len(@map)`, `len(stack)`, `len(text)`, `strlen(text)`."""
    (first,) = arguments(s, node, 1, 1)
    if isinstance(first, ast.Map) and node.name == "len":
        return maps.length(s, first)
    value = text(s, first, node.name) if node.name == "strlen" else evaluate(s, first)
    if isinstance(value, Unknown):
        return value
    if isinstance(value.type, KernelStack | UserStack) and node.name == "len":
        return stack_length(s, value)
    if not isinstance(value.type, String) or not isinstance(value, Text):
        raise s.error(f"len() takes a map with keys, a stack or a string, and this is {value.type.name}", first)
    if isinstance(value.source, bytes):
        return constant(s.p, len(value.source))
    return Integer(length(s.p, value, value.kept(s.p)), signed=False)


_FUNCTIONS: dict[str, Callable[[Scope, ast.Call], Value | None]] = {
    "printf": _printf,
    "print": _print,
    "clear": _about_map,
    "zero": _about_map,
    "delete": _delete,
    "has_key": _has_key,
    "exit": _exit,
    "time": _time,
    "unwatch": _unwatch,
    "bswap": _bswap,
    "cat": _printf,
    "system": _system,
    "join": _join,
    "kaddr": _kaddr,
    "ksym": _ksym,
    "usym": _usym,
    "kstack": _stack,
    "ustack": _stack,
    "dw_ustack": _stack,
    "strftime": _strftime,
    "signal": _signal,
    "signal_thread": _signal,
    "abs": _absolute,
    "strncmp": _strncmp,
    "len": _sized,
    "strlen": _sized,
}

#: All functions, by subject.
_TABLES = (_FUNCTIONS, TEXTS, SEARCHES, MACHINE, NUMBER_NAMES, OBJECTS, TRACE_PIPE, USER_MEMORY, LIBRARY, CHECKS)
