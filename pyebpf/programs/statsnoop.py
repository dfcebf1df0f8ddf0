"""File status calls: a line for each, with the process, the path and the error.

Traces stat(2), lstat(2), fstatat(2), statx(2) and statfs(2). The path is read when the call returns, because at entry
its page may not be in memory yet. Calls that name no path, as those of fstat(3), are left out. Paths longer than 255
bytes are cut.

Overhead: two probes and a copy of the path for each of these calls.
"""

from __future__ import annotations

from pyebpf import BPF, Struct, char, comm, errno_name, field, now, pid, ptr, s32, tid, u32, u64, user_string
from pyebpf.filters import TaskFilter
from pyebpf.tool import Column, EventTool, Example, TaskOptions, dataclass, failures_option, flag

AT_FDCWD = -100
#: The calls: as tracepoints have them, and as everybody else does.
CALLS = {"newstat": "stat", "newlstat": "lstat", "statfs": "statfs", "newfstatat": "newfstatat", "statx": "statx"}
NUMBERS = {call: number for number, call in enumerate(CALLS)}


class Stat(Struct):
    """A call that returned: `result` is 0 or an error number negated; time in nanoseconds.

    `directory` is the descriptor that a relative path begins at, or AT_FDCWD; `number` is the call's in CALLS.
    """

    time: u64
    pid: u32
    tid: u32
    directory: s32
    result: s32
    number: u32
    comm: str = field(char[16])
    path: str = field(char[256])

    @property
    def error(self) -> str | None:
        """The error's name, None without one."""
        return errno_name(-self.result) if self.result < 0 else None

    @property
    def syscall(self) -> str:
        """The system call's name."""
        return list(CALLS.values())[self.number]

    @property
    def directory_fd(self) -> int | None:
        """The descriptor of the directory that a relative path begins at, None if that is the working directory."""
        return None if self.directory == AT_FDCWD else self.directory


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options: which calls to report."""

    failed: bool = failures_option("only failed calls")
    sysname: bool = flag("-s", "--sysname", help="print the system call's name", output_only=True)


def build(options: Options) -> BPF:
    """The probes and the buffer; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    stats = bpf.ringbuf(Stat, name="stats", size=1 << 22)  # 13,000

    def report(call: str, directory: int, path: ptr[char], result: int) -> None:
        if not tasks.wanted() or (options.failed and result == 0):
            return
        stat = Stat(
            time=now(),
            pid=pid(),
            tid=tid(),
            directory=directory,
            result=result,
            number=NUMBERS[call],
            comm=comm(),
            path=user_string(path),
        )
        if stat.path:
            stats.emit(stat)

    def in_working_directory(call: str) -> None:
        @bpf.system_call(call, optional=True)  # arm64 has newfstatat alone
        def on_stat(filename: ptr[char], retval: int) -> None:
            report(call, AT_FDCWD, filename, retval)

    def in_directory(call: str) -> None:
        @bpf.system_call(call)
        def on_statx(dfd: s32, filename: ptr[char], retval: int) -> None:
            report(call, dfd, filename, retval)

    @bpf.system_call("statfs")
    def on_statfs(pathname: ptr[char], retval: int) -> None:
        report("statfs", AT_FDCWD, pathname, retval)

    for each in ("newstat", "newlstat"):
        in_working_directory(each)
    for each in ("newfstatat", "statx"):
        in_directory(each)
    return bpf


TOOL = EventTool(
    name="statsnoop",
    doc=__doc__,
    section="8.3.2",
    tracing="stat(2)",
    options=Options,
    build=build,
    drop_labels={"stats": "calls"},
    record=Stat,
    columns=(
        Column("PID", 7),
        Column("TID", printed=False),
        Column("COMM", 16),
        Column("FD", 4, ">", key=lambda call: -1 if call.error else 0, field=None),
        Column("ERR", 3, ">", key=lambda call: -call.result, field="error", value="error", type="str | None"),
        Column("SYSCALL", 10, printed="sysname"),
        Column("DIRECTORY", key="directory_fd", printed=False),
        Column("PATH"),
    ),
    examples=(
        Example("statsnoop", "every call on the machine"),
        Example("statsnoop -x", "only those that failed"),
        Example("statsnoop -s", "with the system call's name"),
        Example("statsnoop -p 181 --json", "of process 181, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: statsnoop.open(pid=42)
