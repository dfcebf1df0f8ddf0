"""profile: programs whose time goes into a known function, in user space and in the kernel."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pyebpf import open_recording
from pyebpf.errors import NotFound
from pyebpf.output.stacks import SLOT
from pyebpf.programs import profile
from tests.support.cgroups import cgroup
from tests.support.command import pyebpf, running
from tests.support.folded import parse_folded
from tests.support.native import build_native
from tests.support.told import told
from tests.support.waiting import PATIENCE

# Emulated processors are too slow to be looked at often; what is tested here is the same on every kernel.
pytestmark = pytest.mark.any_kernel
FREQUENCY = 997
SECONDS = 0.5
ONLINE = Path("/sys/devices/system/cpu/online").read_text().strip()
MOST = int(Path("/proc/sys/kernel/perf_event_max_sample_rate").read_text())
# Spends its time as it is told: in its own function, in another thread's, or in the kernel's read of /dev/zero.
PROGRAM = """
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static char buffer[1 << 20];
static double used(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
__attribute__((noinline)) unsigned spin_inner(unsigned n) {
    for (unsigned i = 0; i < 20000000; i++) { n = n * 1664525 + 1013904223; __asm__ volatile("" : "+r"(n)); }
    return n;
}
__attribute__((noinline)) unsigned spin_outer(double seconds) {
    unsigned n = 1;
    double end = used() + seconds;
    while (used() < end) n = spin_inner(n) + 1;
    return n;
}
static void *other_thread(void *seconds) { spin_outer(*(double *)seconds); return NULL; }
__attribute__((noinline)) void read_zeros(double seconds) {
    int file = open("/dev/zero", O_RDONLY);
    double end = used() + seconds;
    while (used() < end) if (read(file, buffer, sizeof buffer) < 0) break;
    close(file);
}
int main(void) {
    char what;
    double seconds;
    pthread_t thread;
    while (scanf(" %c %lf", &what, &seconds) == 2) {
        if (what == 's') spin_outer(seconds);
        if (what == 'r') read_zeros(seconds);
        if (what == 't') { pthread_create(&thread, NULL, other_thread, &seconds); pthread_join(thread, NULL); }
        puts("done");
        fflush(stdout);
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build_native(PROGRAM, tmp_path_factory.mktemp("profile") / "spinner", "-O0", "-pthread")


@pytest.fixture
def spinner(program):
    with told(program) as process:
        yield process


def share(stacks, *end):
    """What part of all samples has stacks that end in these functions."""
    total = sum(stacks.values())
    return sum(count for stack, count in stacks.items() if stack[-len(end) :] == end) / total


def test_the_function_that_is_busy(spinner):
    """Most samples of a process lie in the function that it spends its time in, above those that called it."""
    with running("profile", "-F", str(FREQUENCY), "-p", str(spinner.pid), "-f") as command:
        began = time.monotonic()
        spinner.tell("s", SECONDS)
        elapsed = time.monotonic() - began
        command.stop()
    stacks = parse_folded(command.out.splitlines())
    assert {stack[0] for stack in stacks} == {"spinner"}
    assert share(stacks, "main", "spin_outer", "spin_inner") > 0.9
    # So many a second of work, if the clock of the events is exact. A slow processor is in the middle of the inner
    # function when the time is up, and the events' clock goes on where a hypervisor takes the processor away.
    assert 0.5 * FREQUENCY * SECONDS <= sum(stacks.values()) <= 1.1 * FREQUENCY * elapsed


def test_several_processes_and_a_control_group(spinner):
    """Two that are named, of all that run; a group that the spinner is in, and one that it is not in."""
    with (
        cgroup() as group,
        profile.open(pid=(os.getpid(), spinner.pid), frequency=FREQUENCY) as both,
        profile.open(cgroup=str(group.path), frequency=FREQUENCY) as of_group,
    ):
        spinner.tell("s", SECONDS)
        found = {stack.pid for stack in both(0)}
        assert spinner.pid in found <= {os.getpid(), spinner.pid}
        assert of_group(0) == []
        (group.path / "cgroup.procs").write_text(str(spinner.pid))
        try:
            spinner.tell("s", SECONDS)
            assert {stack.pid for stack in of_group(0)} == {spinner.pid}
        finally:
            Path(group.path.parent, "cgroup.procs").write_text(str(spinner.pid))


def test_a_process_of_several_that_does_not_exist():
    """Refused by its number."""
    with (
        pytest.raises(NotFound, match=r"^--pid: there is no process 4194304"),
        profile.open(pid=(os.getpid(), 1 << 22)),
    ):
        pass


def test_the_kernels_functions(spinner):
    """Time in read(2) is the kernel's, above the library's call; -K and -U leave one half of it out."""
    pid = str(spinner.pid)
    with (
        running("profile", "-F", str(FREQUENCY), "-p", pid, "-af") as both,
        running("profile", "-F", str(FREQUENCY), "-p", pid, "-K", "-f") as kernel,
        running("profile", "-F", str(FREQUENCY), "-p", pid, "-U", "--json") as user,
    ):
        spinner.tell("r", SECONDS)
        for command in (both, kernel, user):
            command.stop()
    stacks = parse_folded(both.out.splitlines())
    reading = [count for stack, count in stacks.items() if "main" in stack and "vfs_read_[k]" in stack]
    assert sum(reading) > 0.8 * sum(stacks.values())
    stacks = parse_folded(kernel.out.splitlines())
    assert sum(count for stack, count in stacks.items() if "vfs_read" in stack) > 0.8 * sum(stacks.values())
    assert not any("main" in stack for stack in stacks)
    assert {tuple(record) for record in user.objects()} == {("time", "comm", "pid", "user", "cut", "count")}
    assert {record["pid"] for record in user.objects()} == {spinner.pid}


def test_a_process_that_has_ended(program):
    """A process that came after the start and has ended before the end still has the names of its functions."""
    with running("profile", "-F", str(FREQUENCY), "-U", "-f") as command:
        done = subprocess.run(
            [program], input=f"s {SECONDS}\n", check=True, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.stdout == "done\n"
        command.stop()
    stacks = {stack: n for stack, n in parse_folded(command.out.splitlines()).items() if stack[0] == "spinner"}
    assert share(stacks, "main", "spin_outer", "spin_inner") > 0.9


def test_a_thread_and_files_for_viewers(spinner, tmp_path):
    """-L takes one thread; a flame graph and a speedscope file have exactly the samples that the notes tell."""
    pid = str(spinner.pid)
    with (
        running("profile", "-F", str(FREQUENCY), "-p", pid, "--svg", str(tmp_path / "out.svg")) as svg,
        running("profile", "-F", str(FREQUENCY), "-p", pid, "--speedscope", str(tmp_path / "out.json")) as scope,
        running("profile", "-F", str(FREQUENCY), "-p", pid, "-L", pid, "-f") as thread,
    ):
        spinner.tell("t", SECONDS)
        for command in (svg, scope, thread):
            command.stop()
    assert svg.out == scope.out == ""
    boxes = [g.attrib for g in ET.parse(tmp_path / "out.svg").getroot().iter("{http://www.w3.org/2000/svg}g")]
    (total,) = [int(box["data-w"]) for box in boxes if box["data-depth"] == "0"]
    assert f"out.svg: {total} samples of " in svg.err
    assert sum(int(box["data-w"]) for box in boxes if box["data-name"] == "spin_inner") > 0.9 * total
    assert {box["data-name"] for box in boxes} >= {"all", "spinner", "other_thread", "spin_outer", "spin_inner"}
    (profile_,) = json.loads((tmp_path / "out.json").read_text())["profiles"]
    assert f"out.json: {sum(profile_['weights'])} samples of " in scope.err
    # The thread that waits is hardly ever seen at work.
    assert sum(parse_folded(thread.out.splitlines()).values()) < 0.1 * total


def test_as_a_library(spinner):
    """Each call watches for some seconds, and has the samples since the one before."""
    with profile.open(pid=spinner.pid, frequency=FREQUENCY) as collect:
        assert sum(stack.count for stack in collect(0.2)) <= 2
        spinner.tell("s", 0.4)
        stacks = collect(0.01)
        assert sum(stack.count for stack in stacks if stack.user[0].name == "spin_inner") > 0.3 * 0.4 * FREQUENCY
        (path,) = {stack.user[0].module for stack in stacks if stack.user and stack.user[0].name == "spin_inner"}
        assert path.endswith("/spinner")
        assert sum(stack.count for stack in collect(0.05)) <= 2


def test_the_times_of_samples(spinner, tmp_path):
    """A recording has them: a flame graph of the time of one function has nothing of the other's."""
    path = tmp_path / "cpu.rec"
    with running("profile", "-F", str(FREQUENCY), "-p", str(spinner.pid), "-f", "--record", str(path)) as command:
        began = time.time_ns()
        spinner.tell("s", SECONDS)
        between = time.time_ns()
        spinner.tell("r", SECONDS)
        command.stop()
    recording = open_recording(str(path))
    stacks = list(recording.stacks())
    assert sum(stack.count for stack in stacks) == sum(parse_folded(command.out.splitlines()).values())
    assert recording.dropped == {}
    assert all(sum(count for _, count in stack.times) == stack.count for stack in stacks)
    first = [found for stack in stacks if (found := stack.within(began, between - SLOT)) is not None]
    later = [found for stack in stacks if (found := stack.within(between + SLOT, between + 60 * 10**9)) is not None]
    for part, own, other in ((first, "spin_inner", "vfs_read"), (later, "vfs_read", "spin_inner")):
        counts = {
            name: sum(each.count for each in part if name in {frame.label for frame in (*each.user, *each.kernel)})
            for name in (own, other)
        }
        assert counts[own] > 0.5 * FREQUENCY * SECONDS
        assert counts[other] == 0
    done = pyebpf("show", str(path), "--subsecond", "-")
    assert f">{sum(stack.count for stack in stacks):,} samples, columns of 1 s" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["-F", str(MOST + 1)], 1, "kernel.perf_event_max_sample_rate"),
        (["-p", "4194303"], 2, "--pid: there is no process 4194303"),
        (["-L", "4194303"], 2, "--tid: there is no thread 4194303"),
        (["-C", "8191"], 2, f"--cpu: processor 8191 is not online, only {ONLINE}"),
        (["--svg", "/nonexistent/x.svg"], 1, "there is no directory /nonexistent"),
        (["--svg", "/"], 1, "it is a directory"),
        (["-F", "0"], 2, "0 is below 1"),
        (["--svg", "a", "-f"], 2, "not allowed with"),
        (["--duration", "1", "2"], 2, "give the seconds once"),
    ],
)
def test_what_is_refused(arguments, status, text):
    """One line, before anything is traced."""
    done = pyebpf("profile", *arguments, *(() if "2" in arguments else ("1",)))
    assert done.returncode == status
    assert text in done.stderr.splitlines()[0]
    assert done.stdout == ""


def test_text():
    """As bcc prints it: functions, the innermost first, the process below, the number of samples."""
    with running("profile", "-F", "99", "-I", "0.5") as command:
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            pass
        assert command.wait() == 0
    *blocks, end = command.out.split("\n\n")
    assert end == ""
    assert blocks
    for block in blocks:
        *frames, who, count = block.split("\n")
        assert int(count) > 0
        assert who.startswith("    -                ")
        assert all(frame.startswith("    ") for frame in frames)


@pytest.mark.parametrize(("option", "cut"), [("-fno-omit-frame-pointer", False), ("-fomit-frame-pointer", True)])
def test_cut_stacks_are_told(option, cut, tmp_path):
    """JSON marks them, and a line at the end has the program; with frame pointers there are none."""
    program = build_native(PROGRAM, tmp_path / "spinner", "-O0", "-pthread", option)
    with (
        told(program) as process,
        running("profile", "-UF", str(FREQUENCY), "-p", str(process.pid), "--json") as command,
    ):
        process.tell("s", SECONDS)
        command.stop()
    stacks = [json.loads(line) for line in command.out.splitlines()]
    seen = sum(stack["count"] for stack in stacks)
    assert sum(stack["count"] for stack in stacks if stack["cut"] == cut) > seen * 0.9
    assert ("are cut, by code without frame pointers: spinner" in command.err) == cut
