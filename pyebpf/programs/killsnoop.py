"""Signals that processes send: a line for each kill(2), tkill(2) and tgkill(2), with the result.

Signals that the kernel sends by itself, such as SIGCHLD, are not among them. Signal 0 asks whether a process exists.
TCOMM is the name of the thread that gets the signal, of a group the last one's, and - if none gets it.

Overhead: three probes for each of these calls, one for each signal that the kernel sends by itself.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, Struct, cast, char, comm, errno_name, field, now, pid, s32, tid, u32, u64
from pyebpf.filters import TaskFilter
from pyebpf.helpers import get_current_pid_tgid
from pyebpf.programs._signals import signal_name
from pyebpf.programs._sockets import RESULT
from pyebpf.tool import Column, EventTool, Example, TaskOptions, dataclass, failures_option, flag, option

#: include/uapi/asm-generic/siginfo.h: what kill(2) sends, and tkill(2) and tgkill(2).
SI_USER, SI_TKILL = 0, -6
#: include/linux/sched/signal.h: numbers in place of an address. Of kill(2) Linux 7.3 gives SEND_SIG_NOINFO.
SEND_SIG_NOINFO, SEND_SIG_PRIV = 0, 1


class Kill(Struct):
    """A call that returned: `result` is 0 or an error number negated; time in nanoseconds.

    `receiver` is the name of the thread that got the signal, "" if none did.
    """

    time: u64
    pid: u32
    tid: u32
    number: s32
    target: s32
    result: s32
    comm: str = field(char[16])
    receiver: str = field(char[16])

    @property
    def signal(self) -> str:
        """The signal's name, "0" of a call that only asks."""
        return signal_name(self.number)

    @property
    def error(self) -> str | None:
        """The error's name, None without one."""
        return errno_name(-self.result) if self.result < 0 else None

    @property
    def target_comm(self) -> str | None:
        """The name of the thread that got the signal, None if none did."""
        return self.receiver or None


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options: which calls to report."""

    failed: bool = failures_option("only failed calls")
    signals: tuple[int, ...] = option("-s", "--signal", default=(), metavar="N[,N]", help="only these signals")
    target: int | None = option("--target", metavar="PID", help="only signals to this process, thread or group")
    kill_only: bool = flag("-k", "--kill", help="only those of kill(2)")
    names: bool = flag("-n", "--name", help="print the signal's name instead of its number", output_only=True)


def build(options: Options) -> BPF:
    """The probes and the buffer; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    kills = bpf.ringbuf(Kill, name="kills")
    sent = bpf.lru_hash(key=u64, value=char[16], size=8192)

    # While the call runs: when it returns, the process may have ended. An argument that may be a small number in place
    # of an address is no pointer to the verifier of Linux 7.3.
    @bpf.btf_tracepoint("signal_generate")
    def on_signal(info: u64, task: KernelObject) -> None:
        if info == SEND_SIG_PRIV:
            return
        if info == SEND_SIG_NOINFO or cast("struct kernel_siginfo", info).si_code in (SI_USER, SI_TKILL):
            sent[get_current_pid_tgid()] = task.comm

    def wanted(target: int, number: int, result: int) -> bool:
        if not tasks.wanted() or (options.failed and result == 0):
            return False
        if options.signals and number not in options.signals:
            return False
        return options.target is None or target == options.target

    def report(target: int, number: int, result: int) -> None:
        thread, receiver = get_current_pid_tgid(), ""
        if wanted(target, number, result):
            last = sent.get(thread)
            # A call that has sent none may find the name of an earlier one, which was not traced.
            if last is not None and result == 0 and number != 0:
                receiver = last
            kills.emit(
                Kill(
                    time=now(),
                    pid=pid(),
                    tid=tid(),
                    number=number,
                    target=target,
                    result=result,
                    comm=comm(),
                    receiver=receiver,
                )
            )
        del sent[thread]

    @bpf.system_call("kill", *(() if options.kill_only else ("tkill", "tgkill")))
    def on_kill(pid: s32, sig: s32, retval: int) -> None:
        report(pid, sig, retval)

    return bpf


def columns(options: Options) -> tuple[Column, ...]:
    """The book's columns, with TCOMM."""
    return (
        Column("PID", 7),
        Column("TID", printed=False),
        Column("COMM", 16),
        Column("SIG", 12, key="signal", field=None) if options.names else Column("SIG", 4, key="number", field=None),
        Column("SIGNAL", printed=False),
        Column("TPID", 7, key="target", field="target_pid"),
        Column("TCOMM", 16, key="target_comm"),
        RESULT,
    )


TOOL = EventTool(
    name="killsnoop",
    doc=__doc__,
    section="13.2.13",
    tracing="signals that are sent",
    options=Options,
    build=build,
    drop_labels={"kills": "signals", "sent": "names of targets"},
    record=Kill,
    columns=columns,
    examples=(
        Example("killsnoop", "every signal that is sent"),
        Example("killsnoop -x", "only those that failed"),
        Example("killsnoop -s 9,15 -T", "SIGKILL and SIGTERM, with the time"),
        Example("killsnoop -kn", "of kill(2) alone, signals by name"),
        Example("killsnoop --target 181 --json", "those to process 181"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: killsnoop.open(failed=True)
