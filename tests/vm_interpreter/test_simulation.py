"""`Simulation`: events by name, kernel objects by their members, maps as user space reads them."""

from __future__ import annotations

import asyncio

import pytest

from pyebpf import (
    BPF,
    TCX_NEXT,
    KernelObject,
    SkBuff,
    Struct,
    char,
    comm,
    field,
    kstack,
    now,
    pid,
    s32,
    u32,
    u64,
    ustack,
)
from pyebpf.errors import InvalidValue, KernelError, NotFound, NotLoaded
from pyebpf.target import RecordedTarget
from pyebpf.testing import Simulation, record
from tests.dsl.fake_target import FakeTarget


class Seen(Struct):
    """A record."""

    at: u64
    pid: u32
    comm: str = field(char[16])


class Both(Struct):
    """Numbers of stacks."""

    kernel: s32
    user: s32


@pytest.fixture
def bpf():
    return BPF()


def test_maps_are_read_while_the_simulation_is_open(bpf):
    """As inside `with bpf:`; before and after they are not loaded."""
    opens = bpf.hash(key=u32, value=u64, size=3)

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_open(dfd: int) -> None:
        opens[dfd] += 1

    with pytest.raises(NotLoaded):
        len(opens)
    with Simulation(bpf, FakeTarget()) as kernel:
        for dfd in (1, 2, 1, 3, 1):
            kernel.tracepoint("syscalls:sys_enter_openat", dfd=dfd)
        assert dict(opens.items()) == {1: 3, 2: 1, 3: 1}
        assert (opens[1], opens.get(9), 2 in opens, len(opens)) == (3, None, True, 3)
        assert opens.interval() == {1: 3, 2: 1, 3: 1}
        kernel.tracepoint("syscalls:sys_enter_openat", dfd=2)
        assert opens.interval() == {2: 1}
        kernel.tracepoint("syscalls:sys_enter_openat", dfd=4)
        assert sum(bpf.dropped.values()) == 1
        with pytest.raises(KernelError, match="it is full: it holds 3 entries"):
            opens[5] = 1
        assert (opens.pop(1), opens.pop(1, 0), opens.add(2, 5)) == (3, 0, False)
        del opens[2]
        assert opens.drain() == {3: 1}
        assert list(opens) == []
    with pytest.raises(NotLoaded):
        len(opens)


def test_per_cpu_values_add_up(bpf):
    """An event counts on the processor that it is on."""
    counts = bpf.percpu_array(value=u64)

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_open() -> None:
        counts[0] += 1

    with Simulation(bpf, FakeTarget()) as kernel:
        for cpu in (0, 1, 1, 0, 1):
            kernel.process(cpu=cpu)
            kernel.tracepoint("syscalls:sys_enter_openat")
        assert (counts[0], counts.per_cpu[0]) == (5, [2, 3])
        counts.clear()
        assert counts[0] == 0
        with pytest.raises(InvalidValue, match="there are 2 processors"):
            kernel.process(cpu=2)


def test_records_are_polled_and_iterated(bpf):
    """Decoded, in order, once; by asyncio too."""
    seen = bpf.ringbuf(Seen)

    @bpf.raw_tracepoint("sched_process_exit")
    def on_exit() -> None:
        seen.emit(Seen(at=now(), pid=pid(), comm=comm()))

    with Simulation(bpf, FakeTarget()) as kernel:
        kernel.at([7, 11, 13])
        for number in (42, 43, 44):
            kernel.process(pid=number, comm=f"p{number}")
            kernel.raw_tracepoint("sched_process_exit")

        async def first() -> Seen:
            async for record in seen:
                return record
            raise AssertionError

        record = asyncio.run(first())
        assert (record.at, record.pid, record.comm) == (7, 42, "p42")
        assert seen.poll() == []


def test_kernel_objects_have_their_members(bpf):
    """By dictionary or by address, in programs with BTF trust and without; NULL reads as zeros."""
    backlogs = bpf.hash(key=u32, value=u32)

    @bpf.raw_tracepoint("tcp_a")
    def read(sk: KernelObject) -> None:
        backlogs[sk.sk_family] = sk.sk_ack_backlog

    @bpf.btf_tracepoint("tcp_a")
    def trusted(sk: KernelObject) -> None:
        backlogs[sk.sk_family + 1] = sk.sk_max_ack_backlog

    with Simulation(bpf, FakeTarget()) as kernel:
        assert (
            len(kernel.raw_tracepoint("tcp_a", {"sk_family": 2, "sk_ack_backlog": 17, "sk_max_ack_backlog": 128})) == 2
        )
        sock = kernel.object("struct sock", sk_family=10, sk_ack_backlog=5)
        kernel.raw_tracepoint("tcp_a", sk=sock)
        kernel.set(sock, "struct sock", sk_ack_backlog=6)
        kernel.raw_tracepoint("tcp_a", sk=sock)
        kernel.raw_tracepoint("tcp_a", sk=0)
        assert dict(backlogs) == {2: 17, 3: 128, 10: 6, 11: 0, 0: 0, 1: 0}


def test_stacks_are_counted(bpf):
    """By number; the frames are read back."""
    counts = bpf.counter(key=u32)

    @bpf.sample(frequency=99)
    def on_sample() -> None:
        number = kstack()
        if number >= 0:
            counts[number].add(1)

    with Simulation(bpf, FakeTarget()) as kernel:
        for frames in ((0xA, 0xB), (0xC,), (0xA, 0xB), ()):
            kernel.stacks(kernel=frames)
            kernel.perf_event()
        assert {tuple(bpf.stacks[number]): count for number, count in counts.items()} == {(0xA, 0xB): 2, (0xC,): 1}


def test_stacks_have_the_names_that_the_test_gives(bpf):
    """With offsets, kernel modules and files, whatever this machine has at those addresses; equal stacks are one."""
    counts = bpf.hash(key=Both, value=u64)

    @bpf.sample(frequency=99)
    def on_sample() -> None:
        counts[Both(kernel=kstack(), user=ustack())] += 1

    kernel_stack = ("vfs_read+0x1a", "xfs:xfs_file_read_iter", 0xFFFF_FFFF_8000_0000)
    user_stack = ("/usr/lib/libc.so.6:read+16", "std::vector<int>::push_back", "main")
    with Simulation(bpf, FakeTarget()) as kernel:
        for user in (user_stack, user_stack, ("main+0x2",)):
            kernel.stacks(kernel=kernel_stack, user=user)
            kernel.perf_event()
        (first, twice), (second, once) = sorted(counts.items(), key=lambda item: -item[1])
        assert (twice, once, first.kernel == second.kernel, first.user == second.user) == (2, 1, True, False)
        frames = bpf.stacks.kernel(first.kernel)
        assert [str(frame) for frame in frames] == ["vfs_read+0x1a", "xfs_file_read_iter+0x0", "0xffffffff80000000"]
        assert [frame.module for frame in frames] == ["kernel", "xfs", ""]
        assert [frame.address for frame in frames] == bpf.stacks[first.kernel]
        frames = bpf.stacks.user(first.user, 42)
        assert [frame.label for frame in frames] == ["read", "std::vector<int>::push_back", "main"]
        assert [frame.module for frame in frames] == ["/usr/lib/libc.so.6", "", ""]
        assert [str(frame) for frame in bpf.stacks.user(second.user, 42)] == ["main+0x2"]
        assert bpf.stacks.see(42)
        assert not bpf.stacks.hidden
        with pytest.raises(InvalidValue, match=r"'' is not a place in a function: write it as function\+0x1a"):
            kernel.stacks(kernel=[""])
        with pytest.raises(InvalidValue, match="'main\\+0x100000': an offset in a function is less than 0x100000"):
            kernel.stacks(user=["main+0x100000"])


def test_what_is_simulated_is_not_simulated_inside_that(bpf):
    """The inner one would close the outer's maps; afterwards it is taken again."""
    counts = bpf.hash(key=u32, value=u64)

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_open(dfd: int) -> None:
        counts[dfd] += 1

    with Simulation(bpf, FakeTarget()) as kernel:
        with pytest.raises(InvalidValue, match="simulated already: simulate it outside of that `with`"):
            Simulation(bpf, FakeTarget()).__enter__()
        kernel.tracepoint("syscalls:sys_enter_openat", dfd=1)
        assert dict(counts) == {1: 1}
    with Simulation(bpf, FakeTarget()):
        assert dict(counts) == {}


def test_probes_that_read_nothing_of_their_event(bpf):
    """What such an event has is in no recorded facts, and not needed; but its fields can't be given then."""
    counts = bpf.hash(key=char[16], value=u64)

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_open() -> None:
        counts[comm()] += 1

    @bpf.raw_tracepoint("sched_process_exit")
    def on_exit() -> None:
        counts["exits"] += 1

    with Simulation(bpf, RecordedTarget.from_json(record(bpf, target=FakeTarget()))) as kernel:
        kernel.process(comm="cat")
        for _ in range(3):
            assert len(kernel.tracepoint("syscalls:sys_enter_openat")) == 1
        kernel.raw_tracepoint("sched_process_exit")
        assert dict(counts) == {"cat": 3, "exits": 1}
        with pytest.raises(NotFound, match="was not recorded: no program that was recorded asks for it"):
            kernel.tracepoint("syscalls:sys_enter_openat", dfd=1)
        with pytest.raises(NotFound, match="no program is attached to tracepoint syscalls:sys_enter_open:"):
            kernel.tracepoint("syscalls:sys_enter_open")


def test_wrong_names_and_values(bpf):
    """Errors name what there is."""

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_open(dfd: int) -> None:
        pass

    @bpf.raw_tracepoint("tcp_a")
    def on_tcp(sk: KernelObject) -> None:
        pass

    with Simulation(bpf, FakeTarget()) as kernel:
        with pytest.raises(InvalidValue, match=r"has no field dfx \(did you mean dfd"):
            kernel.tracepoint("syscalls:sys_enter_openat", dfx=1)
        with pytest.raises(InvalidValue, match="field prio is unsigned char, 1 bytes"):
            kernel.tracepoint("syscalls:sys_enter_openat", prio="text")
        with pytest.raises(NotFound, match="no tracepoint syscalls:sys_enter_opnat"):
            kernel.tracepoint("syscalls:sys_enter_opnat")
        with pytest.raises(InvalidValue, match="raw tracepoint tcp_a has no argument sl"):
            kernel.raw_tracepoint("tcp_a", sl=1)
        with pytest.raises(NotFound, match="struct sock has no member sk_famly"):
            kernel.object("struct sock", sk_famly=1)
        with pytest.raises(InvalidValue, match="sk_family is unsigned short, not text"):
            kernel.object("struct sock", sk_family="inet")


def test_an_event_that_nobody_knows_names_those_with_programs(bpf):
    """A misspelt tracepoint is told from facts that are lacking."""

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_open(dfd: int) -> None:
        pass

    target = RecordedTarget.from_json(record(bpf, target=FakeTarget()))
    with Simulation(bpf, target) as kernel:
        with pytest.raises(NotFound, match=r"to tracepoint syscalls:sys_enter_opn: there are tracepoint syscalls:sys_"):
            kernel.tracepoint("syscalls:sys_enter_opn")
        with pytest.raises(NotFound, match="no program is attached to raw tracepoint nothing: there are tracepoint"):
            kernel.raw_tracepoint("nothing")
        with pytest.raises(NotFound, match="no program is attached to function nobody: there are tracepoint"):
            kernel.function("nobody")
        assert (list(bpf.warnings), list(bpf.links)) == ([], [])


@pytest.mark.parametrize("dfd", [1 << 64, -(1 << 63) - 1, 1 << 70])
def test_numbers_are_not_cut(bpf, dfd):
    """What does not fit a field is refused, signed or not."""

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_open() -> None:
        pass

    with (
        Simulation(bpf, FakeTarget()) as kernel,
        pytest.raises(InvalidValue, match=f"field dfd has 64 bits: {dfd} does not fit"),
    ):
        kernel.tracepoint("syscalls:sys_enter_openat", dfd=dfd)


def facts_of(bpf):
    """What `record` writes of a program, as a file has it."""
    return RecordedTarget.from_json(record(bpf, target=FakeTarget()))


def test_members_of_network_order_are_numbers(bpf):
    """They are given as probes read them: in dictionaries, by `object` and in lists."""
    ports = bpf.array(u32, size=3)

    @bpf.raw_tracepoint("tcp_a")
    def on_tcp(sk: KernelObject) -> None:
        ports[0] = sk.sk_port
        ports[1] = sk.sk_words[1]

    with Simulation(bpf, facts_of(bpf)) as kernel:
        kernel.raw_tracepoint("tcp_a", {"sk_port": 443, "sk_words": [1, 0x01020304]})
        assert list(ports.values()) == [443, 0x01020304, 0]
        sock = kernel.object("struct sock", sk_port=80)
        kernel.raw_tracepoint("tcp_a", sock)
        assert ports[0] == 80
        kernel.set(sock, "struct sock", sk_port=8080)
        kernel.raw_tracepoint("tcp_a", sock)
        assert ports[0] == 8080


def test_types_of_arguments_of_functions_are_known(bpf):
    """A kprobe's parameter is as good as a tracepoint's: its type is in the facts, though not by its name."""
    backlogs = bpf.hash(key=u32, value=u64)

    @bpf.kprobe("tcp_sendmsg")
    def on_send(sk: KernelObject) -> None:
        backlogs[sk.sk_ack_backlog] += 1

    with Simulation(bpf, facts_of(bpf)) as kernel:
        kernel.function("tcp_sendmsg", kernel.object("struct sock", sk_ack_backlog=7))
        assert dict(backlogs) == {7: 1}
        with pytest.raises(NotFound, match=r"^struct sick is no type that these programs use"):
            kernel.object("struct sick", sk_ack_backlog=7)


def test_perf_events_of_programs_that_read_nothing(bpf):
    """Their facts have no registers, and need none; without any program it is an error, as for other events."""
    hits = bpf.hash(key=u32, value=u64)

    @bpf.sample(frequency=99)
    def on_sample() -> None:
        hits[1] += 1

    with Simulation(bpf, facts_of(bpf)) as kernel:
        assert len(kernel.perf_event(ip=1)) == 1
        assert dict(hits) == {1: 1}
    other = BPF()

    @other.tracepoint("syscalls:sys_enter_openat")
    def on_open() -> None:
        pass

    message = r"^no program is attached to perf event: there are tracepoint syscalls:sys_"
    with Simulation(other, facts_of(other)) as kernel, pytest.raises(NotFound, match=message):
        kernel.perf_event()


def test_packets_that_no_program_sees(bpf):
    """A test of their results would pass without having tested anything."""

    @bpf.tc("eth0", "egress")
    def on_out(ctx: SkBuff) -> int:
        return TCX_NEXT

    with Simulation(bpf, FakeTarget()) as kernel:
        assert len(kernel.packet(bytes(64), direction="egress")) == 1
        with pytest.raises(NotFound, match=r"^no program is attached to xdp: there are tcx eth0 egress"):
            kernel.frame(bytes(64))
        with pytest.raises(NotFound, match=r"^no program is attached to tc ingress: there are tcx eth0 egress"):
            kernel.packet(bytes(64))
        with pytest.raises(InvalidValue, match=r"^direction='outgoing': write .ingress. or .egress.$"):
            kernel.packet(bytes(64), direction="outgoing")
