"""A module's specs: every probe translated and compiled for every target, maps named, equal code shared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.lost import LossTable
from pyebpf.compiler import compile_module
from pyebpf.dsl.naming import first_identifiers, unique_name
from pyebpf.dsl.programs import build_program
from pyebpf.errors import CompileError, NotFound
from pyebpf.specs import BtfTracepoint, ModuleSpec, ProgramSpec, RawTracepoint, Tracepoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyebpf.builder.lost import Loss
    from pyebpf.compiler import ir
    from pyebpf.dsl.maps import Declared
    from pyebpf.dsl.probe import Attachment, Probe
    from pyebpf.dsl.programs import Built
    from pyebpf.specs import AttachSpec, Code, MapSpec
    from pyebpf.target import Target

__all__ = ["assemble", "name_maps"]

#: BPF_TRACE_RAW_TP of enum bpf_attach_type.
TRACE_RAW_TP = 23


def assemble(
    probes: Sequence[Probe[Any, Any]], maps: Sequence[Declared], target: Target
) -> tuple[ModuleSpec, tuple[Loss, ...]]:
    """Compile probes and maps. Programs with equal code hold the same `Code` object."""
    name_maps(probes, maps)
    losses = LossTable()
    programs: list[ProgramSpec] = []
    compiled: dict[ir.Module, Code] = {}
    used: dict[str, MapSpec] = {}
    names: list[str] = []
    for probe in probes:
        name = unique_name(probe.__name__.replace("<lambda>", "lambda"), names)
        names.append(name)
        for attachment, built in _programs(probe, name, target, losses):
            losses = built.losses
            for spec in built.maps.values():
                used.setdefault(spec.name, spec)
            code = compiled.get(built.module)
            if code is None:
                code = compiled[built.module] = compile_module(built.module, target)
            attach = attachment.attach
            btf = isinstance(attach, BtfTracepoint)
            programs.append(
                ProgramSpec(
                    name,
                    attachment.kind,
                    code,
                    attach,
                    expected_attach_type=TRACE_RAW_TP if btf else 0,
                    attach_btf=target.raw_tracepoint_btf_id(attach.name) if isinstance(attach, BtfTracepoint) else 0,
                )
            )
    lost = losses.spec()
    specs = {spec.name: spec for each in maps for spec in each.specs()}
    # Maps that entities made for themselves come after the author's.
    for name, spec in used.items():
        specs.setdefault(name, spec)
    if lost is not None:
        specs[lost.name] = lost
    return ModuleSpec(tuple(specs.values()), tuple(programs)), losses.losses


def _programs(
    probe: Probe[Any, Any], name: str, target: Target, losses: LossTable
) -> Iterator[tuple[Attachment, Built]]:
    """A probe's programs. Where one decorator names several targets, they give the same or it is an error."""
    for request in probe.requests:
        first: tuple[Attachment, Built] | None = None
        for attachment in request.attachments:
            if attachment.optional and not _exists(attachment.attach, target):
                continue
            try:
                built = build_program(probe, attachment, target, losses, name)
            except CompileError as error:
                if first is None:
                    raise
                message = f"{error.message}; so it is with {attachment.attach}, while {first[0].attach} compiles"
                raise CompileError(message, error.location) from error
            losses = built.losses
            if first is None:
                first = attachment, built
            for parameter, given in built.parameters.items():
                before = first[1].parameters[parameter]
                if given.shape != before.shape:
                    raise CompileError(
                        f"{parameter} is {before.what} with {first[0].attach} and {given.what} with "
                        f"{attachment.attach}: "
                        "write a probe for each",
                        given.where,
                    )
            yield attachment, built


def _exists(attach: AttachSpec, target: Target) -> bool:
    """Whether the target has what an optional probe is to be attached to."""
    try:
        match attach:
            case Tracepoint(category, event):
                target.tracepoint_format(category, event)
            case RawTracepoint(event) | BtfTracepoint(event):
                target.raw_tracepoint(event)
    except NotFound:
        return False
    return True


def name_maps(probes: Sequence[Probe[Any, Any]], maps: Sequence[Declared]) -> None:
    """Give each map its name: as given, else the first identifier that a probe uses for it, else a number."""
    unnamed = [each for each in maps if not each.name]
    identifiers = first_identifiers(probes, unnamed) if unnamed else {}
    taken: list[str] = []
    for number, each in enumerate(sorted(maps, key=lambda declared: not declared.name)):
        each.name = unique_name(each.name or identifiers.get(id(each)) or f"map{number}", taken)
        taken.append(each.name)
