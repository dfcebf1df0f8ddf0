"""Program arrays in a probe: `steps.tail_call(i)` goes on with another program, and never comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.map_pointers import MapPointer
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import rvalue, to_int
from pyebpf.compiler.ir import Condition
from pyebpf.specs import MapSpec
from pyebpf.types import U32
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.helper_ids import TAIL_CALL

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.builder.program import ProgramBuilder

__all__ = ["ProgramArrayEntity"]

#: Helper number of enum bpf_func_id (since Linux 4.2).


class ProgramArrayEntity(MapPointer):
    """Programs by index."""

    def __init__(self, name_source: str | Callable[[], str], max_entries: int) -> None:
        self._name_source = name_source
        self.max_entries = max_entries

    @property
    def spec(self) -> MapSpec:
        return MapSpec(self.map_name, MapType.PROG_ARRAY, None, None, self.max_entries)

    def describe(self) -> str:
        return f"the program array {self.map_name}"

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        return method_of(p, self, name, {"tail_call": self._tail_call})

    def _tail_call(self, p: ProgramBuilder, index: Any) -> None:
        """Emit a tail call. Code after it runs if there is no such entry, or after 33 tail calls in a row."""
        from pyebpf.builder.scratch import ScratchFunctionBuilder

        if isinstance(p.b, ScratchFunctionBuilder):
            p.fail(
                "a program whose records are too large for the stack gives their memory back at its end, and a tail "
                "call leaves it for good: keep its large records in a map"
            )
        index = rvalue(p, index)
        if isinstance(index, int) and not 0 <= index < self.max_entries:
            p.fail(f"index {int(index)} is outside {self.describe()}, which has {self.max_entries} entries")
        number = to_int(p, index).value
        low, high = p.b.bounds(number)
        if not 0 <= low <= high <= U32.maximum:
            # The helper takes the low 32 bits: what lies above must not fold into the range.
            with p.b.if_(Compare(Condition.ULT, number, p.b.const(self.max_entries))):
                self._call(p, number)
            return
        self._call(p, number)

    def _call(self, p: ProgramBuilder, number: Any) -> None:
        p.b.call(TAIL_CALL, p.context, self.handle(p), number, comment="tail call")
