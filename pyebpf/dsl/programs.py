"""One probe at one place becomes one program in intermediate representation."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from pyebpf.builder.contexts import Context
from pyebpf.builder.drop_counters import DropCounters
from pyebpf.builder.program import WholeProgram
from pyebpf.builder.ssa.function import FunctionBuilder
from pyebpf.builder.values.entity import RunTime
from pyebpf.builder.values.strings import StringSource
from pyebpf.dataclass import dataclass
from pyebpf.dsl.annotations import annotation_value
from pyebpf.dsl.binding_time import BindingTimes
from pyebpf.dsl.depth import room
from pyebpf.dsl.probe_builder import ProbeBuilder
from pyebpf.dsl.source import find_source
from pyebpf.dsl.translate import Translator, body, end_of_function
from pyebpf.errors import CompileError
from pyebpf.specs.programs import Exported
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Hashable
    from contextlib import AbstractContextManager

    from pyebpf.compiler import ir
    from pyebpf.dsl.probe import Attachment, Probe
    from pyebpf.dsl.source import Source
    from pyebpf.errors import Location
    from pyebpf.specs import MapSpec
    from pyebpf.target import Target

__all__ = ["Built", "build_program"]


@dataclass(frozen=True)
class BoundParameter:
    """A target's answer for a parameter: `shape` tells types apart, `what` is for messages."""

    shape: Hashable
    what: str
    where: Location


@dataclass(frozen=True)
class Built:
    """A program's IR.

    `maps` are those that it uses, by their names, `drop_counters` those of it and of earlier programs, `parameters`
    what the target gave. `knows_target` says that it reads `ctx.target`.
    """

    module: ir.Module
    maps: dict[str, MapSpec]
    drop_counters: DropCounters
    parameters: dict[str, BoundParameter]
    knows_target: bool = False
    exported: tuple[Exported, ...] = ()


def build_program(
    probe: Probe[Any, Any],
    attachment: Attachment,
    target: Target,
    drop_counters: DropCounters,
    name: str,
    *,
    scratch: bool = False,
) -> Built:
    """Translate a probe for one attachment, with `scratch` memory for what its stack has no room for.

    Raises CompileError.
    """
    source = find_source(probe.function)
    times = BindingTimes()
    function: type[FunctionBuilder] = FunctionBuilder
    memory: Callable[[ProbeBuilder], AbstractContextManager[object]] = nullcontext
    if scratch:
        from pyebpf.builder.scratch import ScratchFunctionBuilder, scratch_memory

        function, memory = ScratchFunctionBuilder, scratch_memory
    known = WholeProgram()
    while True:
        times.changed = False
        table = DropCounters()
        for reason in drop_counters.reasons:
            table.index(reason)
        p = ProbeBuilder(name, attachment, target, source.location, times, function, known)
        p.drop_counters = table
        try:
            with memory(p), room():
                parameters = _translate(p, probe, source)
        except RecursionError:
            p.fail("what is written out here is nested too deep: take a part out into a @bpf.subprogram")
        except CompileError:
            # What this pass took for known while compiling was not: its errors mean nothing.
            if not times.changed:
                raise
        found = known | p.found
        if found != known:
            known = found
        elif not times.changed:
            return Built(p.finish(), p.maps, table, parameters, p.reads_target, tuple(p.exported))


def _translate(p: ProbeBuilder, probe: Probe[Any, Any], source: Source) -> dict[str, BoundParameter]:
    """Build the whole program, and return what the target gave for its parameters."""
    p.b.where = source.location
    frame = Translator(p, source, probe.scope, p.times, "probe")
    if p.kind is ProgramType.EXT:
        attach: Any = p.attach  # a Replacement
        frame.is_subprogram, frame.result = True, attach.result
        p.exported.append(Exported(p.name, tuple(name for name, _ in attach.parameters)))
    p.place.begin(p)
    bound = _parameters(frame, probe)
    body(frame)
    end_of_function(frame)
    return bound


def _parameters(f: Translator, probe: Probe[Any, Any]) -> dict[str, BoundParameter]:
    """Bind each parameter to what the target calls by its name."""
    arguments = f.source.node.args
    for extra in (arguments.vararg, arguments.kwarg):
        if extra is not None:
            f.fail(f"a probe's parameters are named one by one: leave out *{extra.arg}", extra)
    bound: dict[str, BoundParameter] = {}
    position = 0
    for number, argument in enumerate((*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)):
        f.b.where = f.at(argument)
        if arguments.defaults or any(arguments.kw_defaults):
            f.fail("a probe's parameters have no defaults: the kernel gives every argument")
        if argument.arg == "ctx":
            if number:
                f.fail("`ctx`, the context, is the first parameter; a kernel argument of that name is `ctx_`")
            f.bind_constant("ctx", Context())
            continue
        name = "ctx" if argument.arg == "ctx_" else argument.arg
        annotation = _annotation(probe, argument)
        value = f.p.place.parameter(f.p, name, annotation, position)
        f.p.declared[argument.arg] = (annotation, position)
        position += 1
        if isinstance(value, StringSource):
            bound[argument.arg] = BoundParameter(("text", value.size), value.describe(), f.at(argument))
            if value.size is None and not f.times.is_run_time(f.key, argument.arg):
                # Read where it is used, which tells how much of it.
                f.bind_constant(argument.arg, value)
                continue
        elif isinstance(value, RunTime):
            bound[argument.arg] = BoundParameter(value.shape, value.describe(), f.at(argument))
        f.assign(argument.arg, value)
    return bound


def _annotation(probe: Probe[Any, Any], argument: ast.arg) -> Any:
    annotation = probe.function.__annotations__.get(argument.arg)
    return annotation_value(probe.function, annotation) if isinstance(annotation, str) else annotation
