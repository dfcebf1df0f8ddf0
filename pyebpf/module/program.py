"""One body at one attach point becomes one program in intermediate representation."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from pyebpf.builder.drop_counters import DropCounters
from pyebpf.builder.program import ProgramBuilder, WholeProgram
from pyebpf.builder.ssa.function import FunctionBuilder
from pyebpf.dataclass import dataclass
from pyebpf.errors import CompileError
from pyebpf.specs.programs import GlobalFunction
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from typing import Any

    from pyebpf.builder.program import Analysis, BoundParameter
    from pyebpf.builder.scratch import ScratchFunctionBuilder
    from pyebpf.compiler import ir
    from pyebpf.module.body import Body
    from pyebpf.module.probe import Attachment
    from pyebpf.specs import MapSpec
    from pyebpf.target import Target


@dataclass(frozen=True)
class BuiltProgram:
    """A program's IR.

    `maps` are those that it uses, by their names, `drop_counters` those of it and of earlier programs, `parameters`
    what the target gave. `knows_target` says that it reads `ctx.target`.
    """

    module: ir.Module
    maps: dict[str, MapSpec]
    drop_counters: DropCounters
    parameters: dict[str, BoundParameter]
    knows_target: bool = False
    global_functions: tuple[GlobalFunction, ...] = ()


def build_program(
    body: Body,
    attachment: Attachment,
    target: Target,
    drop_counters: DropCounters,
    name: str,
    *,
    scratch: type[ScratchFunctionBuilder] | None = None,
) -> BuiltProgram:
    """Build a body for one attachment; functions of `scratch` have memory for what the stack has no room for.

    It is built anew until that teaches nothing new. Raises CompileError.
    """
    where = body.where
    function: type[FunctionBuilder] = scratch or FunctionBuilder
    if scratch is not None:
        from pyebpf.builder.scratch import ScratchMemory

    known = WholeProgram()
    analyses: dict[type[Analysis], Analysis] = {}
    while True:
        for each in analyses.values():
            each.changed = False
        table = DropCounters()
        for reason in drop_counters.reasons:
            table.index(reason)
        p = ProgramBuilder(name, attachment.program_type, attachment.attach, target, where, function, known, analyses)
        p.drop_counters = table
        if scratch is not None:
            p.scratch = ScratchMemory(p)
        try:
            with nullcontext() if p.scratch is None else p.scratch.main():
                _build(p, body)
        except CompileError:
            # What this build took for known was not: its errors mean nothing.
            if known | p.found == known and not any(each.changed for each in analyses.values()):
                raise
        found = known | p.found
        if found != known:
            known = found
        elif not any(each.changed for each in analyses.values()):
            return BuiltProgram(
                p.finish(), p.maps, table, p.bound_parameters, p.reads_target, tuple(p.global_functions)
            )


def _build(p: ProgramBuilder, body: Body) -> None:
    if p.program_type is ProgramType.EXT:
        attach: Any = p.attach  # a Freplace
        p.global_functions.append(GlobalFunction(p.name, tuple(name for name, _ in attach.parameters)))
    p.program_context.prologue(p)
    body.build(p)
