"""stackcount: events of a program that the test builds, each under the path that led to it."""

from __future__ import annotations

import os

import pytest

from pyebpf.errors import InvalidValue, NotFound
from pyebpf.programs import stackcount
from tests.support.command import pyebpf, running
from tests.support.folded import parse_folded
from tests.support.native import build_native
from tests.support.needs import needs, needs_functions
from tests.support.told import told

ONE, OTHER = 17, 29
#: Calls `event` and getppid(2) so often, by one way and by the other. A function whose callee has no frame (the C
#: library's, or `event` at its entry) is missing from the stack: `between` is.
PROGRAM = """
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#define BARRIER __asm__ volatile("")
__attribute__((noinline)) void event(void) { BARRIER; }
__attribute__((noinline)) void between(void) { event(); syscall(SYS_getppid); BARRIER; }
__attribute__((noinline)) void one_way(void) { between(); BARRIER; }
__attribute__((noinline)) void other_way(void) { between(); BARRIER; }
int main(void) {
    int one, other;
    while (scanf("%d %d", &one, &other) == 2) {
        while (one-- > 0) one_way();
        while (other-- > 0) other_way();
        puts("done");
        fflush(stdout);
    }
    return 0;
}
"""
TRACEPOINT = "t:syscalls:sys_enter_getppid"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build_native(PROGRAM, tmp_path_factory.mktemp("stackcount") / "walker", "-O1")


@pytest.fixture
def walker(program):
    with told(program) as process:
        yield process


def by_way(stacks):
    """Events by the function that leads to them."""
    found = {}
    for stack in stacks:
        (way,) = {frame.name for frame in stack.user} & {"one_way", "other_way"}
        found[way] = found.get(way, 0) + stack.count
    return found


def test_a_tracepoint_by_the_path_to_it(program, walker):
    """Each call, in the interval in which it was made; none of another process."""
    with told(program) as another, stackcount.open(TRACEPOINT, pid=walker.pid) as collect:
        walker.tell(ONE, OTHER)
        another.tell(3, 3)
        first = collect(0)
        walker.tell(1, 2)
        second = collect(0)
    assert by_way(first) == {"one_way": ONE, "other_way": OTHER}
    assert [stack.count for stack in first] == [OTHER, ONE]
    assert {(stack.comm, stack.pid) for stack in first} == {("walker", walker.pid)}
    assert by_way(second) == {"one_way": 1, "other_way": 2}


def test_two_processes_and_all(program, walker):
    """-p takes several; without it there are others, too."""
    with (
        told(program) as another,
        stackcount.open(TRACEPOINT, pid=(walker.pid, another.pid), user=True) as of_two,
        stackcount.open(TRACEPOINT, kernel=True) as of_all,
    ):
        walker.tell(ONE, 0)
        another.tell(0, OTHER)
        assert by_way(of_two(0)) == {"one_way": ONE, "other_way": OTHER}
        counts = {stack.pid: stack.count for stack in of_all(0) if stack.user is None}
    assert (counts[walker.pid], counts[another.pid]) == (ONE, OTHER)


def test_one_processor(walker):
    """-c counts what happens on that processor alone."""
    first, *others = sorted(os.sched_getaffinity(0))
    with stackcount.open(TRACEPOINT, pid=walker.pid, cpu=first) as collect:
        os.sched_setaffinity(walker.pid, {first})
        walker.tell(ONE, 0)
        if others:
            os.sched_setaffinity(walker.pid, set(others))
            walker.tell(0, OTHER)
        assert by_way(collect(0)) == {"one_way": ONE}


def test_a_function_of_a_program(program, walker):
    """By its file, with a pattern: the function is the innermost."""
    needs("attach:uprobe")
    with stackcount.open(f"{program}:eve*", pid=walker.pid) as collect:
        walker.tell(ONE, OTHER)
        found = collect(0)
    assert by_way(found) == {"one_way": ONE, "other_way": OTHER}
    assert {stack.user[0].name for stack in found} == {"event"}


def test_a_function_of_the_kernel(walker):
    """Its callers are in the stack of the kernel, the program's functions in that of the process."""
    needs_functions()
    with stackcount.open("__*64_sys_getppid", pid=walker.pid) as collect:
        walker.tell(ONE, OTHER)
        found = collect(0)
    assert by_way(found) == {"one_way": ONE, "other_way": OTHER}
    assert all("sys_getppid" in stack.kernel[0].name for stack in found)


def test_as_a_command(walker):
    """Folded lines and objects have the same counts; a pattern that is none, or matches nothing, is refused."""
    mine = ("-U", "-p", str(walker.pid), TRACEPOINT)
    with running("stackcount", "-f", *mine) as folded, running("stackcount", "--json", *mine) as objects:
        walker.tell(ONE, OTHER)
        for tool in (folded, objects):
            tool.stop()
    # After Ctrl-C there is a second for names: on a slow machine stacks may have those of files alone, and be one.
    assert sum(parse_folded(folded.out.splitlines()).values()) == ONE + OTHER
    assert sum(each["count"] for each in objects.objects()) == ONE + OTHER
    done = pyebpf("stackcount", "t:syscalls")
    assert (done.returncode, done.stdout) == (2, "")
    with pytest.raises(NotFound, match="no_such"), stackcount.open("t:syscalls:no_such"):
        pass
    with pytest.raises(InvalidValue, match="nothing in the kernel has such a name"), stackcount.open("tcp_\n"):
        pass
