"""Queues, stacks and Bloom filters in a probe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.maps import FULL
from pyebpf.builder.ssa.conditions import Compare, Test
from pyebpf.builder.values.integers import read_int
from pyebpf.builder.values.lvalue import Lvalue, temporary
from pyebpf.builder.values.map_pointers import MapPointer
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.none import OptionalInt
from pyebpf.builder.values.operations import rvalue
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.specs import MapSpec
from pyebpf.types import S64, U64, IntType
from pyebpf.uapi.helper_ids import MAP_PEEK_ELEM, MAP_POP_ELEM, MAP_PUSH_ELEM

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.types import Type
    from pyebpf.uapi.bpf import MapType

__all__ = ["BloomEntity", "QueueEntity"]

_ANY, _EXIST = 0, 2


class _Keyless(MapPointer):
    """A map of values without keys; `extra` as in MapSpec."""

    def __init__(
        self, name_source: str | Callable[[], str], kind: MapType, value: Type, max_entries: int, extra: int = 0
    ) -> None:
        self._name_source = name_source
        self.kind = kind
        self.value = value
        self.max_entries = max_entries
        self.extra = extra

    @property
    def spec(self) -> MapSpec:
        """The spec of the map that the loader makes."""
        return MapSpec(self.map_name, self.kind, None, self.value, self.max_entries, extra=self.extra)

    def describe(self) -> str:
        return f"the {self.kind.name.lower().replace('_', ' ')} {self.map_name}"

    def _status(self, p: ProgramBuilder, helper: int, *arguments: ir.Value) -> ir.Value:
        handle = self.handle(p)
        # The upper half is junk before Linux 6.4, where the verifier calls the map's own function for the helper.
        return p.b.emit(Op.SEXT, p.b.call(helper, handle, *arguments), size=4)

    def _push_value(self, p: ProgramBuilder, value: Any, flags: int) -> None:
        value = rvalue(p, value)
        with temporary(p, self.value.size) as slot:
            address = p.b.slot_address(slot)
            p.store_value(address, 0, self.value, value)
            failed = self._status(p, MAP_PUSH_ELEM, address, p.b.const(flags))
        with p.b.if_(Compare(Relation.NE, failed, p.b.const(0))):
            count_drop(p, FULL, self.map_name)


class QueueEntity(_Keyless):
    """A queue or stack: `push`, `pop`, `peek`."""

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        return method_of(p, self, name, {"push": self._push, "pop": self._pop, "peek": self._peek})

    def _push(self, p: ProgramBuilder, value: Any, make_room: Any = False) -> None:  # noqa: FBT002 - as a probe writes it
        if not isinstance(make_room, bool):
            p.fail(f"{self.map_name}.push(make_room=…) is True or False, known while compiling")
        self._push_value(p, value, _EXIST if make_room else _ANY)

    def _pop(self, p: ProgramBuilder) -> Any:
        return self._take(p, MAP_POP_ELEM, "pop")

    def _peek(self, p: ProgramBuilder) -> Any:
        return self._take(p, MAP_PEEK_ELEM, "peek")

    def _take(self, p: ProgramBuilder, helper: int, word: str) -> Any:
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


class BloomEntity(_Keyless):
    """A Bloom filter: `add(v)`, and `v in filter`."""

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        return method_of(p, self, name, {"add": self._add})

    def _add(self, p: ProgramBuilder, value: Any) -> None:
        self._push_value(p, value, _ANY)

    def contains(self, p: ProgramBuilder, item: Any) -> Test:
        item = rvalue(p, item)
        with temporary(p, self.value.size) as slot:
            address = p.b.slot_address(slot)
            p.store_value(address, 0, self.value, item)
            status = self._status(p, MAP_PEEK_ELEM, address)
        return Compare(Relation.EQ, status, p.b.const(0))
