"""Word of new processes, which `ustack()` sends to user space while they live and can be looked at.

A process that an event came from is told at once, again when it has another name, as after exec(2), and by later events
after 1, 3, 7, 15… ms, since the first one may come before its libraries are loaded. Its number goes through a hidden
ring buffer, at whose other end `pyebpf.runtime.processes` takes note of what it has mapped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.intrinsics.task import TASK_COMM_LEN, process_number
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.ssa.function import FunctionBuilder
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.specs import MapSpec
from pyebpf.types import U8, U64, ArrayType
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.helper_ids import (
    GET_CURRENT_COMM,
    KTIME_GET_NS,
    MAP_DELETE_ELEM,
    MAP_LOOKUP_ELEM,
    MAP_UPDATE_ELEM,
    RINGBUF_OUTPUT,
)

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

PROCESSES_MAP, _TOLD_MAP = ".processes", ".told"
#: What is kept of a process: when it is told again, and how long the wait until then was, in ns; the first wait.
_NEXT, _WAIT, _SIZE, _FIRST_WAIT = 0, 8, 16, 1_000_000
#: Bytes: 4,096 processes of 16 bytes each, and the same number of those that were told lately.
_RING, _TOLD = 65_536, 4_096

_SYMBOL = "tell_process"


def tell_process(p: ProgramBuilder) -> None:
    """Tell user space of the current process, unless it knows."""
    if _SYMBOL not in p.functions:
        p.functions.add(_SYMBOL)
        made = FunctionBuilder(_SYMBOL, (), p.b.where)
        with p.function(made):
            p.contextless.add(made)
            _build(p)
    p.b.emit(Op.CALL_LOCAL, result=ValueType.SCALAR, symbol=_SYMBOL)


def _build(p: ProgramBuilder) -> None:
    b = p.b
    key = b.slot_address(b.slot(TASK_COMM_LEN + 8, name="process"))
    for offset in range(0, TASK_COMM_LEN + 8, 8):
        b.store(key, offset, b.const(0), 8)
    b.call(GET_CURRENT_COMM, key, b.const(TASK_COMM_LEN))
    b.store(key, TASK_COMM_LEN, process_number(p).value, 4)
    told = p.use_map(
        MapSpec(_TOLD_MAP, MapType.LRU_HASH, ArrayType(U8, TASK_COMM_LEN + 8), ArrayType(U64, _SIZE // 8), _TOLD)
    )
    ring = p.use_map(MapSpec(PROCESSES_MAP, MapType.RINGBUF, None, None, _RING))
    known = b.call(MAP_LOOKUP_ELEM, b.emit(Op.MAP, symbol=told), key, result=ValueType.POINTER)
    now = b.call(KTIME_GET_NS)
    with b.if_(Compare(Relation.NE, known, b.const(0))):
        with b.if_(Compare(Relation.ULT, now, b.load(known, _NEXT, 8))):
            b.ret(b.const(0))
        wait = b.emit(Op.ADD, *[b.load(known, _WAIT, 8)] * 2)
        b.store(known, _WAIT, wait, 8)
        b.store(known, _NEXT, b.emit(Op.ADD, now, wait), 8)
        _tell(p, ring, key)
        b.ret(b.const(0))
    value = b.slot_address(b.slot(_SIZE, name="next"))
    b.store(value, _NEXT, b.emit(Op.ADD, now, b.const(_FIRST_WAIT)), 8)
    b.store(value, _WAIT, b.const(_FIRST_WAIT), 8)
    b.call(MAP_UPDATE_ELEM, b.emit(Op.MAP, symbol=told), key, value, b.const(0))
    with b.if_(Compare(Relation.NE, _tell(p, ring, key), b.const(0))):
        # No room: its next event tells it.
        b.call(MAP_DELETE_ELEM, b.emit(Op.MAP, symbol=told), key)
    b.ret(b.const(0))


def _tell(p: ProgramBuilder, ring: str, key: ir.Value) -> ir.Value:
    """Send the process's number; what the helper returns."""
    number = p.b.emit(Op.OFFSET, key, p.b.const(TASK_COMM_LEN))
    return p.b.call(RINGBUF_OUTPUT, p.b.emit(Op.MAP, symbol=ring), number, p.b.const(4), p.b.const(0))
