"""funcslower: those calls of a program that it makes slow, each with its result, its arguments and its caller."""

from __future__ import annotations

import json
import os
import subprocess
import time

import pytest

from pyebpf.errors import InvalidValue
from pyebpf.programs import funcslower
from tests.support.command import running
from tests.support.native import build_native
from tests.support.needs import needs, needs_functions

#: Calls of two functions, some of which take 30 ms and more; it writes its process id.
PROGRAM = """
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static void sleep_for(long n) { struct timespec t = {0, n}; if (n) nanosleep(&t, 0); }
__attribute__((noinline)) long product(long a, long b, long n) { sleep_for(n); return a * b; }
__attribute__((noinline)) long negated(long a, long n) { sleep_for(n); return -a; }
__attribute__((noinline)) long caller(long i) {
    return product(i, 1000, i % 7 == 0 ? 30000000 : 0) + negated(i, i % 11 == 0 ? 40000000 : 0) + 1;
}
int main(void) {
    for (long i = 0; i < 23; i++) caller(i);
    printf("%d\\n", getpid());
    return 0;
}
"""
PRODUCTS, NEGATED = (0, 7, 14, 21), (0, 11, 22)
SHORTEST, OTHERS = 30_000_000, 40_000_000


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    needs("attach:uprobe")
    return build_native(PROGRAM, tmp_path_factory.mktemp("funcslower") / "waits", "-O1", "-fno-omit-frame-pointer")


def run(program):
    """Run it: its process id."""
    return int(subprocess.run([program], check=True, capture_output=True).stdout)


def test_slow_calls_of_a_program(program):
    """Those that sleep, with results and arguments; the others are no lines."""
    with funcslower.open(f"{program}:*", milliseconds=20, args=2) as calls:
        process = run(program)
        # main() and caller() are slow, too: they wait for the others.
        found = [call for call in calls.poll(0) if call.function in {"product", "negated"}]
        assert calls.dropped == {}
    assert [(call.args[0], call.result) for call in found if call.function == "product"] == [
        (number, number * 1000) for number in PRODUCTS
    ]
    assert [call.args for call in found if call.function == "product"] == [(number, 1000) for number in PRODUCTS]
    assert [call.result for call in found if call.function == "negated"] == [-number % 2**64 for number in NEGATED]
    assert {(call.pid, call.comm, call.user_stack, call.kernel_stack) for call in found} == {
        (process, "waits", None, None)
    }
    for call in found:
        least = SHORTEST if call.function == "product" else OTHERS
        assert least <= call.elapsed <= time.monotonic_ns()


def test_a_threshold_in_microseconds(program):
    """-u is the same threshold, and the unit that is printed; longer sleeps alone are above 35 ms."""
    with running("funcslower", "-u", "35000", "-t", f"{program}:negated") as text:
        run(program)
        text.stop()
    heading, *lines = text.out.strip().splitlines()
    assert heading.split() == ["TIME(s)", "COMM", "PID", "LAT(us)", "RVAL", "FUNC"]
    rows = [line.split() for line in lines]
    assert rows[0][0] == "0.000000"
    assert [(row[1], row[4], row[5]) for row in rows] == [
        ("waits", f"{-number % 2**64:x}", "negated") for number in NEGATED
    ]
    assert all(float(row[3]) >= OTHERS / 1000 for row in rows)


def test_the_stack_of_the_caller(program):
    """-U has who called, below the line; JSON has a list."""
    with running("funcslower", "-m", "20", "-U", "-a", "1", "--json", f"{program}:product") as text:
        run(program)
        text.stop()
    found = [json.loads(line) for line in text.out.splitlines()]
    assert [each["args"] for each in found] == [[number] for number in PRODUCTS]
    for each in found:
        assert each["user_stack"][0].startswith("caller+")
        assert each["user_stack"][1].startswith("main+")
        assert "kernel_stack" not in each


def test_every_call_of_one_process(program):
    """-m 0 is all calls; -p another process's none."""
    with (
        funcslower.open(f"{program}:caller", milliseconds=0) as all_calls,
        funcslower.open(f"{program}:caller", milliseconds=0, pid=os.getpid()) as none,
    ):
        run(program)
        assert len([*all_calls.poll(0)]) == 23
        assert [*none.poll(0)] == []


def test_what_is_no_threshold():
    """Two of them, and what takes no time."""
    with pytest.raises(InvalidValue, match="-m and -u are one threshold"):
        funcslower.Options("c:read", milliseconds=1, microseconds=1)
    with pytest.raises(InvalidValue, match=r"^'t:block:\*': only functions take time"):
        funcslower.Options("t:block:*")


@pytest.mark.parametrize("pattern", ["hrtimer_nanosleep", "hrtimer_nanoslee*"])
def test_functions_of_the_kernel(pattern):
    """hrtimer_nanosleep() of sleeps of 30 ms and not of those of 1 ms, with its result and the kernel's stack."""
    needs_functions()
    if "*" in pattern:
        needs("helper:get_func_ip@kprobe")
    with funcslower.open(pattern, milliseconds=20, args=1, kernel=True, pid=os.getpid()) as calls:
        for _ in range(7):
            time.sleep(0.001)
            time.sleep(0.03)
        found = [*calls.poll(0)]
    assert len(found) == 7
    for call in found:
        assert call.function == "hrtimer_nanosleep"
        assert call.result & 0xFFFFFFFF == 0
        assert call.elapsed >= SHORTEST
        assert any("nanosleep" in frame for frame in call.kernel_stack)
