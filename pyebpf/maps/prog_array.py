"""Program arrays: `steps.tail_call(i)` in a probe goes on with another program, and never comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pyebpf.attach.tail_calls import TailCalled
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import rvalue, to_int
from pyebpf.compiler.ir import Condition
from pyebpf.dataclass import replace
from pyebpf.errors import InvalidValue
from pyebpf.maps.declared import LoadedMap
from pyebpf.maps.mapping import StoredObjectArray
from pyebpf.module.probe import Attachment, Probe, Request, request_decorator
from pyebpf.specs import MapSpec
from pyebpf.specs.maps import map_size
from pyebpf.types import U32
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.helper_ids import TAIL_CALL

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.module.probe import ProbeOwner
    from pyebpf.specs import AttachSpec

P = ParamSpec("P")
R = TypeVar("R")


class ProgramArray(LoadedMap, StoredObjectArray[int]):
    """`bpf.program_array(size=N)`: programs that probes go on with, by `tail_call(i)`.

    In user space `steps[i]` is the id of the program that is there, `del` takes it out, and a loaded program
    (`pyebpf.objects.Program`) may be put in.
    """

    def __init__(self, name: str, size: int, module: ProbeOwner) -> None:
        self.name = name
        self._module = module
        self.max_entries = map_size(size)

    def _current_name(self) -> str:
        return self.map_name

    def entry(self, index: int, *, like: Probe[P, R]) -> Callable[[Any], Probe[Any, R]]:
        """A decorator: the function is the program under `index`, run by tail calls from the probe `like`.

        Context, parameters and result are as in that probe, and so it is called only from probes of its kind. It is
        put in when the module is loaded; where that probe has several places, it is made for the first.
        """
        if not isinstance(like, Probe):
            raise InvalidValue(f"entry({index}, like={like!r}): give the probe that makes the tail call")
        if not 0 <= index < self.max_entries:
            raise InvalidValue(f"entry({index!r}): {self.describe()} has the indices 0 to {self.max_entries - 1}")

        def called(attach: AttachSpec) -> TailCalled:
            return TailCalled(attach.like if isinstance(attach, TailCalled) else attach, self._current_name, index)

        candidates = tuple(
            replace(
                candidate,
                attachments=tuple(
                    Attachment(each.program_type, called(each.attach)) for each in candidate.attachments[:1]
                ),
            )
            for candidate in like.requests[0].candidates
        )
        return request_decorator(self._module, Request("entry", (str(index),), candidates))

    if TYPE_CHECKING:

        def tail_call(self, index: int) -> None:
            """In a probe: go on with that program, and do not come back; without one there, go on here."""

    # -- in probes -----------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> MapSpec:
        return MapSpec(self.map_name, MapType.PROG_ARRAY, None, None, self.max_entries)

    def describe(self) -> str:
        return f"the program array {self.map_name}"

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return method_of(p, self, name, {"tail_call": self._tail_call})

    def _tail_call(self, p: ProgramBuilder, index: object) -> None:
        """Emit a tail call. Code after it runs if there is no such entry, or after 33 tail calls in a row."""
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

    def _call(self, p: ProgramBuilder, number: ir.Value) -> None:
        def call() -> None:
            p.b.call(TAIL_CALL, p.context, self.handle(p), number, comment="tail call")

        if p.scratch is None:
            call()
        else:
            p.scratch.tail_call(call)
