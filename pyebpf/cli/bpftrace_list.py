"""`pyebpf -l`: probes and types as `bpftrace -l` lists them, by patterns, or those of a script."""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf.bpftrace.attach_points import OTHER_NAMES, UNITS
from pyebpf.cli.report import FAILED, UsageError, describe, note, read_input
from pyebpf.dataclass import dataclass
from pyebpf.errors import KernelError, NotFound, PyebpfError, closest
from pyebpf.output.escape import escaped
from pyebpf.output.sink import Sink
from pyebpf.runtime import attach_points
from pyebpf.runtime.attach_points import AttachPoint, AttachPoints, Pattern
from pyebpf.specs.attach_point import is_pattern
from pyebpf.target.facts import KERNEL_ITSELF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HELP = """\
usage: pyebpf -l [-v] [-p PID] [PATTERN,...]
       pyebpf -l [-v] -e 'PROGRAM' [arguments]
       pyebpf -l [-v] FILE.bt [arguments]

Lists probes by the names that scripts of bpftrace's language have for them; with
-v what they are given there. * stands for characters: 'tracepoint:sched:*',
'kprobe:vfs_*', '*sleep*'. 'struct file' lists types, with -v their definitions.
With a script its probes are listed, patterns expanded; the arguments are its $1,
$2 and so on. With -p PID files are as
that process sees them, and 'uprobe:*' is all functions of all its files. Where
nothing matches, standard error has the reason; the status is 0, as bpftrace's.
"""
_SOFTWARE = (
    *("alignment-faults", "bpf-output", "context-switches", "cpu-clock", "cpu-migrations", "cpu", "cs", "dummy"),
    *("emulation-faults", "faults", "major-faults", "minor-faults", "page-faults", "task-clock"),
)
_HARDWARE = (
    *("backend-stalls", "branch-instructions", "branch-misses", "branches", "bus-cycles", "cache-misses"),
    *("cache-references", "cpu-cycles", "cycles", "frontend-stalls", "instructions", "ref-cycles"),
)
_TYPES = ("struct", "union", "enum")


@dataclass(frozen=True, slots=True)
class Listed:
    """A line, and the declarations of what a probe is given there."""

    line: str
    values: Callable[[], Sequence[str]] = tuple


@dataclass(frozen=True, slots=True)
class Provider:
    """A kind of probe: how its probes are found, by the part between colons and their name, whether it is a file's.

    Those that are not `listed` are found by their own name only.
    """

    find: Callable[[Machine, str, str, str], Iterator[Listed]]
    aliases: tuple[str, ...] = ()
    listed: bool = True
    of_files: bool = False


class Machine(AttachPoints):
    """This machine's attach points, with bpftrace's names; `pid` is the process whose files are meant, or -1."""

    def __init__(self, pid: int) -> None:
        super().__init__(pid)
        self.pid = pid
        #: Why a kind has nothing of what was asked for last.
        self.reasons: list[str] = []

    def files(self, place: str) -> Sequence[str]:
        """The files of a place: one that is named, or those that match, of the process or by paths."""
        if place and not is_pattern(place):
            return [place]
        if self.pid < 0 and "/" not in place:
            raise UsageError(
                "pyebpf -l",
                "probes of programs are those of files, uprobe:/bin/bash:* or uprobe:/opt/app/*.so:*, or with -p PID "
                "of a process",
                "pyebpf -l --help",
            )
        from pyebpf.symbols.libraries import matching_binaries

        return matching_binaries(self.pid, place or "*")

    def of_kind(self, kind: str, place: str, name: str) -> list[AttachPoint]:
        """Attach points that match; where the kernel has none such, a line says why."""
        try:
            return self.find(Pattern(":".join(filter(None, (kind, place, name))), kind, place, name)).points
        except NotFound as error:
            self.reasons.append(describe(error))
        except KernelError as error:
            self.reasons.append("")  # which is told here, whatever else is found
            note(f"pyebpf -l: {kind}: {describe(error)}")
        return []

    def values(self, point: AttachPoint, *, returns: bool = False) -> Callable[[], Sequence[str]]:
        """The declarations of what is given there, when they are asked for."""

        def ask() -> Sequence[str]:
            from pyebpf.runtime.attach_point_values import values_of

            if point.kind == attach_points.TRACEPOINT:
                fields = self.target.tracepoint_format(point.place, point.name).fields
                return [f"{each.type} {each.name}{_size(each.length)}" for each in fields]
            try:
                values, result = values_of(point, self.target)
            except PyebpfError as error:
                note(f"pyebpf -l: {escaped(str(point))}: {describe(error)}")
                return ()
            found = [f"{each.type} {each.name}" for each in values or ()]
            return [*found, f"{result.type} retval"] if returns and result is not None else found

        return ask


def _size(length: int | None) -> str:
    return "" if length is None else f"[{length or ''}]"


# -- kinds of probes ---------------------------------------------------------------------------------------------------


def _tracepoints(machine: Machine, provider: str, place: str, name: str) -> Iterator[Listed]:
    for each in machine.of_kind(attach_points.TRACEPOINT, place, name):
        yield Listed(f"{provider}:{each.place}:{each.name}", machine.values(each))


def _raw_tracepoints(machine: Machine, provider: str, place: str, name: str) -> Iterator[Listed]:
    from pyebpf.btf.tracepoints import raw_tracepoint_names
    from pyebpf.runtime.host import kernel_btf

    for module in _modules():
        for each in sorted(raw_tracepoint_names(kernel_btf(module), own=True)):
            if fnmatchcase(module, place or "*") and (fnmatchcase(each, name) or fnmatchcase(f"{module}:{each}", name)):
                point = AttachPoint(attach_points.RAW_TRACEPOINT, "", each)
                yield Listed(f"{provider}:{module}:{each}", machine.values(point))


def _modules() -> Iterator[str]:
    """The kernel itself, and its modules."""
    from pyebpf.kernel.btf_files import btf_modules

    yield KERNEL_ITSELF
    yield from btf_modules()


def _kprobes(machine: Machine, provider: str, place: str, name: str) -> Iterator[Listed]:
    returns = provider == "kretprobe"
    for each in machine.of_kind(attach_points.KPROBE, "" if place == "vmlinux" else place, name):
        module = f"{each.place or 'vmlinux'}:" if place else ""
        yield Listed(f"{provider}:{module}{each.name}", machine.values(each, returns=returns))


def _fentries(machine: Machine, provider: str, place: str, name: str) -> Iterator[Listed]:
    returns = provider == "fexit"
    for each in machine.of_kind(attach_points.FENTRY, "" if place in ("vmlinux", "*") else place, name):
        yield Listed(f"{provider}:{each.place or 'vmlinux'}:{each.name}", machine.values(each, returns=returns))


def _uprobes(machine: Machine, provider: str, place: str, name: str) -> Iterator[Listed]:
    for each in (point for file in machine.files(place) for point in machine.of_kind(attach_points.UPROBE, file, name)):
        declared = machine.values(each)
        # As bpftrace writes them: `int* n`.
        values = tuple if provider == "uretprobe" else lambda ask=declared: [row.replace(" *", "*") for row in ask()]
        yield Listed(f"{provider}:{each.place}:{each.name}", values)


def _usdt(machine: Machine, provider: str, place: str, name: str) -> Iterator[Listed]:
    for each in (point for file in machine.files(place) for point in machine.of_kind(attach_points.USDT, file, name)):
        yield Listed(f"{provider}:{each.place}:{each.name}", machine.values(each))


def _iterators(machine: Machine, provider: str, place: str, name: str) -> Iterator[Listed]:
    from pyebpf.runtime import BPF

    for each in BPF.iterators():
        if fnmatchcase(each, f"{place}:{name}" if place else name):
            values = machine.values(AttachPoint(attach_points.FENTRY, "", f"bpf_iter_{each}"))
            yield Listed(f"{provider}:{each}", lambda values=values: values()[1:])  # type: ignore[misc]  # the kernel's own comes first


def _fixed(*names: str) -> Callable[[Machine, str, str, str], Iterator[Listed]]:
    """Probes that are there on every machine."""

    def find(machine: Machine, provider: str, place: str, name: str) -> Iterator[Listed]:  # noqa: ARG001 - one signature
        wanted = f"{place}:{name}" if place else name
        for each in sorted(names, key=lambda text: f"{text}:"):
            if fnmatchcase(each, wanted) or fnmatchcase(f"{each}:", wanted):
                yield Listed(f"{provider}:{each}" + ("" if ":" in each else ":"))

    return find


_PROVIDERS = {
    "bench": Provider(_fixed(), listed=False),
    "fentry": Provider(_fentries, ("f", "kfunc")),
    "fexit": Provider(_fentries, ("fr", "kretfunc"), listed=False),
    "hardware": Provider(_fixed(*_HARDWARE), ("h",)),
    "interval": Provider(_fixed(*UNITS), ("i",), listed=False),
    "iter": Provider(_iterators, ("it",)),
    "kprobe": Provider(_kprobes, ("k",)),
    "kretprobe": Provider(_kprobes, ("kr",), listed=False),
    "profile": Provider(_fixed(*UNITS), ("p",), listed=False),
    "rawtracepoint": Provider(_raw_tracepoints, ("rt", "raw_tracepoint")),
    "self": Provider(_fixed("signal:SIGUSR1"), listed=False),
    "software": Provider(_fixed(*_SOFTWARE), ("s",)),
    "tracepoint": Provider(_tracepoints, ("t",)),
    "uprobe": Provider(_uprobes, ("u",), of_files=True),
    "uretprobe": Provider(_uprobes, ("ur",), listed=False, of_files=True),
    "usdt": Provider(_usdt, ("U",), of_files=True),
    "watchpoint": Provider(_fixed(), ("w",), listed=False),
}

#: What is to be written of what has nothing to list.
_UNLISTED = {
    "BEGIN": "BEGIN { … } is what a script runs at its start",
    "END": "END { … } is what a script runs at its end",
    "bench": "bench:NAME { … } is a probe by any name, which --mode bench runs and times",
    "watchpoint": "watchpoint:ADDRESS:LENGTH:MODE { … } is at any address, with 1, 2, 4 or 8 bytes, and w, rw or x",
}


_KINDS = f"kinds are {', '.join(_PROVIDERS)}"


def _named(word: str, *, of_files: bool = False) -> list[str]:
    """The providers that a word is for: one by its name or alias, or those of the kernel, or of files, that match."""
    for name, each in _PROVIDERS.items():
        if word == name or word in each.aliases:
            return [name]
    listed = [name for name, each in _PROVIDERS.items() if each.listed and each.of_files is of_files]
    return [name for name in listed if fnmatchcase(name, word)]


def kinds() -> list[str]:
    """The kinds that have something to list, each by all its names."""
    return [name for kind, each in _PROVIDERS.items() if kind not in _UNLISTED for name in (kind, *each.aliases)]


def of_kind(word: str, start: str) -> list[str]:
    """The names of a kind that begin so, behind its colon."""
    with Machine(-1) as machine:
        return [
            each.line.partition(":")[2]
            for name in _named(word)
            for each in _PROVIDERS[name].find(machine, name, "", f"{start}*")
        ]


def probes(machine: Machine, pattern: str) -> Iterator[Listed]:
    """The probes that a pattern is for."""
    word, colon, rest = pattern.partition(":")
    if pattern.upper() in _UNLISTED:
        return
    names = _named(word or "*", of_files="/" in rest)
    if machine.pid >= 0 and not colon and word == "*":  # all that a process can be probed at
        names += _named("*", of_files=True)
    if not names and not colon:  # a name of any kind
        names, rest = _named("*"), word
    place, _, name = rest.rpartition(":") if rest.count(":") == 1 else ("", "", rest)
    if any(_PROVIDERS[each].of_files for each in names) and ":" in rest:
        place, _, name = rest.partition(":")
    for each in names:
        yield from _PROVIDERS[each].find(machine, each, place, name or "*")


def _of_script(machine: Machine, text: str, file: str, arguments: Sequence[str]) -> Iterator[Listed]:
    """The probes of a script."""
    from pyebpf.bpftrace.parser import parse

    for probe in parse(text, file, arguments).probes:
        for point in probe.attach_points:
            for each in _named(point.provider):
                found = _PROVIDERS[each]
                if each == "self":
                    continue
                if found.find in (_usdt, _uprobes):
                    name = ":".join(filter(None, (point.namespace, point.function)))
                    yield from found.find(machine, each, point.target, name)
                elif point.function:
                    yield from found.find(machine, each, point.target, point.function)
                else:
                    yield from found.find(machine, each, "", point.target)


def types(pattern: str, *, verbose: bool) -> Iterator[str]:
    """The types that a pattern such as `struct f*` is for; with `verbose` their definitions."""
    from pyebpf.btf import Kind
    from pyebpf.btf.dump import c_dump
    from pyebpf.runtime.host import kernel_btf

    word, _, name = pattern.partition(" ")
    kinds = {"struct": (Kind.STRUCT,), "union": (Kind.UNION,), "enum": (Kind.ENUM, Kind.ENUM64)}[word]
    for module in _modules():
        btf = kernel_btf(module)
        for each in sorted(btf.names(kinds, own=True)):
            if not each or not fnmatchcase(each, name.strip()):
                continue
            if not verbose:
                yield f"{word} {each}"
                continue
            for number in btf.find(each, kinds)[:1]:
                yield f"{module}: {c_dump(btf, number)};\n"


def run_list(arguments: list[str]) -> int:
    """`pyebpf -l`."""
    verbose, pid, script = False, -1, None
    patterns: list[str] = []  # a script's arguments, if there is one
    left = list(arguments)
    while left:
        option = left.pop(0)
        if option in ("-h", "--help"):
            Sink.of(sys.stdout).write(HELP)
            return 0
        if option in ("-v", "--verbose"):
            verbose = True
        elif option in ("-l", "--list", "-q", "--quiet"):
            continue
        elif option == "-e" and left:
            script = (left.pop(0), "<script>")
        elif option in ("-p", "--pid") and left and left[0].isdecimal():
            pid = int(left.pop(0))
        elif option.startswith("-"):
            raise UsageError("pyebpf -l", f"unknown option {option}", "pyebpf -l --help")
        elif script is not None:
            patterns.append(option)
        elif option.endswith(".bt") and Path(option).exists():
            data, shown = read_input(option)
            script = (data.decode("utf-8", "surrogateescape"), shown)
        else:
            if option.endswith(".bt"):
                note(
                    f"WARNING: It appears that '{option}' is a filename but the file does not exist. "
                    f"Treating '{option}' as a search pattern."
                )
            patterns += option.split(",")
    with Machine(pid) as machine:
        try:
            _print(machine, script, patterns, verbose=verbose)
        except PyebpfError as error:
            note(f"pyebpf -l: {describe(error)}")
            return FAILED
    return 0


def _print(machine: Machine, script: tuple[str, str] | None, patterns: list[str], *, verbose: bool) -> None:
    sink = Sink.of(sys.stdout)
    sink.holds = True
    for each in patterns or ["*"] if script is None else ("",):
        seen: set[str] = set()
        machine.reasons.clear()
        if script is None and each.partition(" ")[0] in _TYPES:
            for line in types(each, verbose=verbose):
                seen.add(line)
                sink.line(line)
        else:
            for found in _of_script(machine, *script, patterns) if script is not None else probes(machine, each):
                if found.line in seen:
                    continue
                seen.add(found.line)
                sink.line(escaped(found.line))
                for value in found.values() if verbose else ():
                    sink.line(f"    {escaped(value)}")
        sink.flush()
        reasons = _told(machine) if script is not None else [] if seen else _reasons(machine, each)
        for reason in reasons:
            note(f"pyebpf -l: {escaped(reason)}")
    sink.flush()


#: Reasons that are told of one pattern: of a process's files there may be hundreds.
_MOST_REASONS = 3


def _told(machine: Machine) -> list[str]:
    """The reasons of kinds that had nothing, each once."""
    return list(dict.fromkeys(filter(None, machine.reasons)))[:_MOST_REASONS]


def _reasons(machine: Machine, pattern: str) -> list[str]:
    """Why nothing was found, where that was not told: bpftrace itself is silent."""
    kind, _, name = pattern.partition(" ")
    if kind in _TYPES:
        every = (line.partition(" ")[2] for line in types(f"{kind} *", verbose=False))
        return [f"the kernel's BTF has no {kind} {name.strip()!r}{closest(name.strip(), every)}"]
    word, colon, rest = pattern.partition(":")
    names = _named(word or "*", of_files="/" in rest)
    own = pattern.upper() if pattern.upper() in _UNLISTED else names[0] if len(names) == 1 else ""
    if own in _UNLISTED:
        return [f"{pattern!r}: there is nothing to list: {_UNLISTED[own]}"]
    if not names and colon and word in OTHER_NAMES:
        return [f"{pattern!r}: there is no kind of probe {word!r}: write {OTHER_NAMES[word]}:{rest}"]
    if not names and colon:
        known = [*_PROVIDERS, *(alias for each in _PROVIDERS.values() for alias in each.aliases)]
        return [f"{pattern!r}: there is no kind of probe {word!r}{closest(word, known) or f': {_KINDS}'}"]
    if len(names) == 1 and colon:
        if machine.reasons:
            return _told(machine)
        every = (each.line.partition(":")[2].strip(":") for each in probes(machine, f"{names[0]}:*"))
        return [f"nothing of the kind {names[0]} matches {pattern!r}{closest(rest, every)}"]
    return [f"nothing matches {pattern!r}{machine.like(pattern)}"]
