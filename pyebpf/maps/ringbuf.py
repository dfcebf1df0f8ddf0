"""Ring buffers: records of one type or of any length, built in the reserved place; those that find none are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pyebpf.builder.available import need_helper
from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.intrinsics.dynptr import DYNPTR_SIZE, Dynptr
from pyebpf.builder.loops import range_loop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.comparisons import minimum
from pyebpf.builder.values.entity import Entity, NoPythonOperators
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import binary, to_int
from pyebpf.builder.values.restating import restated
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.maps.buffer import Buffer, emitted, record_type, ring_size
from pyebpf.maps.declared import LoadedMap
from pyebpf.specs import MapSpec
from pyebpf.types import U8, U32, ArrayType, BytesType
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.helper_ids import (
    DYNPTR_WRITE,
    RINGBUF_RESERVE,
    RINGBUF_RESERVE_DYNPTR,
    RINGBUF_SUBMIT,
    RINGBUF_SUBMIT_DYNPTR,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.integers import Int
    from pyebpf.compiler import ir
    from pyebpf.types import Struct, Type

T = TypeVar("T")

NO_ROOM = "ring buffer full"

#: Zeros that reservations are cleared with, so many at a time, and most such writes.
_ZEROS, _CLEARINGS = 4096, 64


class RingBufferEntity(LoadedMap):
    """A ring buffer of records of one type. `size` is bytes: a power of two from 4096 on."""

    def __init__(self, name: str, record: Type, size: int, flags: int = 0) -> None:
        self.name = name
        self.record = record
        self.size = size
        self.flags = flags

    @property
    def spec(self) -> MapSpec:
        """The spec of the map that the loader makes."""
        return MapSpec(self.map_name, MapType.RINGBUF, None, None, self.size, self.flags)

    def describe(self) -> str:
        return f"the ring buffer {self.map_name}"

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return method_of(p, self, name, {"emit": self.emit})

    def emit(self, p: ProgramBuilder, value: object) -> None:
        """Send a copy of a record; one that is still pending is built in the buffer itself.

        Every byte is written. Without room the record is counted as dropped.
        """
        value = emitted(p, self, self.record, value)
        handle = self.handle(p)
        room = p.b.call(RINGBUF_RESERVE, handle, p.b.const(self.record.size), p.b.const(0), result=ValueType.POINTER)
        with p.b.if_(Compare(Relation.NE, room, p.b.const(0), null_check=True)):
            p.store_value(room, 0, self.record, value)
            p.b.call(RINGBUF_SUBMIT, room, p.b.const(0))
        with p.b.else_():
            count_drop(p, NO_ROOM, self.map_name)


class RingBuffer(RingBufferEntity, Buffer[T]):
    """`bpf.ringbuf(T)`: records that probes emit, read in order."""

    def __init__(self, name: str, record: object, size: int) -> None:
        #: The type that records are decoded to.
        self.record_class: type[Struct] = record_type(record, "ringbuf")
        super().__init__(name, self.record_class.layout, ring_size(size, "ringbuf"))

    def __repr__(self) -> str:
        return f"<RingBuffer {self.map_name} of {self.record_class.__name__}>"

    def tuples(self) -> Sequence[tuple[Any, ...]]:
        """The records that are there as the tuples that `struct` unpacks: the fastest way, without field names."""
        found: Sequence[tuple[Any, ...]] = self.reader.tuples()
        return found

    if TYPE_CHECKING:

        def emit(self, record: T) -> None:  # type: ignore[override]  # as a probe writes it
            """In a probe: send a record to user space. When the buffer is full the record is lost, and counted."""


class ByteRing(RingBufferEntity, Buffer[bytes]):
    """`bpf.byte_ring()`: records of any length, read as bytes."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, BytesType(1), ring_size(size, "byte_ring"))

    if TYPE_CHECKING:

        def reserve(self, size: int) -> Any:
            """In a probe: `with ring.reserve(n) as data:`, a record of n bytes, sent at the end of `with`."""

    # -- in probes -----------------------------------------------------------------------------------------------------

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return method_of(p, self, name, {"reserve": self._reserve})

    def _reserve(self, p: ProgramBuilder, size: object) -> Reservation:
        """`with ring.reserve(n) as data:` a record of n bytes, sent at the end of `with`, on every way out."""
        need_helper(p, "ringbuf_reserve_dynptr", "reserve(n)", "send records of one size, bpf.ringbuf(Record)")
        number = to_int(p, size)
        low, high = p.b.bounds(number.value)
        if not 0 < low <= high < self.size:
            p.fail(
                f"reserve(n) takes 1 to {self.size - 1} bytes, and this number is not known to be one: write "
                f"reserve(max(1, min(n, {min(4096, self.size - 1)})))"
            )
        return Reservation(self, number)


class Reservation(Entity, NoPythonOperators):
    """`ring.reserve(n)`, until `with` makes it."""

    def __init__(self, ring: ByteRing, size: Int) -> None:
        self.ring = ring
        self.size = size
        self._made: Dynptr | None = None

    def describe(self) -> str:
        return f"a reservation in {self.ring.map_name}: write `with {self.ring.map_name}.reserve(n) as data:`"

    def enter(self, p: ProgramBuilder) -> Dynptr:
        made = self._made = Dynptr(
            p.b.slot(DYNPTR_SIZE, name="dynptr", opaque=True), f"the reservation in {self.ring.map_name}"
        )
        handle = self.ring.handle(p)
        status = p.b.call(RINGBUF_RESERVE_DYNPTR, handle, self.size.value, p.b.const(0), made.address(p))
        with p.b.if_(Compare(Relation.NE, p.b.emit(Op.SEXT, status, size=4), p.b.const(0))):
            count_drop(p, NO_ROOM, self.ring.map_name)
        with p.b.else_():
            _clear(p, made, self.size)
        return made

    def leave(self, p: ProgramBuilder) -> None:
        assert self._made is not None
        # Also where there was no room: the dynptr is then of nothing, and must be given back all the same.
        p.b.call(RINGBUF_SUBMIT_DYNPTR, self._made.address(p), p.b.const(0))


def _clear(p: ProgramBuilder, made: Dynptr, size: Int) -> None:
    """Zero what is reserved: the kernel leaves there what earlier records held."""
    b = p.b
    _, high = b.bounds(size.value)
    most = max(_ZEROS, 1 << (-(-high // _CLEARINGS) - 1).bit_length())
    zeros = p.use_map(MapSpec(f".zeros{most}", MapType.ARRAY, U32, ArrayType(U8, most), 1))

    def clear(offset: ir.Value, length: ir.Value) -> None:
        # Verifiers do not know what a reservation's size is bounded by.
        length = restated(p, length, *b.bounds(length))
        b.call(DYNPTR_WRITE, made.address(p), offset, b.emit(Op.MAP_VALUE, symbol=zeros), length, b.const(0))

    if high <= most:
        clear(b.const(0), size.value)
        return
    with range_loop(p, 0, size, most, []) as (_, offset):
        rest = to_int(p, minimum(p, binary(p, "-", size, offset), most)).value
        b.assume_bounds(rest, 1, most)
        clear(offset.value, rest)
