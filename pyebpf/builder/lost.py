"""Losses, counted exactly: a hidden array with one u64 for each reason that a program may have.

The whole array is one value, which programs reach by address: counting is one atomic addition without a call. User
space reads it back by the order of `LossTable.losses`.
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

__all__ = ["LOST_MAP", "Loss", "LossTable", "count_loss"]

LOST_MAP = ".lost"


@dataclass(frozen=True, slots=True)
class Loss:
    """Why something was not counted or not sent, and the map that it was meant for (empty: none)."""

    reason: str
    map: str = ""

    def __str__(self) -> str:
        return f"{self.map}: {self.reason}" if self.map else self.reason


class LossTable:
    """The losses that the programs of one module can have, in the order of their counters."""

    def __init__(self) -> None:
        self._indices: dict[Loss, int] = {}

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Every loss; its index here is its index in the map's value."""
        return tuple(self._indices)

    def index(self, loss: Loss) -> int:
        """Return the index of a loss, a new one if it is the first of its kind."""
        return self._indices.setdefault(loss, len(self._indices))

    def spec(self) -> MapSpec | None:
        """The map, once every program is built; None if nothing can be lost."""
        if not self._indices:
            return None
        return MapSpec(LOST_MAP, MapType.ARRAY, U32, ArrayType(U64, len(self._indices)), 1)


def count_loss(p: ProgramBuilder, reason: str, map_name: str = "") -> None:
    """Count one loss, here."""
    offset = U64.size * p.losses.index(Loss(reason, map_name))
    spec = p.losses.spec()
    assert spec is not None
    # Later losses make the value longer: the module takes the table's last word.
    p.maps[LOST_MAP] = spec
    place = p.b.emit(Op.MAP_VALUE, symbol=LOST_MAP, imm=offset)
    p.b.emit(Op.ATOMIC, place, p.b.const(1), size=8, symbol="add")
