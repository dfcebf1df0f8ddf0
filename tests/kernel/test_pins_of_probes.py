"""Probes pinned, taken up and ended: they count on while nobody has them open, whatever they are attached to."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pyebpf
from pyebpf import BPF, InvalidValue, KernelObject, NotSupported, Struct, emit, pid, u32, u64
from pyebpf.arch import host
from pyebpf.kernel.cpus import online_cpus
from pyebpf.kernel.tracefs import Tracefs
from tests.support.needs import needs, perf_way, unless
from tests.support.system_calls import getcpu, getppid
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

libc = ctypes.CDLL(None, use_errno=True)
ME = os.getpid()


def pinned(path: Path) -> list[str]:
    """What is there, without the kernel's own files."""
    return [each.name for each in path.iterdir() if each.suffix != ".debug"]


def opened(times: int) -> None:
    for _ in range(times):
        os.close(os.open("/dev/null", os.O_RDONLY))


GETCPU = "syscalls:sys_enter_getcpu"
#: What is decorated, how, the features that it needs, the work that runs it once each time.
KINDS: dict[str, tuple[Callable[[BPF], Any], str, Callable[[int], None]]] = {
    "tracepoint": (
        lambda bpf: bpf.tracepoint("syscalls:sys_enter_getcpu"),
        "attach:perf",
        getcpu,
    ),
    "raw_tracepoint": (lambda bpf: bpf.raw_tracepoint("sys_enter"), "program:raw_tracepoint", getcpu),
    "btf_tracepoint": (lambda bpf: bpf.btf_tracepoint("sys_enter"), "attach:tp_btf", getcpu),
    "kprobe": (lambda bpf: bpf.kprobe("sys_getcpu"), "attach:kprobe attach:perf", getcpu),
    "kretprobe": (lambda bpf: bpf.kretprobe("sys_getcpu"), "attach:kprobe attach:perf", getcpu),
    "kprobe_multi": (lambda bpf: bpf.kprobe_multi("sys_getcpu"), "attach:kprobe_multi", getcpu),
    "fentry": (lambda bpf: bpf.fentry("sys_getcpu"), "attach:fentry", getcpu),
    "fexit": (lambda bpf: bpf.fexit("sys_getcpu"), "attach:fentry", getcpu),
    "uprobe": (lambda bpf: bpf.uprobe("libc.so.6", "getppid"), "attach:uprobe attach:perf", getppid),
}


def counting(how: str) -> BPF:
    """A module that counts what this process does."""
    bpf = BPF()
    counts = bpf.array(value=u64, name="counts")
    if how in {"raw_tracepoint", "btf_tracepoint"}:
        number = host().system_call("getcpu")

        @KINDS[how][0](bpf)
        def probe(id: int) -> None:  # noqa: A002 - the tracepoint's name
            if pid() == ME and id == number:
                counts[0] += 1
    else:

        @KINDS[how][0](bpf)
        def probe() -> None:
            if pid() == ME:
                counts[0] += 1

    return bpf


@pytest.mark.parametrize("how", KINDS)
def test_pinned_and_taken_up(how: str, unmounted_bpffs: Path) -> None:
    """5 events with its maker, 11 with nobody, 2 with who takes it up; 7 after that are not counted."""
    _, features, work = KINDS[how]
    needs(*features.split())
    path = f"{unmounted_bpffs}/counter"
    with counting(how) as bpf:
        attached = list(bpf.attachments)
        bpf.pin(path)
        work(5)
    work(11)
    with counting(how).reopen(path) as bpf:
        assert [line.partition(":")[0] for line in bpf.attachments] == [line.partition(":")[0] for line in attached]
        assert any(each.id == bpf.links[0].id for each in pyebpf.links())
        work(2)
        assert bpf["counts"][0] == 18
        number = bpf.links[0].id
        bpf.unpin()
        bpf.detach()
        # The kernel lets go of a file after a while of its own (RCU), then of its link's number, of its program last.
        wait_until(lambda: all(each.id != number for each in pyebpf.links()))

        def is_over() -> bool:
            before = bpf["counts"][0]
            work(1)
            return bpf["counts"][0] == before

        wait_until(is_over)
        counted = bpf["counts"][0]
        work(7)
        assert bpf["counts"][0] == counted
    assert not Path(path).exists()


def by_flags(*, event: str = "sys_enter_getcpu", added: int = 1, gone: bool = False, more: bool = False) -> BPF:
    """A module of two maps and one or two programs."""
    bpf = BPF()
    counts = bpf.array(value=u64, name="counts")
    bpf.array(value=u64, name="others") if not gone else None

    @bpf.tracepoint(f"syscalls:{event}")
    def probe() -> None:
        if pid() == ME:
            counts[0] += added

    if more:

        @bpf.tracepoint("syscalls:sys_exit_getcpu")
        def second() -> None:
            counts[0] += 0

    return bpf


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        ({}, {"added": 2}, "the program probe pinned at .* has other code than this one, or is attached elsewhere"),
        ({}, {"event": "sys_exit_getcpu"}, "the program probe pinned at .* is attached elsewhere: reopen it by the"),
        ({}, {"more": True}, "has other declarations: it lacks program_1_second_"),
        ({"more": True}, {}, "has other declarations: it has program_1_second_[0-9a-f]+, too; unpin it"),
        ({}, {"gone": True}, "has other declarations: it has map_1_others, too; unpin it"),
    ],
)
def test_other_source_is_not_taken_for_what_is_pinned(
    first: dict[str, Any], then: dict[str, Any], message: str, unmounted_bpffs: Path
) -> None:
    """A changed constant, another place, a probe or map more or less: refused; the same source is taken."""
    needs("attach:perf")
    path = f"{unmounted_bpffs}/counter"
    with by_flags(**first) as bpf:
        bpf.pin(path)
    with pytest.raises(InvalidValue, match=message):
        by_flags(**then).reopen(path)
    with by_flags(**first).reopen(path) as bpf:
        getcpu(3)
        assert bpf["counts"][0] >= 3
        bpf.unpin()


def test_a_security_hook_that_stays_until_it_is_unpinned(unmounted_bpffs: Path) -> None:
    """A file is refused by a program that no process has, and can be opened once the pin is gone."""
    needs("attach:lsm")

    def denying() -> BPF:
        bpf = BPF()
        denied = bpf.array(value=u64, name="denied")

        @bpf.lsm("file_open")
        def deny(file: KernelObject) -> int:
            if pid() == ME and file.f_inode.i_ino == inode:
                denied[0] += 1
                return -1
            return 0

        return bpf

    name = f"/dev/shm/pyebpf-{ME}"
    file = os.open(name, os.O_CREAT | os.O_RDONLY, 0o600)
    inode = os.fstat(file).st_ino
    os.close(file)
    try:
        with denying() as bpf:
            bpf.pin(f"{unmounted_bpffs}/deny")
        for _ in range(13):
            with pytest.raises(PermissionError):
                os.open(name, os.O_RDONLY)
        with denying().reopen(f"{unmounted_bpffs}/deny") as bpf:
            assert bpf["denied"][0] == 13
            bpf.unpin()
        os.close(os.open(name, os.O_RDONLY))
    finally:
        Path(name).unlink()


class Number(Struct):
    """A process."""

    number: u32


def test_a_pinned_iterator_is_a_file_that_anybody_reads(unmounted_bpffs: Path) -> None:
    """Its records are the file's bytes; a module with others as well is not pinned by halves."""
    bpf = BPF()

    @bpf.iter("task", Number)
    def tasks(task: KernelObject) -> None:
        if task is not None and task.tgid == ME and task.pid == ME:
            emit(Number(task.pid))

    with bpf:
        link = tasks.attach()
        link.pin(f"{unmounted_bpffs}/me")
        link.detach()
    assert Path(f"{unmounted_bpffs}/me").read_bytes() == ME.to_bytes(4, "little")


def test_what_no_single_link_holds_is_not_pinned(unmounted_bpffs: Path) -> None:
    """An event for each processor, and one of tracefs for many functions: a line says so, nothing is half pinned."""
    unless(len(online_cpus()) > 1, "setting:two-processors")
    bpf = BPF()

    @bpf.sample(frequency=1)
    def on_sample() -> None:
        pass

    with bpf, pytest.raises(NotSupported, match=rf"cannot be pinned: it is attached by {perf_way()}, not by one link$"):
        bpf.pin(f"{unmounted_bpffs}/samples")
    assert pinned(unmounted_bpffs) == []


def test_an_event_of_tracefs_is_not_pinned(unmounted_bpffs: Path) -> None:
    """It would stay for ever: the guard removes it with its process."""
    needs("attach:kprobe")
    bpf = BPF()

    @bpf.kprobe(f"{host().call_prefix}[ms][hes][gm]*")
    def on_call() -> None:
        pass

    with bpf, pytest.raises(NotSupported, match=r"cannot be pinned: it is attached by kprobe_events, not by one link$"):
        bpf.pin(f"{unmounted_bpffs}/many")
    assert pinned(unmounted_bpffs) == []
    with Tracefs() as tracefs:
        assert f"pyebpf_{ME}_".encode() not in tracefs.read_top("kprobe_events")
