"""Functions of the kernel that share a name: a kprobe is put on each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyebpf import BPF, function_ip, u64
from pyebpf.kernel.perf import open_probe
from pyebpf.script import Script
from pyebpf.symbols.search import SymbolText
from tests.support.needs import needs

# Of a process's mappings, of its mounts, and of other files in /proc.
SHARED = "m_start"


def read_both() -> None:
    """Read two files of /proc, each by a function of that name."""
    Path("/proc/self/maps").read_text()
    Path("/proc/self/mounts").read_text()


@pytest.fixture
def addresses() -> set[int]:
    """The addresses of the functions, of which the kernel shows two at least."""
    needs("attach:kprobe")
    found = {symbol.address for symbol in SymbolText().find(SHARED) if symbol.is_function}
    assert len(found) > 1
    return found


def is_refused(name: str) -> bool:
    """Whether the kernel refuses the name, and does not take one of the functions."""
    try:
        open_probe("kprobe", name.encode(), 0, returns=False, what=name).close()
    except OSError:
        return True
    return False


@pytest.mark.parametrize("way", ["perf link", "kprobe_events"])
def test_each_is_probed(way: str, addresses: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether by the PMU or by tracefs."""
    if way == "kprobe_events":
        monkeypatch.setattr("pyebpf.link.kprobes.pmu_type", lambda _: None)
    bpf = BPF()
    calls = bpf.hash(u64, u64, size=64)

    @bpf.kprobe(SHARED)
    def on_start() -> None:
        calls[function_ip()] += 1

    with bpf:
        read_both()
        seen = set(calls)
    assert seen <= addresses
    assert len(seen) >= 2 or not is_refused(SHARED)


def test_a_script_has_all_of_their_calls(addresses: set[int]) -> None:
    """A probe of bpftrace's language, with the return beside it."""
    script = Script(
        f"kprobe:{SHARED} /pid == $1/ {{ @entries[func] = count(); }} "
        f"kretprobe:{SHARED} /pid == $1/ {{ @returns = count(); }}",
        [str(os.getpid())],
    )
    with script:
        read_both()
        entries, returns = script["@entries"].snapshot(), script["@returns"].snapshot()
    assert set(entries) <= addresses
    assert len(entries) >= 2 or not is_refused(SHARED)
    assert sum(returns.values()) == sum(entries.values())
