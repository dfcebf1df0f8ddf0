"""A module's specs: every probe built and compiled for every target, maps named, equal code shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.context import OpaqueArgument
from pyebpf.builder.drop_counters import DropCounters
from pyebpf.compiler import compile_module
from pyebpf.dataclass import replace
from pyebpf.errors import CompileError, InvalidValue, NotSupported
from pyebpf.module.probe import Attachment
from pyebpf.module.program import build_program
from pyebpf.specs import Choice, ModuleSpec, ProgramSpec
from pyebpf.specs.programs import LEFT_OUT, LONGEST_NAME, kernel_name

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from pyebpf.builder.drop_counters import DropReason
    from pyebpf.compiler import ir
    from pyebpf.module.declared import DeclaredMap
    from pyebpf.module.probe import AnyProbe, Candidate, Request
    from pyebpf.module.program import BuiltProgram
    from pyebpf.specs import AttachSpec, Code, MapSpec
    from pyebpf.target import Target
    from pyebpf.uapi.bpf import ProgramType

    #: Candidates that a kernel was found to refuse: by probe, number of its request and candidate, the reason.
    Excluded: TypeAlias = Mapping[tuple[str, int, str], str]

__all__ = ["link_module"]


def link_module(
    probes: Sequence[AnyProbe], maps: Sequence[DeclaredMap], target: Target, excluded: Excluded | None = None
) -> tuple[ModuleSpec, tuple[DropReason, ...]]:
    """Compile probes and maps. Programs with equal code hold the same `Code` object.

    `excluded` are candidates that are not to be taken. Raises NotSupported where a request has no candidate left.
    """
    _name_maps(probes, maps)
    drop_counters = DropCounters()
    programs: list[ProgramSpec] = []
    choices: list[Choice] = []
    chosen: list[int] = []
    compiled: dict[ir.Module, Code] = {}
    shared: dict[int, Code] = {}
    kept: list[BuiltProgram] = []
    used: dict[str, MapSpec] = {}
    names: list[str] = []
    for probe in probes:
        name = _unique_name(probe.body.name, names)
        names.append(name)
        for number, request in enumerate(probe.requests):
            candidate, choice = _choose(name, number, request, target, excluded or {})
            choices.append(choice)
            if candidate is None:
                continue
            made = []
            try:
                found = list(_programs(probe, candidate, name, target, drop_counters))
            except OpaqueArgument as error:
                untyped = _without_types(candidate)
                if untyped is None:
                    raise
                rejected = (*choice.rejected, (candidate.name, error.message))
                choices[-1] = replace(choice, candidate=untyped.name, rejected=rejected)
                found = list(_programs(probe, untyped, name, target, drop_counters))
            # Each of them has the reasons of those before it. One that is built anew with scratch memory has more.
            drop_counters = max([drop_counters, *(built.drop_counters for _, built in found)], key=len)
            for attachment, built in found:
                attach, program_type = attachment.attach, attachment.program_type
                # Places of one signature share what was built; others may still come to equal code.
                code = shared.get(id(built))
                if code is None:
                    kept.append(built)
                    needed, code = _code(probe, attachment, target, name, built, compiled, drop_counters)
                    shared[id(built)] = code
                    for spec in needed.values():
                        used[spec.name] = _larger(used.get(spec.name, spec), spec)
                made.append((attach, program_type, code))
            for attach, program_type, code in _coalesced(made):
                attributes = attach.program_context().load_attributes(target)
                programs.append(
                    ProgramSpec(
                        name,
                        program_type,
                        code,
                        attach,
                        expected_attach_type=(
                            attach.attach_type if attributes.attach_type is None else attributes.attach_type
                        ),
                        attach_btf=attributes.attach_btf,
                        attach_module=attributes.module,
                        flags=attach.load_flags,
                    )
                )
                chosen.append(len(choices) - 1)
    drops = drop_counters.spec()
    specs = {spec.name: spec for each in maps for spec in each.specs()}
    # Maps that entities made for themselves come after the author's.
    for name, spec in used.items():
        specs.setdefault(name, spec)
    if drops is not None:
        specs[drops.name] = drops
    return ModuleSpec(tuple(specs.values()), tuple(programs), tuple(choices), tuple(chosen)), drop_counters.reasons


def _code(
    probe: AnyProbe,
    attachment: Attachment,
    target: Target,
    name: str,
    built: BuiltProgram,
    compiled: dict[ir.Module, Code],
    drop_counters: DropCounters,
) -> tuple[Mapping[str, MapSpec], Code]:
    """The maps and the code of a built program, built anew with scratch memory if its stack has no room for records.

    What that may drop is added to `drop_counters`.
    """
    code = compiled.get(built.module)
    if code is not None:
        return built.maps, code
    module, maps = built.module, built.maps
    try:
        made = compile_module(module, target)
    except CompileError:
        from pyebpf.builder.scratch import LARGE

        if all(slot.size < LARGE for function in module.functions for slot in function.slots):
            raise
        fitting = build_program(attachment.body_for(probe.body), attachment, target, drop_counters, name, scratch=True)
        for reason in fitting.drop_counters.reasons:
            drop_counters.index(reason)
        maps, made = fitting.maps, compile_module(fitting.module, target)
    code = replace(made, global_functions=built.global_functions) if built.global_functions else made
    compiled[module] = code
    return maps, code


def _larger(one: MapSpec, other: MapSpec) -> MapSpec:
    """Of two maps of one name that programs of one probe made for themselves, the one that does for both."""
    if one.value is None or other.value is None:
        return one
    return other if other.value.size > one.value.size else one


def _choose(
    name: str, number: int, request: Request, target: Target, excluded: Excluded
) -> tuple[Candidate | None, Choice]:
    """The first candidate of a request that nothing is known against; none if it is optional and has no such one."""
    optional = all(attachment.optional for candidate in request.candidates for attachment in candidate.attachments)
    rejected: list[tuple[str, str]] = []
    alone = len(request.candidates) == 1
    for candidate in request.candidates:
        reason = excluded.get((name, number, candidate.name))
        if reason is None:
            # One that is alone is tried: unless there are words for what is missing, the kernel's refusal says more.
            asked = () if alone and not candidate.missing_reason else candidate.needs
            missing = next((need for need in asked if not target.has(need)), None)
            if missing is not None:
                reason = candidate.missing_reason or f"this kernel lacks {missing}"
            if reason is None and not alone:
                reasons_against = (
                    attachment.attach.program_context().reason_against(target) for attachment in candidate.attachments
                )
                reason = next((each for each in reasons_against if each is not None), None)
        if reason is None:
            is_last = candidate is request.candidates[-1]
            return candidate, Choice(name, str(request), number, candidate.name, tuple(rejected), is_last, optional)
        rejected.append((candidate.name, reason))
    if optional:
        return None, Choice(name, str(request), number, LEFT_OUT, tuple(rejected), optional=True)
    reasons = "; ".join(f"{candidate}: {reason}" for candidate, reason in rejected)
    raise NotSupported(f"{request} on {name}: no candidate works here: {reasons}")


def _programs(
    probe: AnyProbe, candidate: Candidate, name: str, target: Target, drop_counters: DropCounters
) -> Iterator[tuple[Attachment, BuiltProgram]]:
    """A request's programs. Where one decorator names several targets, they give the same or it is an error."""
    firsts: dict[object, tuple[AttachSpec, BuiltProgram]] = {}
    same: dict[Hashable, BuiltProgram] = {}
    for attachment in _expanded(candidate, target):
        attach = attachment.attach
        first = firsts.get(attachment.body)
        signature = attach.program_context().signature(target, probe.body.parameters)
        key = None if signature is None else (attachment.body, signature)
        if key is not None and key in same:
            yield attachment, same[key]
            continue
        try:
            built = build_program(attachment.body_for(probe.body), attachment, target, drop_counters, name)
        except CompileError as error:
            if first is None or isinstance(error, OpaqueArgument):
                raise
            message = f"{error.message}; the target is {attach}, while {first[0]} compiles"
            raise CompileError(message, error.location) from error
        drop_counters = built.drop_counters
        if key is not None and not built.knows_target:
            same[key] = built
        if first is None:
            first = firsts[attachment.body] = attach, built
        for parameter, given in built.parameters.items():
            before = first[1].parameters[parameter]
            if given.shape != before.shape:
                raise CompileError(
                    f"{parameter} is {before.what} with {first[0]} and {given.what} with {attach}: "
                    "write a probe for each",
                    given.where,
                )
        yield attachment, built


def _without_types(candidate: Candidate) -> Candidate | None:
    """The candidate where programs know no types, by the same attach points; None if that is none."""
    found = [(each, each.attach.program_context().without_types()) for each in candidate.attachments]
    attachments = tuple(
        Attachment(attach.program_type, attach, each.optional) for each, attach in found if attach is not None
    )
    return (
        replace(candidate, name=attachments[0].program_type.name.lower(), attachments=attachments)
        if attachments
        else None
    )


def _coalesced(made: Sequence[tuple[AttachSpec, ProgramType, Code]]) -> Iterator[tuple[AttachSpec, ProgramType, Code]]:
    """Coalesce attach points that run the same code: hundreds of functions are attached by one call."""
    groups: dict[Hashable, list[tuple[AttachSpec, ProgramType, Code]]] = {}
    for attach, program_type, code in made:
        groups.setdefault((type(attach), program_type, id(code)), []).append((attach, program_type, code))
    for group in groups.values():
        attach, program_type, code = group[0]
        merged = attach.program_context().coalesced([other for other, *_ in group[1:]]) if len(group) > 1 else None
        if merged is None:
            yield from group
        else:
            yield merged, program_type, code


def _expanded(candidate: Candidate, target: Target) -> Iterator[Attachment]:
    """The attach points of a candidate, without optional ones that the kernel lacks."""
    for attachment in candidate.attachments:
        context = attachment.attach.program_context()
        if attachment.optional and not context.exists(target):
            continue
        for attach in context.expand(target):
            yield attachment if attach is attachment.attach else replace(attachment, attach=attach)


def _unique_name(name: str, taken: Iterable[str]) -> str:
    """`kernel_name`, with a number where that is taken."""
    taken = set(taken)
    wanted = kernel_name(name)
    candidate, number = wanted, 2
    while candidate in taken:
        suffix = f"_{number}"
        candidate, number = wanted[: LONGEST_NAME - len(suffix)] + suffix, number + 1
    return candidate


def _name_maps(probes: Sequence[AnyProbe], maps: Sequence[DeclaredMap]) -> None:
    """Give each map its name: as given, else the first that a body has for it, else a number.

    Raises InvalidValue for two maps of one name.
    """
    unnamed = {id(each) for each in maps if not each.name}
    names: dict[int, str] = {}
    if unnamed:
        for probe in probes:
            for value, name in probe.body.map_names():
                if id(value) in unnamed:
                    names.setdefault(id(value), name)
    taken = {each.name for each in maps if each.name}
    for number, each in enumerate(sorted(maps, key=lambda declared: not declared.name)):
        if each.name:
            continue
        each.name = names.get(id(each)) or _unique_name(f"map{number}", taken)
        if each.name in taken:
            name, each.name = each.name, ""
            raise InvalidValue(f"two maps are called {name!r} in the probes: give one of them another name, name=...")
        taken.add(each.name)
