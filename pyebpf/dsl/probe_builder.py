"""`ProbeBuilder`: one program under construction from Python functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.program import ProgramBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.builder.program import WholeProgram
    from pyebpf.builder.ssa.function import FunctionBuilder
    from pyebpf.compiler import ir
    from pyebpf.dsl.binding_time import BindingTimes
    from pyebpf.dsl.probe import Attachment, SubprogramEntity
    from pyebpf.dsl.subprograms import BuiltSubprogram
    from pyebpf.errors import Location
    from pyebpf.target import Target

__all__ = ["ProbeBuilder"]


class ProbeBuilder(ProgramBuilder):
    """State that the functions of one probe share: `times` has the binding times of names."""

    def __init__(
        self,
        name: str,
        attachment: Attachment,
        target: Target,
        where: Location,
        times: BindingTimes,
        function: type[FunctionBuilder],
        known: WholeProgram,
    ) -> None:
        super().__init__(name, attachment.kind, attachment.attach, target, where, function, known)
        self.times = times
        #: None for one that is being built.
        self.subprograms: dict[SubprogramEntity, BuiltSubprogram | None] = {}
        #: The number of calls that have been written out.
        self.inlined = 0

    def build_callback(self, *given: Any, **named: Any) -> tuple[ir.Value, ir.Value, Mapping[str, str]]:
        # Few probes have one.
        from pyebpf.dsl.callbacks import build_callback

        return build_callback(self, *given, **named)
