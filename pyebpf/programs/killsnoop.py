"""Signals that processes send: a line for each kill(2), tkill(2) and tgkill(2), with the result.

Signals that the kernel sends by itself, such as SIGCHLD, are not among them. Signal 0 asks whether a process exists.

Overhead: two probes for each of these calls.
"""

from __future__ import annotations

from pyebpf import BPF, Struct, char, comm, errno_name, field, now, pid, s32, tid, u32, u64
from pyebpf.filters import TaskFilter
from pyebpf.programs._signals import signal_name
from pyebpf.programs._sockets import RESULT
from pyebpf.tool import Column, EventTool, Example, TaskOptions, dataclass, events_of, failures_option, option


class Kill(Struct):
    """A call that returned: `result` is 0 or an error number negated; time in nanoseconds."""

    time: u64
    pid: u32
    tid: u32
    number: s32
    target: s32
    result: s32
    comm: str = field(char[16])

    @property
    def signal(self) -> str:
        """The signal's name, "0" of a call that only asks."""
        return signal_name(self.number)

    @property
    def error(self) -> str | None:
        """The error's name, None without one."""
        return errno_name(-self.result) if self.result < 0 else None


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options: which calls to report."""

    failed: bool = failures_option("only failed calls")
    signals: tuple[int, ...] = option("-s", "--signal", default=(), metavar="N[,N]", help="only these signals")
    target: int | None = option("--target", metavar="PID", help="only signals to this process, thread or group")


def build(options: Options) -> BPF:
    """The probes and the buffer; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    kills = bpf.ringbuf(Kill, name="kills")

    def report(target: int, number: int, result: int) -> None:
        if not tasks.wanted() or (options.failed and result == 0):
            return
        if options.signals and number not in options.signals:
            return
        if options.target is not None and target != options.target:
            return
        kills.emit(Kill(time=now(), pid=pid(), tid=tid(), number=number, target=target, result=result, comm=comm()))

    @bpf.system_call("kill", "tkill")
    def on_kill(pid: s32, sig: s32, retval: int) -> None:
        report(pid, sig, retval)

    @bpf.system_call("tgkill")
    def on_thread(pid: s32, sig: s32, retval: int) -> None:
        report(pid, sig, retval)

    return bpf


TOOL = EventTool(
    name="killsnoop",
    doc=__doc__,
    section="13.2.13",
    tracing="signals that are sent",
    options=Options,
    build=build,
    drop_labels={"kills": "signals"},
    records=events_of("kills", "time"),
    record=Kill,
    time="time",
    columns=(
        Column("PID", 7),
        Column("TID", printed=False),
        Column("COMM", 16),
        Column("SIG", 4, key="number", field=None),
        Column("SIGNAL", printed=False),
        Column("TPID", 7, key="target", field="target_pid"),
        RESULT,
    ),
    examples=(
        Example("killsnoop", "every signal that is sent"),
        Example("killsnoop -x", "only those that failed"),
        Example("killsnoop -s 9,15 -T", "SIGKILL and SIGTERM, with the time"),
        Example("killsnoop --target 181 --json", "those to process 181"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: killsnoop.open(failed=True)
