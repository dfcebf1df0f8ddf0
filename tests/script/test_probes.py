"""Probes of scripts: what they are attached to, and what each kind of them knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.attach.perf_events import PerfEvent
from pyebpf.script import Script
from tests.dsl.fake_target import FakeTarget
from tests.support.scripts import printed

if TYPE_CHECKING:
    from pyebpf.testing import Simulation


def attached(text: str, **options: int) -> list[str]:
    """The attachments of a script, in words."""
    return [str(each.attach) for each in Script(text, **options).compile(FakeTarget()).programs]


def test_a_kprobe_has_arguments_by_number_and_by_name() -> None:
    """Those of a struct are read by BTF; `func` and `probe` say where it is."""

    def events(kernel: Simulation) -> None:
        sock = kernel.object("struct sock", sk_family=2, sk_ack_backlog=7)
        kernel.function("tcp_sendmsg", sock, 1500, -1)

    text = printed(
        'kprobe:tcp_sendmsg { $sk = (struct sock *)arg0; printf("%d %d %d %d %s", $sk->sk_family, '
        "$sk->sk_ack_backlog, arg1, args.flags, probe); }",
        events,
    )
    assert text == "2 7 1500 -1 kprobe:tcp_sendmsg"


def test_a_kretprobe_has_a_result() -> None:
    """A signed one, so that errors are below 0."""

    def events(kernel: Simulation) -> None:
        for returned in (5, -11, -11):
            kernel.function_return("tcp_sendmsg", returned)

    assert printed("kretprobe:tcp_sendmsg /retval < 0/ { @[retval] = count(); }", events) == "@[-11]: 2\n"


def test_fexit_has_arguments_and_the_result() -> None:
    """By the names that BTF gives."""

    def events(kernel: Simulation) -> None:
        kernel.function_return("tcp_sendmsg", 3, size=10)

    assert printed('fexit:tcp_sendmsg { printf("%d of %d", retval, args.size); }', events) == "3 of 10"


def test_functions_of_programs() -> None:
    """Uprobe and uretprobe: text is read from the process's memory."""

    def events(kernel: Simulation) -> None:
        kernel.user_function("readline", "prompt", 4)
        kernel.user_function_return("readline", "ls -l")

    text = printed(
        'uprobe:/bin/bash:readline { printf("%s %d\\n", str(arg0), arg1); } '
        'uretprobe:/bin/bash:readline { printf("%s\\n", str(retval)); }',
        events,
    )
    assert text == "prompt 4\nls -l\n"


def test_times_and_events() -> None:
    """Rates and periods, one processor for an interval, all of them for a profile."""
    assert attached(
        "interval:ms:20 { } interval:hz:4 { } profile:hz:99 { } profile:us:100 { } software:faults:10 { }"
    ) == [
        "perf event cpu-clock every 20000000",
        "perf event cpu-clock every 250000000",
        "perf event cpu-clock at 99 Hz",
        "perf event cpu-clock every 100000",
        "perf event page-faults every 10",
    ]
    (interval, profile) = Script("interval:s:1 { } profile:hz:99 { }", pid=5).compile(FakeTarget()).programs
    assert isinstance(interval.attach, PerfEvent)
    assert isinstance(profile.attach, PerfEvent)
    assert (interval.attach.first_cpu, interval.attach.pid) == (True, -1)
    assert (profile.attach.first_cpu, profile.attach.pid) == (False, 5)


def test_one_block_may_have_several_places() -> None:
    """Each becomes a program of its own; kprobes are attached last first, as the kernel runs what came last."""
    assert attached("kprobe:tcp_sendmsg, kprobe:tcp_close, BEGIN { @ = count(); }") == [
        "kprobe tcp_close",
        "kprobe tcp_sendmsg",
        "BEGIN",
    ]


def test_the_kernel_itself_stands_where_a_modules_name_would() -> None:
    """By name it is as without; a pattern of modules may mean it, or any."""
    for place in ("vmlinux:tcp_close", "vmlinu*:tcp_close", "*:tcp_close", "tcp_close"):
        assert attached(f"kprobe:{place} {{ }}") == ["kprobe tcp_close"]


def test_builtins_of_the_process() -> None:
    """Numbers and names."""

    def events(kernel: Simulation) -> None:
        kernel.process(pid=7, tid=8, uid=1000, gid=1001, comm="cat", cpu=1)
        kernel.at(5_000)
        kernel.tracepoint("syscalls:sys_enter_openat")

    text = printed(
        "tracepoint:syscalls:sys_enter_openat "
        '{ printf("%d %d %d %d %s %d %d", pid, tid, uid, gid, comm, cpu, nsecs); }',
        events,
    )
    assert text == "7 8 1000 1001 cat 1 5000"


def test_a_pattern_has_names_of_functions_on_kernels_without_links_for_many() -> None:
    """Each function has a kprobe of its own there, which knows where it stands."""
    missing = frozenset({"attach:kprobe_multi", "helper:get_func_ip@kprobe", "isa:may_goto"})
    spec = Script("kprobe:tcp_* { @[func] = count(); }").compile(FakeTarget(missing=missing))
    assert {type(each.attach).__name__ for each in spec.programs} == {"Kprobe"}
