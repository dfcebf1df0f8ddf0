"""Programs that are executed: a line for each execve(2) and execveat(2), with the arguments.

The arguments are read from the new program's memory, where the kernel has just put them: those of a script begin with
its interpreter. With -x calls that failed are shown, too, with the error's name.

Overhead: a copy of up to 4 KiB for each program that is executed; with -x two probes more for each call.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from pyebpf import (
    BPF,
    InvalidValue,
    KernelObject,
    Struct,
    array,
    char,
    comm,
    cpu,
    current_task,
    errno_name,
    field,
    helpers,
    kernel_string,
    now,
    pid,
    ptr,
    s32,
    u8,
    u32,
    u64,
    uid,
    user,
    user_string,
)
from pyebpf.filters import TaskFilter
from pyebpf.tool import (
    Column,
    EventTool,
    Example,
    Stop,
    cgroup_option,
    dataclass,
    events_of,
    failures_option,
    flag,
    option,
    uid_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Memory for arguments: of a call that failed one a row, else one after the other.
ROWS, ROW = 32, 128


class Arguments(list[str]):
    """Arguments as a list, in JSON too, and as text with a space between."""

    def __str__(self) -> str:
        return " ".join(self)


class Exec(Struct):
    """A call that returned: `result` is 0, or an error number negated; time in nanoseconds.

    `count` arguments have room in `memory`, which has `size` bytes of them; `cut` tells whether something is missing.
    """

    time: u64
    size: u64
    pid: u32
    ppid: u32
    uid: u32
    result: s32
    count: u32
    cpu: u32
    cut: bool
    comm: str = field(char[16])
    parent_comm: str = field(char[16])
    path: str = field(char[256])
    memory: list[bytes] = field(array(array(u8, ROW), ROWS))

    @property
    def error(self) -> str | None:
        """The error's name, None without one."""
        return errno_name(-self.result) if self.result < 0 else None

    @property
    def args(self) -> Arguments:
        """The arguments; the first is the name by which the program was called."""
        rows = self.memory if self.result else b"".join(self.memory)[: self.size].split(b"\0")
        return Arguments(row.partition(b"\0")[0].decode("utf-8", "surrogateescape") for row in rows[: self.count])

    @property
    def words(self) -> Arguments:
        """The arguments; of a call that failed the path, which was looked for, in place of the first."""
        return Arguments([self.path, *self.args[1:]]) if self.result else self.args

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, and `args` in place of their memory."""
        fields = {name: value for name, value in super().as_dict().items() if name not in {"size", "count", "memory"}}
        return {**fields, "args": list(self.args)}


@dataclass(frozen=True)
class Options:
    """Options: which calls to report, and how much of each."""

    failed: bool = failures_option("failed calls, too")
    uid: int | None = uid_option()
    ppid: int | None = option("-P", "--ppid", metavar="PPID", help="only children of this process", names="process")
    comm: str | None = option("-n", "--comm", "--name", metavar="NAME", help="only programs whose name contains this")
    line: str | None = option("-l", "--line", metavar="REGEX", help="only arguments that this expression matches")
    cgroup: str | None = cgroup_option()
    max_args: int = option("--max-args", metavar="N", default=20, help="print so many", minimum=1, maximum=ROWS)
    print_uid: bool = flag("-U", "--print-uid", help="print the user's id", output_only=True)
    print_cpu: bool = flag("-C", "--print-cpu", help="print the processor", output_only=True)
    print_parent: bool = flag("-M", "--print-pcomm", help="print the parent's name", output_only=True)
    quote: bool = flag("-q", "--quote", help="quote arguments as a shell wants them", output_only=True)

    def __post_init__(self) -> None:
        """Refuse what is no expression."""
        try:
            re.compile(self.line or "")
        except re.error as error:
            raise InvalidValue(f"--line: {self.line!r} is no regular expression: {error}") from None


def build(options: Options) -> BPF:
    """The probes and the buffer; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    execs = bpf.ringbuf(Exec, size=16 << 20)  # 3,900

    def wanted(parent: KernelObject) -> bool:
        return tasks.wanted() and (options.ppid is None or parent.tgid == options.ppid)

    def begun(parent: KernelObject, result: int) -> Exec:
        return Exec(
            time=now(),
            size=0,
            pid=pid(),
            ppid=parent.tgid,
            uid=uid(),
            result=result,
            count=0,
            cpu=cpu(),
            cut=False,
            comm=comm(),
            parent_comm=parent.comm,
            path="",
            memory=[bytes(ROW)] * ROWS,
        )

    @bpf.btf_tracepoint("sched_process_exec")
    def on_exec(p: KernelObject, bprm: KernelObject) -> None:
        parent = p.real_parent
        if not wanted(parent):
            return
        call = begun(parent, 0)
        start, length = u64(p.mm.arg_start), u64(p.mm.arg_end - p.mm.arg_start)
        size = min(length, ROWS * ROW)
        call.path = kernel_string(bprm.filename)
        helpers.probe_read_user(call.memory, size, start)
        call.size = size
        call.count = min(bprm.argc, options.max_args)
        call.cut = length > size or bprm.argc > options.max_args
        execs.emit(call)

    if options.failed:

        @bpf.system_call("execve", "execveat")
        def on_failure(filename: ptr[char], argv: int, retval: int) -> None:
            parent = current_task().real_parent
            if retval == 0 or not wanted(parent):
                return
            call = begun(parent, retval)
            call.path = user_string(filename)
            for number in range(options.max_args):
                argument = user(argv, u64)[number]
                if argument == 0:
                    break
                length = helpers.probe_read_user_str(call.memory[number], ROW, argument)
                if length == ROW and user(argument, u8)[ROW - 1] != 0:
                    call.cut = True
                call.count = number + 1
            if call.count == options.max_args and user(argv, u64)[options.max_args] != 0:
                call.cut = True
            execs.emit(call)

    return bpf


def executed(bpf: BPF, options: Options, stop: Stop) -> Iterator[Exec]:
    """Calls as they return, those whose arguments match."""
    pattern = re.compile(options.line or "")
    return (call for call in events_of("execs", "time")(bpf, options, stop) if pattern.search(str(call.words)))


def columns(options: Options) -> tuple[Column, ...]:
    """The columns of bcc's tool; -U, -M and -C print one more each."""

    def arguments(call: Exec) -> str:
        return (shlex.join(call.words) if options.quote else str(call.words)) + (" ..." if call.cut else "")

    return (
        *([Column("UID", 6)] if options.print_uid else []),
        Column("PCOMM", 16, key="comm"),
        Column("PID", 7),
        Column("PARENT", 16, key="parent_comm", printed=options.print_parent),
        Column("PPID", 7),
        Column("CPU", 4, printed=options.print_cpu),
        Column("RET", 6, key=lambda call: call.error or 0, cut=False, field="error", value="error"),
        Column("ARGS", key=arguments, value="args", field="args", type="list[str]"),
        Column("CUT", printed=False),
        Column("PATH", printed=False),
    )


TOOL = EventTool(
    name="execsnoop",
    doc=__doc__,
    section="6.3.1",
    tracing="execve(2)",
    options=Options,
    build=build,
    drop_labels={"execs": "calls"},
    records=executed,
    record=Exec,
    time="time",
    columns=columns,
    examples=(
        Example("execsnoop", "every program that is executed"),
        Example("execsnoop -x -T", "failed ones, too, with the time"),
        Example("execsnoop -u 1000 -U", "only user 1000, with the id"),
        Example("execsnoop -M -C", "with the parent's name and the processor"),
        Example("execsnoop -n ssh -q", "by the program's name, with quotes"),
        Example("execsnoop -l rm.*-r --json", "by an argument, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: execsnoop.open(uid=1000)
