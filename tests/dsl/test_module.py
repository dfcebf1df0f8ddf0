"""Modules: maps and their names, decorators, probes, and what they compile to."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any

import pytest

from pyebpf.attach.perf_events import PerfEvent
from pyebpf.attach.tracepoints import BtfTracepoint, RawTracepoint, Tracepoint
from pyebpf.builder.intrinsics.task import comm, now, pid
from pyebpf.dsl.module import Module
from pyebpf.errors import CompileError, InvalidValue, NotFound, NotLoaded, OnlyInProbe
from pyebpf.module.probe import Probe
from pyebpf.specs.programs import kernel_name
from pyebpf.types import Struct, char, u32, u64
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.vm import Machine
from tests.dsl.fake_target import FakeTarget
from tests.dsl.harness import probe


class Event(Struct):
    at: u64


def test_a_map_is_called_what_the_first_probe_calls_it() -> None:
    """The first identifier in source order; `name=` wins; what nobody names has a number."""
    bpf = Module()
    first, second = bpf.hash(key=u32, value=u64), bpf.hash(key=u32, value=u64, name="given")
    bpf.hash(key=u32, value=u64)
    alias = first

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def probe() -> None:
        alias[second.get(1, 0)] += 1
        first[1] += 1

    assert [spec.name for spec in bpf.compile(FakeTarget()).maps] == ["alias", "given", "map2", ".drops"]


def test_a_declared_name_stays() -> None:
    """Of any length and letters: the kernel's 15 characters are made of it, by `kernel_name`."""
    bpf = Module()
    names = ["connections_by_process", "connections_by_thread", "größe", "a-b c"]
    for name in names:
        bpf.hash(key=u32, value=u64, name=name)
    for _ in range(2):
        assert [spec.name for spec in bpf.compile(FakeTarget()).maps] == names
    assert [kernel_name(name) for name in names] == ["connections_by_", "connections_by_", "gr__e", "a_b_c"]


def test_two_maps_of_one_name_are_refused() -> None:
    """Where the second is declared, of whatever kind."""
    bpf = Module()
    bpf.hash(key=u32, value=u64, name="counts")
    declarations = (
        lambda: bpf.hash(key=u32, value=u64, name="counts"),
        lambda: bpf.array(value=u64, name="counts"),
        lambda: bpf.ringbuf(Event, name="counts"),
        lambda: bpf.counter(key=u32, name="counts"),
        lambda: bpf.log2_hist(name="counts"),
    )
    for declare in declarations:
        with pytest.raises(InvalidValue, match=r"^name='counts': another map of this BPF has that name: give this one"):
            declare()
    with pytest.raises(InvalidValue, match=r"^name='\.drops': names with a dot at the front are pyebpf's own"):
        bpf.hash(key=u32, value=u64, name=".drops")
    assert [each.name for each in bpf.maps] == ["counts"]


@pytest.mark.parametrize("name", ["", "counts"])
def test_two_maps_that_probes_call_the_same_are_refused(name: str) -> None:
    """A name that a probe gives is refused where another map has it, declared or from another probe."""
    bpf = Module()

    def count(**declared: str) -> None:
        counts = bpf.hash(key=u32, value=u64, **declared)

        @bpf.tracepoint("syscalls:sys_enter_openat")
        def probe() -> None:
            counts[pid()] += 1

    count(**({"name": name} if name else {}))
    count()
    for _ in range(2):
        with pytest.raises(InvalidValue, match=r"^two maps are called 'counts' in the probes: give one of them"):
            bpf.compile(FakeTarget())
    bpf.maps[1].name = "others"
    assert [spec.name for spec in bpf.compile(FakeTarget()).maps] == ["counts", "others", ".drops"]


def test_a_number_is_no_name_that_is_taken() -> None:
    """Maps that nobody names are numbered past those that have such a name."""
    bpf = Module()
    bpf.hash(key=u32, value=u64)
    bpf.hash(key=u32, value=u64, name="map1")
    assert sorted(spec.name for spec in bpf.compile(FakeTarget()).maps) == ["map1", "map1_2"]


def test_a_map_used_through_a_function_or_an_object_is_named_there() -> None:
    """Inlined functions and attributes of plain objects count as uses."""

    class Tool:
        def __init__(self, bpf: Module) -> None:
            self.opens = bpf.hash(key=u32, value=u64)

    bpf = Module()
    tool, closes = Tool(bpf), bpf.hash(key=u32, value=u64)

    def count_close() -> None:
        closes[pid()] += 1

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def probe() -> None:
        count_close()
        tool.opens[pid()] += 1

    assert [spec.name for spec in bpf.compile(FakeTarget()).maps][:2] == ["opens", "closes"]


def test_specs_of_every_kind_of_map() -> None:
    """Each method makes the kernel's kind, with the defaults that its documentation says."""
    bpf = Module()
    bpf.hash(key=char[16], value=u64)
    bpf.lru_hash(key=u32, value=u64, size=7)
    bpf.percpu_hash(key=u32, value=u64)
    bpf.lru_percpu_hash(key=u32, value=u64)
    bpf.array(value=u64)
    bpf.percpu_array(value=u64, size=3)
    bpf.ringbuf(Event)
    kinds = [(spec.type, spec.max_entries) for spec in bpf.compile(FakeTarget()).maps]
    assert kinds == [
        (MapType.HASH, 10_240),
        (MapType.LRU_HASH, 7),
        (MapType.PERCPU_HASH, 10_240),
        (MapType.LRU_PERCPU_HASH, 10_240),
        (MapType.ARRAY, 1),
        (MapType.PERCPU_ARRAY, 3),
        (MapType.RINGBUF, 262_144),
    ]


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda bpf: bpf.hash(key=int, value=u64), "key=<class 'int'> is not a BPF type"),
        (lambda bpf: bpf.hash(key=u32, value=3), "value=3 is not a BPF type"),
        (lambda bpf: bpf.hash(key=u32, value=u64, size=0), "size=0: a map has 1 to 4294967295 entries"),
        (lambda bpf: bpf.array(value=u64, size=-1), "size=-1: a map has"),
        (lambda bpf: bpf.ringbuf(u32), "give the Struct class of its records"),
        (lambda bpf: bpf.ringbuf(Event, size=5000), "give bytes, a power of two from 4096 on"),
        (lambda bpf: bpf.tracepoint("openat"), 'write "category:name"'),
        (lambda bpf: bpf.tracepoint(), "names no target"),
        (lambda bpf: bpf.tracepoint("a:b")(3), "decorates a function, not 3"),
        (lambda bpf: bpf.raw_tracepoint("sched:sched_switch"), 'write the bare name, "sched_switch"'),
        (lambda bpf: bpf.sample(frequency=0), "give samples a second"),
        (lambda bpf: bpf.software_event("page_fault"), r"no such event \(did you mean page_faults"),
        (lambda bpf: bpf.software_event("page_faults", period=0), "give a number of events"),
        (lambda bpf: bpf.software_event("page_faults", period=2**63), f"it is {2**63 - 1} at most"),
        (lambda bpf: bpf.sample(frequency=2**63), f"it is {2**63 - 1} at most"),
        (lambda bpf: bpf.perf_event(type=1, config=2, period=2**63), f"it is {2**63 - 1} at most"),
        (lambda bpf: bpf.perf_event(type=1, config=2), "give period=, in events, or frequency=, in Hz"),
    ],
)
def test_a_declaration_that_means_nothing_is_refused_at_once(declare: Any, message: str) -> None:
    """Where it is written, not when it is compiled."""
    with pytest.raises(InvalidValue, match=message):
        declare(Module())


def test_an_async_function_is_no_probe() -> None:
    """A probe can't wait."""
    bpf = Module()

    async def probe() -> None: ...

    with pytest.raises(InvalidValue, match="leave out `async`"):
        bpf.tracepoint("a:b")(probe)  # type: ignore[call-overload]  # what the test is about


def test_decorators_stack() -> None:
    """One probe, several requests, in the order in which Python applies them."""
    bpf = Module()

    @bpf.raw_tracepoint("sched_switch")
    @bpf.btf_tracepoint("sched_process_exit")
    @bpf.tracepoint("syscalls:sys_enter_openat", "syscalls:sys_enter_open")
    def probe() -> None:
        pass

    assert bpf.probes == [probe]
    assert [str(request) for request in probe.requests] == [
        "@tracepoint('syscalls:sys_enter_openat', 'syscalls:sys_enter_open')",
        "@btf_tracepoint('sched_process_exit')",
        "@raw_tracepoint('sched_switch')",
    ]
    programs = bpf.compile(FakeTarget()).programs
    assert [(program.type, program.attach) for program in programs] == [
        (ProgramType.TRACEPOINT, Tracepoint("syscalls", "sys_enter_openat")),
        (ProgramType.TRACEPOINT, Tracepoint("syscalls", "sys_enter_open")),
        (ProgramType.TRACING, BtfTracepoint("sched_process_exit")),
        (ProgramType.RAW_TRACEPOINT, RawTracepoint("sched_switch")),
    ]
    assert [(program.expected_attach_type, program.attach_btf) for program in programs] == [
        (0, 0),
        (0, 0),
        (23, 118),
        (0, 0),
    ]


def test_what_a_program_returns_when_it_says_nothing() -> None:
    """1 from a tracepoint, where 0 would drop the event for every other perf user; 0 elsewhere."""
    bpf = Module()

    @bpf.sample(frequency=99)
    @bpf.raw_tracepoint("sched_switch")
    @bpf.tracepoint("syscalls:sys_enter_openat")
    def probe() -> None:
        pass

    returned = [program.code.instructions[0].imm for program in bpf.compile(FakeTarget()).programs]
    assert returned == [1, 0, 0]


def test_equal_code_is_shared() -> None:
    """Targets that differ in nothing that the probe uses share one Code object; `ctx.target` makes them differ."""
    bpf = Module()
    events = bpf.ringbuf(Event)

    @bpf.tracepoint("syscalls:sys_enter_openat", "syscalls:sys_enter_open")
    def same() -> None:
        events.emit(Event(now()))

    @bpf.tracepoint("syscalls:sys_enter_openat", "syscalls:sys_enter_open")
    def different(ctx: Any) -> None:
        if ctx.target.endswith("at"):
            events.emit(Event(now()))

    codes = [program.code for program in bpf.compile(FakeTarget()).programs]
    assert codes[0] is codes[1]
    assert len(codes[2].instructions) > len(codes[3].instructions)


def test_perf_events() -> None:
    """Sampling by frequency, software events by period, anything else by numbers."""
    bpf = Module()

    @bpf.perf_event(type=4, config=0x1C2, period=1000, pid=7)
    @bpf.software_event("page_faults")
    @bpf.sample(frequency=49)
    def probe() -> None:
        pass

    assert [program.attach for program in bpf.compile(FakeTarget()).programs] == [
        PerfEvent(1, 0, frequency=49),
        PerfEvent(1, 2, period=1),
        PerfEvent(4, 0x1C2, period=1000, pid=7),
    ]


def test_an_unknown_target_names_the_closest() -> None:
    """The kernel's own names decide, when compiling; a probe that asks for nothing of it is refused when attaching."""
    bpf = Module()

    @bpf.tracepoint("syscalls:sys_enter_openatt")
    def probe(dfd: int) -> None:
        pass

    with pytest.raises(CompileError, match=r"no tracepoint syscalls:sys_enter_openatt \(did you mean sys_enter_openat"):
        bpf.compile(FakeTarget())
    other = Module()

    @other.btf_tracepoint("sched_switchh")
    def second() -> None:
        pass

    with pytest.raises((CompileError, NotFound), match="did you mean sched_switch"):
        other.compile(FakeTarget())


def test_a_probe_cannot_be_called() -> None:
    """The kernel runs it; nor can a subprogram or a word."""
    bpf = Module()

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def probe() -> None:
        pass

    @bpf.subprogram
    def twice(x: u64) -> u64:
        return x * 2

    assert isinstance(probe, Probe)
    with pytest.raises(OnlyInProbe, match="probe is a probe: the kernel runs it on each event, Python can't call it"):
        probe()  # type: ignore[operator]  # what the test is about
    with pytest.raises(OnlyInProbe, match="twice is a subprogram"):
        twice(3)
    with pytest.raises(OnlyInProbe):
        comm()


def test_a_map_outside_with_is_not_loaded() -> None:
    """Every method of its user side says so, and that it is read inside `with`."""
    bpf = Module()
    opens, events = bpf.hash(key=u32, value=u64, name="opens"), bpf.ringbuf(Event, name="events")
    for use in (
        lambda: opens[1],
        opens.items,
        lambda: len(opens),
        opens.interval,
        opens.clear,
        opens.keys,
        opens.values,
        opens.drain,
        opens.interval,
        lambda: opens.update({1: 2}),
        lambda: 1 in opens,
        lambda: opens.get(1),
        lambda: events.poll(0),
        lambda: next(iter(events)),
        events.fileno,
    ):
        with pytest.raises(NotLoaded, match=r"map (opens|events) is not loaded: read and write it inside `with bpf:`"):
            use()


def test_a_bound_map_is_the_mapping_of_its_store() -> None:
    """Any store serves: the kernel's map, or the interpreter's."""
    bpf = Module()
    opens = bpf.hash(key=u32, value=u64, name="opens")
    opens.bind(Machine([opens.spec]).maps["opens"])
    opens.update({1: 10})
    opens[2] = 20
    assert dict(opens.items()) == {1: 10, 2: 20}
    assert opens.get(3) is None
    assert opens.get(3, 0) == 0
    assert sorted(opens) == [1, 2]
    assert opens.pop(1) == 10
    del opens[2]
    assert len(opens) == 0
    opens.bind(None)
    with pytest.raises(NotLoaded):
        len(opens)


def test_two_maps_of_equal_content_are_two_maps() -> None:
    """They are compared and hashed by identity, so they may stand in sets and as keys."""
    bpf = Module()
    one, two = (bpf.hash(key=u32, value=u64) for _ in range(2))
    for each in (one, two):
        each.name = "same"
        each.bind(Machine([each.spec]).maps["same"])
    assert one != two
    assert len({one, two}) == 2


def test_compiling_does_not_depend_on_the_hash_seed(tmp_path: Any) -> None:
    """Two interpreters with different seeds make the same specs."""
    script = tmp_path / "tool.py"
    script.write_text(
        """
from pyebpf.builder.intrinsics.task import comm, now, pid
from pyebpf.dsl.module import Module
from pyebpf.types import char, u32, u64
from tests.dsl.fake_target import FakeTarget
from tests.dsl.harness import probe
bpf = Module()
opens, counts = bpf.hash(key=char[16], value=u64), bpf.hash(key=u32, value=u64)
latency = bpf.log2_hist(key=u32)
@bpf.tracepoint("syscalls:sys_enter_openat", "syscalls:sys_enter_open")
def probe(count, delta):
    x, y = count, delta
    z: u64 = 0
    for i in range(10):
        if x in (1, 5, 7) and y > i:
            z += x % 7
        counts[pid()] += x
        latency[pid()].add(y)
    if comm() in {"a", "b", "c"}:
        opens[comm()] += z
print(bpf.compile(FakeTarget()))
"""
    )
    results = {
        subprocess.run(
            [sys.executable, str(script)],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(path for path in sys.path if path) + ":."},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(results) == 1


def test_compiling_does_not_wait_for_the_garbage_collector() -> None:
    """What a compilation makes lives to its end: the collector runs by itself before and after, and not meanwhile."""
    made = probe("".join(f"counts[{key}] += 1\n" for key in range(50)))
    module = Module()
    module.probes.append(made)
    runs: list[str] = []

    def note(phase: str, _info: dict[str, int]) -> None:
        runs.append(phase)

    threshold = gc.get_threshold()
    gc.set_threshold(50)
    gc.callbacks.append(note)
    try:
        # By the collector's own schedule there would be hundreds.
        spec = module.compile(FakeTarget())
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*threshold)
    assert len(spec.programs) == 1
    assert len(runs) < 10
    assert gc.isenabled()
