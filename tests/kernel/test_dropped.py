"""`bpf.dropped` is exact: every drop that can be provoked, compared with what is known to have happened."""

from __future__ import annotations

import ctypes
import mmap
import re
import signal
import subprocess
import sys
import time

import pytest

from pyebpf import BPF, Struct, char, field, u32, u64, user_string
from tests.support.command import running
from tests.support.needs import needs
from tests.support.system_calls import NO_PROCESS, getpgid
from tests.support.told import let
from tests.support.waiting import wait_until

EVENTS = 1009


class Asked(Struct):
    """24 bytes; 32 with the header of a record."""

    number: u64
    text: str = field(char[16])


@pytest.mark.every_kernel
def test_a_ring_buffer_that_overflows():
    """It keeps as many records as fit, the first ones; the others are lost, and room that was read is used again."""
    bpf = BPF()
    asked = bpf.ringbuf(Asked, size=4096)

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def on_getpgid(pid: int) -> None:
        if pid >= NO_PROCESS:
            asked.emit(Asked(number=pid, text="asked"))

    room = (mmap.PAGESIZE - 1) // 32  # the kernel leaves at least a byte free
    with bpf:
        getpgid(*range(room))
        assert bpf.dropped == {}
        getpgid(*range(EVENTS))
        assert bpf.dropped == {"asked: ring buffer full": EVENTS}
        kept = [NO_PROCESS + i for i in range(room)]
        assert [record.number for record in asked.poll()] == kept
        getpgid(*range(room + 1))
        assert bpf.dropped == {"asked: ring buffer full": EVENTS + 1}
        assert [record.number for record in asked.poll()] == kept


@pytest.mark.every_kernel
@pytest.mark.parametrize("kind", ["hash", "percpu_hash"])
def test_a_hash_that_is_full(kind):
    """Each way of writing counts what found no room, apart for each map; keys that are there are still counted."""
    size = 101
    bpf = BPF()
    counted = getattr(bpf, kind)(key=u32, value=u64, size=size)
    assigned = getattr(bpf, kind)(key=u32, value=u64, size=size)
    added = getattr(bpf, kind)(key=u32, value=u64, size=size)

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def on_getpgid(pid: int) -> None:
        if pid >= NO_PROCESS:
            counted[pid] += 1
            assigned[pid] = 7
            added.add(pid, 1)

    with bpf:
        getpgid(*range(size))
        assert bpf.dropped == {}
        getpgid(*range(EVENTS))
        expected = EVENTS - size
        assert bpf.dropped == {f"{name}: map full": expected for name in ("counted", "assigned", "added")}
        # The first keys took the room; each came a second time.
        assert counted.get(NO_PROCESS) == 2
        assert sum(counted.values()) == 2 * size
        assert len(counted) == len(assigned) == len(added) == size


@pytest.mark.every_kernel
def test_a_map_that_gives_up_old_entries_loses_none():
    """An LRU map makes room; nothing is counted as dropped."""
    bpf = BPF()
    counts = bpf.lru_hash(key=u32, value=u64, size=512)

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def on_getpgid(pid: int) -> None:
        if pid >= NO_PROCESS:
            counts[pid] += 1

    with bpf:
        getpgid(*range(EVENTS))
        assert bpf.dropped == {}
        assert 0 < len(counts) <= 512


@pytest.mark.every_kernel
def test_an_aggregation_that_is_full():
    """Keys beyond `size` are counted; those that fit keep all their values."""
    size = 53
    bpf = BPF()
    sizes = bpf.log2_hist(key=u32, size=size)

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def on_getpgid(pid: int) -> None:
        if pid >= NO_PROCESS:
            sizes[pid].add(pid - NO_PROCESS)

    with bpf:
        getpgid(*range(EVENTS))
        getpgid(*range(EVENTS))
        (lost,) = bpf.dropped.values()
        assert lost == 2 * (EVENTS - size)
        assert sum(histogram.total for histogram in sizes.values()) == 2 * size


@pytest.mark.every_kernel
def test_an_index_out_of_range():
    """An array's entry that does not exist is not written, and each time counted."""
    bpf = BPF()
    seen = bpf.array(value=u64, size=97)

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def on_getpgid(pid: int) -> None:
        if pid >= NO_PROCESS:
            seen[pid - NO_PROCESS] += 1

    with bpf:
        getpgid(*range(EVENTS))
        (lost,) = bpf.dropped.values()
        assert lost == EVENTS - 97
        assert sum(seen.values()) == 97


@pytest.fixture
def hole():
    """The address of a page of this process that nothing is mapped at."""
    with mmap.mmap(-1, 3 * mmap.PAGESIZE) as memory:
        view = ctypes.c_char.from_buffer(memory)
        address = ctypes.addressof(view) + mmap.PAGESIZE
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        assert protect(address, mmap.PAGESIZE, 0) == 0
        yield address
        assert protect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE) == 0
        del view


@pytest.mark.every_kernel
def test_a_program_that_is_entered_again(hole):
    """A program on page faults that faults itself: its own faults find it running, and are counted."""
    # Older kernels let a raw tracepoint's program be entered again, without end, and panic.
    needs("kernel:6.1")
    bpf = BPF()
    place = bpf.array(value=u64)
    runs = bpf.array(value=u64)
    texts = bpf.hash(key=u32, value=Asked)

    @bpf.raw_tracepoint("page_fault_kernel", optional=True)
    def on_fault(address: int) -> None:
        if address == place[0]:
            runs[0] += 1
            texts[1] = Asked(number=1, text=user_string(place[0]))

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def on_getpgid(pid: int) -> None:
        if pid >= NO_PROCESS:
            texts[0] = Asked(number=0, text=user_string(place[0]))

    with bpf:
        if len(bpf.attachments) < 2:
            needs("tracepoint:exceptions:page_fault_kernel")
        for _ in range(3):
            before, runs[0] = sum(bpf.dropped.values()), 0
            place[0] = hole
            getpgid(*range(23))
            place[0] = 0
            if runs[0] % 23 == 0:  # on a busy machine a fault may be taken once more
                break
        faults = runs[0] // 23  # a read makes one, on some processors and kernels two
        assert runs[0] == 23 * faults > 0
        assert bpf.dropped == {"on_fault: running already on the processor": before + 23 * faults * faults}


def test_the_command_reports_what_was_dropped(tmp_path):
    """While the reader is stopped the ring buffer overflows: what was printed and what was dropped is all there was."""
    opens = 5003
    script = (
        "import os, sys\n"
        "print(flush=True)\n"
        "sys.stdin.read(1)\n"
        f"for number in range({opens}): os.close(os.open(sys.argv[1], os.O_RDONLY))\n"
    )
    command = [sys.executable, "-c", script, tmp_path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"\n"
        with running("opensnoop", "-p", str(process.pid), "--json", "--buffer", "600k") as tool:
            tool.process.send_signal(signal.SIGSTOP)
            let(process)
            tool.process.send_signal(signal.SIGCONT)
            # A tool that is asked to end prints what it can in a moment: all that is there is printed before.
            shown = -1
            while shown != (shown := len(tool.out)) or not shown:
                time.sleep(2)
            tool.stop()
    printed = [o for o in tool.objects() if o["path"] == str(tmp_path)]
    line = r"Dropped (\d+) events so far \(opens: ring buffer full: (\d+)\); --buffer SIZE gives them more room"
    report = re.fullmatch(line, tool.err.splitlines()[-1])
    assert report is not None
    assert int(report[1]) == int(report[2]) == opens - len(printed)
    assert tool.losses()[-1] == {"opens: ring buffer full": int(report[1])}
    assert 0 < len(printed) < opens


def test_a_burst_of_20_000_events_fits(tmp_path):
    """Opensnoop's own buffer holds them while it is stopped."""
    opens = 20_011
    script = (
        "import os, sys\n"
        "print(flush=True)\n"
        "sys.stdin.read(1)\n"
        f"for number in range({opens}): os.close(os.open(sys.argv[1], os.O_RDONLY))\n"
    )
    command = [sys.executable, "-c", script, tmp_path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"\n"
        with running("opensnoop", "-p", str(process.pid)) as tool:
            tool.process.send_signal(signal.SIGSTOP)
            let(process)
            tool.process.send_signal(signal.SIGCONT)
            wait_until(lambda: tool.out.count(str(tmp_path)) == opens, "all events are printed")
            tool.stop()
    assert "Dropped" not in tool.err
