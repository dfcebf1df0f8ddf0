"""Word of new processes, which `ustack()` sends to user space while they live and can be looked at.

A process that an event came from is told once, and again when it has another name, as after exec(2): its number goes
through a hidden ring buffer, at whose other end `pyebpf.runtime.processes` takes note of what it has mapped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.intrinsics.task import TASK_COMM_LEN, process_number
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.ssa.function import FunctionBuilder
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.specs import MapSpec
from pyebpf.types import U8, U32, ArrayType
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.helper_ids import GET_CURRENT_COMM, MAP_DELETE_ELEM, MAP_LOOKUP_ELEM, MAP_UPDATE_ELEM, RINGBUF_OUTPUT

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder

PROCESSES_MAP, _TOLD_MAP = ".processes", ".told"
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
    told = p.use_map(MapSpec(_TOLD_MAP, MapType.LRU_HASH, ArrayType(U8, TASK_COMM_LEN + 8), U32, _TOLD))
    ring = p.use_map(MapSpec(PROCESSES_MAP, MapType.RINGBUF, None, None, _RING))
    known = b.call(MAP_LOOKUP_ELEM, b.emit(Op.MAP, symbol=told), key, result=ValueType.POINTER)
    with b.if_(Compare(Relation.EQ, known, b.const(0))):
        value = b.slot_address(b.slot(4, 4, name="one"))
        b.store(value, 0, b.const(1), 4)
        b.call(MAP_UPDATE_ELEM, b.emit(Op.MAP, symbol=told), key, value, b.const(0))
        number = b.emit(Op.OFFSET, key, b.const(TASK_COMM_LEN))
        failed = b.call(RINGBUF_OUTPUT, b.emit(Op.MAP, symbol=ring), number, b.const(4), b.const(0))
        with b.if_(Compare(Relation.NE, failed, b.const(0))):
            # No room: its next event tells it.
            b.call(MAP_DELETE_ELEM, b.emit(Op.MAP, symbol=told), key)
    b.ret(b.const(0))
