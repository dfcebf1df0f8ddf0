"""Maps that sleepable programs may not use: refused while compiling, by what this kernel says."""

from __future__ import annotations

import pytest

from pyebpf import BPF, CompileError, Struct, ipv4_prefix, pid, u32, u64
from pyebpf.features import Features, Support
from tests.support.needs import needs


class Event(Struct):
    pid: u32


def bloom(bpf):
    seen = bpf.bloom_filter(u32, size=100, name="table")

    def use():
        seen.add(pid())
        return 0

    return use


def trie(bpf):
    table = bpf.lpm_trie(ipv4_prefix, u64, size=100, name="table")

    def use():
        entry = table.get(pid())
        return 1 if entry is not None else 0

    return use


def perf(bpf):
    events = bpf.perf_buffer(Event, name="table")

    def use():
        events.emit(Event(pid=pid()))
        return 0

    return use


def steps(bpf):
    table = bpf.program_array(size=2, name="table")

    def use():
        table.tail_call(1)
        return 0

    return use


@pytest.mark.parametrize(
    ("kind", "make", "words"),
    [
        ("bloom_filter", bloom, "use Bloom filters"),
        ("lpm_trie", trie, "use LPM tries"),
        ("perf_event_array", perf, "use perf buffers"),
        ("prog_array", steps, "use program arrays"),
    ],
)
def test_refused_while_compiling_or_loaded(kind, make, words):
    """The line that uses it, the map and the reason, where the kernel refuses it; else it loads."""
    needs("program:syscall")
    bpf = BPF()
    bpf.syscall()(make(bpf))
    answer = Features().ask(f"map:{kind}@sleepable")
    assert answer is not Support.UNKNOWN
    if answer is Support.YES:
        with bpf:
            return
    with pytest.raises(CompileError) as caught:
        bpf.specs()
    assert caught.value.message.startswith("table: sleepable programs, such as syscall programs, cannot use")
    assert words in caught.value.message
    assert caught.value.location is not None
    assert any(name in caught.value.location.text for name in ("table.", "seen.", "events."))


def test_others_load():
    """Hashes, arrays, ring buffers and stacks are for programs that sleep, too; a trie is for one that does not."""
    needs("program:syscall")
    bpf = BPF()
    counts = bpf.percpu_hash(key=u32, value=u64)
    cells = bpf.array(value=u64, size=2)
    events = bpf.ringbuf(Event)
    table = bpf.lpm_trie(ipv4_prefix, u64, size=100)

    @bpf.syscall()
    def use():
        counts[pid()] += 1
        cells[1] += 1
        events.emit(Event(pid=pid()))
        return 0

    @bpf.raw_tracepoint("sched_process_exit")
    def look():
        entry = table.get(pid())
        if entry is not None:
            cells[0] += 1

    with bpf:
        use.run()
        assert cells[1] == 1
        assert Features().has("map:array@sleepable")
