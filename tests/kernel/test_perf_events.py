"""Perf events and breakpoints by their decorators: counted exactly in a child process, refused in one line."""

from __future__ import annotations

import platform
import resource
from pathlib import Path

import pytest

from pyebpf import BPF, PerfEventContext, pid, u64
from pyebpf.errors import InvalidValue, KernelError, NotFound, NotSupported
from tests.support.native import build_native
from tests.support.needs import needs, perf_way
from tests.support.told import told

pytestmark = pytest.mark.every_kernel
#: The PMU that machines with debug registers have.
BREAKPOINTS = "setting:/sys/bus/event_source/devices/breakpoint"
PAGES, WRITES, READS, CALLS, GETPPIDS = 1009, 2003, 503, 307, 13
PAGE = resource.getpagesize()
# Each line that it reads is something to do; it answers when it has been done.
PROGRAM = f"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
volatile int watched;
static volatile int sum;
__attribute__((noinline)) void called(int n) {{ sum += n; }}
static char *memory;
static void *writer(void *unused) {{ for (int i = 0; i < {WRITES}; i++) watched = i; return unused; }}
int main(void) {{
    char line[16];
    memory = mmap(NULL, {PAGES} * {PAGE}, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, {PAGES} * {PAGE}, MADV_NOHUGEPAGE);
    printf("%p %p\\n", (void *)memory, (void *)&watched);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {{
        pthread_t thread;
        switch (line[0]) {{
        case 'p': for (int i = 0; i < {PAGES}; i++) memory[i * {PAGE}] = 1; break;
        case 'w': writer(NULL); break;
        case 'r': for (int i = 0; i < {READS}; i++) sum += watched; break;
        case 'c': for (int i = 0; i < {CALLS}; i++) called(i); break;
        case 't': pthread_create(&thread, NULL, writer, NULL); pthread_join(thread, NULL); break;
        case 'g': for (int i = 0; i < {GETPPIDS}; i++) getppid(); break;
        }}
        puts("done");
        fflush(stdout);
    }}
    return 0;
}}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build_native(PROGRAM, tmp_path_factory.mktemp("perf") / "program", "-pthread")


@pytest.fixture
def child(program):
    with told(program) as process:
        process.memory, process.watched = (int(word, 16) for word in process.answer().split())
        yield process


def counting(decorate):
    """A module whose one probe counts every time that it runs."""
    bpf = BPF()
    count = bpf.array(value=u64)

    @decorate(bpf)
    def probe() -> None:
        count[0] += 1

    return bpf, count


def test_page_faults_are_counted_exactly(child):
    """One fault for each of 1009 pages of the child; none more is counted after the detachment."""
    bpf = BPF()
    count = bpf.array(value=u64)
    memory = child.memory

    @bpf.software_event("page_faults", pid=child.pid)
    def on_fault(ctx: PerfEventContext) -> None:
        if memory <= ctx.addr < memory + PAGES * PAGE:
            count[0] += 1

    with bpf:
        child.tell("p")
        assert count[0] == PAGES


def test_writes_are_counted_exactly(child):
    """2003 writes by one thread and as many by one started later; reads do not count, nor what comes after."""
    needs(BREAKPOINTS)
    bpf, count = counting(lambda bpf: bpf.breakpoint(child.watched, 4, pid=child.pid))
    with bpf:
        child.tell("w")
        child.tell("r")
        assert count[0] == WRITES
        child.tell("t")
        # Before Linux 5.13 events follow the threads of the moment only.
        expected = WRITES if bpf.warnings else 2 * WRITES
        assert count[0] == expected
        bpf.detach()
        child.tell("w")
        assert count[0] == expected


def test_symbols_of_a_process(child):
    """A variable and a function by name: reads and writes, calls; "FILE:name" says whose."""
    needs(BREAKPOINTS)
    bpf = BPF()
    accesses, calls = bpf.array(value=u64), bpf.array(value=u64)

    @bpf.breakpoint("watched", 4, "rw", pid=child.pid)
    def on_access() -> None:
        accesses[0] += 1

    @bpf.breakpoint("program:called", access="x", pid=child.pid)
    def on_call() -> None:
        calls[0] += 1

    with bpf:
        for what in ("w", "r", "c"):
            child.tell(what)
        assert (accesses[0], calls[0]) == (WRITES + READS, CALLS)
        assert list(bpf.attachments) == [
            f"on_access: breakpoint watched/4:rw, by {perf_way()}",
            f"on_call: breakpoint program:called/8:x, by {perf_way()}",
        ]


def test_a_function_of_the_kernel(child):
    """Each of 13 calls runs one instruction of the kernel once; a kernel without kprobes says that it has no place."""
    needs(BREAKPOINTS)
    bpf = BPF()
    count = bpf.array(value=u64)
    child_pid = child.pid

    @bpf.breakpoint(f"__{'x64' if platform.machine() == 'x86_64' else 'arm64'}_sys_getppid", access="x")
    def on_call() -> None:
        if pid() == child_pid:
            count[0] += 1

    refused = ""
    try:
        with bpf:
            child.tell("g")
            # arm64 takes the breakpoint away for the instruction, and may meet it again where it was interrupted there.
            most = GETPPIDS + (3 if platform.machine() == "aarch64" else 0)
            assert GETPPIDS <= count[0] <= most
    except KernelError as error:
        refused = str(error)
    assert refused == "" or "this kernel allows no breakpoint at that instruction" in refused
    if Path("/sys/bus/event_source/devices/kprobe").exists():
        assert refused == ""


@pytest.mark.parametrize(
    ("place", "options", "kind", "text"),
    [
        ("watchd", {}, NotFound, r"has no symbol watchd \(did you mean watched[? ]"),
        ("libnothing.so:x", {}, NotFound, r"has mapped no file libnothing\.so"),
        ("program:printf", {}, NotFound, r"/program has no symbol printf"),
        (0x1001, {"length": 4}, InvalidValue, r"0x1001\): not aligned to its length of 4 bytes$"),
        (0x1000, {"length": 3}, InvalidValue, r"it is 1, 2, 4 or 8 bytes$"),
        (0x1000, {"access": "r"}, InvalidValue, r"it is one of 'w', 'rw', 'x'$"),
        (0x1000, {"pid": (1 << 22) - 1}, InvalidValue, r"there is no process 4194303(?m:$)"),
        ("x", {"pid": (1 << 22) - 1}, NotFound, r"there is no process 4194303(?m:$)"),
        ("no_such_symbol_here", {"pid": -1}, NotFound, r"the kernel lists no symbol no_such_symbol_here"),
    ],
)
def test_wrong_breakpoints_are_refused(child, place, options, kind, text):
    """One line that says what is wrong; nothing stays open."""
    needs(BREAKPOINTS)

    def attach():
        bpf, _ = counting(lambda bpf: bpf.breakpoint(place, **{"pid": child.pid, **options}))
        with bpf:
            pass

    with pytest.raises(kind, match=text) as caught:
        attach()
    assert "\n" not in str(caught.value)


def test_more_breakpoints_than_the_processor_has(child):
    """A line says so, and what was attached before is detached."""
    needs(BREAKPOINTS)
    bpf = BPF()
    count = bpf.array(value=u64)
    place = child.watched & ~7
    for number in range(40):

        @bpf.breakpoint(place + 8 * number, pid=child.pid)
        def on_write() -> None:
            count[0] += 1

    with pytest.raises(KernelError, match="breakpoint registers are all in use"), bpf:
        pass
    bpf, count = counting(lambda bpf: bpf.breakpoint(child.watched, 4, pid=child.pid))
    with bpf:
        child.tell("w")
        assert count[0] == WRITES


def test_hardware_events_count_or_are_told_to_be_missing(child):
    """By name; a machine without counters has one line for it, and unknown names get the closest."""
    bpf, count = counting(lambda bpf: bpf.hardware_event("instructions", period=10_000, pid=child.pid))
    error = ""
    try:
        with bpf:
            for _ in range(20):
                child.tell("w")
            assert count[0] > 0
    except NotSupported as missing:
        error = str(missing)
    assert error in {"", "perf event instructions every 10000: this host has no hardware counters"}
    with pytest.raises(
        InvalidValue, match=r"no such event \(did you mean cache_misses or branch_misses\?\); there are cpu_cycles, "
    ):
        BPF().hardware_event("cache_miss", period=1)
    with pytest.raises(InvalidValue, match="give period=, in events, or frequency=, in Hz"):
        BPF().hardware_event("cache_misses")
