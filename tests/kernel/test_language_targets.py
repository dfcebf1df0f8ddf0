"""What a probe is attached to: its parameters, its context, several targets, what it returns."""

from __future__ import annotations

import mmap
import os

import pytest

from pyebpf import (
    BPF,
    CompileError,
    NotFound,
    PerfEventContext,
    Struct,
    char,
    pid,
    ptr,
    s32,
    s64,
    u8,
    u32,
    u64,
    user_string,
)
from pyebpf.kernel.perf import enable, perf_event_open
from pyebpf.kernel.tracefs import Tracefs

PATH = "/proc/self/comm"
ME = os.getpid()
PAGE = mmap.PAGESIZE
GETPPID = {"x86_64": 110, "aarch64": 173}[os.uname().machine]


class Seen(Struct):
    """What a probe saw."""

    count: u64
    other: u64
    number: s64
    small: u8
    flag: u8


def open_file(times):
    for _ in range(times):
        os.close(os.open(PATH, os.O_RDONLY | os.O_CLOEXEC))


def test_fields_of_a_tracepoint_are_parameters_by_name():
    """One declares what it uses: the rest of the record is left alone."""
    bpf = BPF()
    seen = bpf.array(value=Seen)

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_open(filename: ptr[char], dfd: s32, flags: u8) -> None:
        if pid() == ME and user_string(filename, size=32) == PATH:
            seen[0].count += 1
            seen[0].number = dfd
            seen[0].small = flags
            seen[0].other = flags

    with bpf:
        open_file(7)
        assert seen[0] == Seen(7, 0, -100, 0, 0)  # O_CLOEXEC is above the low 8 bits


def test_several_targets_share_a_function_and_ctx_target_tells_them_apart():
    bpf = BPF()
    seen = bpf.array(value=Seen)

    @bpf.tracepoint("syscalls:sys_enter_openat", "syscalls:sys_exit_openat")
    def on_open(ctx) -> None:
        if pid() != ME:
            return
        if ctx.target == "syscalls:sys_exit_openat":
            seen[0].other += 1
            seen[0].number = ctx.ret
        elif user_string(ctx.filename, size=32) == PATH:
            seen[0].count += 1

    with bpf:
        before = seen[0]
        open_file(5)
        after = seen[0]
        assert (after.count - before.count, after.other - before.other) == (5, 5)
        assert after.number > 2


def test_equal_code_is_one():
    """Two system calls whose records are alike in what the probe uses, and one program for a third that differs."""
    bpf = BPF()
    counts = bpf.hash(key=u32, value=u64)

    @bpf.tracepoint("syscalls:sys_enter_getppid", "syscalls:sys_enter_getuid", "syscalls:sys_exit_getppid")
    def on_call(ctx) -> None:
        if pid() == ME:
            counts[1 if ctx.target.startswith("syscalls:sys_enter") else 2] += 1

    codes = [id(program.code) for program in bpf.specs().programs]
    assert (codes[0] == codes[1], codes[0] == codes[2]) == (True, False)
    with bpf:
        for _ in range(11):
            os.getppid()
        os.getuid()
        assert dict(counts.items()) == {1: 12, 2: 11}


def test_an_argument_that_one_target_lacks_is_an_error_naming_both():
    bpf = BPF()

    @bpf.tracepoint("syscalls:sys_enter_openat", "syscalls:sys_enter_close")
    def on_call(filename) -> None:
        """Use the name only the first has."""

    with pytest.raises(CompileError) as caught:
        bpf.specs()
    assert caught.value.message == (
        "tracepoint sys_enter_close has no field 'filename'; the target is tracepoint syscalls:sys_enter_close, while "
        "tracepoint syscalls:sys_enter_openat compiles"
    )


@pytest.mark.parametrize(
    ("kind", "target", "message"),
    [
        (
            "tracepoint",
            "syscalls:sys_enter_opena",
            "no tracepoint syscalls:sys_enter_opena (did you mean sys_enter_openat",
        ),
        ("raw_tracepoint", "sys_ente", "no raw tracepoint 'sys_ente' (did you mean sys_enter"),
        (
            "btf_tracepoint",
            "sched_switc",
            "the kernel's BTF has no raw tracepoint 'sched_switc' (did you mean sched_switch",
        ),
    ],
)
def test_a_target_that_the_kernel_lacks_is_an_error_with_the_closest_unless_it_is_optional(kind, target, message):
    for optional in (False, True):
        bpf = BPF()

        @getattr(bpf, kind)(target, optional=optional)
        def probe() -> None:
            """Do nothing."""

        if optional:
            assert bpf.specs().programs == ()
        else:
            with pytest.raises(NotFound) as caught, bpf:
                pass
            assert str(caught.value).startswith(message)


def test_another_perf_user_of_the_tracepoint_keeps_its_events():
    """A counter of the same tracepoint counts each event, whatever way the probe returns."""
    bpf = BPF()
    counts = bpf.array(value=u64)

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def on_call() -> None:
        if pid() != ME:
            return
        counts[0] += 1

    with Tracefs() as tracefs:
        number = tracefs.event_id("syscalls", "sys_enter_getppid")
    with bpf, perf_event_open(2, number, pid=0, cpu=-1) as counter:
        enable(counter.fileno())
        for _ in range(23):
            os.getppid()
        assert int.from_bytes(os.read(counter.fileno(), 8), "little") == 23
        assert counts[0] == 23


def test_arguments_of_a_raw_tracepoint_have_the_names_of_its_prototype():
    bpf = BPF()
    counts = bpf.hash(key=s64, value=u64)

    @bpf.raw_tracepoint("sys_enter")
    def on_call(id: int) -> None:  # noqa: A002 - the kernel's name
        if pid() == ME and id == GETPPID:
            counts[id] += 1

    with bpf:
        for _ in range(13):
            os.getppid()
        assert dict(counts.items()) == {GETPPID: 13}


def test_a_perf_event_tells_where_it_found_the_processor():
    """Page faults of this process: 17 pages touched, at least as many events; the context has no other names."""
    bpf = BPF()
    pages = bpf.hash(key=u64, value=u64)

    @bpf.software_event("page_faults", pid=ME)
    def on_fault(ctx: PerfEventContext) -> None:
        if ctx.ip != 0 and ctx.sample_period == 1:
            pages[ctx.addr // PAGE] += 1

    with mmap.mmap(-1, mmap.PAGESIZE * 17, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory, bpf:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(17):
            memory[page * mmap.PAGESIZE] = 1
        touched = sorted(page for page, count in pages.items() if count == 1)
        runs = [page for page in touched if all(page + n in touched for n in range(17))]
        assert runs


def test_a_perf_events_context_has_three_fields():
    bpf = BPF()

    @bpf.sample(frequency=49)
    def on_sample(ctx: PerfEventContext) -> None:
        pages = ctx.adress  # type: ignore[attr-defined]  # what the error is about
        del pages

    with pytest.raises(CompileError) as caught:
        bpf.specs()
    assert caught.value.message == (
        "a perf event's context has no field adress (did you mean addr?): it has ip, sample_period, addr"
    )


def test_subprograms_are_called_with_their_annotated_types():
    bpf = BPF()
    seen = bpf.array(value=Seen)

    @bpf.subprogram
    def mix(a: u64, b: s32, c: u8) -> u64:
        for j in range(3):
            a += u64(b)
            if c > j:
                return a
        return a + c

    @bpf.subprogram
    def note(x: u32) -> None:
        seen[0].number += x

    @bpf.raw_tracepoint("sys_enter")
    def on_call(id: int) -> None:  # noqa: A002 - the kernel's name
        if pid() != ME or id != GETPPID or seen[0].flag != 0:
            return
        seen[0].flag = 1
        seen[0].count = mix(1 << 40, -3, 0)
        seen[0].other = mix(5, id, 300)
        note(7)
        note(id)

    with bpf:
        os.getppid()
        assert seen[0] == Seen((1 << 40) - 9, 5 + GETPPID, 7 + GETPPID, 0, 1)
