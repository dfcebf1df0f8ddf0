"""Programs at the other hooks of control groups: packets, sockets, options, settings, devices, the life of TCP."""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import time
from pathlib import Path

import pytest

from pyebpf import (
    BPF,
    CompileError,
    DeviceContext,
    InvalidValue,
    NotFound,
    SkBuff,
    SockContext,
    SockOpsContext,
    SockoptContext,
    Struct,
    SysctlContext,
    u32,
    u64,
)
from pyebpf.packet import UDP, IPv4
from pyebpf.uapi.flags import (
    BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB,
    BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB,
    BPF_SOCK_OPS_TCP_CONNECT_CB,
)
from tests.support.needs import needs
from tests.support.traffic import datagrams, udp

KILLS = int(os.environ.get("PYEBPF_KILLS", "5"))
SO_MARK = 36


class Value(Struct):
    """An option that is a number."""

    number: u32


@pytest.mark.every_kernel
def test_packets(group):
    """Of 19 datagrams 5 are refused on their way out and 3 are lost on their way in."""
    bpf = BPF()
    out, into = bpf.array(value=u64, size=2), bpf.array(value=u64, size=2)

    @bpf.cgroup_skb_egress(group.path)
    def leaving(ctx: SkBuff) -> int:
        ip = ctx.packet.header(IPv4)
        udp = ctx.packet.header(UDP, at=20)
        if ip is None or udp is None or ip.protocol != socket.IPPROTO_UDP:
            return 1
        out[0] += 1
        if udp.length == 8 + 5:
            out[1] += 1
            return 0
        return 1

    @bpf.cgroup_skb_ingress(group.path)
    def coming(ctx: SkBuff) -> int:
        into[0] += 1
        if ctx.len == 20 + 8 + 3:
            into[1] += 1
            return 0
        return 1

    def work():
        refused = 0
        with udp() as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(server.getsockname())
            for size in (*[3] * 3, *[5] * 5, *[11] * 11):
                try:
                    client.send(b"x" * size)
                except PermissionError:
                    refused += 1
            return refused, datagrams(server)

    with bpf:
        assert group.run(work) == (5, [b"x" * 11] * 11)
        assert (dict(out), dict(into)) == ({0: 19, 1: 5}, {0: 14, 1: 3})
        bpf.detach()
        assert group.run(work) == (0, [b"x" * 3] * 3 + [b"x" * 5] * 5 + [b"x" * 11] * 11)
        assert (dict(out), dict(into)) == ({0: 19, 1: 5}, {0: 14, 1: 3})


@pytest.mark.every_kernel
def test_sockets(group):
    """Of 13 sockets 2 are refused; the others carry the program's mark, and are counted again when they are closed."""
    bpf = BPF()
    made, closed = bpf.array(value=u64, size=2), bpf.array(value=u64)

    @bpf.cgroup_sock_create(group.path)
    def creates(ctx: SockContext) -> int:
        made[0] += 1
        if ctx.family == socket.AF_INET6 and ctx.type == socket.SOCK_DGRAM:
            made[1] += 1
            return 0
        ctx.mark = 4711
        ctx.priority = 5
        return 1

    @bpf.cgroup_sock_release(group.path)
    def releases(ctx: SockContext) -> int:
        closed[0] += ctx.mark
        return 1

    def work():
        found = []
        for number in range(13):
            family = socket.AF_INET6 if number in (3, 7) else socket.AF_INET
            try:
                with socket.socket(family, socket.SOCK_DGRAM) as one:
                    mark = one.getsockopt(socket.SOL_SOCKET, SO_MARK)
                    found.append((mark, one.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY)))
            except PermissionError:
                found.append(None)
        return found

    with bpf:
        answers = group.run(work)
        assert answers == [None if number in (3, 7) else (4711, 5) for number in range(13)]
        assert dict(made) == {0: 13, 1: 2}
        assert closed[0] == 11 * 4711


def test_socket_options(group):
    """An option of the program's own that the kernel never sees, one refused, and one whose value is another."""
    bpf = BPF()
    kept, calls = bpf.array(value=u64), bpf.array(value=u64, size=2)
    own_level, own_option = 0xBEEF, 3

    @bpf.cgroup_setsockopt(group.path)
    def sets(ctx: SockoptContext) -> int:
        calls[0] += 1
        if ctx.level == own_level:
            value = ctx.optval.header(Value)
            if value is None or ctx.optlen < 4 or ctx.optname != own_option:
                return 0
            kept[0] = value.number
            ctx.optlen = -1  # the kernel is left out
            return 1
        if ctx.optname == socket.SO_RCVBUF:
            value = ctx.optval.header(Value)
            if value is not None and value.number > 100_000:
                value.number = 50_000
        return 0 if ctx.optname == socket.SO_KEEPALIVE else 1

    @bpf.cgroup_getsockopt(group.path)
    def gets(ctx: SockoptContext) -> int:
        calls[1] += 1
        if ctx.level != own_level:
            return 1
        value = ctx.optval.header(Value)
        if value is None:
            return 0
        value.number = kept[0] + 1
        ctx.optlen = 4
        ctx.retval = 0
        return 1

    def work():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.setsockopt(own_level, own_option, 41)
            answers = [one.getsockopt(own_level, own_option)]
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 200_000)
            answers.append(one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
            for level, option, value in (
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE, struct.pack("i", 1)),
                (own_level, 9, struct.pack("i", 1)),
                (own_level, own_option, b"xy"),
            ):
                with pytest.raises(PermissionError):
                    one.setsockopt(level, option, value)
            # Linux 5.10 gives the program's refusal, later ones their own before it.
            with pytest.raises(OSError, match=r"not supported|not available|not permitted"):
                one.getsockopt(own_level, own_option, 2)
        return answers

    with bpf:
        # The kernel doubles what it is asked for.
        assert group.run(work) == [42, 100_000]
        assert dict(calls) == {0: 5, 1: 3}
        bpf.detach()
        with pytest.raises(AssertionError, match=r"Protocol not available|Operation not supported"):
            group.run(work)
        assert dict(calls) == {0: 5, 1: 3}


def test_settings(group):
    """7 reads of a setting are counted by its name, 3 of another refused."""
    bpf = BPF()
    calls = bpf.array(value=u64, size=2)

    @bpf.cgroup_sysctl(group.path)
    def reads(ctx: SysctlContext) -> int:
        if ctx.write:
            return 0
        if ctx.name == "kernel/ostype":
            calls[0] += 1
        if ctx.name == "kernel/osrelease":
            calls[1] += 1
            return 0
        return 1

    def work():
        refused = 0
        for name in ["ostype", "osrelease", "ostype"] * 3 + ["ostype"]:
            with Path(f"/proc/sys/kernel/{name}").open("rb", buffering=0) as file:
                try:
                    assert file.read(99) == b"Linux\n"
                except PermissionError:
                    refused += 1
        return refused

    with bpf:
        assert group.run(work) == 3
        assert dict(calls) == {0: 7, 1: 3}


def test_devices(group):
    """11 opens of /dev/null are counted, 5 of /dev/zero refused."""
    bpf = BPF()
    calls = bpf.array(value=u64, size=2)

    @bpf.cgroup_device(group.path)
    def opens(ctx: DeviceContext) -> int:
        if ctx.major == 1 and ctx.minor == 3 and ctx.access_type >> 16 == 2:  # BPF_DEVCG_ACC_READ
            calls[0] += 1
        if ctx.major == 1 and ctx.minor == 5:
            calls[1] += 1
            return 0
        return 1

    def work():
        for _ in range(11):
            os.close(os.open("/dev/null", os.O_RDONLY))
        for _ in range(5):
            with pytest.raises(PermissionError):
                os.open("/dev/zero", os.O_RDONLY)

    with bpf:
        group.run(work)
        assert dict(calls) == {0: 11, 1: 5}


def test_tcp_events(group):
    """13 connections: each begins, is made at this end and at that one, with the ports that they have."""
    bpf = BPF()
    events = bpf.hash(key=u32, value=u64)
    server = socket.create_server(("127.0.0.1", 0), backlog=32)
    port = server.getsockname()[1]

    @bpf.cgroup_sock_ops(group.path)
    def happens(ctx: SockOpsContext) -> int:
        sk = ctx.sk
        if ctx.op == BPF_SOCK_OPS_TCP_CONNECT_CB and ctx.remote_port == port:
            events[ctx.op] += 1
        if ctx.op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB and sk is not None and sk.dst_port == port:
            events[ctx.op] += 1
        if ctx.op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB and ctx.local_port == own[0]:
            events[ctx.op] += 1
        return 1

    own = bpf.array(value=u32)

    def work():
        for _ in range(13):
            socket.create_connection(("127.0.0.1", port)).close()
        with socket.create_server(("127.0.0.1", 0), backlog=32) as inside:
            own[0] = inside.getsockname()[1]
            for _ in range(3):
                socket.create_connection(inside.getsockname()).close()

    with server, bpf:
        group.run(work)
        assert dict(events) == {
            BPF_SOCK_OPS_TCP_CONNECT_CB: 13,
            BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB: 13,
            BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB: 3,
        }


# -- places ------------------------------------------------------------------------------------------------------------


def counting(*cgroups):
    """A module that counts and refuses sockets made."""
    bpf = BPF()
    made = bpf.array(value=u64)

    @bpf.cgroup_sock_create(*cgroups)
    def creates() -> int:
        made[0] += 1
        return 0

    return bpf, made, creates


def a_socket():
    try:
        socket.socket(socket.AF_INET).close()
    except PermissionError:
        return False
    return True


def test_several_groups(group):
    """One program for a group and the one below it is loaded once and runs twice below; a link ends by itself."""
    below = type(group)(group.path / "below")
    below.path.mkdir()
    try:
        bpf, made, _ = counting(group.path, below.path)
        with bpf:
            assert len({program.fileno() for program in bpf.programs.values()}) == 1
            assert not below.run(a_socket)
            assert made[0] == 2
            assert not group.run(a_socket)
            assert made[0] == 3
    finally:
        below.path.rmdir()


def test_named_later(group):
    """`attach` takes a path, a Path or a descriptor; each link ends when it is told to, or with its group."""
    bpf, made, creates = counting()
    folder = os.open(group.path, os.O_RDONLY)
    try:
        with bpf:
            assert group.run(a_socket)
            for place in (str(group.path), group.path, folder):
                with creates.attach(place):
                    assert not group.run(a_socket)
                assert group.run(a_socket)
            assert made[0] == 3
            link = creates.attach(group.path)
            group.path.rmdir()
            with pytest.raises(NotFound, match=r"is a control group that was removed: cgroup2 is mounted"):
                creates.attach(folder)
            link.detach()
    finally:
        os.close(folder)


def test_updated(group):
    """A link's program is exchanged for another of the same hook; one of another hook is refused."""
    bpf, made, creates = counting()

    @bpf.cgroup_sock_create()
    def allows() -> int:
        made[0] += 100
        return 1

    @bpf.cgroup_post_bind4()
    def binds() -> int:
        return 1

    with bpf:
        programs = {program.name: program for program in bpf.programs.values()}
        with creates.attach(group.path) as link:
            assert not group.run(a_socket)
            link.update(programs["allows"])
            assert group.run(a_socket)
            assert made[0] == 101
            with pytest.raises(InvalidValue, match="binds: the program was loaded for another target"):
                link.update(programs["binds"])


def test_no_group(group, tmp_path):
    """A directory that is missing, or that is not a control group, is one line that says where those are."""
    bpf, _, creates = counting()
    mount = str(group.path.parent)
    with bpf:
        for place in (group.path / "missing", group.path / "cgroup.procs"):
            with pytest.raises(NotFound, match=rf"^no control group {place}: cgroup2 is mounted at .*{mount}"):
                creates.attach(place)
        with pytest.raises(NotFound, match=rf"^{tmp_path} is not a control group of version 2: cgroup2 is mounted at "):
            creates.attach(tmp_path)


def test_killed(group):
    """However a process ends, its links end with it: sockets can be made again."""

    def attach(ready):
        bpf, _, _ = counting(group.path)
        with bpf:
            os.write(ready, b"x")
            signal.pause()

    for round_ in range(KILLS):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            attach(writing)
        os.close(writing)
        if round_ % 2:
            time.sleep(random.random() / 20)
        else:
            assert os.read(reading, 1) == b"x"
            assert not group.run(a_socket)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        assert group.run(a_socket)


def test_version_1():
    """A control group of version 1 is none that programs attach to."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    mounts = [line.split()[4] for line in lines if line.partition(" - ")[2].split()[0] == "cgroup"]
    needs("mount:cgroup")
    bpf, _, creates = counting()
    with bpf, pytest.raises(NotFound, match=rf"^{mounts[0]} is not a control group of version 2"):
        creates.attach(Path(mounts[0]))


def test_a_program_without_a_result_is_told_which_lets_it_happen(group):
    """A control group's program says 1 for yes."""
    bpf = BPF()

    @bpf.cgroup_connect4(group.path)
    def connects(ctx):
        if ctx.user_port == 3:
            return 0

    with pytest.raises(CompileError, match="end it with `return 1`"):
        bpf.load()
