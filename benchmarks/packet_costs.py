"""What a datagram costs by the kind of what is attached to its way: `python -m benchmarks.packet_costs`.

Needs root. In a network namespace and a control group of its own a process sends datagrams to itself over loopback,
without a program and with one of each kind, empty and with a keyed count; the difference is the cost of a datagram,
with all that the kernel does around the program. Kinds that the kernel lacks are left out.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from typing import Any

from benchmarks.measure import ROOT, table
from pyebpf import BPF, TCX_NEXT, XDP_PASS, NotPermitted, NotSupported, u32, u64
from tests.support.cgroups import cgroup

DATAGRAMS = 2_000
ROUNDS = 61
INSIDE = "--inside"  # said to the process that is in the namespace already

#: Each kind by its decorator, what that is given ("group" is the control group), and what the program returns.
KINDS: dict[str, tuple[str, tuple[str, ...], int]] = {
    "socket_filter": ("socket_filter", (), 1 << 16),
    "xdp, generic": ("xdp", ("lo",), XDP_PASS),
    "tc ingress": ("tc", ("lo", "ingress"), TCX_NEXT),
    "tc egress": ("tc", ("lo", "egress"), TCX_NEXT),
    "cgroup_skb_ingress": ("cgroup_skb_ingress", ("group",), 1),
    "cgroup_skb_egress": ("cgroup_skb_egress", ("group",), 1),
    "cgroup_sendmsg4": ("cgroup_sendmsg4", ("group",), 1),
    "cgroup_recvmsg4": ("cgroup_recvmsg4", ("group",), 1),
}


def made(decorator: str, arguments: tuple[str, ...], verdict: int, *, counting: bool) -> tuple[BPF, Any]:
    """A module with one program, and its probe."""
    bpf = BPF()
    counts = bpf.percpu_hash(key=u32, value=u64, name="counts")

    @getattr(bpf, decorator)(*arguments)
    def on_datagram() -> int:
        if counting:
            counts[1009] += 1
        return verdict

    return bpf, on_datagram


def datagrams(end: socket.socket) -> float:
    """Nanoseconds of one, sent and received."""
    here = end.getsockname()
    began = time.perf_counter_ns()
    for _ in range(DATAGRAMS):
        end.sendto(b"x" * 64, here)
        end.recvfrom(64)  # with the address: recv(2) passes no recvmsg4 hook
    return (time.perf_counter_ns() - began) / DATAGRAMS


def cost(kind: str, group: str, *, counting: bool) -> float | None:
    """Nanoseconds that a program adds, in turns with none; None where the kernel has no such kind.

    The difference of the fastest rounds of each, as whatever else runs on the machine only makes them slower.
    """
    decorator, arguments, verdict = KINDS[kind]
    places = tuple(group if argument == "group" else argument for argument in arguments)
    with_program, without = [], []
    bpf, probe = made(decorator, places, verdict, counting=counting)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.bind(("127.0.0.1", 0))
        end.sendto(b"x", end.getsockname())
        end.recvfrom(64)
        try:
            bpf.load()
            with bpf:
                for _ in range(ROUNDS):
                    link = probe.attach(end) if not arguments else None
                    with_program.append(datagrams(end))
                    bpf.detach() if link is None else link.detach()
                    without.append(datagrams(end))
                    if link is None:
                        bpf.attach()
        except (NotSupported, NotPermitted):
            return None
    return min(with_program) - min(without)


def measure(group: str) -> None:
    """Measure each kind, and print nanoseconds."""
    rows = []
    for kind in KINDS:
        alone, counted = (cost(kind, group, counting=counting) for counting in (False, True))
        if alone is not None and counted is not None:
            rows.append((kind, f"{alone:.0f}", f"{counted:.0f}"))
    table(("attached by", "empty ns", "counting ns"), rows)


def main() -> None:
    """Measure in a network namespace and a control group made for it."""
    if INSIDE not in sys.argv[1:]:
        script = f'ip link set lo up && exec "$0" -m benchmarks.packet_costs {INSIDE}'
        command = ["unshare", "--net", "sh", "-c", script, sys.executable]
        subprocess.run(command, cwd=ROOT, check=True)
        return
    with cgroup() as group:
        group.run(lambda: measure(os.fspath(group.path)))


if __name__ == "__main__":
    main()
