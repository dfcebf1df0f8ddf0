"""A script's probes as those of a module: parsed, asked for, their types found, and linked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace.cursor import room
from pyebpf.bpftrace.macros import expand
from pyebpf.bpftrace.parser import parse
from pyebpf.bpftrace.translate.attachments import plain, program_name, request
from pyebpf.bpftrace.translate.body import ProbeBody
from pyebpf.bpftrace.translate.functions import is_function
from pyebpf.bpftrace.translate.script import Script
from pyebpf.builder.drop_counters import DropCounters
from pyebpf.dataclass import replace
from pyebpf.errors import CompileError, InvalidValue
from pyebpf.module.program import build_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyebpf.attach import DecoratorMethods
    from pyebpf.bpftrace.ast import AttachPoint
    from pyebpf.bpftrace.includes import Files
    from pyebpf.module.probe import AnyProbe, Attachment
    from pyebpf.specs import ModuleSpec
    from pyebpf.target import Target

#: Builds of all probes until no type is new: each makes one wider, and few depend on each other.
_MAX_BUILDS = 32


class ScriptModule:
    """A script in a module. Raises CompileError for a script that is not right, at its place."""

    def __init__(
        self,
        module: DecoratorMethods,
        text: str,
        arguments: Sequence[str],
        file: str,
        pid: int | None,
        settings: Mapping[str, str] | None = None,
        only: str = "",
        files: Files | None = None,
    ) -> None:
        self._module = module
        words = [each for each in arguments if not each.startswith("--")]
        program = parse(text, file, words, files)
        with room():
            program = expand(program, is_function)
        self.script = Script(program, arguments, settings)
        self.script.pid = pid
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
        is_wanted = _filter(only)
        for probe in self.script.program.probes:
            for point in probe.attach_points:
                if not plain(point.provider) and not is_wanted(point):
                    continue
                body = ProbeBody(self.script, probe, point, program_name(point))
                made = request(module, source, point, body, pid)
                self._list_of(point).append(made)
        if only and not module.probes:
            raise InvalidValue("No probes to attach")

    def _list_of(self, point: AttachPoint) -> list[AnyProbe]:
        return self._lists.get(point.provider.upper(), self.attached)

    def compile(self, target: Target, link: Callable[[], ModuleSpec]) -> ModuleSpec:
        """Find the types, declare the maps, and link; again if a pattern's further places taught something."""
        maps, module = self.script.maps, self._module
        for _ in range(_MAX_BUILDS):
            with room():
                self._infer(target)
                module.maps[:] = [*maps.tables(), self.script.events]
                spec = link()
            if not maps.changed:
                return spec
        raise self.script.source.error("the types of this script's maps do not settle", self.script.program)

    def _infer(self, target: Target) -> None:
        """Build every probe at the first of its places until no map's type is new."""
        maps = self.script.maps
        for _ in range(_MAX_BUILDS):
            maps.changed, maps.unknown = False, None
            failed: CompileError | None = None
            for probe in self._module.probes:
                for attachment in _first_places(probe, target):
                    try:
                        build_program(probe.body, attachment, target, DropCounters(), probe.body.name)
                    except CompileError as error:
                        failed = failed or error
            if maps.changed:
                continue
            if failed is not None:
                raise failed
            if maps.unknown is not None:
                raise self.script.source.error(*maps.unknown)
            return


def _filter(only: str) -> Callable[[AttachPoint], object]:
    """A function that says whether an attach point is one of those that a regular expression finds."""
    import re

    try:
        pattern = re.compile(only)
    except re.error as error:
        raise InvalidValue(f"Invalid --probe-filter regex {only!r}: {error}") from None
    return lambda point: pattern.search(":".join([point.provider, *point.parts]))


def _first_places(probe: AnyProbe, target: Target) -> Iterator[Attachment]:
    for request_ in probe.requests:
        candidates = request_.candidates
        chosen = next((each for each in candidates if all(map(target.has, each.needs))), candidates[-1])
        attachment = chosen.attachments[0]
        attach: Any = attachment.attach
        for place in attach.program_context().expand(target):
            yield replace(attachment, attach=place)
            break
