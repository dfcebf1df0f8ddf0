"""biolatency: every request of a known workload, under its disk, its flags, in every format."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

from pyebpf import BPF, KernelObject, u64
from pyebpf.programs import biolatency
from tests.support.aio import Aio
from tests.support.command import pyebpf, running
from tests.support.needs import unless
from tests.support.scsi_debug import HOST_BUSY, SHORT_TRANSFER
from tests.support.waiting import PATIENCE

READS, WRITES = 17, 29


def write_elsewhere(disk, count=WRITES):
    """Let another process write to a disk."""
    script = (
        "import sys; from pathlib import Path; from tests.support.loop import LoopDevice\n"
        "LoopDevice(Path(sys.argv[1]), int(sys.argv[2])).write(int(sys.argv[3]))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", script, disk.path, str(disk.size), str(count)], cwd=Path(__file__).parents[2]
    )


def totals(text, label):
    """Sum of the counts below each heading `label = '…'` of text."""
    found, key = {}, None
    for line in text.splitlines():
        if heading := re.fullmatch(rf"{label} = '(.*)'", line):
            key = heading[1]
        elif row := re.fullmatch(r" *\d+ *(?:-> \d+)? *: (\d+) *\|\*{0,40} *\|", line):
            found[key] = found.get(key, 0) + int(row[1])
    return found


def counted(objects, disk):
    return sum(b["count"] for o in objects if o["disk"] == disk.name for b in o["buckets"])


def test_17_reads_under_their_disk(make_loop_device):
    """17 reads of one disk and 29 writes of another: each under its name, as text, JSON and CSV, queued or not."""
    one, other = make_loop_device(), make_loop_device()
    forms = [(), ("--json",), ("--csv",), ("-Q", "--json")]
    with (
        running("biolatency", "-D", *forms[0]) as text,
        running("biolatency", "-D", *forms[1]) as objects,
        running("biolatency", "-D", *forms[2]) as rows,
        running("biolatency", "-D", *forms[3]) as queued,
    ):
        with write_elsewhere(other) as writer:
            one.read(READS)
            assert writer.wait(PATIENCE) == 0
        for tool in (text, objects, rows, queued):
            tool.stop()
    expected = {one.name: READS, other.name: WRITES}
    assert expected.items() <= totals(text.out, "disk").items()
    assert all(len(line) <= 80 for line in text.out.splitlines())
    for disk in (one, other):
        assert counted(objects.objects(), disk) == expected[disk.name]
        assert counted(queued.objects(), disk) == expected[disk.name]
        assert sum(int(r["count"]) for r in rows.rows() if r["disk"] == disk.name) == expected[disk.name]
    found = next(o for o in objects.objects() if o["disk"] == one.name)
    assert list(found) == ["time", "disk", "unit", "buckets"]
    assert found["unit"] == "usecs"
    assert all(list(b) == ["low", "high", "count"] for b in found["buckets"])
    assert list(rows.rows()[0]) == ["time", "disk", "unit", "low", "high", "count"]


def test_one_disk(make_loop_device):
    """--disk leaves out the other's requests."""
    one, other = make_loop_device(), make_loop_device()
    with biolatency.open(disk=one.name, by_disk=True) as snapshot:
        one.read(READS)
        other.read(WRITES)
        found = {each.labels["disk"]: each.total for each in snapshot()}
    assert found == {one.name: READS}


def test_intervals_and_time(make_loop_device):
    """Each interval has its own requests, and the time of its end; `interval count` ends by itself."""
    disk = make_loop_device()
    with running("biolatency", "-D", "-T", "--json", "1.5", "2") as tool:
        disk.read(11)
        time.sleep(1.6)
        disk.read(13)
        assert tool.wait() == 0
    times = [datetime.fromisoformat(o["time"]) for o in tool.objects() if o["disk"] == disk.name]
    assert [sum(b["count"] for b in o["buckets"]) for o in tool.objects() if o["disk"] == disk.name] == [11, 13]
    assert 1.4 < (times[1] - times[0]).total_seconds() < PATIENCE


def test_units(loop):
    """-m counts in milliseconds; -L linear, from 0 to 100 of them; without, microseconds."""
    with (
        biolatency.open(by_disk=True, milliseconds=True) as slow,
        biolatency.open(by_disk=True, linear=True) as linear,
        biolatency.open(by_disk=True) as fast,
    ):
        loop.read(READS)
        found = [next(h for h in snapshot() if h.labels["disk"] == loop.name) for snapshot in (slow, linear, fast)]
        assert [h.total for h in found] == [READS] * 3
        assert [(h.unit, h.kind) for h in found] == [("msecs", "log2"), ("msecs", "linear"), ("usecs", "log2")]
        assert [(b.low, b.high) for b in found[1].buckets[1:-1]] == [(i, i) for i in range(100)]
        # Whoever waits for a read of a file in memory waits some microseconds.
        assert found[2].buckets[1].count == 0
        assert [h for snapshot in (slow, linear, fast) for h in snapshot() if h.labels["disk"] == loop.name] == []


def test_latency_is_what_the_reader_saw(loop):
    """No request takes longer than the calls that waited for it; the kernel's own clock agrees."""
    with biolatency.open(by_disk=True) as snapshot:
        slowest = 0
        for _ in range(READS):
            before = time.monotonic_ns()
            loop.read(1)
            slowest = max(slowest, time.monotonic_ns() - before)
        (found,) = (h for h in snapshot() if h.labels["disk"] == loop.name)
    assert found.total == READS
    assert found.rows()[-1].low <= slowest // 1000


def test_without_a_key(loop):
    """One histogram of all disks, labelled with nothing."""
    with biolatency.open() as snapshot:
        loop.read(READS)
        (found,) = snapshot()
        assert found.total >= READS
        assert not found.labels


def test_flags(loop):
    """-F tells reads, writes and flushes apart, and names what the kernel set."""
    with running("biolatency", "-F", "-D", "--json") as tool:
        loop.read(READS)
        loop.write(WRITES)
        with loop.path.open("r+b", buffering=0) as device:
            for _ in range(7):
                os.fsync(device.fileno())
        tool.stop()
    kinds = {"Read": 0, "Write": 0, "Flush": 0}
    for found in tool.objects():
        if found["disk"] == loop.name:
            assert list(found) == ["time", "disk", "flags", "unit", "buckets"]
            kinds[found["flags"].rpartition("-")[2]] += sum(b["count"] for b in found["buckets"])
    assert kinds == {"Read": READS, "Write": WRITES, "Flush": 7}
    assert any("Sync" in o["flags"] for o in tool.objects() if o["flags"].endswith("Write"))


def test_a_flush_counts_once(loop):
    """A write that is to be on the medium when it returns: the write and the flushes of the device, each once."""
    with biolatency.open(by_disk=True) as issued, biolatency.open(by_disk=True, queued=True) as queued:
        with loop.path.open("r+b", buffering=0) as device:
            for _ in range(5):
                os.fsync(device.fileno())
        found = [h.total for snapshot in (issued, queued) for h in snapshot() if h.labels["disk"] == loop.name]
    assert found == [5, 5]


def test_merged_writes_count_once(loop):
    """Neighbouring writes that the kernel merges are as many requests as its own statistics say."""

    def completed():
        fields = Path(f"/sys/block/{loop.name}/stat").read_text().split()
        return int(fields[4]), int(fields[5])

    device = os.open(loop.path, os.O_RDWR | os.O_DIRECT)
    try:
        before = completed()
        with biolatency.open(by_disk=True) as issued, biolatency.open(by_disk=True, queued=True) as queued:
            for _ in range(3):
                Aio(device).write(8)
            found = [h.total for snapshot in (issued, queued) for h in snapshot() if h.labels["disk"] == loop.name]
        requests, merged = (after - first for after, first in zip(completed(), before, strict=True))
    finally:
        os.close(device)
    assert requests + merged == 24
    assert found == [requests, requests]
    unless(merged > 0, "setting:merged-writes")  # Linux 5.10 sends each on its own


def test_verbose_names_the_attachments():
    """-v says by which tracepoints requests are timed; nothing else is on standard error."""
    done = pyebpf("biolatency", "-v", "-d", "0.1")
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert [line.split()[:3] for line in lines[:-1]] == [
        ["on_issue:", "tp_btf", "block_rq_issue,"],
        ["on_requeue:", "tp_btf", "block_rq_requeue,"],
        ["on_complete:", "tp_btf", "block_rq_complete,"],
    ]
    assert lines[-1] == "Tracing block device I/O... Hit Ctrl-C to end."


@pytest.mark.parametrize("options", [("-Q",), ("-D", "-F")])
def test_dump(options):
    """--dump prints every program with the source lines, attaches nothing, and ends."""
    done = pyebpf("biolatency", "--dump", *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert "; on_complete" in done.stdout
    assert "exit" in done.stdout
    assert "Tracing" not in done.stdout


@pytest.mark.machine(modules=("scsi_debug", "sd_mod"))
@pytest.mark.parametrize("how", [SHORT_TRANSFER, HOST_BUSY])
def test_partial_completions_and_requeues_count_once(scsi_disk, how):
    """A read that the device answers in parts, or sends back, is one request, whenever its time begins."""
    bpf = BPF()
    happened = bpf.array(value=u64, size=2)

    @bpf.btf_tracepoint("block_rq_complete")
    def on_complete(rq: KernelObject, nr_bytes: int) -> None:
        if nr_bytes < rq.__data_len:
            happened[0] += 1

    @bpf.btf_tracepoint("block_rq_requeue")
    def on_requeue() -> None:
        happened[1] += 1

    with biolatency.open(by_disk=True) as issued, biolatency.open(by_disk=True, queued=True) as queued, bpf:
        scsi_disk.misbehave(how)
        scsi_disk.device.read(READS, size=16384)
        found = [h.total for snapshot in (issued, queued) for h in snapshot() if h.labels["disk"] == scsi_disk.name]
        partly, again = happened[0], happened[1]
    assert again >= READS // 2
    assert partly >= (READS // 2 if how == SHORT_TRANSFER else 0)
    assert found == [READS, READS]
