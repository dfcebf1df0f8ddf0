"""`Simulation` beyond tracepoints: functions of the kernel and of processes, system calls, frames and packets."""

from __future__ import annotations

import pytest

from pyebpf import (
    BPF,
    TC_ACT_OK,
    TC_ACT_SHOT,
    XDP_DROP,
    XDP_PASS,
    KernelObject,
    SkBuff,
    SockAddrContext,
    SockoptContext,
    Struct,
    XdpContext,
    char,
    field,
    function_ip,
    now,
    ptr,
    s32,
    tid,
    u32,
    u64,
    user_string,
)
from pyebpf.errors import InvalidValue, NotFound
from pyebpf.packet import ETH_P_IP, IPPROTO_UDP, UDP, Ethernet, IPv4
from pyebpf.target import KernelFunction, KernelParameter, KernelType
from pyebpf.testing import Simulation
from tests.dsl.fake_target import INT, SOCK, U64, FakeTarget

POINTER = KernelType("pointer", 8, element=SOCK)


class Target(FakeTarget):
    """With two functions, the second of more arguments than registers."""

    def function(self, name: str) -> KernelFunction:
        if name == "tcp_check":
            parameters = (KernelParameter("sk", POINTER), KernelParameter("limit", INT))
            return KernelFunction(name, 300, parameters, INT)
        if name == "many":
            return KernelFunction(name, 301, tuple(KernelParameter(f"a{n}", U64) for n in range(8)), U64)
        if name.startswith("bpf_session_"):
            return KernelFunction(name, 0, (), U64)  # called by its name
        return super().function(name)

    def has_function(self, name: str) -> bool:
        return name in ("tcp_check", "many")

    def functions(self, pattern: str) -> tuple[str, ...]:
        return tuple(name for name in ("tcp_check", "many") if name == pattern)


class Value(Struct):
    number: u32


class Seen(Struct):
    family: u32
    limit: s32


@pytest.fixture
def bpf() -> BPF:
    return BPF()


def test_probes_are_told_their_function(bpf):
    """By its address, at the entry and at the return; `bpf.function_name` makes the name of it."""
    calls = bpf.hash(key=u64, value=u64)

    @bpf.kprobe("tcp_check", "many")
    @bpf.kretprobe("many")
    def on_call() -> None:
        calls[function_ip()] += 1

    with Simulation(bpf, Target()) as kernel:
        kernel.function("tcp_check")
        for _ in range(3):
            kernel.function("many")
        kernel.function_return("many")
        assert {bpf.function_name(address): count for address, count in calls.items()} == {"tcp_check": 1, "many": 4}
        assert bpf.function_name(0x1234) == "0x1234"


@pytest.mark.parametrize("decorator", ["kprobe", "fentry", "kprobe_multi"])
def test_arguments_of_kernel_functions_come_by_name(bpf, decorator):
    """A struct by its members; a number with its sign; those beyond the registers lie on the stack."""
    seen = bpf.ringbuf(Seen)
    last = bpf.array(value=u64)

    @getattr(bpf, decorator)("tcp_check")
    def check(sk: KernelObject, limit: int) -> None:
        seen.emit(Seen(family=sk.sk_family, limit=limit))

    if decorator != "kprobe_multi":

        @getattr(bpf, decorator)("many")
        def many(a0: int, a7: int) -> None:
            last[0] = a7 * 10 + a0

    with Simulation(bpf, Target()) as kernel:
        assert len(kernel.function("tcp_check", {"sk_family": 2}, -5)) == 1
        kernel.function("tcp_check", limit=7, sk=kernel.object("struct sock", sk_family=10))
        assert [(each.family, each.limit) for each in seen.poll()] == [(2, -5), (10, 7)]
        assert kernel.function_return("tcp_check", 1) == []
        if decorator != "kprobe_multi":
            kernel.function("many", 1, 0, 0, 0, 0, 0, 0, 8)
            assert last[0] == 81
        with pytest.raises(InvalidValue, match=r"tcp_check\(\) has no parameter limits \(did you mean limit\?\)"):
            kernel.function("tcp_check", limits=1)
        with pytest.raises(InvalidValue, match="has 2 parameters, not 3"):
            kernel.function("tcp_check", 0, 1, 2)


@pytest.mark.parametrize(("decorator", "arguments"), [("kretprobe", False), ("fexit", True)])
def test_what_functions_return(bpf, decorator, arguments):
    """With its sign; fexit has the arguments besides."""
    total = bpf.array(value=u64, size=2)

    if arguments:

        @getattr(bpf, decorator)("tcp_check")
        def leave(limit: int, retval: int) -> None:
            if retval < 0:
                total[0] += 0 - retval
            total[1] += limit
    else:

        @getattr(bpf, decorator)("tcp_check")
        def leave(retval: int) -> None:
            if retval < 0:
                total[0] += 0 - retval

    with Simulation(bpf, Target()) as kernel:
        kernel.function_return("tcp_check", -22, 0, 4)
        kernel.function_return("tcp_check", 22, 0, 5)
        assert kernel.function("tcp_check") == []
        assert list(total.values()) == [22, 9 if arguments else 0]


def test_system_calls_have_their_own_arguments(bpf):
    """By position or by name, from the registers that the entry saved; text lies in user memory."""

    class Open(Struct):
        dfd: s32
        path: str = field(char[16])

    opened = bpf.ringbuf(Open)

    @bpf.kprobe("sys_openat")
    def enter(dfd: int, filename: ptr[char]) -> None:
        opened.emit(Open(dfd=dfd, path=user_string(filename)))

    class Calls(Target):
        def function(self, name: str) -> KernelFunction:
            if name == "__x64_sys_openat":
                return KernelFunction(name, 302, (KernelParameter("regs", POINTER),), INT)
            return super().function(name)

    with Simulation(bpf, Calls()) as kernel:
        kernel.function("sys_openat", -100, "/etc/motd")
        kernel.function("sys_openat", filename="/tmp/x", dfd=3)
        assert [(each.dfd, each.path) for each in opened.poll()] == [(-100, "/etc/motd"), (3, "/tmp/x")]
        with pytest.raises(InvalidValue, match="openat has no argument path"):
            kernel.function("sys_openat", path="x")


def test_uprobes_pair_entry_and_return(bpf):
    """As a tool does: the argument from the entry, the time from both."""

    class Lookup(Struct):
        started: u64
        host: str = field(char[16])

    class Done(Struct):
        ns: u64
        failed: s32
        host: str = field(char[16])

    pending = bpf.hash(key=u32, value=Lookup)
    done = bpf.ringbuf(Done)

    @bpf.uprobe("libc.so.6", "getaddrinfo", "gethostby*")
    def enter(node: ptr[char]) -> None:
        pending[tid()] = Lookup(started=now(), host=user_string(node))

    @bpf.uretprobe("libc.so.6", "getaddrinfo")
    def leave(retval: s32) -> None:
        lookup = pending.get(tid())
        if lookup is None:
            return
        done.emit(Done(ns=now() - lookup.started, failed=retval, host=lookup.host))
        del pending[tid()]

    with Simulation(bpf, Target()) as kernel:
        kernel.process(pid=7)
        kernel.at(1000)
        assert len(kernel.user_function("getaddrinfo", "example.org")) == 1
        kernel.at(1017)
        kernel.user_function_return("getaddrinfo", -2)
        kernel.user_function_return("getaddrinfo", 0)
        assert [(each.ns, each.failed, each.host) for each in done.poll()] == [(17, -2, "example.org")]
        kernel.user_function("gethostbyname2", "a")
        assert len(pending) == 1
        assert kernel.user_function_return("gethostbyname2") == []
        with pytest.raises(NotFound, match=r"no probe is at a function 'getaddrinf' .*did you mean getaddrinfo"):
            kernel.user_function("getaddrinf", "a")


def test_a_session_keeps_its_cookie_from_entry_to_return(bpf):
    """Arguments at the one, the result at the other."""
    seen = bpf.hash(key=u64, value=s32)

    @bpf.uprobe_session("libc.so.6", "malloc")
    def on_call(ctx, size: u64, retval: s32) -> int:
        if ctx.is_return:
            seen[ctx.cookie] = retval
        else:
            ctx.cookie = size
        return 0

    with Simulation(bpf, Target()) as kernel:
        assert [each.value for each in kernel.user_function("malloc", 4096)] == [0]
        assert dict(seen) == {}
        assert len(kernel.user_function_return("malloc", -7)) == 1
        assert dict(seen) == {4096: -7}


def frame(protocol: int, port: int, kind: int = ETH_P_IP) -> bytes:
    ethernet = bytes(12) + kind.to_bytes(2, "big")
    ip = bytes([0x45, 0, 0, 28, 0, 0, 0, 0, 64, protocol]) + bytes(10)
    return ethernet + ip + (1024).to_bytes(2, "big") + port.to_bytes(2, "big") + bytes(4)


def test_frames_get_their_verdicts(bpf):
    """XDP: by port; what is too short passes."""
    dropped = bpf.percpu_array(value=u64)

    @bpf.xdp("eth0")
    def drop(ctx: XdpContext) -> int:
        ethernet = ctx.packet.header(Ethernet, at=0)
        if ethernet is None or ethernet.protocol != ETH_P_IP:
            return XDP_PASS
        ip = ctx.packet.header(IPv4, at=14)
        if ip is None or ip.protocol != IPPROTO_UDP:
            return XDP_PASS
        udp = ctx.packet.header(UDP, at=14 + ip.header_length)
        if udp is None or udp.destination != 9999 or ctx.ingress_ifindex != 3:
            return XDP_PASS
        dropped[0] += 1
        return XDP_DROP

    with Simulation(bpf, Target()) as kernel:
        [result] = kernel.frame(frame(17, 9999), ingress_ifindex=3)
        assert result.value == XDP_DROP
        others = [frame(17, 9998), frame(6, 9999), frame(17, 9999, 0x86DD), frame(17, 9999)[:36], b"x" * 13]
        assert [kernel.frame(each, ingress_ifindex=3)[0].value for each in others] == [XDP_PASS] * 5
        assert kernel.frame(frame(17, 9999), ingress_ifindex=4)[0].value == XDP_PASS
        assert dropped[0] == 1
        assert kernel.run("drop", packet=frame(17, 9999), fields={"ingress_ifindex": 3}).value == XDP_DROP
        with pytest.raises(NotFound, match=r"there is no program dropp \(did you mean drop\?\)"):
            kernel.run("dropp")


def test_packets_are_read_and_written(bpf):
    """tc: the protocol is the frame's, marks and bytes are changed, each direction has its own programs."""
    marks = bpf.array(value=u32)

    @bpf.tc("eth0", "egress")
    def mark(ctx: SkBuff) -> int:
        if ctx.protocol != ETH_P_IP:
            return TC_ACT_SHOT
        ip = ctx.packet.header(IPv4, at=14)
        if ip is None:
            return TC_ACT_SHOT
        ip.ttl = 7
        ctx.mark = ctx.mark + 1
        marks[0] = ctx.mark
        return TC_ACT_OK

    with Simulation(bpf, Target()) as kernel:
        data = frame(17, 53)
        [result] = kernel.packet(data, direction="egress", mark=16)
        assert (result.value, result.packet) == (TC_ACT_OK, data[:22] + b"\7" + data[23:])
        assert marks[0] == 17
        assert kernel.packet(frame(17, 53, 0x86DD), direction="egress")[0].value == TC_ACT_SHOT


def test_addresses_are_rewritten_at_control_groups(bpf):
    """The verdict, and what the context is afterwards."""

    @bpf.cgroup_connect4("/sys/fs/cgroup")
    def connect(ctx: SockAddrContext) -> int:
        if ctx.user_port == 53:
            ctx.user_ip4 = 0x7F000001
            ctx.user_port = 5353
        return 0 if ctx.user_port == 25 else 1

    with Simulation(bpf, Target()) as kernel:
        changed = kernel.hook("connect", user_ip4=0x08080808, user_port=53)
        assert (changed.value, changed.fields["user_ip4"], changed.fields["user_port"]) == (1, 0x7F000001, 5353)
        refused = kernel.hook("connect", user_ip4=0x08080808, user_port=25)
        assert (refused.value, refused.fields["user_ip4"]) == (0, 0x08080808)
        with pytest.raises(InvalidValue, match=r"struct bpf_sock_addr has no field user_prt \(did you mean user_port"):
            kernel.hook("connect", user_prt=1)
        with pytest.raises(InvalidValue, match="leads to no memory"):
            kernel.hook("connect", memory=b"x")


def test_options_of_sockets_have_values(bpf):
    """The memory that a context leads to is read, within its end; `sk` has fields of its own."""

    @bpf.cgroup_setsockopt("/sys/fs/cgroup")
    def option(ctx: SockoptContext) -> int:
        value = ctx.optval.header(Value, at=0)
        if value is None:
            return 0
        if ctx.level == 6 and ctx.sk.family == 2 and value.number > 100:
            return 0
        return 1

    with Simulation(bpf, Target()) as kernel:

        def verdict(level: int, family: int, memory: bytes) -> int:
            return kernel.hook("option", memory=memory, level=level, sk={"family": family}).value

        number = (101).to_bytes(4, "little")
        assert [verdict(6, 2, number), verdict(6, 10, number), verdict(1, 2, number), verdict(6, 2, number[:3])] == [
            0,
            1,
            1,
            0,
        ]
