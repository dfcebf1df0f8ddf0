"""Queues and stacks; `Keyless`, what all maps of values without keys have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyebpf.builder.drop_counters import FULL, count_drop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.integers import read_int
from pyebpf.builder.values.lvalue import Lvalue, temporary
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import rvalue
from pyebpf.builder.values.optional import OptionalInt
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.maps.declared import LoadedMap, bpf_type
from pyebpf.maps.store import Stored
from pyebpf.specs import MapSpec
from pyebpf.specs.maps import map_size
from pyebpf.types import S64, U64, IntType
from pyebpf.uapi.flags import BPF_ANY, BPF_EXIST
from pyebpf.uapi.helper_ids import MAP_PEEK_ELEM, MAP_POP_ELEM, MAP_PUSH_ELEM

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.uapi.bpf import MapType

_MISSING: Any = object()

T = TypeVar("T")


class StoredQueue(Stored, Generic[T]):
    """A queue (QUEUE, first in first out) or stack (STACK, last in first out) of values.

    Raises KernelError when a push finds it full, IndexError when a pop or peek finds it empty.
    """

    def push(self, value: T, *, make_room: bool = False) -> None:
        """Add a value. With `make_room` a full one gives up its oldest value (BPF_EXIST)."""
        self.store.update_elem(b"", self.store.value_type.encode(value), BPF_EXIST if make_room else BPF_ANY)

    def pop(self, default: object = _MISSING) -> Any:
        """Take the next value out; the default if there is none, else IndexError."""
        return self._decoded(self.store.lookup_and_delete_elem(b""), "pop", default)

    def peek(self, default: object = _MISSING) -> Any:
        """The next value, which stays."""
        return self._decoded(self.store.peek_elem(bytes(self.store.value_type.size)), "peek", default)

    def _decoded(self, value: bytes | None, doing: str, default: object) -> object:
        if value is not None:
            return self.store.value_type.decode(value)
        if default is _MISSING:
            raise IndexError(f"{doing} from map {self.store.spec.name}, which is empty")
        return default

    def drain(self) -> list[T]:
        """Take out all values that are there, in their order; at most `max_entries`, however fast programs push."""
        taken: list[T] = []
        store = self.store
        while len(taken) < store.max_entries and (value := store.lookup_and_delete_elem(b"")) is not None:
            taken.append(store.value_type.decode(value))
        return taken


class Keyless(LoadedMap):
    """A declared map of values without keys; `extra` as in MapSpec."""

    def __init__(self, name: str, map_type: MapType, value: object, size: int, extra: int = 0) -> None:
        self.name = name
        self.map_type = map_type
        self.value = bpf_type(value, "value")
        self.max_entries = map_size(size)
        self.extra = extra

    @property
    def spec(self) -> MapSpec:
        """The spec of the map that the loader makes."""
        return MapSpec(self.map_name, self.map_type, None, self.value, self.max_entries, extra=self.extra)

    def describe(self) -> str:
        return f"the {self.map_type.name.lower().replace('_', ' ')} {self.map_name}"

    def _status(self, p: ProgramBuilder, helper: int, *arguments: ir.Value) -> ir.Value:
        handle = self.handle(p)
        # The upper half is junk before Linux 6.4, where the verifier calls the map's own function for the helper.
        return p.b.emit(Op.SEXT, p.b.call(helper, handle, *arguments), size=4)

    def _push_value(self, p: ProgramBuilder, value: object, flags: int) -> None:
        value = rvalue(p, value)
        with temporary(p, self.value.size) as slot:
            address = p.b.slot_address(slot)
            p.store_value(address, 0, self.value, value)
            failed = self._status(p, MAP_PUSH_ELEM, address, p.b.const(flags))
        with p.b.if_(Compare(Relation.NE, failed, p.b.const(0))):
            count_drop(p, FULL, self.map_name)


class QueueMap(Keyless, StoredQueue[T], Generic[T]):
    """`bpf.queue(T)` and `bpf.stack(T)`."""

    def __repr__(self) -> str:
        return f"<{self.map_type.name.capitalize()} {self.map_name}>"

    def pop(self) -> T | None:  # type: ignore[override]  # as in a probe
        """Take the next value out; None if there is none."""
        found: T | None = super().pop(None)
        return found

    def peek(self) -> T | None:  # type: ignore[override]  # as in a probe
        """The next value, which stays; None if there is none."""
        found: T | None = super().peek(None)
        return found

    # -- in probes -----------------------------------------------------------------------------------------------------

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return method_of(p, self, name, {"push": self._push, "pop": self._pop, "peek": self._peek})

    def _push(self, p: ProgramBuilder, value: object, make_room: object = False) -> None:  # noqa: FBT002 - as a probe writes it
        if not isinstance(make_room, bool):
            p.fail(f"{self.map_name}.push(make_room=…) is True or False, known at compile time")
        self._push_value(p, value, BPF_EXIST if make_room else BPF_ANY)

    def _pop(self, p: ProgramBuilder) -> object:
        return self._take(p, MAP_POP_ELEM, "pop")

    def _peek(self, p: ProgramBuilder) -> object:
        return self._take(p, MAP_PEEK_ELEM, "peek")

    def _take(self, p: ProgramBuilder, helper: int, word: str) -> object:
        """A copy of the value at the head, or None."""
        what = f"{self.map_name}.{word}()"
        slot = p.b.slot(-(-self.value.size // 8) * 8, name=word)
        address = p.b.slot_address(slot)
        for offset in range(0, -(-self.value.size // 8) * 8, 8):
            p.b.store(address, offset, p.b.const(0), 8)
        status = self._status(p, helper, address)
        null_check = p.b.truth_value(Compare(Relation.EQ, status, p.b.const(0)))
        if isinstance(self.value, IntType):
            value = read_int(p, p.b.slot_address(slot), 0, self.value).value
            wide = self.value.size == U64.size
            held = (U64 if not self.value.signed else S64) if wide else S64
            return OptionalInt(null_check, value, held, None if wide else self.value, what)
        return p.load_value(Lvalue(slot=slot, owner=what, null_check=null_check), self.value)
