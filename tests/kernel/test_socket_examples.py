"""The examples of docs/attachments.md for control groups and sockets do what they say, with workloads of known size."""

from __future__ import annotations

import contextlib
import linecache
import re
import socket
from ipaddress import ip_address
from pathlib import Path

import pytest

from pyebpf.attach.cgroups import HOOKS
from tests.kernel.test_sockets import group_of, ports_answer, thirteen_packets
from tests.support.needs import needs
from tests.support.traffic import datagrams, inside, udp

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "attachments.md").read_text("utf-8")
SECTIONS = ("cgroup: control groups", "Sockets", "Maps of sockets", "Netfilter")
BLOCKS = {
    re.search(r"^def (\w+)", block, re.MULTILINE)[1]: block
    for section in SECTIONS
    for block in re.findall(
        r"^```python\n(.*?)^```$",
        PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0],
        re.MULTILINE | re.DOTALL,
    )
}


def example(name, *arguments):
    """What the block's function makes."""
    source = BLOCKS[name]
    file = f"<attachments: {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = {"__name__": "attachments"}
    exec(compile(source, file, "exec", dont_inherit=True), names)
    return names[name](*arguments)


def probe(bpf):
    (found,) = bpf.probes
    return found


def test_no_mail(group):
    """3 of 7 connections are to port 25."""

    def work():
        errors = []
        for port in (25, 1, 25, 1, 25, 1, 1):
            with socket.socket() as client:
                errors.append(client.connect_ex(("127.0.0.1", port)) == 1)
        return errors

    with example("no_mail", str(group.path)) as bpf:
        assert group.run(work) == [True, False, True, False, True, False, False]
        assert bpf["refused"][0] == 3


def test_virtual_service(group):
    """A connection to an address that nobody has, by both names."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def work():
            with socket.create_connection(("192.0.2.1", 80), 20) as client:
                client.sendall(b"x")
                return client.getpeername()

        with example("virtual_service", str(group.path), server.getsockname()[1]):
            assert group.run(work) == ("192.0.2.1", 80)
            with server.accept()[0] as peer:
                assert peer.recv(9) == b"x"


def test_own_resolver(group):
    """7 questions to a name server that nobody has, and 7 answers from it."""
    with udp() as server:

        def work():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.settimeout(20)
                answers = []
                for number in range(7):
                    client.sendto(bytes([number]), ("192.0.2.9", 53))
                    server.sendto(*server.recvfrom(9))  # made outside: its calls are no calls of the group
                    answers.append(client.recvfrom(9))
            return answers

        with example("own_resolver", str(group.path), server.getsockname()[1], "192.0.2.53") as bpf:
            assert group.run(work) == [(bytes([number]), ("192.0.2.53", 53)) for number in range(7)]
            assert bpf["questions"][0] == 7


def test_above(group):
    """5 of 6 sockets get the port that lies above; the last one's is refused."""

    def work():
        ports = []
        for port in (501, 502, 503, 504, 505, 666):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
                with contextlib.suppress(PermissionError):
                    one.bind(("127.0.0.1", port))
                ports.append(one.getsockname()[1])
        return ports

    with example("above", str(group.path), 40_000, 40_666) as bpf:
        assert group.run(work) == [40_501, 40_502, 40_503, 40_504, 40_505, 0]
        assert dict(bpf["bound"]) == dict.fromkeys((40_501, 40_502, 40_503, 40_504, 40_505, 40_666), 1)


def test_bytes_by_address(group):
    """11 datagrams of 9 bytes, with UDP's and IPv4's headers."""

    def work():
        with udp() as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.bind(("127.0.0.3", 0))
            for _ in range(11):
                client.sendto(b"123456789", server.getsockname())

    with example("bytes_by_address", str(group.path)) as bpf:
        group.run(work)
        assert dict(bpf["received"]) == {int(ip_address("127.0.0.3")): 11 * (20 + 8 + 9)}


def test_marked(group):
    """The mark is there; 2 raw sockets are refused."""

    def work():
        for _ in range(2):
            with pytest.raises(PermissionError):
                socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        with socket.socket() as one:
            return one.getsockopt(socket.SOL_SOCKET, socket.SO_MARK)

    with example("marked", str(group.path), 1009) as bpf:
        assert group.run(work) == 1009
        assert bpf["refused"][0] == 2


def test_modest_buffers(group):
    """Of three buffers one is cut; the kernel doubles what it is asked for."""

    def work():
        sizes = []
        for size in (5_000, 100_000, 10_000):
            with socket.socket() as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
                sizes.append(one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
        return sizes

    with example("modest_buffers", str(group.path), 20_000) as bpf:
        assert group.run(work) == [10_000, 40_000, 20_000]
        assert bpf["cut"][0] == 1


def test_read_only(group):
    """A setting is read, and not written, three times; no block device is opened."""

    def work():
        path = Path("/proc/sys/net/ipv4/ip_forward")
        before = path.read_bytes()
        for _ in range(3):
            with path.open("wb", buffering=0) as file, pytest.raises(PermissionError):
                file.write(before)
        devices = [each for each in Path("/dev").iterdir() if each.is_block_device()][:5]
        for device in devices:
            with pytest.raises(PermissionError):
                device.open("rb")
        return len(devices)

    with example("read_only", str(group.path)) as bpf:
        devices = group.run(work)
        assert list(bpf["refused"].values()) == [3, devices]


def test_bytes_sent(group):
    """Two connections, by the port that they were to; TCP counts their ends, too."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def work():
            for size in (1_003, 20_011):
                with socket.create_connection(server.getsockname()) as client, server.accept()[0] as peer:
                    client.sendall(bytes(size))
                    client.shutdown(socket.SHUT_WR)
                    while peer.recv(1 << 16):
                        pass
                    peer.shutdown(socket.SHUT_WR)
                    assert not client.recv(1)

        with example("bytes_sent", str(group.path)) as bpf:
            group.run(work)
            # The byte of a SYN and that of a FIN are acknowledged, too; one that is left is for the last.
            assert bpf["sent"][port] in range(21_014, 21_014 + 5)


def test_answers_only():
    """Of 7 messages 4 are answers."""
    with udp() as server, example("answers_only") as bpf:
        probe(bpf).attach(server)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            for flags in (b"\0", b"\x80", b"\x81", b"\1", b"\x84", b"\7", b"\x80"):
                client.sendto(b"\0\x07" + flags + b"\0", server.getsockname())
        assert [data[2] for data in datagrams(server)] == [0x80, 0x81, 0x84, 0x80]
        assert bpf["dropped"][0] == 3


def test_by_sender():
    """17 datagrams of one sender come to one of three workers."""
    sockets = group_of(3)
    with contextlib.ExitStack() as stack:
        for one in sockets:
            stack.enter_context(one)
        bpf = stack.enter_context(example("by_sender", 3))
        for number, one in enumerate(sockets):
            bpf["workers"][number] = one
        probe(bpf).attach(sockets[0])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            for _ in range(17):
                client.sendto(b"x", sockets[0].getsockname())
        assert sorted(len(datagrams(one)) for one in sockets) == [0, 0, 17]


def test_all_ports(make_namespace):
    """5 of 11 ports lead to the listener."""
    namespace = make_namespace()
    with inside(namespace):
        server = socket.create_server(("127.0.0.1", 0), backlog=64)
    with server, example("all_ports", 7002, 7006) as bpf:
        bpf["listener"][0] = server
        probe(bpf).attach(namespace.path)
        assert ports_answer(namespace) == "rrcccccrrrr"


def test_ports_only(make_namespace):
    """13 packets are dissected by the program."""
    namespace = make_namespace()
    with example("ports_only") as bpf:
        probe(bpf).attach(namespace.path)
        thirteen_packets(namespace)
        assert bpf["dissected"][0] == 13


def test_shortcut(group):
    """11 messages there and back never see TCP."""

    def work():
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname()) as client,
            server.accept()[0] as peer,
        ):
            for _ in range(11):
                client.sendall(b"there")
                assert peer.recv(99) == b"there"
                peer.sendall(b"back")
                assert client.recv(99) == b"back"

    with example("shortcut", str(group.path)) as bpf:
        group.run(work)
        assert bpf["skipped"][0] == 11 * (5 + 4)


def test_splice():
    """What one side of a proxy gets, the other sends."""
    with contextlib.ExitStack() as stack:

        def pair():
            with socket.create_server(("127.0.0.1", 0)) as server:
                ends = socket.create_connection(server.getsockname()), server.accept()[0]
            for end in ends:
                stack.enter_context(end).settimeout(20)
            return ends

        (client, front), (back, server) = pair(), pair()
        bpf = stack.enter_context(example("splice"))
        bpf["port"][0] = front.getsockname()[1]
        bpf["ends"][0], bpf["ends"][1] = front, back
        for _ in range(5):
            client.sendall(b"question")
            assert server.recv(99) == b"question"
            server.sendall(b"answer")
            assert client.recv(99) == b"answer"
        assert bpf["moved"][0] == 5 * (8 + 6)


def test_small_only(make_namespace):
    """Of 11 datagrams 4 are too large."""
    needs("attach:netfilter")
    with inside(make_namespace()), example("small_only", 100) as bpf, udp() as server:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            for size in (10, 73, 72, 99, 5, 5, 5, 101, 5, 102, 5):
                with contextlib.suppress(PermissionError):
                    client.sendto(bytes(size), server.getsockname())
        assert [len(data) for data in datagrams(server)] == [10, 72, 5, 5, 5, 5, 5]
        assert dict(bpf["dropped"]) == {101: 1, 127: 1, 129: 1, 130: 1}


def test_every_block_is_here():
    """No example of these sections is without a test."""
    assert {f"test_{name}" for name in BLOCKS} <= globals().keys()
    assert len(BLOCKS) == 16


def test_table():
    """The page has a row for each hook, as the table of hooks has it."""
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| `\w+` \| (\d)(?: (?:or|to) (\d))? \|$", PAGE, re.MULTILINE)
    assert [(name, text, (int(low), int(high or low))) for name, text, low, high in rows if name in HOOKS] == [
        (name, hook.text, hook.results) for name, hook in HOOKS.items()
    ]
