"""Values of a script where they are kept: aggregations without keys in arrays, names of threads from their task."""

from __future__ import annotations

import ctypes
import os
import threading
import time

import pytest

from pyebpf.errors import InvalidValue
from pyebpf.script import Script
from pyebpf.uapi.bpf import MapType
from tests.support.needs import needs

EVENT = "tracepoint:syscalls:sys_enter_getpgid"
CALLS = 4001
PR_SET_NAME = 15


def printed(text: str) -> str:
    """All that a script prints, maps and all."""
    return "".join(Script(text).output())


def test_a_map_without_keys_that_functions_fill_is_an_array():
    """The verifier inlines an array's lookup; a map whose entry may be removed stays a hash table."""
    script = Script("BEGIN { @a = count(); @b = count(); delete(@b); @c[1] = count(); @d = hist(1); }")
    kinds = {each.name: each.type for each in script.specs().maps if each.name.startswith("@")}
    assert kinds == {
        "@a": MapType.PERCPU_ARRAY,
        "@b": MapType.PERCPU_HASH,
        "@c": MapType.PERCPU_HASH,
        "@d": MapType.PERCPU_ARRAY,
    }


def test_nothing_is_printed_of_what_nothing_was_added_to():
    """An array's entry is always there, an entry that was never added to is not printed."""
    text = f"BEGIN {{ exit(); }} {EVENT} {{ @c = count(); @s = sum(3); @h = hist(1); @m = max(3); @a = avg(2); }}"
    assert printed(text).strip() == ""


def test_what_is_zero_was_added_all_the_same():
    """Sums and extremes of zeros are printed, and what zero() sets; clear() removes."""
    text = "BEGIN { @s = sum(0); @m = max(0); @n = min(0); @z = count(); zero(@z); @c = count(); clear(@c); exit(); }"
    assert printed(text).strip().splitlines() == ["@m: 0", "@n: 0", "@s: 0", "@z: 0"]


def test_zero_of_nothing_is_nothing():
    """zero() makes no entry."""
    needs("helper:map_lookup_percpu_elem@raw_tracepoint")
    assert printed("BEGIN { @h = hist(1); clear(@h); zero(@h); if (@c) { @c = count(); } zero(@c); }").strip() == ""


def test_a_value_without_keys_is_read_in_the_probe():
    """Counts, sums, averages and extremes are numbers there, of all processors together."""
    needs("helper:map_lookup_percpu_elem@raw_tracepoint")
    text = (
        "BEGIN { @c = count(); @c = count(); @s = sum(-5); @a = avg(7); @x = max(9); @n = min(-9); "
        '@l = min((uint64)-1); printf("%d %d %d %d %d %lu\\n", @c, @s, @a, @x, @n, @l); '
        "clear(@c); clear(@s); clear(@a); clear(@x); clear(@n); clear(@l); }"
    )
    assert printed(text).split() == ["2", "-5", "7", "9", "-9", str(2**64 - 1)]


def test_python_reads_a_map_without_keys():
    """snapshot() has the value under 0, interval() what was added since."""
    with Script(f"{EVENT} /pid == {os.getpid()}/ {{ @ = count(); @s = sum(2); }}") as script:
        for _ in range(7):
            os.getpgid(0)
        assert script["@"].snapshot() == {0: 7}
        assert script["@s"].interval() == {0: 14}
        os.getpgid(0)
        assert script["@s"].interval() == {0: 2}
        assert dict(script["@"].items()) == {0: 8}


def test_a_chart_without_keys_names_no_key():
    """Whichever way it is read; one with keys names its own."""
    text = f"{EVENT} /pid == {os.getpid()}/ {{ @h = hist(5); @l = lhist(5, 0, 10, 2); @k[7] = hist(5); }}"
    with Script(text) as script:
        os.getpgid(0)
        for name in ("@h", "@l"):
            shown = str(script[name].only())
            assert "key" not in shown
            assert (str(script[name][0]), str(script[name].interval()[0])) == (shown, shown)
        assert str(script["@k"].interval()[7]).startswith("key = 7\n")


def test_an_interval_begins_with_what_was_removed():
    """By Python: all kinds count anew, whether more or less comes then, and one that was never read, too."""
    mine = f"{EVENT} /pid == {os.getpid()}/"
    text = (
        f"{mine} {{ @c = count(); @s = sum(-2); @a = avg(-3); @h = hist(5); @l = lhist(5, 0, 10, 2); "
        "@k[args.pid] = count(); @m = max(7); @t[args.pid] = (uint64)nsecs; }"
    )
    with Script(text) as script:
        for way in ("clear", "zero"):
            for calls in (100, 30, 50):
                for _ in range(calls):
                    os.getpgid(0)
                assert script["@c"].interval() == {0: calls}
                assert script["@s"].interval() == {0: -2 * calls}
                assert script["@k"].interval() == {0: calls}
                average = script["@a"].interval()[0]
                assert (average.count, average.total) == (calls, -3 * calls)
                for name in ("@h", "@l"):
                    assert script[name].interval()[0].total == calls
                for name in ("@c", "@s", "@a", "@h", "@l", "@k"):
                    getattr(script[name], way)()
        with pytest.raises(InvalidValue, match="@m has no max of an interval"):
            script["@m"].interval()


def test_threads_share_the_intervals():
    """Each event is in one of them, whichever thread reads it: of counts and histograms, and of maps of numbers."""
    text = f"{EVENT} /pid == {os.getpid()}/ {{ @ = count(); @k[args.pid] = count(); @h = hist(5); @n[args.pid]++; }}"
    names, found, done = ("@", "@k", "@h", "@n"), [], threading.Event()

    def read(script):
        while not done.is_set():
            found.extend((name, list(script[name].interval().values())) for name in names)

    with Script(text) as script:
        readers = [threading.Thread(target=read, args=(script,)) for _ in range(3)]
        for each in readers:
            each.start()
        for _ in range(3000):
            os.getpgid(0)
        done.set()
        for each in readers:
            each.join()
        found.extend((name, list(script[name].interval().values())) for name in names)
    for name in names:
        gained = [each for of, values in found if of == name for each in values]
        assert sum(getattr(each, "total", each) for each in gained) == 3000, name


def test_an_interval_after_the_script_removed_its_counts():
    """A count that is less than before began again: it is the interval's."""
    mine = f"{EVENT} /pid == {os.getpid()}"
    text = (
        f"{mine} && args.pid == 0/ {{ @c = count(); @k[1] = count(); @a[1] = avg(3); @h = hist(1); }} "
        f"{mine} && args.pid == 1/ {{ delete(@k, 1); delete(@a, 1); }}"
    )
    with Script(text) as script:
        for calls in (100, 30):
            for _ in range(calls):
                os.getpgid(0)
            assert script["@k"].interval() == {1: calls}
            assert script["@a"].interval()[1].count == calls
            os.getpgid(1)
        assert script["@c"].interval() == {0: 130}


def test_counts_are_exact_where_one_program_interrupts_another():
    """Samples come in between a raw tracepoint's program and itself: no count is lost on either side."""
    ours = f"/pid == {os.getpid()}/"
    text = (
        f"rawtracepoint:sys_enter {ours} {{ @all = count(); @h = hist(1); @calls = count(); }} "
        f"profile:hz:2999 {ours} {{ @all = count(); @h = hist(1); @samples = count(); }}"
    )
    with Script(text) as script:
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            for _ in range(100):
                os.getpgid(0)
        script.detach()
        both, calls, samples = (script[name].snapshot().get(0, 0) for name in ("@all", "@calls", "@samples"))
        assert both == calls + samples
        assert script["@h"].snapshot()[0].total == both
        assert calls > CALLS
        assert samples > 0


@pytest.fixture
def named():
    """A function that names this thread, which gets its name back."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/comm", "rb") as file:  # noqa: PTH123 - its raw bytes
        before = file.read().rstrip(b"\n")
    yield lambda name: libc.prctl(PR_SET_NAME, name, 0, 0, 0)
    libc.prctl(PR_SET_NAME, before, 0, 0, 0)


def test_comm_has_nothing_behind_its_end(named):
    """Names of every length after one of the greatest are keys of their own, equal to themselves."""
    names = [b"abcdefghijklmno"[:length] for length in range(1, 16)] + ["\u00e4\u00f6\u00fc\u00df\u20ac".encode()]
    with Script(
        f'{EVENT} /pid == {os.getpid()}/ {{ @[comm] = count(); if (comm == "abc") {{ @three = count(); }} }}'
    ) as script:
        for name in names:
            for each in (b"zzzzzzzzzzzzzzz", name, name):
                named(each)
                os.getpgid(0)
        expected = {name.decode(): 2 for name in names} | {"z" * 15: len(names)}
        assert script["@"].snapshot() == expected
        assert script["@three"].snapshot() == {0: 2}
