"""`comm`: the name of the current thread, read from its task_struct where BTF tells where it stands; `comm(pid)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace.events import Action
from pyebpf.bpftrace.formats import parse_format
from pyebpf.bpftrace.translate.values import Text, Unknown, of_entity
from pyebpf.builder.intrinsics import task
from pyebpf.builder.intrinsics.kfuncs import kfunc
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.lvalue import Lvalue, alignment_of, write_bytes
from pyebpf.builder.values.strings import String as BuilderString, StringSource
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.errors import NotFound
from pyebpf.types import S32, S64, CharArray
from pyebpf.uapi.helper_ids import GET_CURRENT_TASK_BTF

if TYPE_CHECKING:
    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

#: One in each byte of a word, and the top bit of each.
_ONES, _TOPS = 0x0101010101010101, 0x8080808080808080 - (1 << 64)


def comm(s: Scope, node: ast.Identifier) -> Value:  # noqa: ARG001 - one signature
    """The value of `comm`."""
    place = _place(s.p)
    word: Any = task.comm
    source = word.call(s.p, [], {}) if place is None else _direct(s.p, place)
    value = of_entity(s.p, source, task.TASK_COMM_LEN)
    assert value is not None
    return value


def comm_of(s: Scope, node: ast.Call) -> Value:
    """`comm(pid)`: the name of another process, "N/A" and a warning if there is none such."""
    from pyebpf.bpftrace.translate.expressions import as_integer, evaluate
    from pyebpf.bpftrace.translate.functions import arguments, send
    from pyebpf.bpftrace.translate.library import may_call

    (first,) = arguments(s, node, 1, 1)
    p, b = s.p, s.p.b
    if not may_call(s, "bpf_task_from_pid"):
        raise s.error("comm() of a process calls bpf_task_from_pid, and the kernel does not let this probe", node)
    number = as_integer(s, evaluate(s, first), first)
    if isinstance(number, Unknown):
        return number
    place = p.target.struct_member("struct task_struct", "comm").offset
    cut = b.emit(Op.SEXT, number.value, size=4)
    held: Any = kfunc("bpf_task_from_pid").call(p, [Int(cut, S64, S32)], {})
    slot = b.slot(task.TASK_COMM_LEN, name="comm")
    room = b.slot_address(slot)
    write_bytes(p, room, 0, b"N/A".ljust(task.TASK_COMM_LEN, b"\0"))
    address = held.found.address
    with b.if_(Compare(Relation.NE, address, b.const(0), null_check=True)):
        first_word, ended = _until_nul(p, b.load(address, place, 8))
        b.store(room, 0, first_word, 8)
        b.store(room, 8, b.const(0), 8)
        with b.if_(Compare(Relation.EQ, ended, b.const(0))):
            b.store(room, 8, _until_nul(p, b.load(address, place + 8, 8))[0], 8)
        held.leave(p)
    with b.else_():
        where = f"{s.script.source.place(node)}: WARNING: "
        layout = parse_format("No such process (pid=%d)\n")
        send(s, Action("complain", (number.type,), layout, text=where), (number,))
    kept = BuilderString(CharArray(task.TASK_COMM_LEN), Lvalue(slot=slot, owner="comm()", writable=False))
    return Text(kept, task.TASK_COMM_LEN)


def _place(p: ProgramBuilder) -> int | None:
    """The offset of the name in a task_struct; None where a program is not given one that it may read."""
    if not p.target.has(f"helper:get_current_task_btf@{p.program_type.name.lower()}"):
        return None
    try:
        member = p.target.struct_member("struct task_struct", "comm")
    except NotFound:
        return None
    return member.offset if member.type.size == task.TASK_COMM_LEN else None


def _direct(p: ProgramBuilder, place: int) -> StringSource:
    """Two loads, a third of what the helper takes. There always is a task: verifiers take the test of it away."""
    word: Any = task.comm
    by_helper: StringSource = word.call(p, [], {})

    def read_into(program: ProgramBuilder, address: ir.Value, size: int) -> None:
        if size < task.TASK_COMM_LEN or alignment_of(program, address) < 8:  # where words cannot be stored
            by_helper.read_into(program, address, size)
            return
        b = program.b
        current = b.call(GET_CURRENT_TASK_BTF, result=ValueType.POINTER)
        with b.if_(Compare(Relation.NE, current, b.const(0), null_check=True)):
            first, ended = _until_nul(program, b.load(current, place, 8))
            b.store(address, 0, first, 8)
            with b.if_(Compare(Relation.EQ, ended, b.const(0))):
                b.store(address, 8, _until_nul(program, b.load(current, place + 8, 8))[0], 8)
        with b.else_():  # in the interpreter
            by_helper.read_into(program, address, size)

    return StringSource("comm", read_into, task.TASK_COMM_LEN, p.b.where)


def _until_nul(p: ProgramBuilder, word: ir.Value) -> tuple[ir.Value, ir.Value]:
    """A word with nothing behind its first NUL, and whether it has one: kernels before Linux 5.17 leave there what was.

    The lowest top bit that is left is in the first byte that is 0.
    """
    b = p.b
    zeros = b.binary(Op.AND, b.binary(Op.SUB, word, b.const(_ONES)), b.binary(Op.XOR, word, b.const(-1)))
    zeros = b.binary(Op.AND, zeros, b.const(_TOPS))
    lowest = b.binary(Op.LSHR, b.binary(Op.AND, zeros, b.emit(Op.NEG, zeros)), b.const(7))
    return b.binary(Op.AND, word, b.binary(Op.SUB, lowest, b.const(1))), zeros
