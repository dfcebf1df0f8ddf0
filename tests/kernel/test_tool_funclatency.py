"""funclatency: as many calls as a program makes, and as long as it says that they took."""

from __future__ import annotations

import json
import os
import subprocess
import time

import pytest

from pyebpf.errors import InvalidValue, NotFound
from pyebpf.programs import funclatency
from tests.support.command import running
from tests.support.native import build_native
from tests.support.needs import needs, needs_functions

#: Calls of two functions; it writes how many nanoseconds those of each took.
PROGRAM = """
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>
static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000 + t.tv_nsec;
}
__attribute__((noinline)) void spin_for(long n) { long end = now() + n; while (now() < end); }
__attribute__((noinline)) void spin_long(long n) { long end = now() + n; while (now() < end); }
int main(void) {
    long began, first = 0, second = 0;
    for (int i = 0; i < 101; i++) { began = now(); spin_for(70000); first += now() - began; }
    for (int i = 0; i < 13; i++) { began = now(); spin_long(9000000); second += now() - began; }
    printf("[%ld, %ld]\\n", first, second);
    return 0;
}
"""
SHORT, SHORT_LEAST, LONG, LONG_LEAST = 101, 70_000, 13, 9_000_000


@pytest.fixture
def program(tmp_path):
    needs("attach:uprobe")
    return build_native(PROGRAM, tmp_path / "spins")


def totals(program):
    """Run it: the nanoseconds that it spent in each function."""
    return json.loads(subprocess.run([program], check=True, capture_output=True).stdout)


def between(least, histogram, most):
    """Whether the total lies between these; the average is that of the calls in the buckets."""
    labels = histogram.labels
    assert labels["count"] == histogram.total
    assert labels["average_ns"] == labels["total_ns"] // labels["count"]
    return least <= labels["total_ns"] <= most


def test_functions_of_a_program(program):
    """Counts are exact and totals between what the calls take at least and what the program measured around them."""
    with funclatency.open(f"{program}:spin_*", by_function=True) as snapshot:
        short, long = totals(program)
        found = {each.labels["function"]: each for each in snapshot()}
        assert not snapshot()
    assert {name: each.total for name, each in found.items()} == {"spin_for": SHORT, "spin_long": LONG}
    assert between(SHORT * SHORT_LEAST, found["spin_for"], short)
    assert between(LONG * LONG_LEAST, found["spin_long"], long)
    # 65,536 nanoseconds are below 70,000; on a slow machine no call may be that short.
    assert 1 << 16 <= found["spin_for"].rows()[0].low <= short / SHORT
    assert 1 << 23 <= found["spin_long"].rows()[0].low <= long / LONG


@pytest.mark.parametrize(("option", "unit", "row"), [("-u", "usecs", 8192), ("-m", "msecs", 8)])
def test_units(program, option, unit, row):
    """Rows are of the unit, the average and the total of nanoseconds; one histogram of all functions."""
    with running("funclatency", f"{program}:spin_long", option) as text:
        (_, long) = totals(program)
        text.stop()
    heading, columns, *rows = text.out.strip().splitlines()
    labels = dict(each.split(" = ") for each in heading.split(", "))
    assert LONG * LONG_LEAST <= int(labels["total_ns"]) <= long
    assert int(labels["average_ns"]) == int(labels["total_ns"]) // LONG
    assert int(labels["count"]) == LONG
    assert columns.split() == [unit, ":", "count", "distribution"]
    assert int(rows[0].split()[0]) == row


def test_one_process(program):
    """-p times calls of one process, --comm of those with a name: the others call the same functions."""
    with (
        funclatency.open(f"{program}:spin_for", comm="other") as none,
        funclatency.open(f"{program}:spin_for", pid=os.getpid()) as own,
    ):
        totals(program)
        assert not none()
        assert not own()


def test_what_is_not_to_be_timed():
    """Tracepoints have no end, and what is in no file is not found."""
    with pytest.raises(InvalidValue, match=r"^'t:block:\*': only functions take time"):
        funclatency.Options("t:block:*")
    needs("attach:uprobe")
    with pytest.raises(NotFound, match="has no function"), funclatency.open("libm.so.6:no_such_function"):
        pass


def test_functions_of_the_kernel():
    """hrtimer_nanosleep() for as many sleeps, each as long as asked and no longer than measured; by pattern, too."""
    needs_functions()
    needs("helper:get_func_ip@kprobe")
    mine = {"pid": os.getpid()}
    with (
        funclatency.open("hrtimer_nanosleep", **mine) as one,
        funclatency.open("hrtimer_nanoslee*", by_function=True, **mine) as several,
    ):
        one(), several()
        began = time.monotonic_ns()
        for _ in range(23):
            time.sleep(0.011)
        took = time.monotonic_ns() - began
        found = [*one(), *several()]
    assert [each.total for each in found] == [23, 23]
    assert all(between(23 * 11_000_000, each, took) for each in found)
    assert [each.labels.get("function") for each in found] == [None, "hrtimer_nanosleep"]
