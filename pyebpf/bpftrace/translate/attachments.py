"""Attach points of a script as requests of a module, by the module's own decorators."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from pyebpf.attach.iterators import KernelIterator
from pyebpf.attach.kprobes import Kprobe, KprobeMulti
from pyebpf.attach.perf_events import CLOCKS, HARDWARE_EVENTS, SOFTWARE, SOFTWARE_EVENTS, PerfEvent
from pyebpf.attach.usdt import POSITIONS
from pyebpf.bpftrace.translate.trusted import takes_objects
from pyebpf.builder.context import ProgramContext
from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import InvalidValue, closest
from pyebpf.module.probe import Attachment, Candidate, Request, request_decorator
from pyebpf.specs.attach_point import AttachSpec, is_pattern
from pyebpf.specs.programs import LONGEST_NAME
from pyebpf.target.facts import KERNEL_ITSELF
from pyebpf.types import Struct, u64
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.attach import DecoratorMethods
    from pyebpf.bpftrace.ast import AttachPoint
    from pyebpf.bpftrace.source import Source
    from pyebpf.bpftrace.translate.body import ProbeBody
    from pyebpf.module.probe import AnyProbe

#: The signal that a script may have a probe for.
SIGNAL = "SIGUSR1"
#: Nanoseconds of a unit of time; `hz` is a rate.
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}

#: Providers that a script is told about, with the reason or what to write instead.
_INSTEAD = {
    "asyncwatchpoint": "in pyebpf's own language there is @bpf.breakpoint",
    "test": "leave it out",
}


@dataclass(frozen=True, slots=True)
class TestRun(AttachSpec):
    """Run by PROG_TEST_RUN from user space: `BEGIN` and `END`, what a signal to this process runs, benchmarks."""

    event: str

    program_type = ProgramType.RAW_TRACEPOINT

    def __str__(self) -> str:
        return self.event

    @property
    def target(self) -> str:
        return self.event

    @property
    def is_deferred(self) -> bool:
        return True

    def program_context(self) -> ProgramContext[TestRun]:
        return ProgramContext(self)


def plain(event: str) -> bool:
    """Whether an attach point is one that this process runs itself."""
    return event in ("BEGIN", "END", "begin", "end")


def request(module: DecoratorMethods, source: Source, point: AttachPoint, body: ProbeBody, pid: int | None) -> AnyProbe:
    """Ask for a body at an attach point. Raises CompileError for one that is not supported, or not right."""
    found = _PROVIDERS.get(point.provider)
    if found is None:
        instead = _INSTEAD.get(point.provider, f"the providers are {', '.join(_PROVIDERS)}")
        raise source.error(f"{point.provider} is not supported yet: {instead}", point)
    if point.provider == "rawtracepoint" and takes_objects((body.probe, *body.script.functions.values())):
        found = _typed_tracepoint
    decorator = found(module, source, point, pid)
    made: AnyProbe = decorator(body)
    most = body.script.settings.max_probes
    if most:
        made.requests = tuple(_limited(each, most) for each in made.requests)
    return made


def _limited(request: Request, most: int) -> Request:
    """A request whose patterns stand for so many places at most."""
    return replace(
        request,
        candidates=tuple(
            replace(each, attachments=tuple(_with_limit(attachment, most) for attachment in each.attachments))
            for each in request.candidates
        ),
    )


def _with_limit(attachment: Attachment, most: int) -> Attachment:
    attach: Any = attachment.attach
    if not hasattr(attach, "max_probes"):
        return attachment
    return replace(attachment, attach=replace(attach, max_probes=most))


def _run(module: Any, source: Source, point: AttachPoint, pid: int | None) -> Any:  # noqa: ARG001 - one signature
    event = point.provider.upper()
    candidate = Candidate(event, (Attachment(ProgramType.RAW_TRACEPOINT, TestRun(event)),))
    return request_decorator(module, Request(event, (), (candidate,)))


def _signal(module: Any, source: Source, point: AttachPoint, pid: int | None) -> Any:  # noqa: ARG001 - one signature
    if point.target != "signal" or point.function != SIGNAL:
        raise source.error(f"{point.text}: the one probe of this kind is self:signal:{SIGNAL}", point)
    return _by_hand(module, point, f"self:signal:{SIGNAL}")


def _benchmark(module: Any, source: Source, point: AttachPoint, pid: int | None) -> Any:  # noqa: ARG001 - one signature
    return _by_hand(module, point, f"bench:{point.function}")


def _by_hand(module: Any, point: AttachPoint, event: str) -> Any:
    candidate = Candidate(event, (Attachment(ProgramType.RAW_TRACEPOINT, TestRun(event)),))
    return request_decorator(module, Request(point.provider, (event,), (candidate,)))


class _NoRecord(Struct):
    """The record of an iterator that writes none."""

    nothing: u64


def _iterator(module: Any, source: Source, point: AttachPoint, pid: int | None) -> Any:  # noqa: ARG001 - one signature
    if point.pin:
        raise source.error(f"{point.text}: iterators are not pinned: leave the file out", point)
    attach = KernelIterator(point.function, _NoRecord.layout)
    candidate = Candidate("iter", (Attachment(ProgramType.TRACING, attach),))
    return request_decorator(module, Request("iter", (point.function,), (candidate,)))


def _interval(module: Any, source: Source, point: AttachPoint, pid: int | None) -> Any:  # noqa: ARG001 - one signature
    event = PerfEvent(SOFTWARE, SOFTWARE_EVENTS["cpu_clock"], period=_period(source, point), first_cpu=True)
    candidate = Candidate("interval", (Attachment(ProgramType.PERF_EVENT, event),))
    return request_decorator(module, Request("interval", (point.text,), (candidate,)))


def _period(source: Source, point: AttachPoint) -> int:
    unit, count = point.target or "s", point.count
    if not count or count <= 0:
        raise source.error(f"{point.text}: give a time above 0", point)
    if unit == "hz":
        return 10**9 // count
    if unit not in UNITS:
        raise source.error(f"{unit} is no unit of time: it is one of hz, {', '.join(UNITS)}", point)
    return count * UNITS[unit]


def _profile(module: Any, source: Source, point: AttachPoint, pid: int | None) -> Any:
    clock = SOFTWARE_EVENTS["cpu_clock"]
    process = -1 if pid is None else pid
    if point.target == "hz":
        event = PerfEvent(SOFTWARE, clock, frequency=point.count or 0, pid=process)
    else:
        event = PerfEvent(SOFTWARE, clock, period=_period(source, point), pid=process)
    candidate = Candidate("profile", (Attachment(ProgramType.PERF_EVENT, event),))
    return request_decorator(module, Request("profile", (point.text,), (candidate,)))


_SOFTWARE = {"cpu": "cpu_clock", "cs": "context_switches", "faults": "page_faults", "minor-faults": "page_faults_min"}
_SOFTWARE |= {"major-faults": "page_faults_maj"}
_HARDWARE = {"cycles": "cpu_cycles", "cpu-cycles": "cpu_cycles", "branches": "branch_instructions"}
#: Events until a program runs, where the script does not say: bpftrace's numbers.
_PERIODS = {
    "cpu_clock": 10**6,
    "task_clock": 10**6,
    "page_faults": 100,
    "page_faults_min": 100,
    "context_switches": 1000,
}


def _software(module: Any, source: Source, point: AttachPoint, pid: int | None) -> Any:
    name = _event_name(source, point, _SOFTWARE, SOFTWARE_EVENTS)
    period = point.count or _PERIODS.get(name, 1)
    if name in CLOCKS and not point.count:
        period = 10**6
    return module.software_event(name, period=period, pid=-1 if pid is None else pid)


def _hardware(module: Any, source: Source, point: AttachPoint, pid: int | None) -> Any:
    name = _event_name(source, point, _HARDWARE, HARDWARE_EVENTS)
    return module.hardware_event(name, period=point.count or 10**6, pid=-1 if pid is None else pid)


def _event_name(source: Source, point: AttachPoint, short: dict[str, str], events: dict[str, int]) -> str:
    name = short.get(point.target, point.target.replace("-", "_"))
    if name not in events:
        names = [*short, *(each.replace("_", "-") for each in events)]
        raise source.error(f"there is no {point.provider} event {point.target}{closest(point.target, names)}", point)
    return name


def _tracepoint(module: Any, source: Source, point: AttachPoint, pid: int | None) -> Any:  # noqa: ARG001 - one signature
    return module.tracepoint(f"{point.target}:{point.function}")


def _raw_tracepoint(module: Any, source: Source, point: AttachPoint, pid: int | None) -> Any:  # noqa: ARG001 - one signature
    return module.raw_tracepoint(_raw_name(point))


def _typed_tracepoint(module: Any, source: Source, point: AttachPoint, pid: int | None) -> Any:  # noqa: ARG001 - one signature
    """A raw tracepoint whose arguments the verifier knows."""
    return module.btf_tracepoint(_raw_name(point))


def _raw_name(point: AttachPoint) -> str:
    """The name of a raw tracepoint, or a pattern with its module."""
    home = point.target or "*"
    return f"{home}:{point.function}" if is_pattern(home + point.function) else point.function


def _kernel_function(point: AttachPoint) -> str:
    """The name or pattern of a function with its module: `vmlinux`, the kernel itself, stands before patterns only."""
    home = point.target
    if is_pattern(home):
        home = "" if home == "*" else KERNEL_ITSELF if fnmatchcase(KERNEL_ITSELF, home) else home
    if home == KERNEL_ITSELF and not is_pattern(point.function):
        home = ""
    return f"{home}:{point.function}" if home else point.function


def _kprobe(module: Any, source: Source, point: AttachPoint, pid: int | None) -> Any:  # noqa: ARG001 - one signature
    name = _kernel_function(point)
    if point.address is not None:
        name = f"{point.address:#x}"
    if point.offset:
        name += f"+{point.offset:#x}"
    returns = point.provider == "kretprobe"
    single = Candidate("kprobe", (Attachment(ProgramType.KPROBE, Kprobe((name,), returns)),), ("attach:kprobe",))
    if not is_pattern(name):
        return request_decorator(module, Request(point.provider, (name,), (single,), "kernel functions"))
    many = KprobeMulti((name,), returns)
    multi = Candidate("kprobe.multi", (Attachment(ProgramType.KPROBE, many),), ("attach:kprobe_multi",))
    single = replace(single, missing_reason="this kernel has no kprobes (CONFIG_KPROBES, CONFIG_KPROBE_EVENTS)")
    return request_decorator(module, Request(point.provider, (name,), (multi, single)))


def _fentry(module: Any, source: Source, point: AttachPoint, pid: int | None) -> Any:  # noqa: ARG001 - one signature
    if point.target == "bpf" or point.namespace:
        raise source.error("fentry of another BPF program is not supported yet", point)
    name = _kernel_function(point)
    return module.fentry(name) if point.provider == "fentry" else module.fexit(name)


def _uprobe(module: Any, source: Source, point: AttachPoint, pid: int | None) -> Any:
    if point.namespace not in ("", "cpp"):
        raise source.error(f"{point.namespace} is no language whose names are known: cpp is", point)
    if not point.target:
        raise source.error(
            f"write {point.provider}:FILE:{point.function}: the program or library stands before the function", point
        )
    if point.source_column:
        raise source.error("a column is not supported: a uprobe is where the line's code begins", point)
    if point.source_file:
        name = f"{point.source_file}:{point.source_line}"
    elif point.address is not None:
        name = f"*{point.address:#x}"
    else:
        name = point.function + (f"+{point.offset:#x}" if point.offset else "")
    if point.namespace:
        name = f"{point.namespace}:{name}"
    decorator = module.uprobe if point.provider == "uprobe" else module.uretprobe
    return decorator(point.target, name, **({} if pid is None else {"pid": pid}))


def usdt_name(point: AttachPoint) -> str:
    """Return "provider:name" of a USDT probe, of any provider where none is given."""
    return f"{point.namespace or '*'}:{point.function}"


def _usdt(module: Any, source: Source, point: AttachPoint, pid: int | None) -> Any:
    if not point.target:
        name = usdt_name(point).removeprefix("*:")
        raise source.error(f"write usdt:FILE:{name}: the program or library of the probe stands before its name", point)
    process = {} if pid is None else {"pid": pid}
    return module.usdt(point.target, usdt_name(point), args=POSITIONS, **process)


#: Modes of watchpoints as breakpoints have them.
_MODES = {"w": "w", "rw": "rw", "wr": "rw", "x": "x"}


def _watchpoint(module: Any, source: Source, point: AttachPoint, pid: int | None) -> Any:
    access = _MODES.get(point.mode)
    if access is None:
        raise source.error(f"{point.text}: the processor watches for w, rw or x, not for {point.mode}", point)
    if not point.address:
        raise source.error(f"{point.text}: nothing is at the address 0, give that of a variable", point)
    try:
        return module.breakpoint(point.address, point.length, access, pid=-1 if pid is None else pid)
    except InvalidValue:
        raise source.error(f"{point.text}: the address is not a multiple of the length", point) from None


_PROVIDERS: dict[str, Callable[[Any, Source, AttachPoint, int | None], Any]] = {
    "begin": _run,
    "end": _run,
    "BEGIN": _run,
    "END": _run,
    "self": _signal,
    "bench": _benchmark,
    "iter": _iterator,
    "interval": _interval,
    "profile": _profile,
    "tracepoint": _tracepoint,
    "rawtracepoint": _raw_tracepoint,
    "kprobe": _kprobe,
    "kretprobe": _kprobe,
    "fentry": _fentry,
    "fexit": _fentry,
    "uprobe": _uprobe,
    "uretprobe": _uprobe,
    "usdt": _usdt,
    "software": _software,
    "hardware": _hardware,
    "watchpoint": _watchpoint,
}

_NOT_IN_NAMES = re.compile(r"\W+")


def program_name(point: AttachPoint) -> str:
    """A name for the program of an attach point: the kind of probe is in it where the kernel has room for both."""
    place = point.function or point.target
    name = _NOT_IN_NAMES.sub("_", ":".join(filter(None, (point.provider, place)))).strip("_")
    alone = _NOT_IN_NAMES.sub("_", place).strip("_")
    return alone if alone and len(name) > LONGEST_NAME else name
