"""Ends of sockets in records, beside what the sockets themselves say; socket addresses of every family."""

from __future__ import annotations

import os
import socket
import time
from collections import defaultdict
from ipaddress import ip_address

import pytest

from pyebpf import BPF, KernelObject, Struct, TcpState, pid, s32, u32
from pyebpf.endpoints import AF_UNIX, Endpoints, SocketAddress, endpoints, sockaddr, with_port
from tests.support.needs import needs

ME = os.getpid()
LATE = 20  # seconds after which a state change does not come any more


class State(Struct):
    """A change of a connection's state."""

    state: u32
    ends: Endpoints


class Connect(Struct):
    """A connect(2) that returned."""

    result: s32
    to: SocketAddress


@pytest.mark.parametrize("raw", [False, True], ids=["typed", "raw"])
@pytest.mark.parametrize(("listen", "connect"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")])
def test_both_ends_of_a_connection(listen, connect, raw):
    """As getsockname(2) and getpeername(2) of either end say; IPv4 through a socket of IPv6 is IPv4."""
    if not raw:
        needs("program:tracing")
    bpf = BPF()
    states = bpf.ringbuf(State)

    @(bpf.raw_tracepoint if raw else bpf.btf_tracepoint)("inet_sock_set_state")
    def on_state(sk: KernelObject, newstate: int) -> None:
        states.emit(State(state=newstate, ends=endpoints(sk)))

    dual = listen == "::"
    family = socket.AF_INET6 if ":" in listen else socket.AF_INET
    with bpf, socket.create_server((listen, 0), family=family, dualstack_ipv6=dual) as server:
        port = server.getsockname()[1]
        with socket.create_connection((connect, port)) as client:
            peer, _ = server.accept()
            ours = client.getsockname()[:2]
            peer.close()
        # Another task may be the one in which the last segments arrive.
        ports, found, by_state = {ours[1], port}, [], defaultdict(set)
        deadline = time.monotonic() + LATE
        while len(by_state[TcpState.CLOSE]) < 2 and time.monotonic() < deadline:
            for each in states.poll(0.1):
                ends = each.ends
                if {ends.local_port, ends.remote_port} == ports:
                    found.append(each)
                    by_state[each.state].add((ends.local, ends.local_port, ends.remote, ends.remote_port))
    address = ip_address(connect)
    wanted = {(address, ours[1], address, port), (address, port, address, ours[1])}
    assert by_state[TcpState.ESTABLISHED] == wanted
    # Ports are there when the socket is closed, too.
    assert by_state[TcpState.CLOSE] == wanted
    assert {each.ends.version for each in found} == {address.version}
    assert {each.ends.family for each in found} == ({2, 10} if dual else {int(family)})


NAMES = ["\0pyebpf-abstract", "\0" + "x" * 107, "", "y" * 107]


@pytest.fixture
def connects():
    """The addresses that this process connects to."""
    bpf = BPF()
    found = bpf.ringbuf(Connect)

    @bpf.system_call("connect")
    def on_connect(uservaddr, addrlen: int, retval: int) -> None:
        if pid() == ME:
            found.emit(Connect(result=retval, to=sockaddr(uservaddr, addrlen)))

    with bpf:
        yield found


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_addresses_of_ip(connects, address):
    """Address and port of a datagram socket's peer; a mapped address is the one that it stands for."""
    six = ":" in address
    with socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect((address, 4711))
    (connect,) = connects.poll(0)
    plain = ip_address(address)
    plain = getattr(plain, "ipv4_mapped", None) or plain
    assert (connect.result, connect.to.address, connect.to.port) == (0, plain, 4711)
    assert str(connect.to) == with_port(plain, 4711)
    assert connect.to.path is None


@pytest.mark.parametrize("name", NAMES, ids=["abstract", "longest abstract", "empty", "longest"])
def test_names_of_unix_sockets(connects, name, tmp_path, monkeypatch):
    """Paths, names of the abstract namespace, and the longest of either, which end without a NUL."""
    monkeypatch.chdir(tmp_path)
    with socket.socket(AF_UNIX) as client, pytest.raises(OSError, match=r"refused|No such file|Invalid argument"):
        client.connect(name)
    *_, connect = connects.poll(0)  # the C library may have asked nscd before
    assert connect.result < 0
    assert connect.to.path == name.replace("\0", "@")
    assert connect.to.address is None


def test_other_families(connects):
    """They are named by their number."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", 9))
        client.connect(("127.0.0.1", 0))
    assert [each.to.port for each in connects.poll(0)] == [9, 0]
    other = SocketAddress(high=0, low=0, family=17, port=0, length=20, abstract=0, name="")
    assert (str(other), other.address, other.path) == ("address family 17", None, None)
