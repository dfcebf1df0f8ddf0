"""Attachments: each kind counted exactly, detached for good, refused with a reason."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Self

import pytest

from pyebpf.asm import Instruction, Label, build, layout
from pyebpf.asm.build import R0, R1, R2, R6, R10
from pyebpf.attach.perf_events import PerfEvent
from pyebpf.attach.tracepoints import BtfTracepoint, RawTracepoint, Tracepoint
from pyebpf.btf import Kind
from pyebpf.errors import InvalidValue, KernelError, NotFound, NotSupported
from pyebpf.features import Support
from pyebpf.kernel import bpf
from pyebpf.kernel.cpus import online_cpus
from pyebpf.link import Host, attach
from pyebpf.objects import Map, Program
from pyebpf.runtime.host import kernel_btf
from pyebpf.specs import Code, FunctionStart, MapSpec, ProgramSpec
from pyebpf.types import U32, U64
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.helpers import helper
from tests.support.needs import needs, perf_way
from tests.support.system_calls import getcpu, magic

pytestmark = pytest.mark.every_kernel

libc = ctypes.CDLL(None, use_errno=True)
GETCPU = Tracepoint("syscalls", "sys_enter_getcpu")
SOFTWARE, CPU_CLOCK, PAGE_FAULTS, CONTEXT_SWITCHES = 1, 0, 2, 3
THIRD_ARGUMENT = 32  # in the context of a syscalls tracepoint


def no_such_call(times: int) -> None:
    """Make a system call that does not exist: sys_enter sees its number all the same."""
    for _ in range(times):
        libc.syscall(magic())


def counter(offset: int | None = None, *, cookie: bool = False) -> tuple[Instruction, ...]:
    """Add 1, or the cookie, to `counts[0]`; only where the context's u64 at `offset` is our number."""
    guard = (build.ldx(8, R2, R1, offset), build.jump_if("jne", R2, magic(), "end")) if offset is not None else ()
    amount = (build.mov64(R1, R6), build.call(helper("get_attach_cookie").id), build.mov64(R6, R0)) if cookie else ()
    return layout([
        build.mov64(R6, R1), *guard, *amount,
        *(() if cookie else (build.mov64(R6, 1),)),
        build.st(4, R10, -4, 0), build.load_map(R1, "counts"), build.mov64(R2, R10), build.add64(R2, -4),
        build.call(1), build.jump_if("jeq", R0, 0, "end"), build.atomic("add", 8, R0, 0, R6),
        Label("end"), build.mov64(R0, 0), build.exit_(),
    ])  # fmt: skip


class Counter:
    """A map and a program that counts into it."""

    def __init__(self, kind: ProgramType, code: tuple[Instruction, ...], **options: object) -> None:
        self.counts = Map(MapSpec("counts", MapType.ARRAY, U32, U64, 1))
        spec = ProgramSpec("count", kind, Code(code, (FunctionStart("count", 0),)), **options)
        try:
            self.program = Program(spec, {"counts": self.counts})
        except BaseException:
            self.counts.close()
            raise

    @property
    def count(self) -> int:
        return self.counts[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.program.close()
        self.counts.close()


def sys_enter_btf_counter() -> Counter:
    number = kernel_btf().find("btf_trace_sys_enter", {Kind.TYPEDEF})[0]
    return Counter(ProgramType.TRACING, counter(8), expected_attach_type=AttachType.TRACE_RAW_TP, attach_btf=number)


def test_a_tracepoint_counts_exactly_until_it_is_detached():
    """23 calls, then 17 more that nobody counts."""
    with Counter(ProgramType.TRACEPOINT, counter(THIRD_ARGUMENT)) as our:
        link = attach(our.program, GETCPU)
        getcpu(23)
        assert our.count == 23
        assert not link.detached
        link.detach()
        link.detach()
        assert link.detached
        getcpu(17)
        assert our.count == 23


def test_a_tracepoint_link_holds_one_descriptor():
    """The perf event's own is closed once the link holds it."""
    from pyebpf.kernel.descriptor import open_descriptors

    with Counter(ProgramType.TRACEPOINT, counter(THIRD_ARGUMENT)) as our:
        before = len(open_descriptors())
        with attach(our.program, GETCPU) as link:
            assert len(open_descriptors()) == before + 1
            assert link.how == perf_way()
            assert link.missed is None


def test_one_tracefs_serves_many_attachments():
    """It is opened once."""
    with Counter(ProgramType.TRACEPOINT, counter(THIRD_ARGUMENT)) as our, Host() as host:
        with attach(our.program, GETCPU, host):
            getcpu(3)
        assert our.count == 3


def test_a_tracepoint_is_attached_by_ioctl_where_links_are_missing(monkeypatch):
    """As before Linux 5.15: the perf event's descriptor is the attachment."""

    def missing(*_: object, **__: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(bpf, "link_create", missing)
    with Counter(ProgramType.TRACEPOINT, counter(THIRD_ARGUMENT)) as our:
        with attach(our.program, GETCPU) as link:
            assert link.how == "perf ioctl"
            getcpu(7)
        getcpu(5)
        assert our.count == 7


def test_a_cookie_that_nobody_can_read_is_dropped(monkeypatch):
    """Links, cookies and the helper that reads them came together (Linux 5.15): without, programs attach as well."""

    def missing(*_: object, **__: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(bpf, "link_create", missing)
    monkeypatch.setattr("pyebpf.features._remembered", {"attach:perf": Support.NO})
    with Counter(ProgramType.TRACEPOINT, counter(THIRD_ARGUMENT), cookie=1) as our:
        with attach(our.program, GETCPU):
            getcpu(7)
        assert our.count == 7
    monkeypatch.setattr("pyebpf.features._remembered", {"attach:perf": Support.YES})
    with (
        Counter(ProgramType.TRACEPOINT, counter(THIRD_ARGUMENT), cookie=1) as our,
        pytest.raises(KernelError, match="cookie"),
    ):
        attach(our.program, GETCPU)


def test_a_tracepoint_program_reads_its_cookie():
    """u64, given at attachment."""
    needs("attach:perf")
    with Counter(ProgramType.TRACEPOINT, counter(THIRD_ARGUMENT, cookie=True), cookie=1 << 40) as our:
        with attach(our.program, GETCPU):
            getcpu(3)
        assert our.count == 3 << 40


def test_an_unknown_tracepoint_names_the_closest():
    """Nothing is attached."""
    with (
        Counter(ProgramType.TRACEPOINT, counter(THIRD_ARGUMENT)) as our,
        pytest.raises(NotFound, match="did you mean sys_enter_getcpu"),
    ):
        attach(our.program, Tracepoint("syscalls", "sys_enter_getcpuu"))


def test_reading_beyond_a_tracepoints_fields_is_told_at_attachment():
    """The kernel checks the offsets only then."""
    with (
        Counter(ProgramType.TRACEPOINT, counter(4096)) as our,
        pytest.raises(KernelError, match="beyond the tracepoint's fields"),
    ):
        attach(our.program, GETCPU)


def test_the_same_program_twice_on_one_tracepoint_is_refused():
    """EEXIST in words."""
    with (
        Counter(ProgramType.TRACEPOINT, counter(THIRD_ARGUMENT)) as our,
        attach(our.program, GETCPU),
        pytest.raises(KernelError, match="attached there already"),
    ):
        attach(our.program, GETCPU)


def test_a_program_of_another_kind_is_refused():
    """The message says what it is not."""
    with Counter(ProgramType.RAW_TRACEPOINT, counter(8)) as our:
        with pytest.raises(KernelError, match="not a tracepoint program"):
            attach(our.program, GETCPU)
        with pytest.raises(KernelError, match="not a perf-event program"):
            attach(our.program, PerfEvent(SOFTWARE, CPU_CLOCK, period=1_000_000))
        with pytest.raises(KernelError, match="not a program for a BTF tracepoint"):
            attach(our.program, BtfTracepoint("sys_enter"))
    with (
        Counter(ProgramType.TRACEPOINT, counter(THIRD_ARGUMENT)) as our,
        pytest.raises(KernelError, match="not a raw-tracepoint program"),
    ):
        attach(our.program, RawTracepoint("sys_enter"))


def test_a_raw_tracepoint_counts_exactly_until_it_is_detached():
    """By the system call's number, the second argument."""
    with Counter(ProgramType.RAW_TRACEPOINT, counter(8)) as our:
        with attach(our.program, RawTracepoint("sys_enter")) as link:
            no_such_call(23)
            assert link.how == "raw tracepoint"
        no_such_call(17)
        assert our.count == 23


def test_a_raw_tracepoint_program_reads_its_cookie_where_the_kernel_has_that():
    """Since Linux 6.10."""
    needs("attach:raw_tp_cookie")
    with Counter(ProgramType.RAW_TRACEPOINT, counter(8, cookie=True), cookie=1000) as our:
        with attach(our.program, RawTracepoint("sys_enter")):
            no_such_call(3)
        assert our.count == 3000


@pytest.mark.parametrize(
    ("name", "hint"),
    [("no_such_thing", "no raw tracepoint 'no_such_thing'$"), ("sys_enter_openat", "compare the number")],
)
def test_an_unknown_raw_tracepoint_is_not_found(name, hint):
    """Single system calls have none of their own, which the message says."""
    with Counter(ProgramType.RAW_TRACEPOINT, counter(8)) as our, pytest.raises(NotFound, match=hint):
        attach(our.program, RawTracepoint(name))


def test_a_btf_tracepoint_counts_exactly_until_it_is_detached():
    """The load names the target."""
    with sys_enter_btf_counter() as our:
        with attach(our.program, BtfTracepoint("sys_enter")) as link:
            no_such_call(23)
            assert link.how in {"BTF link", "BTF raw tracepoint"}  # by release, as the next test has it
        no_such_call(17)
        assert our.count == 23


def test_a_btf_tracepoint_is_opened_as_a_raw_one_where_links_are_missing(monkeypatch):
    """RAW_TRACEPOINT_OPEN without a name, as before Linux 5.18."""

    def missing(*_: object, **__: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(bpf, "link_create", missing)
    with sys_enter_btf_counter() as our:
        with attach(our.program, BtfTracepoint("sys_enter")) as link:
            no_such_call(5)
            assert link.how == "BTF raw tracepoint"
        no_such_call(7)
        assert our.count == 5


def test_raw_tracepoints_detach_fast():
    """A perf-based tracepoint takes 70 ms on a real machine; ten of these together take less, in the best of five."""
    took = []
    with ExitStack() as programs:
        ours = [programs.enter_context(Counter(ProgramType.RAW_TRACEPOINT, counter(8))) for _ in range(10)]
        for _ in range(5):
            links = [attach(our.program, RawTracepoint("sys_enter")) for our in ours]
            started = time.perf_counter()
            for link in links:
                link.detach()
            took.append(time.perf_counter() - started)
    assert min(took) < 0.5


def test_a_software_event_counts_in_one_process():
    """Every page fault of this process: at least one for each page that is touched for the first time."""
    pages = 211
    with Counter(ProgramType.PERF_EVENT, counter()) as our:
        with attach(our.program, PerfEvent(SOFTWARE, PAGE_FAULTS, period=1, pid=os.getpid())) as link:
            touch(pages)
            assert link.how == perf_way()
        counted = our.count
        assert counted >= pages
        bytearray(1 << 24)
        assert our.count == counted


def touch(pages: int) -> None:
    """Fault that many times: huge pages would be one fault for many."""
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        with suppress(OSError):  # EINVAL: a kernel without huge pages, as those of PREEMPT_RT are
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1


def test_a_software_event_counts_in_all_threads_of_a_process_and_in_no_other():
    """Threads from before the attachment, threads from after it, and not a child process."""
    go, done = Event(), Event()

    def work() -> None:
        go.wait()
        touch(503)
        done.set()

    old = Thread(target=work)
    old.start()
    ours = PerfEvent(SOFTWARE, PAGE_FAULTS, period=1, pid=os.getpid())
    with Counter(ProgramType.PERF_EVENT, counter()) as our, attach(our.program, ours) as link:
        go.set()
        assert done.wait(60)
        old.join()
        first = our.count
        new = Thread(target=touch, args=(503,))
        new.start()
        new.join()
        second = our.count
        pid = os.fork()
        if pid == 0:
            touch(50_021)
            os._exit(0)
        os.waitpid(pid, 0)
        third = our.count
    assert first >= 503
    if link.warnings:  # before Linux 5.13
        assert "threads that the process starts from now on are left out" in link.warnings[0]
        assert second - first < 503
    else:
        assert second - first >= 503
    assert third - second < 50_021


def test_sampling_runs_on_every_processor():
    """One event for each online one; it stops with the link."""
    with Counter(ProgramType.PERF_EVENT, counter()) as our:
        with attach(our.program, PerfEvent(SOFTWARE, CPU_CLOCK, frequency=499)) as link:
            assert len([*link._links, *link._held]) == len(online_cpus())
            deadline = time.monotonic() + 20
            while our.count < 50 and time.monotonic() < deadline:
                sum(range(10_000))
        counted = our.count
        assert counted >= 50
        time.sleep(0.05)
        assert our.count == counted


def test_sampling_by_ioctl_where_links_are_missing(monkeypatch):
    """Each event's descriptor holds its attachment."""

    def missing(*_: object, **__: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(bpf, "link_create", missing)
    with Counter(ProgramType.PERF_EVENT, counter()) as our:
        with attach(our.program, PerfEvent(SOFTWARE, CPU_CLOCK, period=1_000_000)) as link:
            assert link.how == "perf ioctl"
            deadline = time.monotonic() + 20
            while our.count < 5 and time.monotonic() < deadline:
                sum(range(10_000))
        assert our.count >= 5


@pytest.mark.parametrize(
    ("target", "kind", "text"),
    [
        (PerfEvent(SOFTWARE, CPU_CLOCK), InvalidValue, "either a period or a frequency"),
        (PerfEvent(SOFTWARE, CPU_CLOCK, period=1, frequency=1), InvalidValue, "either a period or a frequency"),
        (PerfEvent(SOFTWARE, CPU_CLOCK, frequency=1 << 30), KernelError, "perf_event_max_sample_rate"),
        (PerfEvent(SOFTWARE, 999, period=1), KernelError, "no such event"),
        (PerfEvent(SOFTWARE, CPU_CLOCK, period=1_000_000, pid=(1 << 22) - 1), InvalidValue, "no process"),
    ],
    ids=["neither", "both", "rate", "event", "process"],
)
def test_a_wrong_perf_event_is_refused(target, kind, text):
    """One line each; nothing is left open."""
    with Counter(ProgramType.PERF_EVENT, counter()) as our, pytest.raises(kind, match=text):
        attach(our.program, target)


def test_a_hardware_event_works_or_is_told_to_be_missing():
    """Virtual machines mostly have none."""
    with Counter(ProgramType.PERF_EVENT, counter()) as our:
        error = ""
        try:
            attach(our.program, PerfEvent(0, 0, period=1_000_000)).detach()
        except NotSupported as missing:
            error = str(missing)
    assert error == "" or "no hardware counters" in error


KILLED = """
import sys, time
sys.path.insert(0, {path!r})
import importlib.util
spec = importlib.util.spec_from_file_location("links", {file!r})
links = importlib.util.module_from_spec(spec)
spec.loader.exec_module(links)
our = links.Counter(links.ProgramType.RAW_TRACEPOINT, links.counter(8))
tracepoint = links.Counter(links.ProgramType.TRACEPOINT, links.counter(links.THIRD_ARGUMENT))
held = [links.attach(our.program, links.RawTracepoint("sys_enter")), links.attach(tracepoint.program, links.GETCPU)]
print(our.program.info().id, tracepoint.program.info().id, flush=True)
time.sleep(60)
"""


def test_sigkill_leaves_nothing_attached():
    """Programs are gone soon after their process."""
    script = KILLED.format(path=str(Path(__file__).parents[2]), file=__file__)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        numbers = [int(word) for word in child.stdout.readline().split()]
        assert len(numbers) == 2
        child.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while numbers and time.monotonic() < deadline:
        try:
            bpf.prog_get_fd_by_id(numbers[0]).close()
        except FileNotFoundError:
            numbers.pop(0)
        else:
            time.sleep(0.02)
    assert numbers == []
