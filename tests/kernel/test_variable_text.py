"""Fields of variable place in records of tracepoints (`__data_loc`): text that is compared, kept and counted by."""

from __future__ import annotations

import socket

from pyebpf import BPF, char, u64

SENT = 7


def test_names_of_interfaces_are_strings():
    """`net:net_dev_queue` has the interface's name: packets on loopback, by every use of it."""
    bpf = BPF()
    found = bpf.array(value=u64, size=8)
    counts = bpf.hash(key=char[32], value=u64)

    @bpf.tracepoint("net:net_dev_queue")
    def on_queue(ctx, name) -> None:
        if ctx.len < 5000 or ctx.len > 5100:
            return
        counts[name] += 1
        if name == "lo":
            found[0] += 1
        if ctx.name == "lo" and ctx.name != "l" and ctx.name != "lo0" and ctx.name in ("eth0", "lo"):
            found[1] += 1
        if name[0] == "l" and name[1] == "o":
            found[2] += 1
        kept: char[32] = ctx.name
        if kept.endswith("o") and "lo" in kept:
            found[3] += 1

    @bpf.tracepoint("net:net_dev_queue")
    def on_queue_again(ctx, name: char[16]) -> None:
        if 5000 <= ctx.len <= 5100 and name == "lo":
            found[4] += 1

    with bpf, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(SENT):
            sender.sendto(bytes(5000), ("127.0.0.1", 9))
        assert dict(counts) == {"lo": SENT}
        assert [found[number] for number in range(5)] == [SENT] * 5
