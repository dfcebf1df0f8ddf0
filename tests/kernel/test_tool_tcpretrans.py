"""tcpretrans: segments that get lost in a namespace of the test's own, as many as the kernel counts."""

from __future__ import annotations

import json
import socket
import sys
from collections import Counter

import pytest

from pyebpf.features import Features, Support
from pyebpf.programs import tcpretrans
from pyebpf.runtime.host import kernel_btf
from tests.support import tcp_losses
from tests.support.command import pyebpf, running
from tests.support.needs import lacks, needs

ENDS = ("local_address", "local_port", "remote_address", "remote_port")
WHAT_IS_NEW = ("attach:fentry", "attach:kprobe_multi", "attach:kprobe")


@pytest.fixture
def lose(make_namespace):
    """A function that lets segments get lost, and returns what is told of them."""

    def work(way, version="4"):
        return json.loads(make_namespace().run(sys.executable, tcp_losses.__file__, way, version))

    return work


def of(told, tool):
    """The records of one connection."""
    return [record for record in tool.objects() if [record[name] for name in ENDS] == told["ends"]]


@pytest.mark.parametrize("version", ["4", "6"])
def test_each_segment(lose, version):
    """The tail loss probe first, then what the timer sends; in text and JSON, and in the counts of -c."""
    with (
        running("tcpretrans", "--json") as objects,
        running("tcpretrans") as text,
        running("tcpretrans", "-c", "--json") as counts,
    ):
        told = lose("data", version)
        for tool in (objects, text, counts):
            tool.stop()
    found = of(told, objects)
    assert len(found) == told["again"] == tcp_losses.AGAIN
    assert [record["kind"] for record in found] == [
        *("L" * told["probes"]),
        *("R" * (tcp_losses.AGAIN - told["probes"])),
    ]
    assert {(record["state"], record["ip_version"]) for record in found} == {("ESTABLISHED", int(version))}
    times = [record["time"] for record in found]
    assert times == sorted(times)
    assert [record["count"] for record in of(told, counts)] == [tcp_losses.AGAIN]
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["TIME", "PID", "IP", "LADDR:LPORT", "T>", "RADDR:RPORT", "STATE"]
    local, port, remote, other = told["ends"]
    here, there = (
        (f"[{local}]:{port}", f"[{remote}]:{other}") if version == "6" else (f"{local}:{port}", f"{remote}:{other}")
    )
    mine = [line.split() for line in lines if here in line]
    assert [line[2:] for line in mine] == [[version, here, f"{r['kind']}>", there, r["state"]] for r in found]


def test_what_acknowledgements_ask_for(lose):
    """It is no tail loss probe, though one is due at that time: those are as many as the kernel says."""
    with running("tcpretrans", "--json") as tool:
        told = lose("fast")
        tool.stop()
    kinds = Counter(record["kind"] for record in of(told, tool))
    assert kinds["L"] <= told["probes"]
    assert kinds.total() == told["again"]
    assert kinds["R"] >= told["again"] - told["probes"] > 0


def test_an_answer_to_a_syn(lose):
    """A SYN-ACK belongs to no connection yet: its ends are those of the request."""
    with running("tcpretrans", "--json") as tool:
        told = lose("synack")
        tool.stop()
    assert [(r["kind"], r["state"]) for r in of(told, tool)] == [("S", "NEW_SYN_RECV")] * told["again"]
    assert told["again"] == 1


def test_a_probe_with_new_data(lose):
    """It repeats nothing, and is a line with -l alone; one that repeats a segment is one line with -l, too."""
    if all(Features(kernel_btf).ask(way) is Support.NO for way in WHAT_IS_NEW):
        needs("attach:kprobe")
    with running("tcpretrans", "--json") as without, running("tcpretrans", "-l", "--json") as all_:
        new, old = lose("new"), lose("data")
        for tool in (without, all_):
            tool.stop()
    assert (new["again"], new["probes"]) == (1, 1)
    assert [record["kind"] for record in of(new, without)] == ["R"]
    assert [record["kind"] for record in of(new, all_)] == ["L", "R"]
    assert [r["kind"] for r in of(old, all_)] == [r["kind"] for r in of(old, without)]
    assert len(of(old, all_)) == tcp_losses.AGAIN


def test_without_functions():
    """-l needs a function of the kernel: where none can be traced, one line says so."""
    for each in WHAT_IS_NEW:
        lacks(each)
    ended = pyebpf("tcpretrans", "-l", "-d", "1")
    assert ended.returncode == 1
    assert ended.stderr.startswith("pyebpf tcpretrans: ")
    assert len(ended.stderr.splitlines()) == 1


def test_filters(lose):
    """By ports, address and version; a library's record has addresses as ipaddress has them."""
    with (
        tcpretrans.open(address="10.9.8.2", ipv4=True) as wanted,
        tcpretrans.open(ipv6=True) as none,
        tcpretrans.open(counts=True, remote_ports=(4000,)) as by_port,
    ):
        told = lose("data")
        found = [next(wanted) for _ in range(tcp_losses.AGAIN)]
        assert [(r.ends.remote_port) for r in by_port()] == []
        assert {(str(r.ends.local), r.ends.local_port, r.ends.family) for r in found} == {
            (*told["ends"][:2], int(socket.AF_INET))
        }
    assert list(none) == []
