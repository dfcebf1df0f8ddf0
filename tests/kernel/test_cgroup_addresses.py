"""Programs on the addresses of system calls: counted, refused and rewritten, for the processes of one control group."""

from __future__ import annotations

import errno
import socket
from ipaddress import ip_address

import pytest

from pyebpf import BPF, SockAddrContext, SockContext, helpers, u32, u64
from tests.support.cgroups import cgroup
from tests.support.needs import needs

#: An address that no host has, and what stands in for it; as a program writes and compares them.
NOWHERE = {4: "192.0.2.7", 6: "2001:db8::7"}
LOOPBACK = {4: "127.0.0.1", 6: "::1"}
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
PORT = 53


def known(address):
    """An address as programs have it: a number, or 16 bytes."""
    found = ip_address(address)
    return int(found) if found.version == 4 else found.packed


@pytest.fixture(params=[4, 6])
def version(request):
    needs(f"setting:/proc/sys/net/ipv{request.param}")
    return request.param


def listener(version, kind=socket.SOCK_STREAM):
    made = socket.socket(FAMILY[version], kind)
    made.bind((LOOPBACK[version], 0))
    if kind == socket.SOCK_STREAM:
        made.listen(64)
    made.settimeout(60)
    return made


def attempts(version, ports):
    """Connect to each port in turn: its peer's name, or the errno."""
    found = []
    for port in ports:
        with socket.socket(FAMILY[version]) as client:
            try:
                client.connect((LOOPBACK[version], port))
                found.append(client.getpeername()[:2])
            except OSError as error:
                found.append(error.errno)
    return found


def test_refused(group, version):
    """Of 17 connections 7 are refused, with the program's own errno; others of the machine are not even counted."""
    needs("helper:set_retval@cgroup_sock_addr")
    bpf = BPF()
    tried = bpf.array(value=u64, size=2)
    with listener(version) as free, listener(version) as closed:
        port, forbidden = free.getsockname()[1], closed.getsockname()[1]

        @getattr(bpf, f"cgroup_connect{version}")(group.path)
        def connects(ctx: SockAddrContext) -> int:
            tried[0] += 1
            if ctx.user_port == forbidden:
                tried[1] += 1
                helpers.set_retval(-errno.ECONNREFUSED)
                return 0
            return 1

        ports = ([port] * 2 + [forbidden]) * 5 + [forbidden] * 2
        good = (LOOPBACK[version], port)
        with bpf:
            answers = group.run(lambda: attempts(version, ports))
            assert answers == ([good] * 2 + [errno.ECONNREFUSED]) * 5 + [errno.ECONNREFUSED] * 2
            assert attempts(version, [forbidden]) == [(LOOPBACK[version], forbidden)]
            assert dict(tried) == {0: 17, 1: 7}
            assert bpf.attachments == [f"connects: cgroup connect{version} of {group.path}, by cgroup link"]
            bpf.detach()
            assert group.run(lambda: attempts(version, [forbidden])) == [(LOOPBACK[version], forbidden)]
            assert dict(tried) == {0: 17, 1: 7}


def test_rewritten(group, version):
    """13 connections to an address that is nowhere reach a listener, and both ends' names are what programs say."""
    bpf = BPF()
    calls = bpf.array(value=u64, size=3)
    v6, nowhere, real = version == 6, known(NOWHERE[version]), known(LOOPBACK[version])
    with listener(version) as server:
        port = server.getsockname()[1]

        @getattr(bpf, f"cgroup_connect{version}")(group.path)
        def connects(ctx: SockAddrContext) -> int:
            calls[0] += 1
            if v6:
                if ctx.user_ip6 == nowhere:
                    ctx.user_ip6 = real
            elif ctx.user_ip4 == nowhere:
                ctx.user_ip4 = real
            ctx.user_port = port
            return 1

        @getattr(bpf, f"cgroup_getpeername{version}")(group.path)
        def peers(ctx: SockAddrContext) -> int:
            calls[1] += 1
            if v6:
                ctx.user_ip6 = nowhere
            else:
                ctx.user_ip4 = nowhere
            ctx.user_port = PORT
            return 1

        @getattr(bpf, f"cgroup_getsockname{version}")(group.path)
        def names(ctx: SockAddrContext) -> int:
            calls[2] += 1
            ctx.user_port = ctx.sk.protocol
            return 1

        def work():
            found = set()
            for _ in range(13):
                with socket.socket(FAMILY[version]) as client:
                    client.connect((NOWHERE[version], PORT))
                    found.add((client.getpeername()[:2], client.getsockname()[:2]))
            return found

        with bpf:
            assert group.run(work) == {((NOWHERE[version], PORT), (LOOPBACK[version], socket.IPPROTO_TCP))}
            for _ in range(13):
                server.accept()[0].close()
            assert dict(calls) == {0: 13, 1: 13, 2: 13}


def test_datagrams(group, version):
    """11 datagrams to nowhere reach a socket, 2 are refused; the answers come from where the program says."""
    bpf = BPF()
    calls = bpf.array(value=u64, size=2)
    v6, nowhere, real = version == 6, known(NOWHERE[version]), known(LOOPBACK[version])
    with listener(version, socket.SOCK_DGRAM) as server:
        port = server.getsockname()[1]

        @getattr(bpf, f"cgroup_sendmsg{version}")(group.path)
        def sends(ctx: SockAddrContext) -> int:
            calls[0] += 1
            if ctx.user_port != PORT:
                return 0
            ctx.user_port = port
            if v6:
                ctx.user_ip6 = real
            else:
                ctx.user_ip4 = real
                ctx.msg_src_ip4 = 0x7F000102
            return 1

        @getattr(bpf, f"cgroup_recvmsg{version}")(group.path)
        def receives(ctx: SockAddrContext) -> int:
            calls[1] += 1
            if v6:
                ctx.user_ip6 = nowhere
            else:
                ctx.user_ip4 = nowhere
            ctx.user_port = PORT
            return 1

        def work():
            with socket.socket(FAMILY[version], socket.SOCK_DGRAM) as client:
                for number in range(11):
                    client.sendto(bytes([number]), (NOWHERE[version], PORT))
                for _ in range(2):
                    with pytest.raises(PermissionError):
                        client.sendto(b"no", (NOWHERE[version], PORT + 1))
                # The server's socket was made outside: its calls are no calls of the group.
                for _ in range(11):
                    server.sendto(*server.recvfrom(9))
                return [client.recvfrom(9) for _ in range(11)]

        with bpf:
            answers = group.run(work)
            assert [(data, sender[:2]) for data, sender in answers] == [
                (bytes([number]), (NOWHERE[version], PORT)) for number in range(11)
            ]
            assert dict(calls) == {0: 13, 1: 11}


def test_bound(group, version):
    """Ports below 1000 get 40000 added; 3 of 7 binds are refused; the port that was got is seen behind it."""
    bpf = BPF()
    ports = bpf.hash(key=u64, value=u64)
    address = known(LOOPBACK[version])
    v6 = version == 6

    @getattr(bpf, f"cgroup_bind{version}")(group.path)
    def binds(ctx: SockAddrContext) -> int:
        if ctx.user_port == 666:
            return 0
        if ctx.user_port < 1000:
            ctx.user_port = ctx.user_port + 40_000
        return 1

    @getattr(bpf, f"cgroup_post_bind{version}")(group.path)
    def bound(ctx: SockContext) -> int:
        if v6:
            if ctx.src_ip6 == address:
                ports[ctx.src_port] += 1
        elif ctx.src_ip4 == address:
            ports[ctx.src_port] += 1
        return 0 if ctx.src_port == 40_503 else 1

    def work():
        found = []
        for port in (501, 666, 502, 666, 503, 666, 509):
            with socket.socket(FAMILY[version], socket.SOCK_DGRAM) as made:
                try:
                    made.bind((LOOPBACK[version], port))
                    found.append(made.getsockname()[1])
                except PermissionError:
                    found.append(None)
        return found

    with bpf:
        assert group.run(work) == [40_501, None, 40_502, None, None, None, 40_509]
        assert dict(ports) == {40_501: 1, 40_502: 1, 40_503: 1, 40_509: 1}


def test_unix(group):
    """Unix sockets: 11 connections, 4 of them refused by who asks, datagrams and names counted."""
    needs("attach:cgroup_unix_connect")
    bpf = BPF()
    calls = bpf.array(value=u64, size=5)

    @bpf.cgroup_connect_unix(group.path)
    def connects(ctx: SockAddrContext) -> int:
        calls[0] += 1
        return 0 if calls[0] > 7 else 1

    @bpf.cgroup_sendmsg_unix(group.path)
    def sends() -> int:
        calls[1] += 1
        return 1

    @bpf.cgroup_recvmsg_unix(group.path)
    def receives() -> int:
        calls[2] += 1
        return 1

    @bpf.cgroup_getpeername_unix(group.path)
    def peers(ctx: SockAddrContext) -> int:
        calls[3] += ctx.user_family
        return 1

    @bpf.cgroup_getsockname_unix(group.path)
    def names() -> int:
        calls[4] += 1
        return 1

    def work():
        refused = 0
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as post:
            server.bind("")
            server.listen(16)
            calls[4] = 0  # a security module may have asked for the name of what listens
            post.bind("")
            post_box = post.getsockname()
            for _ in range(11):
                with socket.socket(socket.AF_UNIX) as client:
                    try:
                        client.connect(server.getsockname())
                    except PermissionError:
                        refused += 1
                    else:
                        client.getpeername()
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
                client.bind("")
                for _ in range(5):
                    client.sendto(b"x", post_box)
                    post.recvfrom(9)
        return refused

    with bpf:
        assert group.run(work) == 4
        assert dict(calls) == {0: 11, 1: 5, 2: 5, 3: 7 * socket.AF_UNIX, 4: 12}


def test_programs_that_return_one_number_only():
    """Ways out that are never taken, of arrays, loops and maps' loops, return what this kind of program may."""
    needs("helper:for_each_map_elem@cgroup_sock_addr")
    bpf = BPF()
    table = bpf.array(value=u64, size=8)
    counts = bpf.hash(key=u32, value=u64)

    @bpf.cgroup_recvmsg4()
    def seen() -> int:
        counts[1] = table[3]
        number = 0
        while number < 5:
            number += 1
            counts[2] = table[number & 7]
        for key, count in counts.items():
            if table[key & 7] > count:
                return 1
        return 1

    with bpf, cgroup() as group, seen.attach(group.path):
        assert len(counts) == 0
