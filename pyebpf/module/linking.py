"""A module's specs: every probe built and compiled for every target, maps named, equal code shared."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyebpf.builder.context import OpaqueArgument
from pyebpf.builder.drop_counters import DropCounters
from pyebpf.compiler import compile_module
from pyebpf.dataclass import replace
from pyebpf.errors import CompileError, InvalidValue, NotSupported, PyebpfError
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


def link_module(
    probes: Sequence[AnyProbe], maps: Sequence[DeclaredMap], target: Target, excluded: Excluded | None = None
) -> tuple[ModuleSpec, tuple[DropReason, ...]]:
    """Compile probes and maps. Programs with equal code hold the same `Code` object.

    `excluded` are candidates that are not to be taken. Raises NotSupported where a request has no candidate left.
    """
    _name_maps(probes, maps)
    linker = _Linker(target, excluded or {})
    names = _Names()
    for probe in probes:
        name = names.unique(probe.body.name)
        for number, request in enumerate(probe.requests):
            with _blaming(probe, number):
                linker.link(probe, name, number, request)
    drop_counters = linker.drop_counters
    drops = drop_counters.spec()
    specs = {spec.name: spec for each in maps for spec in each.specs()}
    # Maps that entities made for themselves come after the author's.
    for name, spec in linker.used.items():
        specs.setdefault(name, spec)
    if drops is not None:
        specs[drops.name] = drops
    made = ModuleSpec(tuple(specs.values()), tuple(linker.programs), tuple(linker.choices), tuple(linker.chosen))
    return made, drop_counters.reasons


@contextmanager
def _blaming(probe: AnyProbe, number: int) -> Iterator[None]:
    """Name the probe and its decorator in errors about what it is attached to."""
    try:
        yield
    except PyebpfError as error:
        probe.blame(error, number)
        raise


class _Linker:
    """The programs and choices of a module, and the maps that they use, while requests are linked one by one."""

    def __init__(self, target: Target, excluded: Excluded) -> None:
        self.drop_counters = DropCounters()
        self.programs: list[ProgramSpec] = []
        self.choices: list[Choice] = []
        self.chosen: list[int] = []
        #: Maps that entities made for themselves.
        self.used: dict[str, MapSpec] = {}
        self._target = target
        self._excluded = excluded
        self._compiled: dict[ir.Module, Code] = {}
        #: What was built and its code, by the id of the former.
        self._shared: dict[int, tuple[BuiltProgram, Code]] = {}

    def link(self, probe: AnyProbe, name: str, number: int, request: Request) -> None:
        """Compile the programs of one request of a probe, by the best candidate that the target has."""
        candidate, choice = _choose(name, number, request, self._target, self._excluded)
        self.choices.append(choice)
        if candidate is None:
            return
        found = self._built(probe, candidate, name)
        # Each of them has the reasons of those before it. One that is built anew with scratch memory has more.
        self.drop_counters = max([self.drop_counters, *(built.drop_counters for _, built in found)], key=len)
        made = [(each.attach, each.program_type, self._code(probe, each, name, built)) for each, built in found]
        for attach, program_type, code in _coalesced(made):
            self.programs.append(_program_spec(name, attach, program_type, code, self._target))
            self.chosen.append(len(self.choices) - 1)

    def _built(self, probe: AnyProbe, candidate: Candidate, name: str) -> list[tuple[Attachment, BuiltProgram]]:
        """The programs of a candidate; without types where the verifier would refuse an argument with its own."""
        try:
            return list(_programs(probe, candidate, name, self._target, self.drop_counters))
        except OpaqueArgument as error:
            untyped = _without_types(candidate)
            if untyped is None:
                raise
            choice = self.choices[-1]
            rejected = (*choice.rejected, (candidate.name, error.message))
            self.choices[-1] = replace(choice, candidate=untyped.name, rejected=rejected)
            return list(_programs(probe, untyped, name, self._target, self.drop_counters))

    def _code(self, probe: AnyProbe, attachment: Attachment, name: str, built: BuiltProgram) -> Code:
        """The code of what was built: places of one signature share it; others may still come to equal code."""
        if id(built) in self._shared:
            return self._shared[id(built)][1]
        maps: Mapping[str, MapSpec] = built.maps
        code = self._compiled.get(built.module)
        if code is None:
            maps, code = self._compile(probe, attachment, name, built)
        self._shared[id(built)] = built, code
        for spec in maps.values():
            self.used[spec.name] = _larger(self.used.get(spec.name, spec), spec)
        return code

    def _compile(
        self, probe: AnyProbe, attachment: Attachment, name: str, built: BuiltProgram
    ) -> tuple[Mapping[str, MapSpec], Code]:
        """Maps and code of a built program, built anew with scratch memory if its stack has no room for records."""
        module = built.module
        try:
            maps, made = built.maps, compile_module(module, self._target)
        except CompileError as error:
            maps, made = self._with_scratch(probe, attachment, name, module, error)
        code = replace(made, global_functions=built.global_functions) if built.global_functions else made
        self._compiled[module] = code
        return maps, code

    def _with_scratch(
        self, probe: AnyProbe, attachment: Attachment, name: str, module: ir.Module, error: CompileError
    ) -> tuple[dict[str, MapSpec], Code]:
        """The same with its large records in scratch memory, or all but the smallest. Raises the last error."""
        from pyebpf.builder.scratch import RoomyFunctionBuilder, ScratchFunctionBuilder

        largest = max((slot.size for function in module.functions for slot in function.slots), default=0)
        body = attachment.body_for(probe.body)
        for scratch in (ScratchFunctionBuilder, RoomyFunctionBuilder):
            if largest < scratch.large:
                continue
            fitting = build_program(body, attachment, self._target, self.drop_counters, name, scratch=scratch)
            try:
                made = compile_module(fitting.module, self._target)
            except CompileError as later:
                error = later
                continue
            for reason in fitting.drop_counters.reasons:
                self.drop_counters.index(reason)
            return fitting.maps, made
        raise error


def _program_spec(name: str, attach: AttachSpec, program_type: ProgramType, code: Code, target: Target) -> ProgramSpec:
    attributes = attach.program_context().load_attributes(target)
    return ProgramSpec(
        name,
        program_type,
        code,
        attach,
        expected_attach_type=attach.attach_type if attributes.attach_type is None else attributes.attach_type,
        attach_btf=attributes.attach_btf,
        attach_module=attributes.module,
        flags=attach.load_flags,
    )


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
    # The last candidate is what every kernel has that has any of them.
    last = request.candidates[-1].missing_reason
    lacks = bool(last) and rejected[-1][1] == last
    lead = f"needs {request.subject}, and {last}: " if lacks and request.subject else ""
    error = NotSupported(f"{lead}{request} on {name}: no candidate works here: {reasons}")
    what = ", ".join(request.targets) or request.decorator
    if lacks and not request.subject:
        tried = f": {last}"
    elif len({reason for _, reason in rejected}) == 1:
        tried = f": {rejected[0][1]}"
    else:
        tried = " " + ", ".join(f"by {candidate} ({reason})" for candidate, reason in rejected)
    error.of_tool = f"{lead}{what} cannot be traced{tried}"
    raise error


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


class _Names:
    """Names that are taken. Those with a number are not tried again: a script may have a thousand equal probes."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """`kernel_name`, with a number where that is taken; taken from now on."""
        wanted = kernel_name(name)
        candidate, number = wanted, self._numbers.get(wanted, 2)
        while candidate in self._taken:
            suffix = f"_{number}"
            candidate, number = wanted[: LONGEST_NAME - len(suffix)] + suffix, number + 1
        self._taken.add(candidate)
        self._numbers[wanted] = number
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
        each.name = names.get(id(each)) or _Names(taken).unique(f"map{number}")
        if each.name in taken:
            name, each.name = each.name, ""
            raise InvalidValue(f"two maps are called {name!r} in the probes: give one of them another name, name=...")
        taken.add(each.name)
