"""connects.py tested without root: compiled for a kernel that was recorded once, run by the interpreter."""

from ipaddress import ip_address
from pathlib import Path
from socket import IPPROTO_TCP

import connects

from pyebpf import TcpState
from pyebpf.testing import Simulation, recorded

FACTS = Path(__file__).with_name("connects.json")
SYN_SENT = {"protocol": IPPROTO_TCP, "newstate": TcpState.SYN_SENT}


def test_only_connections_to_the_port_are_reported() -> None:
    """One to port 443, and not one to port 22."""
    bpf = connects.build(only_port=443)
    with Simulation(bpf, recorded(FACTS)) as kernel:
        kernel.process(pid=42, comm="curl")
        there = ip_address("2001:db8::1").packed
        kernel.tracepoint("sock:inet_sock_set_state", **SYN_SENT, dport=443, daddr_v6=there)
        kernel.process(pid=43, comm="ssh")
        kernel.tracepoint("sock:inet_sock_set_state", **SYN_SENT, dport=22, daddr_v6=there)
        (found,) = bpf["connects"].poll(0)
        assert bpf.dropped == {}
    assert connects.text(found) == "42      curl             2001:db8::1 port 443"
