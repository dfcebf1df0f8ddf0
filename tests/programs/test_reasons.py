"""Reasons of dropped packets on kernels that have none, by recorded facts: what is missing, and since when."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyebpf import BPF, NotSupported
from pyebpf.errors import CompileError
from pyebpf.programs import skbdrop, tcpdrop
from pyebpf.target import RecordedTarget

KERNELS = Path(__file__).with_name("kernels")
OLD = [path for path in KERNELS.glob("*.json") if path.stem.startswith("5.10")]


@pytest.fixture(params=OLD, ids=[path.stem for path in OLD])
def old(request):
    """Facts of Linux 5.10, before reasons."""
    return RecordedTarget.from_json(request.param.read_text())


def test_there_are_facts_of_such_kernels():
    """Else nothing here would be tested."""
    assert OLD


@pytest.mark.parametrize("tool", [tcpdrop, skbdrop], ids=["tcpdrop", "skbdrop"])
def test_tools_say_since_when_reasons_are_told(old, tool):
    """With --reason; without it, they do without."""
    with pytest.raises(NotSupported, match=r"^--reason: this kernel does not tell why .* Linux 5\.17 and later"):
        tool.build(tool.Options(reasons=("no_socket",))).compile(old)
    assert tool.build(tool.Options()).compile(old).programs


def test_probes_say_since_when_there_is_the_argument(old):
    """And how to ask for it, where other arguments that are not there have the names that are."""
    bpf = BPF()
    drops = bpf.counter()

    @bpf.raw_tracepoint("kfree_skb")
    def on_drop(ctx):
        drops.add(ctx.reason)

    with pytest.raises(CompileError) as caught:
        bpf.compile(old)
    assert caught.value.message == (
        "raw tracepoint kfree_skb has no argument reason on this kernel: it came with Linux 5.17; read it only where "
        'has_field("struct trace_event_raw_kfree_skb", "reason") says that it is there'
    )
