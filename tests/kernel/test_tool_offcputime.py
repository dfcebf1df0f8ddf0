"""offcputime, wakeuptime, offwaketime and chain: threads that wait for each other, for as long as they say."""

from __future__ import annotations

import subprocess
import threading
import time

import pytest

from pyebpf.errors import InvalidValue
from pyebpf.programs import chain, offcputime, offwaketime, wakeuptime
from tests.support.command import running
from tests.support.folded import parse_folded
from tests.support.native import build_native
from tests.support.told import told
from tests.support.waiting import PATIENCE

SECONDS = 0.5
#: A sleep is timed before the processor is left, which takes a while in emulation.
LEAST = 0.9
#: Sleeps in a function of its own (s); has a thread that sleeps, and waits for it by a pipe (w); is busy (b).
PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <sys/prctl.h>
static int first[2], second[2];
static double seconds;
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
/* The C library's own functions have no frame: those that call them are missing from stacks. */
__attribute__((noinline)) void sleep_inner(double for_seconds) {
    struct timespec t = { for_seconds, (for_seconds - (int)for_seconds) * 1e9 };
    nanosleep(&t, NULL);
}
__attribute__((noinline)) void wake_inner(int *pipe) { if (write(pipe[1], "!", 1) < 0) _exit(1); }
__attribute__((noinline)) void wait_inner(int *pipe) {
    char c;
    if (read(pipe[0], &c, 1) < 0) _exit(1);
}
#define BARRIER __asm__ volatile("")
__attribute__((noinline)) void sleep_outer(double for_seconds) { sleep_inner(for_seconds); BARRIER; }
__attribute__((noinline)) void wake(int *pipe) { wake_inner(pipe); BARRIER; }
__attribute__((noinline)) void wait_for(int *pipe) { wait_inner(pipe); BARRIER; }
static void *sleeper(void *unused) {
    prctl(PR_SET_NAME, "sleeper");
    sleep_outer(seconds);
    wake(first);
    return NULL;
}
static void *between(void *unused) {
    prctl(PR_SET_NAME, "between");
    wait_for(first);
    wake(second);
    return NULL;
}
int main(void) {
    char what;
    pthread_t one, other;
    if (pipe(first) || pipe(second)) return 1;
    while (scanf(" %c %lf", &what, &seconds) == 2) {
        double began = now();
        if (what == 's') sleep_outer(seconds);
        if (what == 'b') while (now() < began + seconds);
        if (what == 'w') {
            pthread_create(&other, NULL, between, NULL);
            pthread_create(&one, NULL, sleeper, NULL);
            wait_for(second);
            pthread_join(one, NULL);
            pthread_join(other, NULL);
        }
        puts("done");
        fflush(stdout);
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build_native(PROGRAM, tmp_path_factory.mktemp("offcputime") / "waiter", "-O0", "-pthread")


@pytest.fixture
def waiter(program):
    with told(program) as process:
        yield process


def functions(frames):
    return [frame.name for frame in frames]


def longest(stacks, function):
    """The stack with the longest time of those of the first thread that have a function of the program."""
    found = [each for each in stacks if each.comm == "waiter" and function in functions(each.user)]
    return max(found, key=lambda each: each.count)


def test_half_a_second_of_sleep(waiter):
    """The time of a thread that sleeps is that of its sleep, below its functions and the kernel's."""
    with offcputime.open(pid=waiter.pid, minimum=100_000) as collect:
        began = time.monotonic()
        waiter.tell("s", SECONDS)
        elapsed = time.monotonic() - began
        found = collect(0)
        assert collect(0) == []
    stack = longest(found, "sleep_outer")
    assert SECONDS * 1e6 <= stack.count <= elapsed * 1e6
    assert stack.pid == waiter.pid
    assert "main" in functions(stack.user)
    assert "hrtimer_nanosleep" in functions(stack.kernel)


def test_forms(waiter):
    """-f has a line for the sleep; -U and -K leave one half of each stack out, -M long times."""
    pid = str(waiter.pid)
    with (
        running("offcputime", "-p", pid, "-df", "-m", "100000") as both,
        running("offcputime", "-p", pid, "-U", "--json") as user,
        running("offcputime", "-p", pid, "-K", "--csv", "-M", "100000") as short,
        offcputime.open(pid=waiter.pid, kernel_threads=True) as of_kernel_threads,
    ):
        waiter.tell("s", SECONDS)
        for command in (both, user, short):
            command.stop()
        assert of_kernel_threads(0) == []
    stacks = parse_folded(both.out.splitlines())
    (stack,) = [each for each in stacks if "hrtimer_nanosleep" in each]
    assert stack[0] == "waiter"
    assert 1 < stack.index("-") < stack.index("hrtimer_nanosleep")
    assert stacks[stack] >= SECONDS * LEAST * 1e6
    assert {tuple(each) for each in user.objects()} == {("time", "comm", "pid", "user", "cut", "count")}
    assert max(each["count"] for each in user.objects()) >= SECONDS * LEAST * 1e6
    assert all("hrtimer_nanosleep" not in row["stack"] for row in short.rows())


def test_what_is_not_slept(waiter):
    """A thread that is busy is off its processor when another takes it: --state 0; asleep it is in another state."""
    with (
        offcputime.open(pid=waiter.pid, state=0) as preempted,
        offcputime.open(pid=waiter.pid, state=1, minimum=100_000) as asleep,
    ):
        waiter.tell("s", SECONDS)
        assert not any("hrtimer_nanosleep" in functions(each.kernel) for each in preempted(0))
        assert longest(asleep(0), "sleep_outer").count >= SECONDS * 1e6


def test_idle_threads_of_the_kernel_are_not_uninterruptible():
    """They have that state's bit and another: --state 2 leaves them out, --state 1024 has them."""
    with offcputime.open(state=2) as uninterruptible, offcputime.open(state=0x400) as idle:
        idle_ones, until = set(), time.monotonic() + PATIENCE
        while not idle_ones and time.monotonic() < until:
            subprocess.run(["true"], check=True)  # what it leaves is cleared away by threads of the kernel
            idle_ones = {(each.comm, tuple(functions(each.kernel))) for each in idle(0.1)}
        found = {(each.comm, tuple(functions(each.kernel))) for each in uninterruptible(0)}
    assert idle_ones
    assert not idle_ones & found


def test_who_wakes(waiter):
    """By wakeuptime: the stack of the thread that wakes, and the name of the one that it wakes, with its wait."""
    with wakeuptime.open(pid=waiter.pid, minimum=100_000) as collect:
        waiter.tell("w", SECONDS)
        found = collect(0)
    assert all(part.name == "target" for each in found for part in each.parts)
    woken = {(each.comm, each.parts[0].comm): each for each in found if "wake" in functions(each.user)}
    assert woken.keys() >= {("sleeper", "between"), ("between", "waiter")}
    for each in woken.values():
        assert each.count >= 0.8 * SECONDS * 1e6
        assert each.parts[0].pid == each.pid == waiter.pid
        assert "try_to_wake_up" in functions(each.kernel)


def test_sleep_and_wakeup(waiter):
    """By offwaketime: the stack of the wait, and above it that of the thread that ended it."""
    with (
        offwaketime.open(pid=waiter.pid, minimum=100_000) as collect,
        running("offwaketime", "-p", str(waiter.pid), "-m", "100000", "-f") as folded,
    ):
        began = time.monotonic()
        waiter.tell("w", SECONDS)
        elapsed = time.monotonic() - began
        found = collect(0)
        folded.stop()
    stack = longest(found, "wait_for")
    (waker,) = stack.parts
    assert (waker.name, waker.comm, waker.pid) == ("waker", "between", waiter.pid)
    assert "wake" in functions(waker.user)
    assert "try_to_wake_up" in functions(waker.kernel)
    assert 0.8 * SECONDS * 1e6 <= stack.count <= elapsed * 1e6
    lines = parse_folded(folded.out.splitlines())
    (line,) = [each for each in lines if each[0] == "waiter" and each[-1] == "between"]
    assert 1 < line.index("--") < line.index("try_to_wake_up")
    assert abs(lines[line] - stack.count) < 0.1 * stack.count


def test_a_chain_of_wakeups(waiter):
    """By chain: the stacks of all who woke in turn, the nearest first, up to the timer; --depth cuts it."""
    with (
        chain.open(pid=waiter.pid, minimum=100_000) as collect,
        chain.open(pid=waiter.pid, minimum=100_000, depth=1) as nearest,
    ):
        waiter.tell("w", SECONDS)
        stack, short = longest(collect(0), "wait_for"), longest(nearest(0), "wait_for")
    assert [part.comm for part in stack.parts[:2]] == ["between", "sleeper"]
    assert ["wake" in functions(part.user) for part in stack.parts[:2]] == [True, True]
    # A timer woke the sleeper, in whatever thread it interrupted.
    timer = stack.parts[2]
    assert "hrtimer_wakeup" in functions(timer.kernel)
    assert len(stack.parts) == 3
    assert [part.comm for part in short.parts] == ["between"]
    assert stack.count >= 0.8 * SECONDS * 1e6


@pytest.mark.parametrize("tool", [offcputime, wakeuptime, offwaketime, chain])
def test_what_is_refused(tool):
    """Options that exclude everything."""
    with pytest.raises(InvalidValue, match="give one of -u and -k"):
        tool.Options(user_threads=True, kernel_threads=True)
    with pytest.raises(InvalidValue, match="see -m and -M"):
        tool.Options(minimum=9, maximum=8)
    assert (tool.Options(pid=7).pid, tool.Options(tid=7).tid, tool.Options(tid=None).tid) == ((7,), (7,), ())


def test_what_began_before(waiter):
    """A sleep that began before tracing did is nowhere."""
    thread = threading.Thread(target=waiter.tell, args=("s", SECONDS))
    with subprocess.Popen(["sleep", "1.5"]) as sleeper:
        thread.start()
        time.sleep(0.1)
        with offcputime.open(pid=(waiter.pid, sleeper.pid), minimum=100_000) as collect:
            thread.join()
            sleeper.wait()
            assert [each for each in collect(0) if "nanosleep" in str(functions(each.kernel))] == []
