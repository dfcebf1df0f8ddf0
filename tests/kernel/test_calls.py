"""Calls: one probe for entry and return, with the arguments of the entry, the result and the time in between."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import tempfile
import threading
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyebpf import BPF, Struct, function_ip, pid, s64, tid, u32, u64
from pyebpf.attach import call_bodies
from pyebpf.dataclass import replace
from pyebpf.errors import CompileError, InvalidValue
from tests.support.needs import needs
from tests.support.traced import Traced, binary

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.every_kernel

ME = os.getpid()
CALLS, OTHERS = 23, 7
DEPTH = 11
#: Of one that may find its program running already.
ATTEMPTS = 5
#: A wait that is made, and how much longer it may take on a busy machine.
WAIT, LATE = 0.02, 2.0


def wait() -> None:
    """Sleep for WAIT seconds from when the kernel begins: time.sleep() names the end before it calls."""
    ctypes.CDLL(None).nanosleep((ctypes.c_long * 2)(0, round(WAIT * 1e9)), None)


class Call(Struct):
    """A call that returned."""

    given: u64
    result: s64
    elapsed: u64
    thread: u32


def take(probe: Any, way: str) -> None:
    """Leave a probe only the candidate of a name."""
    probe.requests = tuple(
        replace(each, candidates=tuple(one for one in each.candidates if one.name == way)) for each in probe.requests
    )


def returned(calls: Any, count: int) -> list[Call]:
    """So many calls."""
    found: list[Call] = []
    deadline = time.monotonic() + 10
    while len(found) < count and time.monotonic() < deadline:
        found += calls.poll(0.1)
    return found + list(calls.poll(0))


@contextmanager
def pipes(number: int) -> Iterator[list[tuple[int, int]]]:
    """Pipes, both ends of each."""
    made = [os.pipe() for _ in range(number)]
    try:
        yield made
    finally:
        for ends in made:
            for end in ends:
                os.close(end)


# -- system calls ------------------------------------------------------------------------------------------------------


def reading() -> tuple[BPF, Any]:
    """A probe at the reads of this process."""
    bpf = BPF()
    calls = bpf.ringbuf(Call)

    @bpf.system_call("read")
    def on_read(fd: int, count: int, retval: int, elapsed: int) -> None:
        if pid() == ME and count % 1000 == 0:
            calls.emit(Call(given=fd << 32 | count, result=retval, elapsed=elapsed, thread=tid()))

    return bpf, calls


def test_arguments_and_result_of_a_system_call():
    """Each read has its own descriptor and length, and what it returned; failed ones an error."""
    bpf, calls = reading()
    with pipes(1) as ((reader, writer),), bpf:
        for number in range(1, CALLS + 1):
            os.write(writer, b"x" * number)
            os.read(reader, 1000 * number)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.read(1 << 20, 1000)
        found = returned(calls, CALLS + 1)
        assert [(each.given, each.result) for each in found] == [
            *((reader << 32 | 1000 * number, number) for number in range(1, CALLS + 1)),
            (1 << 52 | 1000, -9),
        ]
        assert not bpf.dropped


def test_the_time_of_a_system_call():
    """A sleep takes as long as was asked for, and no longer than this process saw."""
    bpf = BPF()
    calls = bpf.ringbuf(Call)

    @bpf.system_call("nanosleep", "clock_nanosleep")
    def slept(retval: int, elapsed: int) -> None:
        if pid() == ME:
            calls.emit(Call(given=0, result=retval, elapsed=elapsed, thread=tid()))

    with bpf:
        before = time.monotonic()
        wait()
        took = time.monotonic() - before
        (call,) = returned(calls, 1)
        assert WAIT <= call.elapsed / 1e9 <= took


def test_threads_that_call_at_once_are_told_apart():
    """Threads wait in the same call, each with its own argument."""
    for _ in range(ATTEMPTS):
        if whole := read_by_threads(7):
            break
    assert whole


def read_by_threads(threads: int) -> bool:
    """Let threads read at once; False if the kernel left one out, which it may (tests/kernel/test_missed.py)."""
    bpf, calls = reading()
    with pipes(threads) as made, bpf:
        started = [threading.Thread(target=os.read, args=(reader, 1000)) for reader, _ in made]
        for each in started:
            each.start()
        time.sleep(0.2)
        for _, writer in made:
            os.write(writer, b"x")
        for each in started:
            each.join()
        if bpf.dropped:
            return False
        found = returned(calls, threads)
        assert len(found) == threads
        descriptors = [reader for reader, _ in made]
        assert {each.thread: each.given >> 32 for each in found} == dict(
            zip([each.native_id for each in started], descriptors, strict=True)
        )
    return True


def test_a_call_that_began_before_is_left_out():
    """It has no arguments and no time; the next call of the thread is whole."""
    bpf, calls = reading()

    def read_twice() -> None:
        os.read(reader, 2000)
        os.read(reader, 3000)

    with pipes(1) as ((reader, writer),):
        thread = threading.Thread(target=read_twice)
        thread.start()
        time.sleep(0.1)
        with bpf:
            os.write(writer, b"x")
            time.sleep(0.1)
            os.write(writer, b"x")
            thread.join()
            assert [each.given & 0xFFFFFFFF for each in returned(calls, 1)] == [3000]


def test_calls_that_find_no_room_are_counted(monkeypatch):
    """More threads are in the call than the map has room for: what is not followed is counted, exactly."""
    threads, room = 5, 3
    monkeypatch.setattr(call_bodies, "MAX_CALLS", room)
    bpf = BPF()
    calls = bpf.ringbuf(Call)

    @bpf.system_call("rt_sigtimedwait")
    def waited(retval: int, elapsed: int) -> None:
        calls.emit(Call(given=0, result=retval, elapsed=elapsed, thread=tid()))

    with bpf:
        started = [threading.Thread(target=signal.sigtimedwait, args=([signal.SIGUSR2], 1)) for _ in range(threads)]
        for each in started:
            each.start()
        for each in started:
            each.join()
        assert [each.result for each in returned(calls, room)] == [-errno.EAGAIN] * room
        assert list(bpf.dropped.values()) == [threads - room]
        assert "call not followed" in next(iter(bpf.dropped))


# -- functions of the kernel -------------------------------------------------------------------------------------------

WAYS = {
    "fentry and fexit": "attach:fentry",
    "kprobe.multi and kretprobe.multi": "attach:kprobe_multi",
    "kprobe and kretprobe": "attach:kprobe",
}


@pytest.fixture(params=WAYS)
def way(request):
    """Each way to follow a call of the kernel's."""
    needs(WAYS[request.param])
    return request.param


#: Those that follow a call without its arguments.
TIMED_WAYS = {**WAYS, "kprobe.session": "attach:kprobe_session"}


@pytest.fixture(params=TIMED_WAYS)
def timed_way(request):
    """Each way to time a call of the kernel's."""
    needs(TIMED_WAYS[request.param])
    return request.param


@pytest.fixture
def folder():
    """A folder in memory: an overlay's mkdir calls that of the file system below, a second call of one function."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


def test_a_function_of_the_kernel(way, folder):
    """Each has the mode that it was given, and takes some time, but less than the system call."""
    bpf = BPF()
    calls = bpf.ringbuf(Call)

    @bpf.call("vfs_mkdir")
    def made(mode: int, elapsed: int) -> None:
        if pid() == ME:
            calls.emit(Call(given=mode, result=0, elapsed=elapsed, thread=tid()))

    take(made, way)
    umask = os.umask(0)
    try:
        with bpf:
            before = time.monotonic_ns()
            for number in range(CALLS):
                (folder / str(number)).mkdir(0o700 + number)
            took = time.monotonic_ns() - before
            found = returned(calls, CALLS)
            assert [each.given & 0o7777 for each in found] == [0o700 + number for number in range(CALLS)]
            assert 0 < sum(each.elapsed for each in found) < took
            assert not bpf.dropped
    finally:
        os.umask(umask)


def test_calls_within_calls(timed_way, folder):
    """A system call's function calls another that the probe is at, too: the inner one returns first."""
    needs("helper:get_func_ip@kprobe")
    bpf = BPF()
    calls = bpf.ringbuf(Call)

    @bpf.call("sys_mkdir", "vfs_mkdir", "sys_mkdirat", optional=True)
    def made(elapsed: int) -> None:
        if pid() == ME:
            calls.emit(Call(given=function_ip(), result=0, elapsed=elapsed, thread=tid()))

    take(made, timed_way)
    with bpf:
        for number in range(CALLS):
            (folder / str(number)).mkdir()
        found = returned(calls, 2 * CALLS)
        assert len(found) == 2 * CALLS
        for inner, outer in zip(found[::2], found[1::2], strict=True):
            assert inner.given != outer.given
            assert inner.elapsed < outer.elapsed


def test_results_of_a_function_that_waits(timed_way):
    """The result, and the time of the wait."""
    bpf = BPF()
    calls = bpf.ringbuf(Call)

    @bpf.call("do_nanosleep")
    def slept(retval: int, elapsed: int) -> None:
        if pid() == ME:
            calls.emit(Call(given=0, result=retval, elapsed=elapsed, thread=tid()))

    take(slept, timed_way)
    with bpf:
        wait()
        (call,) = returned(calls, 1)
        assert call.result == 0
        assert WAIT <= call.elapsed / 1e9 <= WAIT + LATE


def test_a_session_times_the_functions_of_a_pattern(folder):
    """One program, without a map for calls under way; with an argument it is two."""
    needs("attach:kprobe_session")
    bpf = BPF()
    times = bpf.hash(key=u64, value=u64)

    @bpf.call("vfs_mkno*")
    def made(retval: int, elapsed: int) -> None:
        if pid() == ME and retval == 0:
            times[1] += elapsed
            times[0] += 1

    @bpf.call("vfs_mkno*")
    def with_mode(mode: int, elapsed: int) -> None:
        if pid() == ME:
            times[2] += 1

    with bpf:
        assert [each.candidate for each in bpf.choices] == ["kprobe.session", "kprobe.multi and kretprobe.multi"]
        assert len(bpf.programs) == 3
        before = time.monotonic_ns()
        for number in range(CALLS):
            os.mkfifo(folder / str(number))
        took = time.monotonic_ns() - before
        found = dict(times.items())
        assert found[0] == found[2] >= CALLS
        assert 0 < found[1] < took


def test_without_the_time_fexit_does_it_alone(folder):
    """One program a function, with arguments and result."""
    needs("attach:fentry")
    bpf = BPF()
    modes = bpf.hash(key=u64, value=u64)

    @bpf.call("vfs_mkdir")
    def made(mode: int) -> None:
        if pid() == ME:
            modes[mode & 0o777] += 1

    with bpf:
        assert [each.candidate for each in bpf.choices] == ["fexit"]
        assert len(bpf.programs) == 1
        (folder / "a").mkdir(0o700)
        assert dict(modes.items()) == {0o700: 1}


# -- functions of programs, USDT ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["uprobe.multi and uretprobe.multi", "uprobe and uretprobe"])
def test_a_function_that_calls_itself(way):
    """Each level has its own argument and result; an outer one takes longer."""
    needs("attach:uprobe_multi" if "multi" in way else "attach:uprobe")
    bpf = BPF()
    calls = bpf.ringbuf(Call)

    @bpf.user_call(binary("pie"), "deep")
    def on_call(n: s64, retval: s64, elapsed: u64) -> None:
        calls.emit(Call(given=n, result=retval, elapsed=elapsed, thread=tid()))

    take(on_call, way)
    with Traced(binary("pie")) as traced, bpf:
        traced.tell(f"deep {DEPTH}")
        found = returned(calls, DEPTH * (DEPTH + 3) // 2)
        wanted = [level for depth in range(1, DEPTH + 1) for level in range(depth + 1)]
        assert [each.given for each in found] == wanted
        assert [each.result for each in found] == wanted
        for inner, outer in pairwise(found):
            assert outer.given == 0 or inner.elapsed < outer.elapsed
        assert not bpf.dropped


@pytest.mark.parametrize("way", ["uprobe.multi", "uprobe"])
def test_a_pair_of_usdt_probes(way):
    """Nested pairs: each has the first probe's arguments."""
    needs("attach:uprobe_multi" if "multi" in way else "attach:uprobe")
    bpf = BPF()
    calls = bpf.ringbuf(Call)

    @bpf.usdt_call(binary("pie"), "traced:deeper", "traced:back", args=("level", "negative"))
    def on_pair(negative: s64, level: s64, elapsed: u64) -> None:
        calls.emit(Call(given=level, result=negative, elapsed=elapsed, thread=tid()))

    take(on_pair, way)
    with Traced(binary("pie")) as traced, bpf:
        traced.tell("deep 3")
        found = returned(calls, 9)
        assert [(each.given, each.result) for each in found] == [
            (level, -level) for depth in range(1, 4) for level in range(depth + 1)
        ]
        assert all(each.elapsed > 0 for each in found)


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_a_pair_of_usdt_probes_has_no_result():
    """The message says where it is."""
    needs("attach:uprobe")
    bpf = BPF()

    @bpf.usdt_call(binary("pie"), "traced:deeper", "traced:back")
    def on_pair(retval: u64) -> None: ...

    with pytest.raises(CompileError, match=r"retval: a pair of USDT probes has no result: read it by @bpf\.usdt"), bpf:
        pass


def test_what_is_no_parameter_is_not_kept():
    """`ctx.fd` is gone at the return."""
    bpf = BPF()

    @bpf.system_call("read")
    def on_read(ctx, retval: int) -> None:
        if ctx.fd == retval:
            return

    with pytest.raises(CompileError, match=r"ctx\.fd: of a call only parameters are kept .* def probe\(fd, …\)"), bpf:
        pass


def test_names_that_are_none():
    """Refused where the decorator stands."""
    bpf = BPF()
    with pytest.raises(InvalidValue, match=r'@bpf\.system_call\(.*: write a system call\'s name, such as "connect"'):
        bpf.system_call("syscalls:connect")
    with pytest.raises(InvalidValue, match="name the program or library, and a function of it"):
        bpf.user_call("libc.so.6")
    with pytest.raises(InvalidValue, match=r'write a function\'s name, such as "tcp_sendmsg"'):
        bpf.call("a b")
