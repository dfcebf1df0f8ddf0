"""Processes that the kernel kills because memory is used up: a line for each, with the process that asked for memory.

Kills for the whole machine and those of control groups at their limit are shown, each with the load averages.

Overhead: a probe for each signal that is sent; nothing else is slowed down.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf import BPF, KernelObject, Struct, char, comm, field, now, pid, u32, u64
from pyebpf.helpers import get_current_pid_tgid
from pyebpf.tool import Column, EventTool, Example, Record, Stop, dataclass, events_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SIGKILL = 9
#: include/linux/sched/signal.h: the address that stands for a signal of the kernel's own.
SEND_SIG_PRIV = 1


class Victim(Struct):
    """A process that the kernel kills: its number, name and size."""

    pid: u32
    comm: str = field(char[16])
    pages: u64


class Killed(Struct):
    """A victim, and the process that asked for memory; time in nanoseconds."""

    time: u64
    pid: u32
    comm: str = field(char[16])
    victim: Victim


@dataclass(frozen=True)
class Kill(Record):
    """A process that was killed when process `pid` asked for memory, and the load averages then."""

    time: int
    pid: int
    comm: str
    victim_pid: int
    victim_comm: str
    pages: int
    load: str


@dataclass(frozen=True)
class Options:
    """Options: none of its own."""


def build(options: Options) -> BPF:  # noqa: ARG001 - as every tool's
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    killed = bpf.ringbuf(Killed, name="killed")
    victims = bpf.lru_hash(key=u64, value=Victim, size=64)

    # The kernel first sends the signal, and then says what it was for: only since Linux 6.8 it says all of the victim.
    @bpf.btf_tracepoint("signal_generate")
    def on_signal(sig: int, info: KernelObject, task: KernelObject) -> None:
        if sig == SIGKILL and u64(info) == SEND_SIG_PRIV:
            victims[get_current_pid_tgid()] = Victim(pid=task.tgid, comm=task.comm, pages=task.mm.total_vm)

    @bpf.btf_tracepoint("mark_victim")
    def on_victim() -> None:
        victim = victims.get(get_current_pid_tgid())
        if victim is not None:
            killed.emit(Killed(time=now(), pid=pid(), comm=comm(), victim=victim))
            del victims[get_current_pid_tgid()]

    return bpf


def kills(bpf: BPF, options: Options, stop: Stop) -> Iterator[Kill]:
    """Kills as they happen, with the load averages of the moment."""
    for each in events_of("killed", "time")(bpf, options, stop):
        victim, load = each.victim, Path("/proc/loadavg").read_text(encoding="ascii").strip()
        yield Kill(each.time, each.pid, each.comm, victim.pid, victim.comm, victim.pages, load)


def sentence(kill: Kill) -> str:
    """The line of bcc's tool."""
    return (
        f'Triggered by PID {kill.pid} ("{kill.comm}"), OOM kill of PID {kill.victim_pid} ("{kill.victim_comm}"), '
        f"{kill.pages} pages, loadavg: {kill.load}"
    )


TOOL = EventTool(
    name="oomkill",
    doc=__doc__,
    section="7.3.1",
    tracing="OOM kills",
    options=Options,
    build=build,
    drop_labels={"killed": "kills", "victims": "kills"},
    records=kills,
    record=Kill,
    time="time",
    sentence=sentence,
    columns=(
        Column("TIME", 8),
        Column("PID", printed=False),
        Column("COMM", printed=False),
        Column("VICTIM_PID", printed=False),
        Column("VICTIM_COMM", printed=False),
        Column("PAGES", printed=False),
        Column("LOAD", field="load_average", printed=False),
    ),
    examples=(
        Example("oomkill", "every kill, with the time"),
        Example("oomkill --json", "an object a line"),
        Example("oomkill -d 3600 --csv", "those of an hour, as a table"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: oomkill.open()
