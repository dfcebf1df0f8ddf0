"""Memory: kernel objects read where they are written, through bad pointers too, alike with and without trust."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import time

import pytest

from pyebpf import (
    BPF,
    CompileError,
    Struct,
    cast,
    char,
    comm,
    container_of,
    current_task,
    enum,
    field,
    has_field,
    kernel_string,
    pid,
    s64,
    sizeof,
    u32,
    u64,
    user,
    user_string,
)
from tests.support.refused import compile_error

ME = os.getpid()


class Seen(Struct):
    """What a probe saw."""

    a: u64
    b: u64
    c: u64
    d: u64
    e: s64
    name: str = field(char[64])


def seen_by(make, act=os.getppid):
    """Compile and attach what `make(bpf, seen)` declares, act, and return what the probe left."""
    bpf = BPF()
    seen = bpf.array(value=Seen, name="seen")
    make(bpf, seen)
    with bpf:
        act()
        return seen[0]


def refusal(body):
    """The message of a probe at sys_enter with this one statement."""
    bpf = BPF()
    module = bpf.define(f"@bpf.raw_tracepoint('sys_enter')\ndef probe(regs, id):\n    {body}\n", {"number": 5})
    assert module.probe in bpf.probes
    return compile_error(bpf.specs)


def test_chains_of_pointers_are_followed():
    def make(bpf, seen):
        @bpf.raw_tracepoint("sys_enter")
        def probe() -> None:
            if pid() != ME:
                return
            task = current_task()
            seen[0].a = task.tgid
            seen[0].b = task.real_parent.tgid
            seen[0].c = task.mm.mm_users.counter
            seen[0].e = task.static_prio
            seen[0].name = task.nsproxy.uts_ns.name.nodename

    found = seen_by(make)
    assert (found.a, found.b, found.e) == (ME, os.getppid(), 120 + os.nice(0))
    assert found.c >= 1
    assert found.name == socket.gethostname()


def test_with_trust_the_same():
    """A tp_btf program loads through typed pointers; what it finds is what probe_read_kernel finds."""

    def make(bpf, seen):
        @bpf.btf_tracepoint("sched_switch")
        def probe(prev) -> None:
            if prev.tgid != ME:
                return
            seen[0].a = prev.real_parent.tgid
            seen[0].b = cast("struct task_struct", prev).real_parent.tgid
            seen[0].c = prev.mm.mm_users.counter
            seen[0].d = cast("struct task_struct", prev).mm.mm_users.counter
            seen[0].name = prev.comm
            seen[0].e = kernel_string(prev.comm, size=16) == prev.comm

    found = seen_by(make, lambda: time.sleep(0.02))
    assert found.a == found.b == os.getppid()
    assert found.e == 1
    assert found.c == found.d >= 1
    with open("/proc/self/comm", encoding="utf-8") as own:  # noqa: PTH123 - one line
        assert found.name == own.read().rstrip("\n")


def test_a_null_or_bad_pointer_reads_zeros():
    def make(bpf, seen):
        @bpf.raw_tracepoint("sys_enter")
        def probe() -> None:
            if pid() != ME:
                return
            nothing = cast("struct task_struct", pid() - ME)
            seen[0].a = nothing is None
            seen[0].b = nothing.real_parent.mm.pgd is None
            seen[0].c = nothing.real_parent.tgid + 7
            bad = cast("struct task_struct", pid() + (1 << 40))
            seen[0].d = bad is not None and bad.real_parent is None
            seen[0].e = len(bad.comm) - 1
            seen[0].name = bad.comm

    assert seen_by(make) == Seen(1, 1, 7, 1, -1, "")


def test_an_attribute_is_read_where_it_is_written():
    """A name keeps the number; reading the attribute again reads memory again."""

    def make(bpf, seen):
        @bpf.raw_tracepoint("sys_enter")
        def probe() -> None:
            if pid() != ME:
                return
            users = current_task().utime
            seen[0].a = users <= current_task().utime
            task = current_task()
            seen[0].b = task == current_task()
            seen[0].c = task != task.real_parent

    found = seen_by(make)
    assert (found.a, found.b, found.c) == (1, 1, 1)


def test_arrays_take_constant_indices_and_proved_ones():
    def make(bpf, seen):
        @bpf.raw_tracepoint("sys_enter")
        def probe(id) -> None:  # noqa: A002 - the kernel's name
            if pid() != ME:
                return
            limits = current_task().signal.rlim
            seen[0].a = limits[7].rlim_cur
            seen[0].b = limits[7].rlim_max
            seen[0].c = len(limits)
            seen[0].d = limits[(id & 0) + 7].rlim_cur
            for j in range(16):
                if limits[j].rlim_cur == limits[7].rlim_cur:
                    seen[0].e = 1

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = seen_by(make)
    assert (found.a, found.b, found.c, found.d, found.e) == (soft, hard, 16, soft, 1)


REFUSED = {
    "x = current_task().signal.rlim[16]": "index 16 is outside a struct rlimit[16]",
    "x = current_task().signal.rlim[id]": "this index of a struct rlimit[16] may lie outside 0 to 15: test it first, "
    "if 0 <= i < 16, or mask it",
    "current_task().pid = 3": "a struct task_struct is kernel memory, which probes only read: pid cannot be assigned",
    "x = current_task().commm": "struct task_struct has no member 'commm'",
    "x = cast('struct task_struc', id)": "the kernel's BTF has no struct 'task_struc'",
    "x = cast(id, 'struct task_struct')": 'cast() takes the type first, as a string: cast("struct tcp_sock", sk)',
    "x = current_task() < current_task()": "a struct task_struct and a struct task_struct: addresses are compared by "
    "== and != only",
}


@pytest.mark.parametrize("body", REFUSED)
def test_refused(body):
    """Names that are not there come with the closest ones."""
    found, _, closest = refusal(body).partition(" (did you mean ")
    assert found == REFUSED[body]
    assert bool(closest) == ("has no" in found)


def test_bit_fields():
    """tcp_sock and task_struct pack flags; sched_reset_on_fork is one bit that this process sets and clears."""

    def make(bpf, seen):
        @bpf.raw_tracepoint("sys_enter")
        def probe() -> None:
            if pid() == ME:
                seen[0].a = current_task().sched_reset_on_fork
                seen[0].b = current_task().in_execve

    def act():
        os.sched_setscheduler(0, os.SCHED_BATCH | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        os.getppid()

    child = os.fork()
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        return
    status = 1
    try:
        global ME  # noqa: PLW0603 - a process of its own
        ME = os.getpid()
        found = seen_by(make, act)
        status = 0 if (found.a, found.b) == (1, 0) else 2
    finally:
        os._exit(status)


def test_container_of_leads_back():
    def make(bpf, seen):
        @bpf.raw_tracepoint("sys_enter")
        def probe() -> None:
            if pid() != ME:
                return
            task = current_task()
            seen[0].a = container_of(task.se, "struct task_struct", "se").tgid
            seen[0].b = container_of(task.tasks, "struct task_struct", "tasks") == task

    found = seen_by(make)
    assert (found.a, found.b) == (ME, 1)


def test_facts_of_the_kernel_are_known_while_compiling():
    def make(bpf, seen):
        @bpf.raw_tracepoint("sys_enter")
        def probe() -> None:
            if pid() != ME:
                return
            seen[0].a = enum("TCP_LISTEN")
            seen[0].b = sizeof("struct list_head")
            if has_field("struct task_struct", "no_such_member"):
                seen[0].c = current_task().no_such_member
            else:
                seen[0].c = 5
            seen[0].d = has_field("struct task_struct", "mm.pgd")

    assert seen_by(make) == Seen(10, 16, 5, 1, 0, "")


def test_strings_take_their_size_from_where_they_go():
    path = "/proc/self/" + "./" * 60 + "comm"

    def make(bpf, seen):
        @bpf.tracepoint("syscalls:sys_enter_openat")
        def probe(filename) -> None:
            if pid() != ME:
                return
            seen[0].name = user_string(filename)
            short = user_string(filename, size=8)
            seen[0].a = len(short)
            seen[0].b = short == "/proc/s"
            seen[0].c = user_string(filename, size=64).startswith("/proc/self/./")

    found = seen_by(make, lambda: os.close(os.open(path, os.O_RDONLY)))
    assert found == Seen(7, 1, 1, 0, 0, path[:63])


def test_kernel_strings():
    def make(bpf, seen):
        @bpf.raw_tracepoint("sys_enter")
        def probe() -> None:
            if pid() != ME:
                return
            seen[0].name = kernel_string(current_task().fs.root.mnt.mnt_sb.s_type.name)
            seen[0].a = comm() == current_task().comm

    found = seen_by(make)
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:  # noqa: PTH123 - read once
        kinds = {line.split()[4]: line.partition(" - ")[2].split()[0] for line in mounts}
    assert (found.a, found.name) == (1, kinds["/"])


def test_user_memory_by_the_authors_word():
    """clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t): a struct of the kernel's in a process's memory."""

    def make(bpf, seen):
        @bpf.tracepoint("syscalls:sys_enter_clock_nanosleep")
        def probe(rqtp) -> None:
            if pid() != ME:
                return
            request = user(cast("struct __kernel_timespec", rqtp))
            seen[0].a = request.tv_sec * 1_000_000_000 + request.tv_nsec
            seen[0].b = user(rqtp, s64)[0] * 1_000_000_000 + user(rqtp, u32)[2]

    before = time.monotonic_ns()
    found = seen_by(make, lambda: time.sleep(0.0017))
    assert before < found.a < before + 5_000_000_000
    assert found.a == found.b


def test_a_pointer_that_the_verifier_holds_for_null_is_read_through_all_the_same():
    """sk_buff.sk since Linux 6.4, and arguments of raw tracepoints since 6.13."""

    def make(bpf, seen):
        @bpf.btf_tracepoint("net_dev_queue")
        def probe(skb) -> None:
            if pid() == ME and skb.sk.sk_protocol == socket.IPPROTO_UDP:
                seen[0].a += 1
                seen[0].b += skb.sk is not None

    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(7):
                sender.sendto(b"x", ("127.0.0.1", 9))

    found = seen_by(make, send)
    assert (found.a, found.b) == (7, 7)


def test_user_takes_addresses_and_types():
    assert "user() takes an address, not" in refusal("x = user(comm())")
    assert "give an integer type, a Struct or char" in refusal("x = user(id, 5)")


def test_arguments_of_a_program():
    """The argv of execve(2) is an array of texts without an annotation; of other pointers it is told what to write."""

    def make(bpf, seen):
        @bpf.tracepoint("syscalls:sys_enter_execve")
        def on_execve(argv) -> None:
            if user_string(argv[1], size=64) == "pyebpf-argument":
                seen[0].name = user_string(argv[2], size=64)

    found = seen_by(make, lambda: subprocess.run(["/bin/true", "pyebpf-argument", "second"], check=True))
    assert found.name == "second"
    bpf = BPF()
    hits = bpf.array(value=u64)

    @bpf.tracepoint("syscalls:sys_enter_getcpu")
    def on_getcpu(cpup) -> None:
        hits[0] = cpup[0]

    message = r"a ptr\[void\] to user memory has no items: annotate .* ptr\[ptr\[char\]\]"
    with pytest.raises(CompileError, match=message), bpf:
        pass
