"""`requests.drain(handler)`: a probe takes out what user space sent, record by record."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

from pyebpf.builder.available import need_helper
from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.entity import describe
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.lvalue import Lvalue, zero
from pyebpf.compiler.ir import Condition as Relation, Kind, Op
from pyebpf.types import S64
from pyebpf.uapi.helper_ids import DYNPTR_READ, USER_RINGBUF_DRAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.dsl.object_maps import UserRingBuffer

__all__ = ["TOO_SHORT", "drain"]

TOO_SHORT = "record from user space too short"


def drain(p: ProgramBuilder, ring: UserRingBuffer[Any], handler: Any) -> Int:
    """Call `handler` with a copy of each record, which user space can't change any more."""
    name = ring.map_name
    if not isinstance(handler, FunctionType):
        p.fail(f"{name}.drain(…) takes a function of one record, not {describe(handler)}")
    need_helper(p, "user_ringbuf_drain", f"{name}.drain()", "pass records in a map, such as a queue")
    layout = ring.record_class.layout

    def arguments(registers: Sequence[ir.Value]) -> list[Any]:
        room = -(-layout.size // 8) * 8
        slot = p.b.slot(room, name="record")
        address = p.b.slot_address(slot)
        zero(p, address, 0, room)
        nothing = p.b.const(0)
        failed = p.b.call(DYNPTR_READ, address, p.b.const(layout.size), registers[0], nothing, nothing)
        with p.b.if_(Compare(Relation.NE, p.b.emit(Op.SEXT, failed, size=4), p.b.const(0))):
            count_drop(p, TOO_SHORT, name)
            p.b.ret(p.b.const(0))
        return [p.load_value(Lvalue(slot=slot, owner=f"a record of {name}"), layout)]

    function, passed, invalidated = p.build_callback(
        handler, (Kind.POINTER,), arguments, f"a handler of {name}.drain()"
    )
    count = p.b.call(USER_RINGBUF_DRAIN, ring.handle(p), function, passed, p.b.const(0), comment=f"{name}.drain()")
    for origin, reason in invalidated.items():
        p.b.invalidate_origin(origin, f"{name}.drain() and its {reason}")
    return Int(count, S64)
