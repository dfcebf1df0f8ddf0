"""Stacks of programs without frame pointers: each caller that there is, by the rules of .eh_frame."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter

import pytest

from pyebpf import BPF, s32, u64
from pyebpf.programs import memleak, offcputime, profile, stackcount
from pyebpf.script import Script
from pyebpf.symbols.files import ElfFile
from pyebpf.unwinding import Unwinder
from tests.support.native import build_native
from tests.support.needs import needs
from tests.support.python import ROOT
from tests.support.told import told
from tests.support.waiting import PATIENCE, wait_until

LACKING = ("-O2", "-fomit-frame-pointer", "-momit-leaf-frame-pointer", "-fno-optimize-sibling-calls", "-pthread")
SOURCE = r"""
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, noclone))

volatile long sink;
FUNCTION void target(long n) { sink += n; __asm__ volatile("" ::: "memory"); }
FUNCTION void leaf(long n) { target(n); sink++; }
FUNCTION void middle(long n) { char room[200]; memset(room, n, sizeof room); leaf(room[n & 63]); sink++; }
FUNCTION void outer(long n) { middle(n + sink); sink++; }
/* The size of its frame is known at run time alone. */
FUNCTION void varying(long n) { char *room = alloca(n * 16 + 16); memset(room, 1, n * 16); leaf(room[n]); sink++; }
/* Its frame begins at an address that is a multiple of 64. */
FUNCTION void aligned(long n) { _Alignas(64) char room[256]; memset(room, n, sizeof room); leaf(room[n & 63]); sink++; }
FUNCTION void deep(long n) { if (n > 0) deep(n - 1); else leaf(n); sink++; }
static void on_signal(int number) { outer(number); }
FUNCTION void signalled(void) { raise(SIGUSR1); sink++; }
static int compare(const void *left, const void *right) { leaf(1); return *(char *)left - *(char *)right; }
FUNCTION void sorted(void) { char text[] = "ba"; qsort(text, 2, 1, compare); sink++; }
static void *in_thread(void *unused) { outer(3); return unused; }
FUNCTION void spin(long n) { struct timespec t; do { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); sink++; }
                             while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < n); }
FUNCTION void busy(long n) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
                             spin(n + t.tv_sec * 1000 + t.tv_nsec / 1000000); sink++; }
FUNCTION void *kept(long n) { void *memory = malloc(n); sink++; return memory; }
FUNCTION void leaking(long n) { sink += !!kept(n); }
FUNCTION void nap(long n) { usleep(n * 1000); sink++; }

int main(void)
{
    char word[32];
    long n;
    signal(SIGUSR1, on_signal);
    while (scanf("%31s %ld", word, &n) == 2) {
        if (!strcmp(word, "outer")) outer(n);
        if (!strcmp(word, "varying")) varying(n);
        if (!strcmp(word, "aligned")) aligned(n);
        if (!strcmp(word, "deep")) deep(n);
        if (!strcmp(word, "signalled")) signalled();
        if (!strcmp(word, "sorted")) sorted();
        if (!strcmp(word, "busy")) busy(n);
        if (!strcmp(word, "nap")) nap(n);
        if (!strcmp(word, "leak")) leaking(n);
        if (!strcmp(word, "thread")) { pthread_t t; pthread_create(&t, NULL, in_thread, NULL); pthread_join(t, NULL); }
        puts("done"); fflush(stdout);
    }
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A program without frame pointers; its C library has none either."""
    return build_native(SOURCE, tmp_path_factory.mktemp("unwinding") / "callers", *LACKING)


@pytest.fixture(autouse=True)
def _possible():
    needs("helper:task_pt_regs@perf_event")


def stacks_at_target(program, *orders, prepare=True):
    """Names of the frames of each stack at `target`, innermost first, with how often it was there."""
    bpf = BPF()
    with told(program) as process:
        unwinder = Unwinder(bpf, (process.pid,) if prepare else ())
        counts = bpf.hash(key=s32, value=u64, name="counts")

        @bpf.uprobe(str(program), "target", pid=process.pid)
        def at_target() -> None:
            counts[unwinder.ustack()] += 1

        with bpf:
            while prepare and unwinder.look() < 0.1:
                pass
            for order in orders:
                process.tell(*order)
            assert unwinder.given_up == {}
            assert bpf.dropped == {}
            found = Counter()
            for number, count in counts.items():
                found[tuple(frame.name for frame in bpf.stacks.user(number, process.pid))] += count
            return found


def callers(stack, *names):
    """The rest of a stack that begins with these; it ends where programs or threads start.

    That may be a function of the C library's that has no name.
    """
    assert stack[: len(names)] == names
    assert stack[-1] in {"_start", "start_thread", "clone3", "clone", "__clone3", "thread_start", ""}, stack
    return stack[len(names) :]


@pytest.mark.parametrize("name", [pytest.param("outer", marks=pytest.mark.every_kernel), "varying", "aligned"])
def test_frames(program, name):
    """Frames of a fixed size, of one that is known at run time alone, and of an aligned one."""
    inner = ("target", "leaf", "middle", "outer") if name == "outer" else ("target", "leaf", name)
    (stack,) = (found := stacks_at_target(program, *[(name, 5)] * 3))
    assert found[stack] == 3
    assert callers(stack, *inner)[0] == "main"


def test_deep(program):
    """127 frames are kept of a deeper stack, the innermost."""
    found = stacks_at_target(program, ("deep", 20), ("deep", 200))
    assert sorted(Counter(stack)["deep"] for stack in found) == [21, 125]
    assert {len(stack) for stack in found if Counter(stack)["deep"] == 125} == {127}


def test_signal(program):
    """The walk goes on from a handler to what the signal has interrupted."""
    (stack,) = stacks_at_target(program, ("signalled", 0))
    rest = callers(stack, "target", "leaf", "middle", "outer", "on_signal")
    assert "signalled" in rest
    assert rest[rest.index("signalled") + 1] == "main"


def test_through_the_library(program):
    """Callers on both sides of the C library, which has no frame pointers either."""
    (stack,) = stacks_at_target(program, ("sorted", 0))
    rest = callers(stack, "target", "leaf", "compare")
    assert rest[rest.index("sorted") + 1] == "main"


def test_thread(program):
    """A thread's stack ends where threads start."""
    (stack,) = stacks_at_target(program, ("thread", 0))
    assert "main" not in callers(stack, "target", "leaf", "middle", "outer", "in_thread")


def test_processes_that_come_later(program):
    """The first events of a process follow frame pointers; after a look its stacks are whole, also after exec(2)."""
    bpf = BPF()
    unwinder = Unwinder(bpf)
    counts = bpf.hash(key=s32, value=u64, name="counts")

    @bpf.uprobe(str(program), "target")
    def at_target() -> None:
        counts[unwinder.ustack()] += 1

    with bpf, told("sh", "-c", f"read x; echo done; exec {program}") as process:
        process.tell("go")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            process.tell("outer", 1)
            time.sleep(unwinder.look())
            stacks = [bpf.stacks.user(number, process.pid) for number in counts]
            if any("main" in [frame.name for frame in stack] for stack in stacks):
                break
        else:
            pytest.fail("no stack was whole")
        assert len(unwinder._known) == 1
    process.process.wait(10)
    bpf.close()


def test_processes_that_end(program):
    """Room of processes that have ended is taken again."""
    bpf = BPF()
    unwinder = Unwinder(bpf)

    @bpf.uprobe(str(program), "target")
    def at_target() -> None:
        unwinder.ustack()

    with bpf:
        for _ in range(3):
            with told(program) as process:
                process.tell("outer", 1)
                while unwinder.look() < 0.1:
                    pass
                assert list(unwinder._known) == [process.pid]
            wait_until(lambda: unwinder.look() and not unwinder._known, lambda: unwinder._known)
            unwinder._room.reuse()
            assert unwinder._room._free == [(0, 1 << 16)]


def test_files_with_nothing(program, tmp_path):
    """A program without .eh_frame is walked by its frame pointers, the C library by its rules.

    At the entry of a function its own frame is not yet made, so that the next caller but one follows.
    """
    bare = build_native(SOURCE, tmp_path / "bare", "-O2", "-fno-optimize-sibling-calls", "-pthread")
    subprocess.run(["strip", "-g", "-R", ".eh_frame", "-R", ".eh_frame_hdr", str(bare)], check=True)
    (stack,) = stacks_at_target(bare, ("outer", 1))
    assert callers(stack, "target", "middle", "outer")[0] == "main"
    (stack,) = stacks_at_target(bare, ("sorted", 1))
    assert "sorted" in callers(stack, "target", "compare")


def test_tools(program):
    """`profile`, `offcputime`, and `stackcount` with --unwind."""
    with told(program) as process:
        options = {"pid": process.pid, "user": True, "unwind": True}
        with profile.open(frequency=997, **options) as collect:
            process.tell("busy", 200)
            stacks = collect(0)
        spinning = [each for each in stacks if "spin" in names(each)]
        assert sum(each.count for each in spinning) >= 50
        assert {names(each)[-1] for each in spinning} == {"_start"}
        with offcputime.open(**options) as collect:
            process.tell("nap", 20)
            process.tell("outer", 1)
            stacks = collect(0)
        napping = [each for each in stacks if "nap" in names(each)]
        assert 20_000 <= sum(each.count for each in napping) < 20_000_000
        assert {names(each)[-1] for each in napping} == {"_start"}
        with stackcount.open(f"{program}:target", **options) as collect:
            process.tell("outer", 1)
            process.tell("outer", 2)
            (stack,) = collect(0)
        assert stack.count == 2
        assert callers(tuple(names(stack)), "target", "leaf", "middle", "outer")[0] == "main"


def test_a_summary(program):
    """`memleak` with --unwind: what is allocated, by all that called, in each summary."""
    with told(program) as process, memleak.open(pid=process.pid, unwind=True, older=0) as read:
        for number in (1, 2):
            for _ in range(7):
                process.tell("leak", 1000 + number)
            (leak,) = [each for each in read() if "kept" in each.stack]
            assert leak.allocations == 7 * number
            assert callers(leak.stack, "kept", "leaking")[0] == "main"
    assert leak.bytes == 7 * 1001 + 7 * 1002


def names(stack):
    return [frame.name for frame in stack.user]


def test_scripts(program):
    """`dw_ustack`: whole stacks of a process that is known before, cut where a script says so."""
    with told(program) as process:
        counts = "@all[dw_ustack] = count(); @two[dw_ustack(perf, 2)] = count();"
        script = Script(f"uprobe:{program}:target {{ {counts} }}", pid=process.pid)

        def attached(_places):
            for order in (("outer", 5), ("outer", 6), ("varying", 5)):
                process.tell(*order)

        text = "".join(script.output(lambda: True, attached=attached))
    found = {
        (name, tuple(re.findall(r"(\w+)\+\d+", frames))): int(count)
        for name, frames, count in re.findall(r"@(\w+)\[\n(.*?)\]: (\d+)\n", text, re.DOTALL)
    }
    whole = {stack: count for (name, stack), count in found.items() if name == "all"}
    assert sorted(whole.values()) == [1, 2]
    for stack, count in whole.items():
        inner = ("target", "leaf", "middle", "outer") if count == 2 else ("target", "leaf", "varying")
        assert callers(stack, *inner)[0] == "main"
    assert {stack: count for (name, stack), count in found.items() if name == "two"} == {("target", "leaf"): 3}
    assert text.count(f" ({program})\n") == 2


def test_build_ids(program):
    """`build_id`: the file and the offset in it of each frame, from which names can be had elsewhere."""
    elf = ElfFile(str(program))
    (target,) = elf.find("target")
    with told(program) as process:
        both = 'printf("%s", ustack(build_id, 1)); printf("%s", dw_ustack(build_id, 3)); print(kstack);'
        settings = {"stack_mode": "build_id"}
        script = Script(f"uprobe:{program}:target {{ {both} }}", pid=process.pid, settings=settings)
        lines = "".join(script.output(lambda: True, attached=lambda _: process.tell("outer", 5))).split("\n")
    assert lines[:3] == ["", f"{elf.build_id} {target.offset:#04x}", ""]
    assert lines[3] == lines[1]
    callers = [line.split(" ") for line in lines[4:6]]
    assert [build_id for build_id, _ in callers] == [elf.build_id] * 2
    names = [elf.table().find(elf.address_of(int(offset, 16) - 1)).name for _, offset in callers]
    assert names == ["leaf", "middle"]
    assert all(re.fullmatch("[0-9a-f]{16}", line) for line in lines[7:-1] if line), lines


def test_a_script_of_all_processes(program):
    """Rules of a process are read soon after its first event."""
    with told(program) as process:
        script = Script(f"uprobe:{program}:target {{ @[dw_ustack()] = count(); }}")
        until = time.monotonic() + PATIENCE
        whole = 0

        def stop():
            nonlocal whole
            process.tell("outer", 5)
            whole += 1
            return whole == 40 or time.monotonic() > until

        text = "".join(script.output(stop))
    counts = Counter()
    for frames, count in re.findall(r"@\[\n(.*?)\]: (\d+)\n", text, re.DOTALL):
        counts["main+" in frames] += int(count)
    assert sum(counts.values()) == 40
    assert counts[True] > 5, counts


def test_the_page(program):
    """The program of docs/stacks.md, on a process that spins."""
    with told(program) as process:
        page = (ROOT / "docs" / "stacks.md").read_text(encoding="utf-8")
        (example,) = re.findall(r'^```python\n("""Where a process .*?)^```$', page, re.MULTILINE | re.DOTALL)
        command = [sys.executable, "-c", example, str(process.pid)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
            while running.poll() is None:
                process.tell("busy", 100)
            printed = running.stdout.read()
    assert re.match(r"\d+ .*\bspin busy main .*_start\n", printed), printed
