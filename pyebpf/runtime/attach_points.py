"""Attach points of this machine by patterns: found as the probes that are attached there find theirs."""

from __future__ import annotations

import re
import sys
from fnmatch import translate
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.closing import Closing
from pyebpf.errors import InvalidValue, KernelError, NotFound, NotSupported, PyebpfError, closest
from pyebpf.specs.attach_point import is_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyebpf.btf import Btf
    from pyebpf.kernel.tracefs import Tracefs
    from pyebpf.target import LiveTarget

TRACEPOINT, RAW_TRACEPOINT, KPROBE, FENTRY = "tracepoint", "raw_tracepoint", "kprobe", "fentry"
UPROBE, USDT = "uprobe", "usdt"


class Kind(NamedTuple):
    """A kind of attach points: other names for it, the form of its patterns, whether they are the kernel's.

    A function's entry and its return are one attach point.
    """

    aliases: tuple[str, ...]
    usage: str
    of_kernel: bool = True


#: By the name of the decorator; bpftrace's names are aliases.
KINDS = {
    TRACEPOINT: Kind(("t", "tp"), "t:CATEGORY:NAME"),
    RAW_TRACEPOINT: Kind(("rt", "rawtracepoint", "raw_tp", "tp_btf", "btf_tracepoint"), "rt:NAME"),
    KPROBE: Kind(("k", "kr", "kretprobe"), "k:FUNCTION"),
    FENTRY: Kind(("f", "fr", "fexit", "kfunc", "kretfunc"), "f:FUNCTION"),
    UPROBE: Kind(("u", "ur", "uretprobe"), "u:FILE:FUNCTION", of_kernel=False),
    USDT: Kind(("U",), "usdt:FILE:NAME", of_kernel=False),
}
BY_NAME = {name: kind for kind, (aliases, *_) in KINDS.items() for name in (kind, *aliases)}

#: bcc's letters for the entry of a function and for its return: of the kernel's without a file.
OF_BCC = ("p", "r")

#: Features of which a kind needs one, and the words for a kernel without.
_NEEDS = {
    KPROBE: (("attach:kprobe", "attach:kprobe_multi"), "this kernel has no kprobes"),
    FENTRY: (("attach:fentry",), "this kernel has no trampolines for programs, or refuses them"),
}
#: The category of ftrace's own records, which perf events refuse, and a tracepoint that the events' own work passes
#: (TRACE_EVENT_PERF_PERM).
_NO_TRACEPOINTS, _NO_TRACEPOINT = "ftrace", ("irq_vectors", "irq_work_exit")


class Pattern(NamedTuple):
    """A pattern as typed, and its parts. Without a `kind` it is for all of the kernel's.

    `place` is a tracepoint's category, a function's module or a file; `name` has the provider of a USDT probe in it.
    """

    text: str
    kind: str
    place: str
    name: str


class AttachPoint(NamedTuple):
    """A place that a probe can be attached to: `kind`, and the arguments of that decorator.

    `offsets` are those of a file's function or USDT probe; `operands` say where a USDT probe has its arguments, by
    place.
    """

    kind: str
    place: str
    name: str
    offsets: tuple[int, ...] = ()
    operands: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ":".join(filter(None, self[:3]))


class Found(NamedTuple):
    """Attach points, and lines on what has been left out."""

    points: list[AttachPoint]
    left_out: list[str]


def parse_pattern(text: str) -> Pattern:
    """Read KIND:PATTERN, or a pattern alone. Raises InvalidValue."""
    word, colon, rest = text.partition(":")
    if not colon:
        kind, rest = "", word
    elif word in OF_BCC:
        place, colon, name = rest.partition(":")
        if not colon or not (place or name):
            raise InvalidValue(
                f"{text!r}: write '{word}::FUNCTION' or 'k:FUNCTION', '{word}:FILE:FUNCTION' or 'u:FILE:…'"
            )
        kind, rest = (UPROBE, rest) if place else (KPROBE, name)
    elif word not in BY_NAME:
        hint = closest(word, BY_NAME) or f": kinds are {', '.join(KINDS)}"
        category = "" if ":" in rest else f"; tracepoints are 't:{text}'"
        raise InvalidValue(f"{text!r}: there is no kind {word!r}{hint}{category}")
    else:
        kind = BY_NAME[word]
    if not rest:
        usage = f"'{KINDS[kind].usage}'" if kind else "a pattern, such as '*tcp_conn*'"
        raise InvalidValue(f"{text!r}: write {usage}")
    first, colon, second = rest.partition(":")
    if kind in {UPROBE, USDT}:
        if not first:
            raise InvalidValue(f"{text!r}: write '{KINDS[kind].usage}'")
        return Pattern(text, kind, first, second or "*")
    if not (rest.isascii() and rest.isprintable()):
        raise InvalidValue(f"{text!r}: nothing in the kernel has such a name")
    if (kind == RAW_TRACEPOINT and colon) or ":" in second or (colon and not (first and second)):
        raise InvalidValue(f"{text!r}: write '{KINDS[kind].usage}'")
    return Pattern(text, kind, first, second) if colon else Pattern(text, kind, "", rest)


class AttachPoints(Closing):
    """The attach points of this machine; with `pid`, files and their functions are as that process sees them."""

    def __init__(self, pid: int = -1) -> None:
        self._pid = pid
        self._tracefs: Tracefs | None = None
        self._functions: Callable[[str], tuple[str, ...]] = cache(self._ask_for_functions)

    def close(self) -> None:
        if self._tracefs is not None:
            self._tracefs.close()
            self._tracefs = None

    def tracefs(self) -> Tracefs:
        """The `events` directory, open as long as this is. Raises NotPermitted, NotSupported."""
        if self._tracefs is None:
            from pyebpf.kernel.tracefs import Tracefs

            self._tracefs = Tracefs()
        return self._tracefs

    @cached_property
    def target(self) -> LiveTarget:
        """The running kernel."""
        from pyebpf.runtime.host import host_target

        return host_target(self.tracefs)

    def find(self, pattern: Pattern) -> Found:
        """Find what matches. Raises NotFound with the closest names, NotSupported, NotPermitted, and as files do."""
        if pattern.kind:
            return self._of_kind(pattern)
        points: list[AttachPoint] = []
        left_out = []
        for kind in (name for name, each in KINDS.items() if each.of_kernel):
            try:
                found = self._of_kind(pattern._replace(kind=kind))
            except NotFound:
                continue
            except KernelError as error:
                left_out.append(f"{kind}: {error}")
            else:
                points += found.points
                left_out += found.left_out
        if not points:
            reasons = f" ({'; '.join(left_out)})" if left_out else ""
            raise NotFound(f"nothing in the kernel matches {pattern.text!r}{self.like(pattern.name)}{reasons}")
        return Found(points, left_out)

    def _of_kind(self, pattern: Pattern) -> Found:
        if pattern.kind in _NEEDS:
            features, reason = _NEEDS[pattern.kind]
            if not any(map(self.target.has, features)):
                raise NotSupported(reason)
        if pattern.kind in (UPROBE, USDT) and is_pattern(pattern.place) and (self._pid >= 0 or "/" in pattern.place):
            return self._in_files(pattern)
        return _FIND[pattern.kind](self, pattern)

    def _in_files(self, pattern: Pattern) -> Found:
        """The same in each file whose path matches: of a process those that it has mapped."""
        from pyebpf.symbols.libraries import matching_binaries

        points: list[AttachPoint] = []
        left_out = []
        for path in matching_binaries(self._pid, pattern.place):
            try:
                found = _FIND[pattern.kind](self, pattern._replace(place=path))
            except (PyebpfError, OSError):  # without such functions, or gone
                continue
            points += found.points
            left_out += found.left_out
        if not points:
            files = "file" if self._pid < 0 else f"file that process {self._pid} has mapped"
            raise NotFound(f"no {files} has what {pattern.text!r} matches")
        return Found(points, left_out)

    def like(self, pattern: str) -> str:
        """The closest names of tracepoints; functions of that kind are too many to be like one."""
        try:
            return closest(_bare(pattern), (name for _, name in self._events("*")))
        except KernelError:
            return ""

    # -- tracepoints ---------------------------------------------------------------------------------------------------

    def _events(self, category: str) -> Iterator[tuple[str, str]]:
        tracefs, matches = self.tracefs(), _matcher(category)
        for each in tracefs.categories():
            if matches(each) and each != _NO_TRACEPOINTS:
                yield from ((each, name) for name in tracefs.events(each) if (each, name) != _NO_TRACEPOINT)

    def _tracepoints(self, pattern: Pattern) -> Found:
        matches = _matcher(pattern.name)
        if pattern.place:
            every = list(self._events(pattern.place))
            if not every:
                hint = closest(_bare(pattern.place), self.tracefs().categories())
                raise NotFound(f"no category of tracepoints matches {pattern.place!r}{hint}")
            found = [each for each in every if matches(each[1])]
        else:
            every = list(self._events("*"))
            found = [each for each in every if matches(each[1]) or matches(":".join(each))]
        if not found:
            categories = [] if pattern.place else [f"{each}:*" for each in dict(every)]
            hint = closest(_bare(pattern.name), [*(name for _, name in every), *categories])
            if not pattern.place and any(pattern.name == category for category, _ in every):
                hint = f" (did you mean {TRACEPOINT}:{pattern.name}:*?)"
            raise NotFound(f"no tracepoint matches {pattern.text!r}{hint}")
        return Found([AttachPoint(TRACEPOINT, *each) for each in found], [])

    def _raw_tracepoints(self, pattern: Pattern) -> Found:
        from pyebpf.btf.tracepoints import raw_tracepoint_names

        every = sorted({name for btf in self._types() for name in raw_tracepoint_names(btf, own=True)})
        found = list(filter(_matcher(pattern.name), every))
        if not found:
            raise NotFound(f"no raw tracepoint matches {pattern.text!r}{closest(_bare(pattern.name), every)}")
        return Found([AttachPoint(RAW_TRACEPOINT, "", name) for name in found], [])

    def _types(self) -> Iterator[Btf]:
        """The BTF of the kernel itself and of each module."""
        from pyebpf.kernel.btf_files import btf_modules
        from pyebpf.runtime.host import kernel_btf

        yield kernel_btf()
        yield from map(kernel_btf, btf_modules())

    # -- functions of the kernel ---------------------------------------------------------------------------------------

    def _ask_for_functions(self, function: str) -> tuple[str, ...]:
        """The functions that a probe would be put on, asked once for all kinds."""
        from pyebpf.attach.kernel_functions import expanded
        from pyebpf.link.kernel_functions import missing
        from pyebpf.specs.attach_point import is_pattern

        names = tuple(expanded(self.target, function, sys.maxsize))
        if not is_pattern(function) and not self.target.functions(names[0]):
            raise missing(function) or NotFound(f"no function {function} begins anywhere")
        return names

    def _matching_functions(self, pattern: Pattern) -> list[str]:
        from pyebpf.specs.attach_point import is_pattern

        try:
            return sorted(self._functions(f"{pattern.place}:{pattern.name}" if pattern.place else pattern.name))
        except NotFound as error:
            # Who asks for other kinds, too, is told of names that are like the pattern by those.
            if pattern.text == pattern.name or not is_pattern(pattern.name):
                raise
            from pyebpf.symbols.search import SymbolText

            bare = _bare(pattern.name)
            raise NotFound(f"{error}{closest(bare, SymbolText().similar(bare))}") from None

    def _kprobes(self, pattern: Pattern) -> Found:
        from pyebpf.kernel.functions import kprobe_blacklist

        forbidden = kprobe_blacklist() or frozenset()
        names = [each for each in self._matching_functions(pattern) if each.rpartition(":")[2] not in forbidden]
        if not names:
            raise NotFound(f"the kernel forbids probes on all that {pattern.text!r} matches (its kprobes blacklist)")
        return Found([_function(KPROBE, name) for name in names], [])

    def _fentries(self, pattern: Pattern) -> Found:
        from pyebpf.attach.kernel_functions import btf_function
        from pyebpf.btf import Kind as BtfKind

        known = frozenset(name for btf in self._types() for name in btf.names((BtfKind.FUNC,), own=True))
        names = []
        for each in self._matching_functions(pattern):
            # Asked of those that BTF has: of others all modules would be searched.
            types = btf_function(self.target, each) if each.rpartition(":")[2] in known else None
            if types is not None and not types.variadic:
                names.append(each)
        if not names:
            raise NotFound(f"the kernel's BTF has no function that {pattern.text!r} matches")
        return Found([_function(FENTRY, name) for name in names], [])

    # -- files ---------------------------------------------------------------------------------------------------------

    def _uprobes(self, pattern: Pattern) -> Found:
        from pyebpf.symbols.libraries import find_binary
        from pyebpf.symbols.user_functions import matching_functions, open_binary

        path = find_binary(pattern.place, pid=self._pid)
        names, left_out = matching_functions(open_binary(path), pattern.name, binary=pattern.place)
        points = [AttachPoint(UPROBE, path, name, tuple(names[name])) for name in sorted(names)]
        return Found(points, [left_out] if left_out else [])

    def _usdt(self, pattern: Pattern) -> Found:
        from pyebpf.attach.usdt import Usdt
        from pyebpf.link.usdt import find_probes
        from pyebpf.symbols.libraries import find_binary
        from pyebpf.symbols.user_functions import open_binary

        provider, colon, name = pattern.name.rpartition(":")
        path = find_binary(pattern.place, pid=self._pid)
        wanted = Usdt(pattern.place, provider if colon else "*", name, pid=self._pid, max_probes=sys.maxsize)
        places: dict[str, list[tuple[int, str]]] = {}
        for probe in find_probes(open_binary(path), wanted):
            places.setdefault(f"{probe.provider}:{probe.name}", []).append((probe.offset or 0, probe.arguments))
        points = []
        for each in sorted(places):
            offsets, operands = zip(*places[each], strict=True)
            points.append(AttachPoint(USDT, path, each, offsets, operands))
        return Found(points, [])


_FIND: dict[str, Callable[[AttachPoints, Pattern], Found]] = {
    TRACEPOINT: AttachPoints._tracepoints,
    RAW_TRACEPOINT: AttachPoints._raw_tracepoints,
    KPROBE: AttachPoints._kprobes,
    FENTRY: AttachPoints._fentries,
    UPROBE: AttachPoints._uprobes,
    USDT: AttachPoints._usdt,
}


def _function(kind: str, name: str) -> AttachPoint:
    module, _, function = name.rpartition(":")
    return AttachPoint(kind, module, function)


def _matcher(pattern: str) -> Callable[[str], object]:
    return re.compile(translate(pattern)).match


def _bare(pattern: str) -> str:
    """A pattern without its stars, as a name that others may be like."""
    return re.sub(r"[*?]+", "", pattern)
