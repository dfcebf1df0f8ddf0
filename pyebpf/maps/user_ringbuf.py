"""User ring buffers: a probe takes out what user space sent, record by record."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Generic, TypeVar

from pyebpf.builder.available import need_helper
from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.entity import describe
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.lvalue import Lvalue, zero
from pyebpf.builder.values.methods import method_of
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.maps.buffer import record_type, ring_size
from pyebpf.maps.declared import LoadedMap
from pyebpf.specs import MapSpec
from pyebpf.types import S64
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.helper_ids import DYNPTR_READ, USER_RINGBUF_DRAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.types import Struct

V = TypeVar("V")

TOO_SHORT = "record from user space too short"


class UserRingBuffer(LoadedMap, Generic[V]):
    """`bpf.user_ringbuf(T)`: records that user space sends and probes take out (since Linux 6.1)."""

    def __init__(self, name: str, record: object, size: int) -> None:
        self.name = name
        #: The type that records are encoded from.
        self.record_class: type[Struct] = record_type(record, "user_ringbuf")
        self.size = ring_size(size, "user_ringbuf")

    def __repr__(self) -> str:
        return f"<UserRingBuffer {self.map_name} of {self.record_class.__name__}>"

    @property
    def spec(self) -> MapSpec:
        """The map that the loader makes."""
        return MapSpec(self.map_name, MapType.USER_RINGBUF, None, None, self.size)

    def describe(self) -> str:
        return f"the user ring buffer {self.map_name}"

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return method_of(p, self, name, {"drain": self._drain})

    def send(self, record: V) -> bool:
        """Put a record in; False if there is no room until a probe drains the buffer."""
        return bool(self.store.send(record))

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for room; whether there is some."""
        return bool(self.store.wait(timeout))

    @property
    def waiting(self) -> int:
        """Bytes that no probe has taken yet, headers among them."""
        return int(self.store.waiting)

    if TYPE_CHECKING:

        def drain(self, handler: Callable[[V], bool | None], /) -> int:
            """In a probe: call `handler` with each record; how many there were, negative if another probe drains."""

    # -- in probes -----------------------------------------------------------------------------------------------------

    def _drain(self, p: ProgramBuilder, handler: object) -> Int:
        """Call `handler` with a copy of each record, which user space can't change any more."""
        name = self.map_name
        if not isinstance(handler, FunctionType):
            p.fail(f"{name}.drain(…) takes a function of one record, not {describe(handler)}")
        need_helper(p, "user_ringbuf_drain", f"{name}.drain()", "pass records in a map, such as a queue")
        layout = self.record_class.layout

        def arguments(registers: Sequence[ir.Value]) -> list[object]:
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
            handler, (ValueType.POINTER,), arguments, f"a handler of {name}.drain()"
        )
        count = p.b.call(USER_RINGBUF_DRAIN, self.handle(p), function, passed, p.b.const(0), comment=f"{name}.drain()")
        for origin, reason in invalidated.items():
            p.b.invalidate_origin(origin, f"{name}.drain() and its {reason}")
        return Int(count, S64)
