"""A script's probes as those of a module: parsed, asked for, their types found, and linked."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pyebpf.attach.kernel_functions import FunctionProgramContext, split, system_call
from pyebpf.attach.tracepoints import Tracepoint
from pyebpf.attach.uprobes import Uprobe
from pyebpf.bpftrace.cursor import room
from pyebpf.bpftrace.macros import expand
from pyebpf.bpftrace.parser import parse
from pyebpf.bpftrace.scopes import scoped
from pyebpf.bpftrace.translate.attachments import plain, program_name, request, usdt_name
from pyebpf.bpftrace.translate.body import ProbeBody, identifiers
from pyebpf.bpftrace.translate.functions import is_function
from pyebpf.bpftrace.translate.script import Script
from pyebpf.builder.drop_counters import DropCounters
from pyebpf.dataclass import replace
from pyebpf.errors import CompileError, InvalidValue, NotFound, PyebpfError
from pyebpf.module.program import build_program
from pyebpf.specs.attach_point import is_pattern
from pyebpf.target.facts import KERNEL_ITSELF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyebpf.attach import DecoratorMethods
    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.ast import AttachPoint, Node
    from pyebpf.bpftrace.includes import Files
    from pyebpf.bpftrace.source import Source
    from pyebpf.bpftrace.translate.user_files import UserFiles
    from pyebpf.module.probe import AnyProbe, Attachment
    from pyebpf.specs import ModuleSpec
    from pyebpf.target import Target

#: Builds of all probes until no type is new: each makes one wider, and few depend on each other.
_MAX_BUILDS = 32
#: Probes at places in files, and at places in the memory of processes.
_IN_FILES = frozenset({"uprobe", "uretprobe", "usdt"})
_IN_MEMORY = _IN_FILES | {"watchpoint"}
#: Kinds whose patterns the kernel is asked about.
_OF_KERNEL = frozenset({"tracepoint", "rawtracepoint", "kprobe", "kretprobe", "fentry", "fexit"})
#: Of these kinds the kernel runs what was attached last at a place first, of all others what was attached first.
_LAST_FIRST = _IN_FILES | {"kprobe", "fentry", "fexit"}


class ScriptModule:
    """A script in a module. Raises CompileError for a script that is not right, at its place."""

    def __init__(
        self,
        module: DecoratorMethods,
        text: str,
        arguments: Sequence[str],
        file: str,
        pid: int | None,
        child: int | None = None,
        settings: Mapping[str, str] | None = None,
        only: str = "",
        files: Files | None = None,
        programs: UserFiles | None = None,
    ) -> None:
        self._module = module
        self._only = only
        words = [each for each in arguments if not each.startswith("--")]
        program = parse(text, file, words, files)
        with room():
            program = scoped(expand(program, is_function))
        self.script = Script(program, arguments, settings)
        self.script.pid, self.script.child = pid, child
        if programs is not None:
            self.script.files = programs
        #: The module's maps that are not the script's own, such as those of dw_ustack(); known when it is compiled.
        self._others: tuple[Any, ...] | None = None
        #: Probes that are left out, since what they are at is missing.
        self._missing: list[AnyProbe] = []
        #: Warnings about the script, known once it is compiled.
        self.remarks: list[str] = []
        #: The probes of BEGIN, of END, of signals to this process, of benchmarks, iterators, and all others.
        self.begins: list[AnyProbe] = []
        self.ends: list[AnyProbe] = []
        self.signals: list[AnyProbe] = []
        self.benchmarks: list[AnyProbe] = []
        self.iterators: list[AnyProbe] = []
        self.attached: list[AnyProbe] = []
        self._lists = {
            "BEGIN": self.begins,
            "END": self.ends,
            "SELF": self.signals,
            "BENCH": self.benchmarks,
            "ITER": self.iterators,
        }
        source = self.script.source
        for each in program.imports:
            if each.path.partition("/")[0] != "stdlib":
                raise source.error("of imports only those of stdlib are supported, which are there without them", each)
        if not self.script.program.probes:
            raise source.error("this script has no probe: BEGIN { … } runs at its start", program)
        is_wanted = self._is_wanted = _filter(only)
        for probe in self.script.program.probes:
            for point in probe.attach_points:
                for place in self._places(point, probe):
                    asked = only and not plain(point.provider) and not _is_kernel_pattern(place)
                    if asked and not is_wanted(self._name_of(place, point)):
                        continue
                    body = ProbeBody(self.script, probe, place, program_name(place))
                    made = request(module, source, place, body, self._process(place.provider))
                    self._list_of(place).append(made)
        places = [at for at, each in enumerate(module.probes) if _body(each).point.provider in _LAST_FIRST]
        turned = [module.probes[at] for at in reversed(places)]
        for at, last in zip(places, turned, strict=True):
            module.probes[at] = last
        if only and not module.probes:
            raise InvalidValue("No probes to attach")

    def _process(self, provider: str) -> int | None:
        """The process that a probe is limited to: the child's own are those in its memory, as with bpftrace."""
        script = self.script
        return script.child if script.pid is None and provider in _IN_MEMORY else script.pid

    def _places(self, point: AttachPoint, probe: ast.Probe) -> list[AttachPoint]:
        """An attach point of a probe: one in files by a pattern as those of each file, `uprobe:*:malloc` with -p.

        One by a pattern of what is in a file is all of it, and one for each where the probe tells them apart.
        """
        kind, pattern = point.provider, point.target
        if kind not in _IN_FILES or not point.function:
            return [point]
        name, process = point.function, self._process(kind)
        if kind == "usdt":
            name = usdt_name(point)
            pattern = pattern or ("*" if process is not None else "")  # any file of the process
        kind = kind.replace("uretprobe", "uprobe")
        if not is_pattern(pattern):
            return self._in_file(point, probe)
        # A command that has not begun has mapped nothing: its files are named by their paths.
        pid = -1 if process is None or (self.script.pid is None and "/" in pattern) else process
        found = self.script.files.matching(kind, pattern, name, pid)
        if not found and self.script.settings.missing_probes == "error":
            advice = "" if pid >= 0 else ": with -p PID it names the files of a process, without it paths as in a shell"
            raise self.script.source.error(f"No matches for {_described(point)}{advice}.", point)
        files = [replace(point, target=path) for path in found] or [point]
        return [each for file in files for each in self._in_file(file, probe)]

    def _in_file(self, point: AttachPoint, probe: ast.Probe) -> list[AttachPoint]:
        """An attach point by a pattern of what is in a file: each USDT probe, or each function if its name is asked."""
        process = self._process(point.provider)
        pid, lead = -1 if process is None else process, f"{point.namespace}:" if point.namespace else ""
        try:
            if point.provider == "usdt":
                if not is_pattern(usdt_name(point)):
                    return [point]
                return [
                    replace(point, namespace=provider, function=name, text=f"usdt:{point.target}:{provider}:{name}")
                    for provider, _, name in (
                        each.partition(":")
                        for each in self.script.files.named("usdt", point.target, usdt_name(point), pid)
                    )
                ]
            if not (point.namespace or is_pattern(point.function)) or "probe" not in identifiers(probe):
                return [point]
            found = self.script.files.named("uprobe", point.target, lead + point.function, pid)
        except NotFound:  # which is told when it is attached
            return [point]
        text = f"{point.provider}:{point.target}:{lead}"
        return [replace(point, function=name, text=text + name) for name in found]

    def _name_of(self, place: AttachPoint, point: AttachPoint) -> str:
        """The name of an attach point that a filter is asked about, with its kind's long name and its file's path."""
        parts = list(point.parts)
        if place is not point:
            parts = [each for each in (place.target, place.namespace, place.function) if each]
        if place.provider in _IN_FILES and place.target and parts:
            process = self._process(place.provider)
            with suppress(NotFound):  # which is told when it is attached
                parts[0] = self.script.files.path(place.target, -1 if process is None else process)
        return ":".join([place.provider, *parts])

    def _choose(self, target: Target) -> None:
        """Have only those places of patterns of the kernel's that the filter is for."""
        module = self._module
        for probe in [each for each in module.probes if _is_kernel_pattern(_body(each).point)]:
            point = _body(probe).point

            def chosen(attachment: Attachment, point: AttachPoint = point) -> list[Attachment]:
                places = attachment.attach.program_context().expand(target)
                wanted = [each for each in places if self._is_wanted(_name_of_place(point, each.target, target))]
                return [replace(attachment, attach=each) for each in wanted]

            try:
                requests = tuple(
                    replace(
                        request_,
                        candidates=tuple(
                            replace(each, attachments=tuple(found for one in each.attachments for found in chosen(one)))
                            for each in request_.candidates
                        ),
                    )
                    for request_ in probe.requests
                )
            except NotFound:  # nothing matches the pattern: told as without a filter
                continue
            if requests[0].candidates[0].attachments:
                probe.requests = requests
            else:
                module.probes.remove(probe)
                self._list_of(point).remove(probe)
        if not module.probes:
            raise InvalidValue("No probes to attach")

    @property
    def lists(self) -> list[list[AnyProbe]]:
        """The probes of each kind."""
        return [*self._lists.values(), self.attached]

    def _list_of(self, point: AttachPoint) -> list[AnyProbe]:
        return self._lists.get(point.provider.upper(), self.attached)

    def compile(self, target: Target, link: Callable[[], ModuleSpec]) -> ModuleSpec:
        """Find the types, declare the maps, and link; again if a pattern's further places taught something."""
        maps, module = self.script.maps, self._module
        if self._only:
            self._choose(target)
        self.remarks = self._leave_out(target)
        self.script.concerns.clear()
        self._check_places(target)
        if self._others is None:
            self._others = tuple(module.maps)
        for _ in range(_MAX_BUILDS):
            with room():
                self._infer(target)
                module.maps[:] = [*maps.tables(), self.script.events, *self._others]
                if self.script.packets.files:
                    module.maps.append(self.script.packets)
                self.script.unreachable.clear()  # types that were not known yet led elsewhere
                spec = link()
            if not maps.changed:
                self._check_options()
                source = self.script.source
                for each in maps.unused():
                    self.remarks.append(source.warning(f"Unused map: @{each.map.name}", _whole(source, each)))
                for name, read in maps.assumed.items():
                    self.remarks.append(source.warning(f"@{name} is never assigned: it is 0", read))
                concerns: dict[str, Node] = {}
                for found in self.script.concerns.values():
                    concerns = found | concerns
                for word, asked in concerns.items():
                    self.remarks.append(source.warning(word, asked))
                for node, name, size in maps.large(lambda: target.possible_cpus):
                    what = f"{name} takes {size} MiB of the kernel's memory from the start: give it fewer entries"
                    self.remarks.append(source.warning(what, node))
                unreachable = self.script.unreachable
                for place in sorted(unreachable):
                    node = _whole(source, unreachable[place])
                    self.remarks.append(source.warning("Unreachable statement.", node))
                return spec
        raise self.script.source.error("the types of this script's maps do not settle", self.script.program)

    def _check_options(self) -> None:
        """Refuse options that no getopt() asks for."""
        known = self.script.expected
        unknown = [each for each in self.script.options if each not in known]
        if unknown:
            has = [f"--{name}" + (f": {known[name]}" if known[name] else "") for name in sorted(known)]
            raise InvalidValue(
                f"unexpected options of the script: {', '.join(f'--{each}' for each in unknown)}; "
                + (f"it has {', '.join(has)}" if has else "it has none")
            )

    def _leave_out(self, target: Target) -> list[str]:
        """Leave out the probes at attach points that the target has not; warnings about them, if they are wanted.

        Unless the script says otherwise these are patterns of a list, as with bpftrace: a name is an error.
        """
        source, module, mode = self.script.source, self._module, self.script.settings.missing_probes
        asked = [each for each in module.probes if mode != "error" or _is_one_of_several(_body(each))]
        missing = [each for each in asked if not self._exists(each, target)]
        if mode == "error":  # a probe that has nothing else is refused when it is attached
            left = {id(_body(each).probe) for each in module.probes if each not in missing}
            missing = [each for each in missing if id(_body(each).probe) in left]
        for each in missing:
            module.probes.remove(each)
            self._list_of(_body(each).point).remove(each)
        self._missing += missing
        if missing and not module.probes:
            raise NotFound("No probes to attach: this machine has none of the places that the script names")
        if mode != "warn":
            return []
        lines = [
            source.warning(f"No matches for {_described(_body(each).point)}. Skipping.", _body(each).point)
            for each in missing
        ]
        left = {id(_body(each).probe) for each in module.probes}
        probes = {id(_body(each).probe): _body(each).probe for each in missing}
        removed = [probe for number, probe in probes.items() if number not in left]
        return [*lines, *[source.warning(_REMOVED, probe.attach_points[0]) for probe in removed]]

    def _exists(self, probe: AnyProbe, target: Target) -> bool:
        """Whether there is an attach point, or one that a pattern is for, in the target or in a file."""
        attach: Any = probe.requests[0].candidates[-1].attachments[0].attach
        try:
            if isinstance(attach, Uprobe):
                self.script.files.check(attach)
                return True
            contexts = [place.program_context() for place in attach.program_context().expand(target)]
        except NotFound:
            return False
        return all(each.exists(target) and _is_traceable(each, target) for each in contexts)

    def _check_places(self, target: Target) -> None:
        """Refuse raw tracepoints of a module that has none such, and kprobes at addresses that are not allowed."""
        for each in self._module.probes:
            point = _body(each).point
            if point.provider == "kprobe" and point.address is not None and not self.script.unsafe:
                raise self.script.source.error(
                    "a kprobe at an address may stand anywhere: allow it by --unsafe, or Script(unsafe=True)", point
                )
            if point.provider != "rawtracepoint" or not point.target or is_pattern(point.target + point.function):
                continue
            with _blaming(each):
                home = target.raw_tracepoint(point.function).module or KERNEL_ITSELF
            if home != point.target:
                raise self.script.source.error(f"No matches for {_described(point)}.", point)

    def _infer(self, target: Target) -> None:
        """Build every probe at the first of its places until no map's type is new."""
        maps = self.script.maps
        for _ in range(_MAX_BUILDS):
            maps.growths.begin(lambda: self.script.max_strlen(target))
            maps.changed, maps.unknown = False, None
            failed: CompileError | None = None
            for probe in self._module.probes:
                try:
                    _build(probe, target)
                except CompileError as error:
                    failed = failed or self._at_fault(probe, target, error)
            for probe in self._missing:  # what they would write into maps has a type all the same
                with suppress(PyebpfError):
                    _build(probe, target)
            self._ask_everywhere(target)
            if maps.changed or maps.assume_number():
                continue
            if failed is not None:
                raise failed
            if maps.unknown is not None:
                raise self.script.source.error(*maps.unknown)
            return

    def _at_fault(self, probe: AnyProbe, target: Target, error: CompileError) -> CompileError:
        """An error about what a probe does; one about its attach point if there is none such: that is the cause."""
        attach: Any = probe.requests[0].candidates[-1].attachments[0].attach
        try:
            if isinstance(attach, Uprobe):
                self.script.files.check(attach)
            elif isinstance(attach, Tracepoint) and not is_pattern(attach.target):
                target.tracepoint_format(attach.category, attach.name)
        except NotFound as missing:
            return self.script.source.error(str(missing), _body(probe).point)
        return error

    def _ask_everywhere(self, target: Target) -> None:
        """Note the types of what is assigned where nothing comes to, if a map has none else: as with bpftrace."""
        if self.script.maps.unknown is None or self.script.maps.changed:
            return
        self.script.asks_everywhere = True
        for probe in self._module.probes:
            with suppress(PyebpfError):
                _build(probe, target)
        self.script.asks_everywhere = False


def _is_one_of_several(body: ProbeBody) -> bool:
    """Whether a place is a pattern among other places."""
    return len(body.probe.attach_points) > 1 and is_pattern(body.point.text)


def _is_traceable(context: object, target: Target) -> bool:
    """Whether functions can be probed, and are not only known, where the kernel tells; True for other places."""
    if not isinstance(context, FunctionProgramContext):
        return True
    for each in context.names:
        module, name, _ = split(each)
        name = system_call(target, name)
        try:
            found = target.functions(f"{module}:{name}*" if module else f"{name}*")
        except NotFound:
            return False
        except PyebpfError:  # nothing lists them
            return True
        if name not in {known.rpartition(":")[2] for known in found}:
            return False
    return True


def _whole(source: Source, node: Node) -> Node:
    """A statement with its semicolon."""
    return replace(node, end=node.end + source.text.startswith(";", node.end))


_REMOVED = "Probe has no valid attach points. It is being removed which may cause issues with program behavior."


def _body(probe: AnyProbe) -> ProbeBody:
    body = probe.body
    assert isinstance(body, ProbeBody)  # all of a script are
    return body


def _described(point: AttachPoint) -> str:
    """An attach point in bpftrace's messages."""
    return f"{point.provider} {':'.join(filter(None, (point.target, point.function)))}"


def _is_kernel_pattern(point: AttachPoint) -> bool:
    """Whether the kernel is asked which places an attach point stands for, when the script is compiled."""
    return point.provider in _OF_KERNEL and is_pattern(point.target + point.function)


def _name_of_place(point: AttachPoint, found: str, target: Target) -> str:
    """The name of a place of a pattern, as `bpftrace -l` has it: with its module, or `vmlinux`, of most kinds."""
    if point.provider == "rawtracepoint":
        name = found.rpartition(":")[2]
        found = f"{target.raw_tracepoint(name).module or KERNEL_ITSELF}:{name}"
    elif ":" not in found and (point.provider in ("fentry", "fexit") or point.target):
        found = f"{KERNEL_ITSELF}:{found}"
    return f"{point.provider}:{found}"


def _filter(only: str) -> Callable[[str], object]:
    """A function that says whether the name of an attach point is one that a regular expression finds."""
    import re

    try:
        pattern = re.compile(only)
    except re.error as error:
        raise InvalidValue(f"Invalid --probe-filter regex {only!r}: {error}") from None
    return pattern.search


def _build(probe: AnyProbe, target: Target) -> None:
    """Build a probe at the first of its places, for the types of maps. Raises CompileError."""
    with _blaming(probe):
        for attachment in _first_places(probe, target):
            build_program(probe.body, attachment, target, DropCounters(), probe.body.name)


@contextmanager
def _blaming(probe: AnyProbe) -> Iterator[None]:
    """Name the attach point in errors about it."""
    try:
        yield
    except PyebpfError as error:
        probe.blame(error, 0)
        raise


def _first_places(probe: AnyProbe, target: Target) -> Iterator[Attachment]:
    for request_ in probe.requests:
        candidates = request_.candidates
        chosen = next((each for each in candidates if all(map(target.has, each.needs))), candidates[-1])
        attachment = chosen.attachments[0]
        attach: Any = attachment.attach
        for place in attach.program_context().expand(target):
            yield replace(attachment, attach=place)
            break
