"""What each tool does with what its program reports: rows, order, labels."""

from __future__ import annotations

from contextlib import nullcontext
from ipaddress import IPv6Address, ip_address

import pytest

from pyebpf.endpoints import Endpoints
from pyebpf.errors import InvalidValue
from pyebpf.output.columns import Row
from pyebpf.output.histogram import log2
from pyebpf.programs import biolatency, opensnoop, runqlen, syscount, tcplife, tcpsynbl
from pyebpf.programs._block import flag_names
from pyebpf.programs._session_graph import edges


def test_processors_of_runqlen_are_in_their_order(fake_map):
    """Whichever was sampled most."""
    found = {
        runqlen.Processor(cpu=number): log2([1] * samples, labels={"cpu": number})
        for number, samples in ((1, 5), (10, 1), (0, 9))
    }
    shown = runqlen.TOOL.snapshot({"lengths": fake_map(found)}, runqlen.Options(by_cpu=True))
    assert [each.labels for each in shown] == [{"cpu": 0}, {"cpu": 1}, {"cpu": 10}]


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (0, "Read"),
        (1, "Write"),
        (1 << 11 | 1, "Sync-Write"),
        (1 << 12 | 1 << 13 | 0, "Priority-Metadata-Read"),
        (1 << 17 | 1 << 12 | 1 << 11 | 1, "ForcedUnitAccess-Metadata-Sync-Write"),
        (1 << 18 | 2, "PreFlush-Flush"),
        (1 << 19, "ReadAhead-Read"),
        (4, "Unknown"),
    ],
)
def test_flags_of_a_request(flags, name):
    """Names are bcc's, the last flag first, the operation at the end."""
    assert flag_names(flags) == name


def test_histograms_by_disk_and_flags(fake_map):
    """Disks in the order of their names, labels only for what was asked."""

    def interval():
        return {
            biolatency.Kind(flags=1, disk="vdb"): log2([0, 1]),
            biolatency.Kind(flags=0, disk="vdb"): log2([0, 2]),
            biolatency.Kind(flags=0, disk="vda"): log2([0, 3]),
        }

    both = biolatency.snapshot({"latency": fake_map(interval())}, biolatency.Options(by_disk=True, by_flags=True))
    assert [(h.labels, h.total) for h in both] == [
        ({"disk": "vda", "flags": "Read"}, 3),
        ({"disk": "vdb", "flags": "Read"}, 2),
        ({"disk": "vdb", "flags": "Write"}, 1),
    ]
    one = fake_map({biolatency.Kind(flags=0, disk="vda"): log2([1])})
    assert [h.labels for h in biolatency.snapshot({"latency": one}, biolatency.Options(by_disk=True))] == [
        {"disk": "vda"}
    ]
    all_disks = fake_map(log2([5]))
    assert [h.labels for h in biolatency.snapshot({"latency": all_disks}, biolatency.Options())] == [{}]


def test_system_calls_by_count_and_by_time(fake_map):
    """The most frequent first, with -L the longest; equal ones by name, so that the order is always the same."""
    counts = {0: 3, 1: 5, 3: 3}
    rows = list(syscount.snapshot({"counts": fake_map(counts)}, syscount.Options(top=2)))
    assert [row.count for row in rows] == [5, 3]
    maps = {"counts": fake_map(counts), "times": fake_map({0: 900, 1: 100, 3: 500})}
    rows = list(syscount.snapshot(maps, syscount.Options(latency=True)))
    assert [(row.count, row.nanoseconds) for row in rows] == [(3, 900), (3, 500), (5, 100)]
    processes = {syscount.Process(pid=7, comm="a"): 2, syscount.Process(pid=8, comm="a"): 4}
    rows = list(syscount.snapshot({"counts": fake_map(processes)}, syscount.Options(by_process=True)))
    assert [(row.pid, row.name, row.count) for row in rows] == [(8, "a", 4), (7, "a", 2)]


@pytest.mark.parametrize(
    ("options", "maps"),
    [
        ({}, 1),
        ({"by_process": True}, 1),
        ({"failed": True}, 2),
        ({"latency": True}, 3),
    ],
)
def test_system_calls_have_the_maps_that_the_options_use(options, maps):
    """Hashes for each processor take milliseconds to make."""
    bpf = syscount.build(syscount.Options(**options))
    assert len(bpf.maps) == maps


def session(address, **changes):
    values = {
        "pid": 4194304, "comm": "a-name-of-fifteen"[:15], "local": ip_address(address), "local_port": 65535,
        "remote": ip_address(address), "remote_port": 65535, "sent": 0, "received": 0, "began": 0, "ended": 12_340_000,
    }  # fmt: skip
    return tcplife.Session(**{**values, **changes})


def test_a_session_of_ipv4_fits_80_columns():
    """With the widest process id, addresses and ports."""
    row = Row(tcplife.columns(tcplife.Options()))
    line = row.line(session("255.255.255.255", sent=99999 << 10, received=99999 << 10))
    assert len(line) <= 80
    assert line.endswith("12.34")


def test_ipv6_addresses_are_never_cut():
    """They move the rest of the line; with -w there is room for any of them."""
    address = "fe80:1111:2222:3333:4444:5555:6666:7777"
    narrow, wide = (Row(tcplife.columns(tcplife.Options(wide=wide))) for wide in (False, True))
    assert narrow.line(session(address)).split().count(address) == 2
    assert wide.line(session(address)).index("65535") == wide.header().index("LPORT")
    assert wide.object(session(address))["ip_version"] == 6


def test_elapsed_seconds_begin_with_the_first_session():
    """-t counts from the first line of each run."""
    for _ in range(2):
        row = Row(tcplife.columns(tcplife.Options(elapsed=True)))
        sessions = [session("::1", ended=ended) for ended in (5_000_000_000, 6_500_000_000)]
        assert [row.object(each)["elapsed_ns"] for each in sessions] == [0, 1_500_000_000]
        assert [row.line(each).split()[0] for each in sessions] == ["0.000000", "1.500000"]


def test_sessions_as_a_graph():
    """Processes and hosts are nodes; what each sent another is an edge, once for both ends of a session on one machine.

    The addresses of both ends are the same, though one end's socket is of IPv6 and has them in its form.
    """
    ends = {"local": ip_address("127.0.0.1"), "remote": ip_address("127.0.0.1")}
    mapped = {"local": ip_address("::ffff:127.0.0.1"), "remote": ip_address("::ffff:127.0.0.1")}
    away = {"local": ip_address("192.0.2.1"), "remote": ip_address("198.51.100.2")}
    found = edges(
        [
            session("::1", pid=7, comm="get", **ends, local_port=3001, remote_port=80, sent=10, received=4000),
            session("::1", pid=8, comm='we"b', **mapped, local_port=80, remote_port=3001, sent=4000, received=10),
            session("::1", pid=7, comm="get", **away, local_port=3002, remote_port=443, sent=5, received=6),
            session("::1", pid=7, comm="get", **away, local_port=3003, remote_port=443, sent=50, received=60),
            session("::1", pid=0, comm="", **away, local_port=22, remote_port=3003, sent=0, received=1),
        ]
    )
    assert [(e.source, e.target, e.sessions, e.sent) for e in found] == [
        ("192.0.2.1", "198.51.100.2", 1, 0),
        ("198.51.100.2", "192.0.2.1", 1, 1),
        ("198.51.100.2", "get (7)", 2, 66),
        ("get (7)", "198.51.100.2", 2, 55),
        ("get (7)", 'we"b (8)', 1, 10),
        ('we"b (8)', "get (7)", 1, 4000),
    ]
    lines = [edge.line for edge in found]
    assert lines[0].startswith("digraph tcplife { ")
    assert lines[3] == '"get (7)" -> "198.51.100.2" [label="2 sessions, 55 bytes"];'
    assert lines[5] == '"we\'b (8)" -> "get (7)" [label="1 session, 4,000 bytes"]; }'
    assert edges([]) == []


def call(**changes):
    values = {"time": 0, "flags": 0o2000101, "pid": 1, "tid": 2, "uid": 3, "result": 5, "comm": "c", "path": "/p"}
    return opensnoop.Open(**{**values, **changes})


def test_columns_of_an_open():
    """-U, -e and -t add or change columns; errors are names, in text numbers if names are not asked for."""
    assert Row(opensnoop.columns(opensnoop.Options())).object(call()) == {
        "pid": 1, "comm": "c", "descriptor": 5, "error": None, "path": "/p",
    }  # fmt: skip
    options = opensnoop.Options(print_uid=True, extended=True, tid=2, errno_names=True)
    row = Row(opensnoop.columns(options))
    assert row.object(call(result=-2)) == {
        "uid": 3, "tid": 2, "comm": "c", "descriptor": -1, "error": "ENOENT", "flags": 0o2000101, "path": "/p",
    }  # fmt: skip
    assert row.header().split() == ["UID", "TID", "COMM", "FD", "ERR", "FLAGS", "PATH"]
    assert row.line(call(result=-2)).split() == ["3", "2", "c", "-1", "ENOENT", "02000101", "/p"]
    assert row.line(call(result=-4000)).split()[4] == "4000"


def test_error_names_are_the_kernels():
    """Linux's, also where Python has another name, or the C library none."""
    row = Row(opensnoop.columns(opensnoop.Options(errno_names=True)))
    assert [row.line(call(result=-number)).split()[3] for number in (95, 35, 512)] == [
        "EOPNOTSUPP", "EDEADLK", "ERESTARTSYS",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("systemd-network", ""),
        ("systemd-networkd", "has 16 bytes, and the kernel keeps 15 of a thread's name: write 'systemd-network'"),
        ("\u00e9" * 8, "has 16 bytes, and the kernel keeps 15 of a thread's name: write " + repr("\u00e9" * 7)),
        ("a\0b", "has a NUL, which no thread's name has"),
    ],
)
def test_a_name_that_no_thread_can_have(name, message):
    """-n refuses what would match nothing, with what to write."""
    with pytest.raises(InvalidValue) if message else nullcontext() as caught:
        opensnoop.Options(name=name)
    if message:
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("local", "remote", "ends"),
    [
        ("10.0.0.1", "10.0.0.2", "10.0.0.2:3001 -> 10.0.0.1:80"),
        ("::1", "fe80::2", "[fe80::2]:3001 -> [::1]:80"),
    ],
)
def test_a_drop_is_a_sentence(local, remote, ends):
    """From whom to whom, and what it found."""
    low = (1 << 64) - 1
    local_bits, remote_bits = (int(IPv6Address(f"::ffff:{a}" if "." in a else a)) for a in (local, remote))
    halves = (local_bits >> 64, local_bits & low, remote_bits >> 64, remote_bits & low)
    drop = tcpsynbl.Drop(0, 2, 3, "SYN", Endpoints(*halves, 80, 3001, 10))
    assert tcpsynbl.sentence(drop) == f"SYN dropped, {ends}: 3 in the queue, limit 2"
