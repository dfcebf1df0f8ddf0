"""Two shipped tools tested without root: the example of docs/vm.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyebpf.programs import biolatency, opensnoop
from pyebpf.testing import Simulation, recorded

DATA = Path(__file__).resolve().parents[1] / "data"
ENOENT = 2


#: Bytes of a buffer that a few thousand opens fill.
ROOM = 1 << 20


@pytest.fixture
def simulate():
    """A tool's tracer, its maps bound to the interpreter's, for facts recorded on Linux 6.18."""
    open_simulations = []

    def start(tool, options, *, buffer=None):
        bpf = tool.build(options)
        if buffer is not None:
            bpf.resize_buffers(buffer)
        simulation = Simulation(bpf, recorded(DATA / f"{tool.TOOL.name}.json"))
        open_simulations.append(simulation)
        return bpf, simulation.__enter__()

    yield start
    for simulation in open_simulations:
        simulation.__exit__()


def test_opensnoop_pairs_entry_and_exit(simulate):
    """One record a call, of the thread that made it, though another thread's call lies between."""
    bpf, kernel = simulate(opensnoop, opensnoop.Options())
    kernel.process(pid=42, tid=43, uid=1000, comm="cat")
    kernel.tracepoint("syscalls:sys_enter_openat", filename="/etc/motd", flags=0)
    kernel.process(pid=7, uid=0, comm="vi")
    kernel.tracepoint("syscalls:sys_enter_openat", filename="/etc/missing", flags=2)
    kernel.at(1_000)
    kernel.tracepoint("syscalls:sys_exit_openat", ret=-ENOENT)
    kernel.process(pid=42, tid=43, uid=1000, comm="cat")
    kernel.at(2_000)
    kernel.tracepoint("syscalls:sys_exit_openat", ret=3)
    missing, motd = bpf["opens"].poll()
    found = (missing.pid, missing.comm, missing.path, missing.error, missing.time)
    assert found == (7, "vi", "/etc/missing", "ENOENT", 1_000)
    assert (motd.pid, motd.tid, motd.uid, motd.comm) == (42, 43, 1000, "cat")
    assert (motd.path, motd.descriptor, motd.time) == ("/etc/motd", 3, 2_000)
    assert bpf.dropped == {}


def test_opensnoop_tells_failures_only(simulate):
    """With -x, 23 calls of which 5 fail give 5 records."""
    bpf, kernel = simulate(opensnoop, opensnoop.Options(failed=True))
    for number in range(23):
        kernel.tracepoint("syscalls:sys_enter_openat", filename=f"/tmp/{number}", flags=0)
        kernel.tracepoint("syscalls:sys_exit_openat", ret=-13 if number % 5 == 1 else number)
    assert [call.path for call in bpf["opens"].poll()] == [f"/tmp/{number}" for number in (1, 6, 11, 16, 21)]


def test_opensnoop_gives_an_empty_path_for_bad_memory(simulate):
    """A pointer to nowhere is not an error of the tool."""
    bpf, kernel = simulate(opensnoop, opensnoop.Options())
    kernel.tracepoint("syscalls:sys_enter_openat", filename=0x1234_5678, flags=0)
    kernel.tracepoint("syscalls:sys_exit_openat", ret=-14)
    assert [call.path for call in bpf["opens"].poll()] == [""]


def test_opensnoop_counts_what_does_not_fit(simulate):
    """A ring buffer that nobody reads fills up; every record is either there or counted in bpf.dropped."""
    bpf, kernel = simulate(opensnoop, opensnoop.Options(), buffer=ROOM)
    opens = 5003
    for _ in range(opens):
        kernel.tracepoint("syscalls:sys_enter_openat", filename="/x", flags=0)
        kernel.tracepoint("syscalls:sys_exit_openat", ret=3)
    there = len(bpf["opens"].poll())
    assert 0 < there < opens
    assert sum(bpf.dropped.values()) == opens - there


def test_opensnoop_leaves_room_for_the_name_that_is_asked_for(simulate):
    """With -n, opens of others take none of the buffer's room, although it has room for fewer than they are."""
    bpf, kernel = simulate(opensnoop, opensnoop.Options(name="ssh"), buffer=ROOM)
    room = ROOM // opensnoop.Open.layout.size
    others, wanted = range(room), range(room, room + 20)
    kernel.process(pid=7, comm="burst")
    for number in (*others, *wanted):
        if number == wanted[0]:
            kernel.process(pid=42, comm="sshd")
        kernel.tracepoint("syscalls:sys_enter_openat", filename=f"/{number}", flags=0)
        kernel.tracepoint("syscalls:sys_exit_openat", ret=3)
    assert [call.path for call in bpf["opens"].poll()] == [f"/{number}" for number in wanted]
    assert bpf.dropped == {}


@pytest.mark.parametrize("name", ["ssh", "n", "sshd-of-fifteen", "", "\udcff"])
def test_opensnoop_looks_for_a_name_anywhere_in_the_thread_s(simulate, name):
    """With -n, what the thread's name contains, in bytes; anything contains nothing."""
    bpf, kernel = simulate(opensnoop, opensnoop.Options(name=name))
    comms = ["sshd-of-fifteen", "n", "ss", "h", "of-fifteen-sshd", "\udcff!"]
    for comm in comms:
        kernel.process(pid=42, comm=comm)
        kernel.tracepoint("syscalls:sys_enter_openat", filename="/", flags=0)
        kernel.tracepoint("syscalls:sys_exit_openat", ret=3)
    assert [call.comm for call in bpf["opens"].poll()] == [comm for comm in comms if name in comm]


def test_opensnoop_looks_at_the_name_when_the_call_returns(simulate):
    """A thread that changes its name meanwhile is known by the new one."""
    bpf, kernel = simulate(opensnoop, opensnoop.Options(name="new"))
    for before, after in (("old", "new"), ("new", "old")):
        kernel.process(pid=42, comm=before)
        kernel.tracepoint("syscalls:sys_enter_openat", filename=f"/{before}", flags=0)
        kernel.process(pid=42, comm=after)
        kernel.tracepoint("syscalls:sys_exit_openat", ret=3)
    assert [(call.comm, call.path) for call in bpf["opens"].poll()] == [("new", "/old")]


def request(kernel, *, size=4096, flags=0, disk=""):
    """A struct request in the kernel's layout."""
    return kernel.object("struct request", __data_len=size, cmd_flags=flags, q={"disk": {"disk_name": disk}})


def test_biolatency_measures_from_issue_to_completion(simulate):
    """In microseconds, in a power-of-two bucket; a request that was requeued counts from its last issue."""
    bpf, kernel = simulate(biolatency, biolatency.Options(by_disk=True))
    rq = request(kernel, disk="sda")
    kernel.at(1_000_000)
    kernel.raw_tracepoint("block_rq_issue", rq=rq)
    kernel.at(2_000_000)
    kernel.raw_tracepoint("block_rq_requeue", rq=rq)
    kernel.raw_tracepoint("block_rq_issue", rq=rq)
    kernel.at(2_100_000)
    kernel.raw_tracepoint("block_rq_complete", rq=rq, nr_bytes=4096)
    [histogram] = biolatency.snapshot(bpf, biolatency.Options(by_disk=True))
    assert histogram.labels == {"disk": "sda"}
    assert [(each.low, each.high, each.count) for each in histogram.buckets if each.count] == [(64, 127, 1)]


def test_biolatency_waits_for_the_last_part(simulate):
    """A request that completes in parts counts once; one that was never seen to be issued does not count."""
    bpf, kernel = simulate(biolatency, biolatency.Options())
    rq, unseen = request(kernel, size=8192), request(kernel)
    kernel.raw_tracepoint("block_rq_issue", rq=rq)
    kernel.at(5_000_000)
    kernel.raw_tracepoint("block_rq_complete", rq=rq, nr_bytes=4096)
    kernel.raw_tracepoint("block_rq_complete", rq=unseen, nr_bytes=4096)
    kernel.set(rq, "struct request", __data_len=4096)
    kernel.at(9_000_000)
    kernel.raw_tracepoint("block_rq_complete", rq=rq, nr_bytes=4096)
    [histogram] = biolatency.snapshot(bpf, biolatency.Options())
    assert [(each.low, each.high, each.count) for each in histogram.buckets if each.count] == [(8192, 16383, 1)]


def test_biolatency_adds_up_processors_and_disks(simulate):
    """17 requests on two processors and two disks: each disk's histogram has its own."""
    options = biolatency.Options(by_disk=True)
    bpf, kernel = simulate(biolatency, options)
    for number in range(17):
        rq = request(kernel, disk="sda" if number % 3 else "sdb")
        kernel.process(cpu=number % 2)
        kernel.at(0)
        kernel.raw_tracepoint("block_rq_issue", rq=rq)
        kernel.at(1_000 * number)
        kernel.raw_tracepoint("block_rq_complete", rq=rq, nr_bytes=4096)
    counts = {
        each.labels["disk"]: sum(bucket.count for bucket in each.buckets) for each in biolatency.snapshot(bpf, options)
    }
    assert counts == {"sda": 11, "sdb": 6}
