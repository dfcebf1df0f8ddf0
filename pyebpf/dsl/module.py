"""`Module`: probes and maps that belong together.

Declared without touching the kernel, compiled by a pure function.
"""

from __future__ import annotations

import linecache
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from pyebpf import aggregations
from pyebpf.dsl import maps
from pyebpf.dsl.assembly import assemble
from pyebpf.dsl.declaring import Declaring
from pyebpf.dsl.probe import Attachment, Probe, Request, SubprogramEntity, plain_function
from pyebpf.errors import CompileError, InvalidValue, Location
from pyebpf.specs import BtfTracepoint, MapKind, PerfEvent, ProgramKind, RawTracepoint, Tracepoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from pyebpf.builder.lost import Loss
    from pyebpf.specs import ModuleSpec
    from pyebpf.target import Target

    P = ParamSpec("P")

    class TracingDecorator(Protocol):
        """A decorator of probes that return nothing; it stacks on another."""

        @overload
        def __call__(self, function: Callable[P, None], /) -> Probe[P, None]: ...
        @overload
        def __call__(self, function: Probe[P, None], /) -> Probe[P, None]: ...


__all__ = ["Module"]

K = TypeVar("K")
V = TypeVar("V")
F = TypeVar("F", bound="Callable[..., Any]")

#: PERF_TYPE_SOFTWARE and its events, enum perf_sw_ids.
SOFTWARE = 1
SOFTWARE_EVENTS = {
    "cpu_clock": 0,
    "task_clock": 1,
    "page_faults": 2,
    "context_switches": 3,
    "cpu_migrations": 4,
    "page_faults_min": 5,
    "page_faults_maj": 6,
    "alignment_faults": 7,
    "emulation_faults": 8,
}
#: Events whose number is a time in nanoseconds.
CLOCKS = ("cpu_clock", "task_clock")

DEFAULT_SIZE = 10_240
DEFAULT_RING = 256 * 1024


class Module:
    """Maps and probes of one program.

    Each method that declares a map returns it; each decorator returns a Probe. Nothing is compiled before
    `compile(target)`, which gives the same result for the same input on every machine.
    """

    def __init__(self) -> None:
        self.maps: list[maps.Declared] = []
        self.probes: list[Probe[Any, Any]] = []
        self._losses: tuple[Loss, ...] = ()

    # -- maps ----------------------------------------------------------------------------------------------------------

    def declare(self, entity: maps.D) -> maps.D:
        """Make a map of the caller's own kind (an aggregation's) part of this module, and return it."""
        self.maps.append(entity)
        return entity

    def hash(self, *, key: type[K], value: type[V], size: int = DEFAULT_SIZE, name: str = "") -> maps.HashMap[K, V]:
        """A hash table of at most `size` entries, all processors together.

        When it is full new keys are lost, and counted.
        """
        return self.declare(maps.HashMap(MapKind.HASH, key, value, size, name))

    def lru_hash(self, *, key: type[K], value: type[V], size: int = DEFAULT_SIZE, name: str = "") -> maps.HashMap[K, V]:
        """A hash table that gives up the entries least recently used when it is full."""
        return self.declare(maps.HashMap(MapKind.LRU_HASH, key, value, size, name))

    def percpu_hash(
        self, *, key: type[K], value: type[V], size: int = DEFAULT_SIZE, name: str = ""
    ) -> maps.PerCpuHashMap[K, V]:
        """A hash table with a value for each processor under each key. User space reads sums of integers."""
        return self.declare(maps.PerCpuHashMap(MapKind.PERCPU_HASH, key, value, size, name))

    def lru_percpu_hash(
        self, *, key: type[K], value: type[V], size: int = DEFAULT_SIZE, name: str = ""
    ) -> maps.PerCpuHashMap[K, V]:
        """`percpu_hash` that gives up the entries least recently used when it is full."""
        return self.declare(maps.PerCpuHashMap(MapKind.LRU_PERCPU_HASH, key, value, size, name))

    def array(self, *, value: type[V], size: int = 1, name: str = "", mappable: bool = False) -> maps.ArrayMap[V]:
        """`size` values that always exist, zero at first, under the indices from 0.

        A `mappable` one has a `window()`: its memory in this process.
        """
        return self.declare(maps.ArrayMap(MapKind.ARRAY, value, size, name, mappable=mappable))

    def lpm_trie(self, *, key: Any, value: type[V], size: int = DEFAULT_SIZE, name: str = "") -> maps.TrieMap[Any, V]:
        """Values by network: a look-up finds the longest prefix of an address. `key` is such as `ipv4_prefix`."""
        return self.declare(maps.TrieMap(key, value, size, name))

    def queue(self, value: type[V], *, size: int = DEFAULT_SIZE, name: str = "") -> maps.QueueMap[V]:
        """Values first in, first out, at most `size`. What finds no room is lost, and counted."""
        return self.declare(maps.QueueMap(MapKind.QUEUE, value, size, name))

    def stack(self, value: type[V], *, size: int = DEFAULT_SIZE, name: str = "") -> maps.QueueMap[V]:
        """Values last in, first out, at most `size`. What finds no room is lost, and counted."""
        return self.declare(maps.QueueMap(MapKind.STACK, value, size, name))

    def bloom_filter(
        self, value: type[V], *, size: int = DEFAULT_SIZE, hashes: int = 5, name: str = ""
    ) -> maps.BloomFilter[V]:
        """Whether a value was added: a False is certain; wrong Trues grow as more than `size` values are added."""
        return self.declare(maps.BloomFilter(value, size, hashes, name))

    def perf_buffer(
        self, record: type[V], *, pages: int = 8, overwrite: bool = False, name: str = ""
    ) -> maps.PerfBuffer[V]:
        """Records through perf buffers of `pages` pages for each processor: for kernels older than the ring buffer.

        With `overwrite`, full buffers give up their oldest records: a flight recorder. Records that find no room are
        lost, and counted.
        """
        return self.declare(maps.PerfBuffer(record, pages, overwrite, name))

    def percpu_array(self, *, value: type[V], size: int = 1, name: str = "") -> maps.PerCpuArrayMap[V]:
        """`array` with a value for each processor. User space reads sums of integers."""
        return self.declare(maps.PerCpuArrayMap(MapKind.PERCPU_ARRAY, value, size, name))

    def ringbuf(self, record: type[V], *, size: int = DEFAULT_RING, name: str = "") -> maps.RingBuffer[V]:
        """A ring buffer of records, `size` bytes: a power of two and a multiple of the page.

        When it is full records are lost, and counted.
        """
        return self.declare(maps.RingBuffer(record, size, name))

    log2_hist = Declaring(aggregations.log2_hist)
    linear_hist = Declaring(aggregations.linear_hist)
    log_linear_hist = Declaring(aggregations.log_linear_hist)
    counter = Declaring(aggregations.counter)
    total = Declaring(aggregations.total)
    minimum = Declaring(aggregations.minimum)
    maximum = Declaring(aggregations.maximum)
    stats = Declaring(aggregations.stats)

    # -- probes --------------------------------------------------------------------------------------------------------

    def tracepoint(self, *targets: str, optional: bool = False) -> TracingDecorator:
        """Run at tracepoints, each "category:name" as under tracefs `events/`. Parameters are fields of its record.

        With `optional`, targets that the kernel lacks are left out.
        """
        attachments = []
        for target in targets:
            category, colon, name = target.partition(":")
            if not colon or not category or not name or ":" in name:
                raise InvalidValue(
                    f'@bpf.tracepoint({target!r}): write "category:name", such as "syscalls:sys_enter_openat"'
                )
            attachments.append(Attachment(ProgramKind.TRACEPOINT, Tracepoint(category, name), optional))
        return self._decorator("tracepoint", targets, attachments)

    def raw_tracepoint(self, *targets: str, optional: bool = False) -> TracingDecorator:
        """Run at tracepoints by their bare names, before any record is made; cheaper to attach.

        Parameters are the kernel's arguments. With `optional`, targets that the kernel lacks are left out.
        """
        self._bare("raw_tracepoint", targets)
        attachments = [Attachment(ProgramKind.RAW_TRACEPOINT, RawTracepoint(target), optional) for target in targets]
        return self._decorator("raw_tracepoint", targets, attachments)

    def btf_tracepoint(self, *targets: str, optional: bool = False) -> TracingDecorator:
        """`raw_tracepoint` whose pointers the verifier knows (tp_btf, since Linux 5.5): objects load directly."""
        self._bare("btf_tracepoint", targets)
        attachments = [Attachment(ProgramKind.TRACING, BtfTracepoint(target), optional) for target in targets]
        return self._decorator("btf_tracepoint", targets, attachments)

    def sample(self, *, frequency: int = 99, pid: int = -1) -> TracingDecorator:
        """Run on every processor `frequency` times a second of its time at work (PERF_COUNT_SW_CPU_CLOCK).

        `pid` limits it to one process.
        """
        if frequency <= 0:
            raise InvalidValue(f"@bpf.sample(frequency={frequency}): give samples a second, such as 99")
        event = PerfEvent(SOFTWARE, SOFTWARE_EVENTS["cpu_clock"], frequency=frequency, pid=pid)
        return self._decorator("sample", (f"{frequency} Hz",), [Attachment(ProgramKind.PERF_EVENT, event)])

    def software_event(self, name: str, *, period: int = 1, pid: int = -1) -> TracingDecorator:
        """Run on every `period`-th software event, such as "page_faults"; of a clock, every `period` nanoseconds."""
        if name not in SOFTWARE_EVENTS:
            from pyebpf.errors import closest

            raise InvalidValue(
                f"@bpf.software_event({name!r}): no such event{closest(name, SOFTWARE_EVENTS)}; there are "
                f"{', '.join(SOFTWARE_EVENTS)}"
            )
        if period <= 0:
            raise InvalidValue(
                f"@bpf.software_event(period={period}): give a number of "
                f"{'nanoseconds' if name in CLOCKS else 'events'}"
            )
        event = PerfEvent(SOFTWARE, SOFTWARE_EVENTS[name], period=period, pid=pid)
        return self._decorator("software_event", (name,), [Attachment(ProgramKind.PERF_EVENT, event)])

    def perf_event(
        self,
        *,
        type: int,  # noqa: A002 - the kernel's word
        config: int,
        period: int = 0,
        frequency: int = 0,
        pid: int = -1,
    ) -> TracingDecorator:
        """Run on a perf event by struct perf_event_attr's `type` and `config`.

        Every `period` events, or `frequency` times a second.
        """
        if (period > 0) == (frequency > 0):
            raise InvalidValue("@bpf.perf_event: give period=, in events, or frequency=, in Hz")
        event = PerfEvent(type, config, period=period, frequency=frequency, pid=pid)
        return self._decorator("perf_event", (f"{type}:{config}",), [Attachment(ProgramKind.PERF_EVENT, event)])

    @staticmethod
    def _bare(decorator: str, targets: tuple[str, ...]) -> None:
        for target in targets:
            if ":" in target:
                raise InvalidValue(f'@bpf.{decorator}({target!r}): write the bare name, "{target.rpartition(":")[2]}"')

    def _decorator(self, decorator: str, targets: tuple[str, ...], attachments: list[Attachment]) -> TracingDecorator:
        if not targets:
            raise InvalidValue(f"@bpf.{decorator}() names no target")
        request = Request(decorator, targets, tuple(attachments))

        def decorate(function: Any) -> Probe[Any, None]:
            if isinstance(function, Probe):
                function.requests = (*function.requests, request)
                return function
            probe: Probe[Any, None] = Probe(plain_function(function, decorator), (request,))
            self.probes.append(probe)
            return probe

        return decorate

    def subprogram(self, function: F) -> F:
        """Compile a function once for each program that calls it (BPF-to-BPF).

        A plain function is written out at each call instead.
        """
        entity: Any = SubprogramEntity(plain_function(function, "subprogram"))
        return entity  # type: ignore[no-any-return]  # to a probe's author it is the function

    def define(self, text: str, names: dict[str, Any] | None = None) -> SimpleNamespace:
        """Run source text whose probes belong here: for places without a file, such as `python3 -c` and a prompt.

        The text sees the caller's names, then `names`, and `bpf` as this module. Returns what it defines.
        """
        frame = sys._getframe(1)
        # Named by its content: the same in every run, and one text's lines are never shown for another's.
        from hashlib import sha256

        file = f"<bpf.define {sha256(text.encode()).hexdigest()[:12]}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        before: dict[str, Any] = {**frame.f_globals, **frame.f_locals, "bpf": self, **(names or {})}
        after = dict(before)
        try:
            code = compile(text, file, "exec", dont_inherit=True)
        except SyntaxError as error:
            column = max((error.offset or 1) - 1, 0)
            where = Location(file, error.lineno or 1, column, text=(error.text or "").rstrip("\n"))
            raise CompileError(f"this is no Python: {error.msg}", where) from None
        exec(code, after)  # noqa: S102 - the caller's own source
        missing = object()
        return SimpleNamespace(
            **{
                name: value
                for name, value in after.items()
                if before.get(name, missing) is not value and name != "__builtins__"
            }
        )

    # -- compiling -----------------------------------------------------------------------------------------------------

    def compile(self, target: Target) -> ModuleSpec:
        """Compile every probe for each of its targets.

        Raises CompileError, or NotFound for a target that the kernel lacks.
        """
        spec, self._losses = assemble(self.probes, self.maps, target)
        return spec

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What the compiled programs count as lost, in the order of the counters in the map `.lost`."""
        return self._losses
