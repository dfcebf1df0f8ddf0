"""Memory of the process that a probe runs in: `uaddr`, the address of one of its variables, and `write_user`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyebpf.attach import registers
from pyebpf.attach.uprobes import Uprobe
from pyebpf.attach.usdt import Usdt
from pyebpf.bpftrace.translate.expressions import as_integer, evaluate, known_number, known_text
from pyebpf.bpftrace.translate.members import kept
from pyebpf.bpftrace.translate.searches import in_memory
from pyebpf.bpftrace.translate.values import Condition, Reference, Unknown
from pyebpf.bpftrace.value_types import natural
from pyebpf.builder.available import need_helper
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.memory import Space
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.errors import PyebpfError
from pyebpf.types import INTEGERS
from pyebpf.uapi.helper_ids import PROBE_WRITE_USER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value


class UserVariable(NamedTuple):
    """A symbol of a file: its address and size, the address of the probe, and whether both lie elsewhere in a process.

    `probe` is None for one that is at several places.
    """

    address: int
    size: int
    probe: int | None
    moves: bool


def _arguments(s: Scope, node: ast.Call, least: int, most: int) -> Sequence[ast.Expression]:
    from pyebpf.bpftrace.translate.functions import arguments

    return arguments(s, node, least, most)


def _address(s: Scope, node: ast.Call) -> Value:
    """`uaddr("name")`: the address of a symbol of the file that is probed, a pointer to a signed number of its size."""
    (first,) = _arguments(s, node, 1, 1)
    name, attach = known_text(s, first), s.p.attach
    if not isinstance(attach, Uprobe | Usdt):
        raise s.error("uaddr() is for uprobe, uretprobe and usdt: kaddr() has the symbols of the kernel", node)
    function = attach.functions[0] if isinstance(attach, Uprobe) and len(attach.functions) == 1 else ""
    try:
        found = s.script.files.variable(attach.binary, function, name, attach.pid)
    except PyebpfError as error:
        raise s.error(str(error), first) from None
    b = s.p.b
    address = b.const(found.address)
    if found.moves:
        if not isinstance(attach, Uprobe) or attach.returns or found.probe is None:
            raise s.error(
                f"{attach.binary} lies at another address in each process, which is known at the entry of a function "
                "only: keep uaddr() in a map there, by tid",
                node,
            )
        ip = registers.register(s.p, registers.machine(s.p).instruction)
        address = b.binary(Op.ADD, ip, b.const(found.address - found.probe))
    size = found.size if found.size in (1, 2, 4) else 8
    return Reference(address, INTEGERS[f"s{8 * size}"], Space.USER)


def _write(s: Scope, node: ast.Call) -> Value:
    """`write_user(address, value, n)`: the first n bytes of a value, written to the process; whether that was done."""
    from pyebpf.bpftrace.translate.addresses import held_by
    from pyebpf.bpftrace.translate.functions import unsafe

    unsafe(s, node)
    first, second, third = _arguments(s, node, 3, 3)
    address, value, count = evaluate(s, first), kept(s, evaluate(s, second), second), known_number(s, third)
    if isinstance(value, Reference):
        value = held_by(s, value) or value
    if isinstance(address, Unknown) or isinstance(value, Unknown):
        return Unknown(s.p)
    room = natural(value.type).size
    if not 1 <= count <= room:
        raise s.error(f"write_user() of {count} bytes: give 1 to {room}, as the value has", third)
    b = s.p.b
    need_helper(s.p, "probe_write_user", "write_user()")
    s.p.gpl_only.add("probe_write_user")
    place = as_integer(s, address, first).value
    done = b.call(PROBE_WRITE_USER, place, in_memory(s, value), b.const(count))
    return Condition(Compare(Relation.EQ, done, b.const(0)))


USER_MEMORY: dict[str, Callable[[Scope, ast.Call], Value | None]] = {"uaddr": _address, "write_user": _write}
