"""Call stacks kept by content: none is lost to another, whatever their number; limits, depth, release."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager

import pytest

from pyebpf import BPF, CompileError, Struct, array, comm, field, kstack, pid, s32, u32, u64, ustack, ustack_of
from pyebpf.arch import syscall_name
from pyebpf.builder.intrinsics.stacks import FULL, MISSED
from tests.support.native import build_native
from tests.support.told import Told, told
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.any_kernel

# Two functions that call each other or themselves by the bits of a number: a stack of its own for each number.
PROGRAM = """
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile long sink;
static void left(unsigned bits, int depth);
static void right(unsigned bits, int depth);
static void step(unsigned bits, int depth) {
    if (!depth) sink = syscall(SYS_getppid);
    else if (bits & 1) left(bits >> 1, depth - 1);
    else right(bits >> 1, depth - 1);
    sink++;
}
static void left(unsigned bits, int depth) { step(bits, depth); sink++; }
static void right(unsigned bits, int depth) { step(bits, depth); sink++; }
int main(void) {
    unsigned first, count;
    int depth;
    while (scanf("%u %u %d", &first, &count, &depth) == 3) {
        for (unsigned i = first; i < first + count; i++) step(i, depth);
        puts("done");
        fflush(stdout);
    }
    return 0;
}
"""
STACKS = 100_000


class Place(Struct):
    """A stack of a process."""

    pid: u32
    stack: s32


class Both(Struct):
    """An event's stacks."""

    kernel: s32
    user: s32


GETPPID = next(number for number in range(512) if syscall_name(number) == "getppid")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build_native(PROGRAM, tmp_path_factory.mktemp("stacks") / "caller", "-O0", "-fno-omit-frame-pointer")


class Caller(Told):
    """Makes system calls from the stacks `first` to `first + count - 1`, each `depth` calls deep, twice over."""

    def call(self, count, *, first=0, depth=17):
        self.tell(first, count, depth)


@pytest.fixture
def caller(program):
    with told(program) as process:
        yield Caller(process.process)


@contextmanager
def counting(wanted, stack=ustack, max_stacks=None, **options):
    """How often each stack of process `wanted` called getppid."""
    bpf = BPF()
    bpf.max_stacks = max_stacks
    counts = bpf.hash(key=s32, value=u64, size=2 * STACKS)
    getppid = GETPPID

    @bpf.raw_tracepoint("sys_enter")
    def on_call(ctx) -> None:
        if ctx.id == getppid and pid() == wanted:
            counts[stack(**options)] += 1

    with bpf:
        yield bpf, counts


def test_no_stack_is_lost_among_a_hundred_thousand(caller):
    """Each has a number of its own, the same the second time, and frames that no other has."""
    with counting(caller.pid) as (bpf, counts):
        caller.call(STACKS)
        caller.call(STACKS)
        found = dict(counts)
        assert bpf.dropped == {}
        assert len(found) == STACKS
        assert set(found.values()) == {2}
        assert min(found) >= 0
        assert len({tuple(bpf.stacks[number]) for number in found}) == STACKS


def test_both_stacks_of_the_first_event_are_kept():
    """With interrupts off the kernel fetches memory for stacks only after the event: it must be at hand before."""
    nap = "import os, sys, time; sys.stdin.read(1); [time.sleep(0.001) for _ in range(40)]"
    for _ in range(3):
        bpf = BPF()
        counts = bpf.hash(key=Both, value=u64)
        with subprocess.Popen([sys.executable, "-c", nap], stdin=subprocess.PIPE) as process:
            wanted = process.pid

            @bpf.raw_tracepoint("sched_switch")
            def on_switch() -> None:
                if pid() == wanted:  # noqa: B023 - a probe knows the names of its round
                    counts[Both(kernel=kstack(), user=ustack())] += 1  # noqa: B023 - the same

            with bpf:
                process.stdin.write(b"!")
                process.stdin.close()
                assert process.wait(PATIENCE) == 0
                assert sum(counts.values()) >= 40
                assert bpf.dropped == {}
                assert not [key for key in counts if MISSED in (key.kernel, key.user)]


def test_what_the_limit_drops_is_counted_with_the_option_that_raises_it(caller):
    """Those kept are counted, all others lost; the loss names the remedy."""
    with counting(caller.pid, max_stacks=64) as (bpf, counts):
        caller.call(100)
        kept = {number: count for number, count in counts.items() if number >= 0}
        lost = sum(count for number, count in counts.items() if number < 0)
        assert sum(kept.values()) + lost == 100
        assert bpf.dropped == {f".stacks: {FULL}": lost}
        assert 0 < len(kept) <= 128  # the kernel lets a hash grow a little over its limit
        assert "bpf.max_stacks" in FULL
        assert "--stack-storage-size" in FULL
        (number,) = {number for number in counts if number < 0}
        assert [frame.label for frame in bpf.stacks.user(number, caller.pid)] == ["[missed]"]


@pytest.mark.parametrize("depth", [3, 4, 5, 6])
def test_depth_merges_what_is_equal_in_the_first_frames(caller, depth):
    """As many numbers as there are beginnings of whole stacks, each counted as often as its beginning is there."""
    with counting(caller.pid) as (bpf, counts):
        caller.call(16, depth=4)
        wanted = Counter(tuple(bpf.stacks[number][:depth]) for number in counts)
    assert 1 < len(wanted) < 16
    with counting(caller.pid, depth=depth) as (bpf, counts):
        caller.call(16, depth=4)
        assert {tuple(bpf.stacks[number]): count for number, count in counts.items()} == wanted


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 54, 55, 56, 57, 126])
def test_depths_up_to_the_deepest(caller, depth):
    """Short and deep stacks lie in different maps, and both ends of groups of words are compared."""
    with counting(caller.pid, depth=depth) as (bpf, counts):
        caller.call(3, depth=90)
        caller.call(3, depth=90)
        assert {len(bpf.stacks[number]) for number in counts} == {depth}
        # The bits that differ are the outermost, deeper than any depth.
        assert list(counts.values()) == [6]
    with counting(caller.pid) as (bpf, counts):
        caller.call(1, depth=90)
        assert [len(bpf.stacks[number]) for number in counts] == [127]


def test_released_stacks_are_known_once_more_and_come_again_under_their_numbers(caller):
    """The kernel's memory is free for others; what was counted meanwhile still has frames."""
    with counting(caller.pid) as (bpf, counts):
        caller.call(500)
        frames = {number: bpf.stacks[number] for number in counts}
        assert bpf.stacks.release() == 500
        assert list(bpf.stacks) == []
        assert {number: bpf.stacks[number] for number in frames} == frames
        assert bpf.stacks.release() == 0
        assert not any(bpf.stacks.frames(number) for number in frames)
        caller.call(500)
        assert {number: bpf.stacks[number] for number in counts} == frames
        assert set(counts.values()) == {2}


def test_user_and_kernel_stacks_share_the_maps(caller):
    """One hidden pair of maps for both, told apart by their addresses."""
    with counting(caller.pid, kstack) as (bpf, counts):
        caller.call(5)
        (number,) = counts
        labels = [frame.label for frame in bpf.stacks.kernel(number)]
        assert any(label.startswith(("do_syscall_64", "el0_svc", "invoke_syscall")) for label in labels)


TRACING = (
    "bpf_prog_", "bpf_trace_run", "__traceiter_", "__bpf_trace_", "bpf_trampoline_", "perf_trace_", "perf_syscall_",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["tracepoint", "raw_tracepoint", "btf_tracepoint"])
def test_the_tracers_own_frames_are_left_out(kind):
    """They are there when asked for; the traced function is the innermost of the others."""
    bpf = BPF()
    counts = bpf.hash(key=s32, value=u64)
    mine = os.getpid()
    name = "sched:sched_process_fork" if kind == "tracepoint" else "sched_process_fork"

    @getattr(bpf, kind)(name)
    def on_fork() -> None:
        if pid() == mine:
            counts[kstack()] += 1

    with bpf:
        subprocess.run(["true"], check=True)
        for number in counts:
            plain, all_frames = bpf.stacks.kernel(number), bpf.stacks.kernel(number, tracer=True)
            assert not any(frame.name.startswith(TRACING) for frame in plain)
            assert all_frames[len(all_frames) - len(plain) :] == plain
            assert plain[0].name in {"kernel_clone", "copy_process", "_do_fork"}
            assert kind == "tracepoint" or any(frame.name.startswith("bpf_prog_") for frame in all_frames)
        assert len(counts) >= 1


@pytest.mark.parametrize("event", ["sys_enter_getppid", "sys_exit_getppid"])
def test_frames_of_system_calls_tracepoints_are_left_out(event):
    """All of them share functions of the kernel's, which call the program in place of perf_trace_NAME."""
    bpf = BPF()
    counts = bpf.hash(key=s32, value=u64)
    mine = os.getpid()

    @bpf.tracepoint(f"syscalls:{event}")
    def on_call() -> None:
        if pid() == mine:
            counts[kstack()] += 1

    with bpf:
        os.getppid()
        (number,) = counts
        plain, all_frames = bpf.stacks.kernel(number), bpf.stacks.kernel(number, tracer=True)
    assert plain
    assert not any(frame.name.startswith(TRACING) for frame in plain)
    assert all_frames[len(all_frames) - len(plain) :] == plain


@pytest.mark.parametrize("kind", ["tracepoint", "raw_tracepoint", "btf_tracepoint"])
@pytest.mark.parametrize("others", [0, 1])
def test_depth_counts_from_behind_the_tracers_frames(kind, others):
    """The innermost function of the kernel's own, whether or not others listen at the same tracepoint."""
    bpf, other = BPF(), BPF()
    whole, first = bpf.hash(key=s32, value=u64), bpf.hash(key=s32, value=u64)
    mine = os.getpid()
    name = "sched:sched_process_fork" if kind == "tracepoint" else "sched_process_fork"

    @getattr(bpf, kind)(name)
    def on_fork() -> None:
        if pid() == mine:
            whole[kstack()] += 1
            first[kstack(2)] += 1

    @other.raw_tracepoint("sched_process_fork")
    def on_other() -> None:
        pass

    with ExitStack() as stack:
        stack.enter_context(bpf)
        if others:
            stack.enter_context(other)
        subprocess.run(["true"], check=True)
        (number,) = whole
        (short,) = first
        frames = bpf.stacks.kernel(number)
        assert [frame.name for frame in bpf.stacks.kernel(short)] == [frame.name for frame in frames[:2]]
        assert len(frames) > 2


def test_frames_of_processes_that_have_ended_have_names(program):
    """Whoever uses `ustack()` need not look at them: not while it sleeps, and not before it asks."""
    bpf = BPF()
    counts = bpf.hash(key=Place, value=u64)
    getppid = GETPPID

    @bpf.raw_tracepoint("sys_enter")
    def on_call(ctx) -> None:
        if ctx.id == getppid and comm() == "caller":
            counts[Place(pid=pid(), stack=ustack())] += 1

    with bpf:
        before = threading.active_count()
        ended = []
        for _ in range(5):
            with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
                caller = Caller(process)
                caller.call(64)
                time.sleep(0.2)
                caller.call(64)
                ended.append(process.pid)
        places = {place: count for place, count in counts.items() if place.pid in ended}
        assert {place.pid for place in places} == set(ended)
        assert set(places.values()) == {2}
        for place in places:
            labels = [frame.label for frame in bpf.stacks.user(place.stack, place.pid)]
            assert "main" in labels
            assert {"step", "left"} & set(labels)
            assert "[unknown]" not in labels
        assert bpf.dropped == {}
    assert threading.active_count() == before - 1


#: A program that makes a call, loads a library, in which a function makes calls for a while, and ends.
LATE = """
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
    syscall(SYS_getppid);
    usleep(20000);
    void (*late)(void) = dlsym(dlopen(words[1], RTLD_NOW), "late");
    for (int i = 0; i < 40; i++) { late(); usleep(5000); }
    return 0;
}
"""
LIBRARY = """
#include <sys/syscall.h>
#include <unistd.h>
volatile long sink;
__attribute__((noinline)) void call(void) { sink = syscall(SYS_getppid); sink++; }
void late(void) { call(); sink++; }
"""


def test_libraries_that_are_loaded_later_are_known(tmp_path):
    """The process is told again while it makes calls, and has ended when names are asked for."""
    program = build_native(LATE, tmp_path / "lately", "-ldl")
    library = build_native(LIBRARY, tmp_path / "liblate.so", "-shared", "-fPIC")
    bpf = BPF()
    counts = bpf.hash(key=Place, value=u64)
    getppid = GETPPID

    @bpf.raw_tracepoint("sys_enter")
    def on_call(ctx) -> None:
        if ctx.id == getppid and comm() == "lately":
            counts[Place(pid=pid(), stack=ustack())] += 1

    with bpf:
        subprocess.run([program, library], check=True, timeout=PATIENCE)
        seen = {count: [frame.name for frame in bpf.stacks.user(at.stack, at.pid)] for at, count in counts.items()}
    assert set(seen) == {1, 40}
    assert "late" in seen[40]


def test_a_process_is_told_again_after_exec(program):
    """What it has become has names, too; an address of before keeps its own."""
    bpf = BPF()
    counts = bpf.hash(key=Place, value=u64)
    getppid = GETPPID

    @bpf.raw_tracepoint("sys_enter")
    def on_call(ctx) -> None:
        if ctx.id == getppid:
            counts[Place(pid=pid(), stack=ustack())] += 1

    script = f"echo $PPID > /dev/null; sleep 0.3; exec {program}"
    with (
        bpf,
        subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
    ):
        caller = Caller(process)
        caller.call(1)
        time.sleep(0.3)
        process.stdin.close()
        process.wait(PATIENCE)
        found = [place for place in counts if place.pid == process.pid]
        labels = [[frame.label for frame in bpf.stacks.user(place.stack, place.pid)] for place in found]
        assert any("step" in each for each in labels), labels


class Walked(Struct):
    """Addresses that a probe has found."""

    addresses: list[int] = field(array(u64, 100))


def test_stacks_that_the_probe_has_walked_itself():
    """Equal addresses have one number, and are read back; more than there are, none at all, and the kernel's own."""
    bpf = BPF()
    walked = bpf.array(value=Walked, size=1, name="walked")
    numbers = bpf.array(value=s32, size=8, name="numbers")
    me = os.getpid()

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def on_call() -> None:
        if pid() != me:
            return
        frames = walked[0].addresses
        numbers[0] = ustack_of(frames, 3)
        numbers[1] = ustack_of(frames, 3)
        numbers[2] = ustack_of(frames, 4)
        numbers[3] = ustack_of(frames, 100)
        numbers[4] = ustack_of(frames, 1000)
        numbers[5] = ustack_of(frames, 0)
        numbers[6] = ustack()

    with bpf:
        walked[0] = Walked(addresses=list(range(1, 101)))
        os.getppid()
        first, second, third, whole, more, none, own = (numbers[i] for i in range(7))
        assert first == second >= 0
        assert bpf.stacks[first] == [1, 2, 3]
        assert bpf.stacks[third] == [1, 2, 3, 4]
        assert bpf.stacks[whole] == list(range(1, 101))
        assert more == whole
        assert none < 0
        assert bpf.stacks.user(first, me)[0].label == "[unknown]"
        assert bpf.stacks[own]
        assert bpf.dropped == {}


def test_what_is_no_stack():
    """The errors of `ustack_of`."""
    bpf = BPF()
    long = bpf.array(value=u64[128], size=1, name="long")

    def attached(decorator, count):
        @decorator
        def on_event() -> None:
            ustack_of(long[0], count)

    attached(bpf.tracepoint("syscalls:sys_enter_getppid"), 1)
    with pytest.raises(CompileError, match=r"ustack_of\(\) takes an array of at most 127 u64"), bpf:
        pass
