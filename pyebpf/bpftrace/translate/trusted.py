"""Objects of the kernel as the verifier knows them, for helpers that take no bare address: `path`, `skboutput`.

It knows the arguments of fentry, fexit, iterators and raw tracepoints, and what stands in them or hangs off them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.attach.iterators import KernelIterator
from pyebpf.bpftrace import ast
from pyebpf.bpftrace.translate.expressions import evaluate, known_number, known_text, number
from pyebpf.bpftrace.translate.values import Integer, Reference, Text, Unknown
from pyebpf.builder.available import need_helper
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.kernel_objects import KernelReference
from pyebpf.builder.values.lvalue import Lvalue, moved, zero
from pyebpf.builder.values.memory import Space, probe_read_string
from pyebpf.builder.values.strings import String as BuilderString
from pyebpf.compiler.ir import Condition as Relation, ValueType as Register
from pyebpf.errors import NotFound
from pyebpf.types import CharArray
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.helper_ids import D_PATH, GET_SOCKET_COOKIE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value

#: Functions that take such objects: at a raw tracepoint the verifier has to know its arguments for them.
TAKES_OBJECTS = frozenset({"socket_cookie", "skboutput"})

#: Structs of sockets: each begins with the one before, or is one of a protocol.
_SOCKETS = ("sock", "sock_common", "inet_sock", "tcp_sock", "udp_sock", "tcp6_sock", "udp6_sock", "unix_sock")


def takes_objects(node: object) -> bool:
    """Whether a part of a script calls a function that takes an object."""
    from pyebpf.dataclass import fields

    if isinstance(node, tuple):
        return any(map(takes_objects, node))
    if not isinstance(node, ast.Node):
        return False
    if isinstance(node, ast.Call) and node.name in TAKES_OBJECTS:
        return True
    return any(takes_objects(getattr(node, each.name)) for each in fields(node))


def reference(s: Scope, node: ast.Expression) -> KernelReference | None:
    """The object that an expression leads to, as the verifier knows it; None if it does not."""
    match node:
        case ast.FieldAccess(value=ast.Identifier(name="args" | "ctx"), name=name):
            found: Any = _argument(s, name)
        case ast.FieldAccess(value=value, name=name):
            base = reference(s, value)
            found = None if base is None else base.attribute(s.p, name)
        case ast.Cast(type=ast.PointerType(target=ast.TypeName(name=name)), value=inner):
            found = reference(s, inner)
            if found is not None and found.type.name != name:
                return None
        case ast.Identifier(name=name) if name.startswith("arg") and name[3:].isdecimal():
            found = _by_position(s, int(name[3:]))
        case ast.Variable():
            found = _held(evaluate(s, node))
        case _:
            return None
    return found if isinstance(found, KernelReference) and found.trusted else None


def _argument(s: Scope, name: str) -> object:
    """An argument by its name. Behind an iterator's last element there is none: nothing more is done there."""
    if not isinstance(s.p.attach, KernelIterator):
        return s.p.program_context.parameter(s.p, name, None, 0)
    context: Any = s.p.program_context
    parameters = context.parameters(s.p.target)
    position = next((number for number, each in enumerate(parameters) if each.name == name), None)
    target = None if position is None else parameters[position].type.element
    if position is None or target is None or not target.composite:
        return None
    register = s.p.b.load(s.p.context, 8 * position, 8, result=Register.POINTER)
    with s.p.b.if_(Compare(Relation.EQ, register, s.p.b.const(0), null_check=True)):
        s.leave()
    s.p.b.assume_non_null(register)
    return KernelReference(register, target, trusted=True)


def _by_position(s: Scope, position: int) -> object:
    """An argument by its number, where they have names, too."""
    context: Any = s.p.program_context
    try:
        parameters = s.p.target.raw_tracepoint_parameters(context.attach.name)
    except (NotFound, AttributeError):
        return None
    if position >= len(parameters):
        return None
    return context.parameter(s.p, parameters[position].name, None, 0)


def _held(value: Value) -> object:
    """The object that a variable holds, if it is still the pointer that the verifier gave."""
    if not isinstance(value, Reference) or value.value.type is not Register.POINTER:
        return None
    target: Any = value.type.target
    return KernelReference(value.value, target, trusted=True) if getattr(target, "composite", False) else None


def _object(s: Scope, node: ast.Call, structs: Sequence[str], places: str, at: int = 0) -> KernelReference | Unknown:
    """An argument of a call that is an object of one of some structs."""
    given, struct = node.arguments[at], structs[0]
    if s.p.program_type is not ProgramType.TRACING:
        raise s.error(f"{node.name}() takes a struct {struct} that the verifier knows: it is for {places}", node)
    found = reference(s, given)
    if found is None:
        value = evaluate(s, given)
        if isinstance(value, Unknown):
            return value
        raise s.error(
            f"{node.name}() takes a struct {struct} that the verifier knows: an argument, args.NAME, or its member",
            given,
        )
    if found.type.name not in structs:
        raise s.error(f"{node.name}() takes a struct {struct}, and this is a {found.type.c_name}", given)
    return found


def _socket_cookie(s: Scope, node: ast.Call) -> Value:
    """`socket_cookie(args.sk)`: the number by which the kernel tells a socket."""
    _arguments(s, node, 1, 1)
    found = _object(s, node, _SOCKETS, "fentry, fexit, iter and rawtracepoint")
    if isinstance(found, Unknown):
        return found
    need_helper(s.p, "get_socket_cookie", "socket_cookie()", "use the address of the socket")
    return Integer(s.p.b.call(GET_SOCKET_COOKIE, moved(s.p, found.address, found.offset)), signed=False)


def _path(s: Scope, node: ast.Call) -> Value:
    """`path(args.file.f_path)`: the path of a file, its end where it is longer than `max_strlen`, or than a size."""
    _, *rest = _arguments(s, node, 1, 2)
    most = s.max_strlen
    size = min(known_number(s, rest[0]), most) if rest else most
    if size < 1:
        raise s.error("path() takes a size above 0", rest[0])
    found = _object(s, node, ("path",), "fentry, fexit and iter")
    if isinstance(found, Unknown):
        return found
    need_helper(s.p, "d_path", "path()", "walk the dentry's names")
    p = s.p
    written, slot = [p.b.slot(-(-size // 8) * 8, name=name) for name in ("d_path", "path")]
    for each in (written, slot):
        zero(p, p.b.slot_address(each), 0, each.size)
    p.b.call(D_PATH, moved(p, found.address, found.offset), p.b.slot_address(written), p.b.const(size))
    # The kernel writes the path to the end of the buffer, and moves it: behind its NUL the end stands once more.
    probe_read_string(p, Space.KERNEL, p.b.slot_address(slot), size, p.b.slot_address(written))
    return Text(BuilderString(CharArray(size), Lvalue(slot=slot, owner="path()", writable=False)), size)


def _packet(s: Scope, node: ast.Call) -> Value:
    """`skboutput("file.pcap", args.skb, length, offset)`: a packet copied to a capture file; 0, or an error."""
    first, _, *_ = _arguments(s, node, 4, 4)
    path = known_text(s, first)
    found = _object(s, node, ("sk_buff",), "fentry, fexit and rawtracepoint", 1)
    length, start = number(s, node.arguments[2]), number(s, node.arguments[3])
    if isinstance(found, Unknown) or isinstance(length, Unknown) or isinstance(start, Unknown):
        return Unknown(s.p)
    need_helper(s.p, "skb_output", "skboutput()")
    s.p.gpl_only.add("skb_output")
    packet = moved(s.p, found.address, found.offset)
    return Integer(s.script.packets.send(s.p, path, packet, length.value, start.value), signed=True)


def _arguments(s: Scope, node: ast.Call, least: int, most: int) -> Sequence[ast.Expression]:
    from pyebpf.bpftrace.translate.functions import arguments

    return arguments(s, node, least, most)


OBJECTS: dict[str, Callable[[Scope, ast.Call], Value | None]] = {
    "socket_cookie": _socket_cookie,
    "path": _path,
    "skboutput": _packet,
}
