"""Names of numbers, `strerror`, `signal_name`, `syscall_name`: strings that stand in an array of the script."""

from __future__ import annotations

import os
import signal
from functools import cache
from typing import TYPE_CHECKING

from pyebpf.attach import registers
from pyebpf.bpftrace.translate.expressions import number
from pyebpf.bpftrace.translate.values import Text
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.builder.values.restating import element_offset
from pyebpf.builder.values.strings import String as BuilderString
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.specs import MapSpec
from pyebpf.types import U32, BytesType, CharArray
from pyebpf.uapi import errno_table
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_RDONLY_PROG

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.arch import Architecture
    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value

#: The first of the errors that the kernel has for itself, of which no program hears.
_OF_KERNEL = 512
#: The last signal.
_SIGRTMAX = 64


def _errors(machine: Architecture) -> list[str]:  # noqa: ARG001 - one signature
    known = {each for each in vars(errno_table).values() if isinstance(each, int) and each < _OF_KERNEL}
    unknown = "Unknown error"
    return ["Success", *[os.strerror(each) if each in known else unknown for each in range(1, max(known) + 1)], unknown]


def _signals(machine: Architecture) -> list[str]:  # noqa: ARG001 - one signature
    named = [signal.strsignal(each) or f"Unknown signal {each}" for each in range(1, _SIGRTMAX + 1)]
    return ["Unknown signal 0", *named, "N/A"]


def _system_calls(machine: Architecture) -> list[str]:
    names, unknown = machine.system_call_names, "Unknown syscall"
    return [*[names.get(each, unknown) for each in range(max(names) + 1)], unknown]


#: The names of all numbers from 0 on, and behind them that of any other number, by the function that asks for them.
_NAMES: dict[str, Callable[[Architecture], list[str]]] = {
    "strerror": _errors,
    "signal_name": _signals,
    "syscall_name": _system_calls,
}


@cache
def _table(function: str, machine: Architecture) -> tuple[int, CharArray, MapSpec]:
    """How many names a function has, their type, and the frozen array of one value that holds them all."""
    texts = [each.encode("utf-8", "surrogateescape") for each in _NAMES[function](machine)]
    size = -(-(max(map(len, texts)) + 1) // 8) * 8  # each is copied in words
    raw = b"".join([each.ljust(size, b"\0") for each in texts])
    initial = ((bytes(U32.size), raw),)
    held, flags = BytesType(len(raw)), BPF_F_RDONLY_PROG
    spec = MapSpec(f".{function}", MapType.ARRAY, U32, held, 1, flags=flags, initial=initial, frozen=True)
    return len(texts), CharArray(size), spec


def _named(s: Scope, node: ast.Call) -> Value:
    """`strerror(n)` and its like, of the 32 bits that C's functions take."""
    from pyebpf.bpftrace.translate.functions import arguments

    (first,) = arguments(s, node, 1, 1)
    count, type_, spec = _table(node.name, registers.machine(s.p))
    p, b = s.p, s.p.b
    given = b.emit(Op.SEXT, number(s, first).value, size=4)
    if node.name == "strerror":  # what the kernel returns is below 0
        sign = b.binary(Op.ASHR, given, b.const(63))
        given = b.binary(Op.SUB, b.binary(Op.XOR, given, sign), sign)
    index = b.variable(hint="index")
    b.write(index, b.const(count - 1))
    with b.if_(Compare(Relation.ULT, given, b.const(count))):
        b.write(index, b.emit(Op.REFINE, given))
    found = b.read_final(index)
    b.assume_bounds(found, 0, count - 1)
    table = b.emit(Op.MAP_VALUE, symbol=p.use_map(spec))
    b.assume_non_null(table)
    # What proves the index here, the verifier may have forgotten.
    address = b.emit(Op.OFFSET, table, element_offset(p, found, count, type_.size))
    b.assume_non_null(address)
    text = BuilderString(type_, Lvalue(base=address, owner=f"{node.name}()", writable=False))
    return Text(text, type_.size)


NUMBER_NAMES: dict[str, Callable[[Scope, ast.Call], Value | None]] = dict.fromkeys(_NAMES, _named)
