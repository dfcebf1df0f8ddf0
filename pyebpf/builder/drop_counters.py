"""Drops, counted exactly: a hidden array with one u64 for each reason that a program may have.

The whole array is one value, which programs reach by address: counting is one atomic addition without a call. User
space reads it back by the order of `DropCounters.reasons`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.ir import Op
from pyebpf.dataclass import dataclass
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64, ArrayType
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder

DROPS_MAP = ".drops"
#: The reason of what finds no room in a map.
FULL = "map full"


@dataclass(frozen=True, slots=True, guarded=False)
class DropReason:
    """Why something was not counted or not sent, and the map that it was meant for (empty: none)."""

    reason: str
    map: str = ""

    def __str__(self) -> str:
        return f"{self.map}: {self.reason}" if self.map else self.reason


class DropCounters:
    """The drop reasons of the programs of one module, in the order of their counters."""

    def __init__(self) -> None:
        self._indices: dict[DropReason, int] = {}
        #: The map for all of them.
        self._spec: MapSpec | None = None

    @property
    def reasons(self) -> tuple[DropReason, ...]:
        """Every reason; its index here is its index in the map's value."""
        return tuple(self._indices)

    def __len__(self) -> int:
        return len(self._indices)

    def index(self, reason: DropReason) -> int:
        """Return the index of a reason; a new one gets the next."""
        if reason not in self._indices:
            self._indices[reason] = len(self._indices)
            self._spec = MapSpec(DROPS_MAP, MapType.ARRAY, U32, ArrayType(U64, len(self._indices)), 1)
        return self._indices[reason]

    def spec(self) -> MapSpec | None:
        """The map, once every program is built; None if nothing can be dropped."""
        return self._spec


def count_drop(p: ProgramBuilder, reason: str, map_name: str = "") -> None:
    """Count one drop, here."""
    offset = U64.size * p.drop_counters.index(DropReason(reason, map_name))
    spec = p.drop_counters.spec()
    assert spec is not None
    # Later reasons make the value longer: the module takes the table's last word.
    p.maps[DROPS_MAP] = spec
    counter = p.b.emit(Op.MAP_VALUE, symbol=DROPS_MAP, imm=offset)
    p.b.emit(Op.ATOMIC, counter, p.b.const(1), size=8, symbol="add")
