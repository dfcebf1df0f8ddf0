"""open(2) calls: a line for each, with the process, the descriptor or error, and the path.

The path is read when the call returns: by then the page that holds it is in memory, which at entry it need not be.
Paths longer than 255 bytes are cut.

Overhead: two map operations and a copy of the path for each open(2), openat(2) and openat2(2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf import (
    BPF,
    InvalidValue,
    Struct,
    char,
    comm,
    errno_name,
    field,
    now,
    pid,
    ptr,
    s32,
    tid,
    u32,
    u64,
    uid,
    user_string,
)
from pyebpf.helpers import get_current_pid_tgid
from pyebpf.tool import (
    Column,
    EventTool,
    Example,
    Stop,
    dataclass,
    events,
    failures_option,
    flag,
    monotonic_time,
    option,
    pid_option,
    tid_option,
    uid_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TOOL", "Open", "Options", "build", "open"]

#: TASK_COMM_LEN, less the NUL.
LONGEST_NAME = 15


class Begun(Struct):
    """A call that has not returned: the path's address, and the flags if they are wanted."""

    path: u64
    flags: u64


class Open(Struct):
    """One call: `result` is the descriptor, or the error number negated; `time` nanoseconds of time.monotonic_ns().

    `flags` are those of open(2), with `extended` only.
    """

    time: u64
    flags: u64
    pid: u32
    tid: u32
    uid: u32
    result: s32
    comm: str = field(char[16])
    path: str = field(char[256])

    @property
    def descriptor(self) -> int:
        """The descriptor, -1 if it failed."""
        return max(self.result, -1)

    @property
    def error(self) -> int:
        """The error number, 0 if it succeeded."""
        return max(-self.result, 0)


@dataclass(frozen=True)
class Options:
    """Options: which calls to report."""

    pid: int | None = pid_option()
    tid: int | None = tid_option()
    uid: int | None = uid_option()
    failed: bool = failures_option("only failed opens")
    name: str | None = option("-n", "--name", metavar="NAME", help="only processes whose name contains this")
    print_uid: bool = flag("-U", "--print-uid", help="print the user's id")
    extended: bool = flag("-e", "--extended-fields", help="print the flags of open(2), in octal")
    errno_names: bool = flag("--errno-names", help="print the error's name instead of its number")

    def __post_init__(self) -> None:
        """Refuse what no thread's name can contain."""
        raw = (self.name or "").encode("utf-8", "surrogateescape")
        if len(raw) > LONGEST_NAME:
            raise InvalidValue(
                f"--name: {self.name!r} has {len(raw)} bytes, and the kernel keeps {LONGEST_NAME} of a thread's name: "
                f"write {raw[:LONGEST_NAME].decode(errors='ignore')!r}"
            )
        if b"\0" in raw:
            raise InvalidValue(f"--name: {self.name!r} has a NUL, which no thread's name has")


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    # By the kernel's own numbers: from inside a pid namespace, whatever is outside has 0 for tid().
    pending = bpf.hash(key=u64, value=Begun)
    opens = bpf.ringbuf(Open, size=1 << 20)  # some thousands: programs that start open many files at once

    def begin(path: int, flags: int) -> None:
        if options.pid is not None and pid() != options.pid:
            return
        if options.tid is not None and tid() != options.tid:
            return
        if options.uid is not None and uid() != options.uid:
            return
        pending[get_current_pid_tgid()] = Begun(path=path, flags=flags)

    @bpf.tracepoint("syscalls:sys_enter_openat")
    @bpf.tracepoint("syscalls:sys_enter_open", optional=True)
    def on_enter(filename: ptr[char], flags: int) -> None:
        begin(filename, flags)

    @bpf.tracepoint("syscalls:sys_enter_openat2")
    def on_enter2(filename: ptr[char], how: ptr[u64]) -> None:
        # struct open_how begins with the flags. Its page may not be in memory yet, so it is read only if asked for.
        begin(filename, how[0] if options.extended else 0)

    @bpf.tracepoint("syscalls:sys_exit_openat", "syscalls:sys_exit_openat2")
    @bpf.tracepoint("syscalls:sys_exit_open", optional=True)
    def on_exit(ret: int) -> None:
        thread = get_current_pid_tgid()
        begun = pending.get(thread)
        if begun is None:
            return
        path, flags = begun.path, begun.flags
        del pending[thread]
        if options.failed and ret >= 0:
            return
        name = comm()
        # Here, before the buffer: there, calls of others would take the place of those that are wanted.
        if options.name is not None and options.name not in name:
            return
        opens.emit(
            Open(
                time=now(),
                flags=flags,
                pid=pid(),
                tid=tid(),
                uid=uid(),
                result=ret,
                comm=name,
                path=user_string(path),
            )
        )

    return bpf


def opens(bpf: BPF, _options: Options, stop: Stop) -> Iterator[Open]:
    """Calls as they return."""
    for call in events(bpf["opens"], stop):
        call.time = monotonic_time(call.time)
        yield call


def columns(options: Options) -> tuple[Column, ...]:
    """The book's columns."""

    def error(call: Open) -> object:
        return errno_name(call.error) if options.errno_names and call.error else call.error

    return (
        *([Column("UID", 6)] if options.print_uid else []),
        Column("PID", 7) if options.tid is None else Column("TID", 7),
        Column("COMM", 16),
        Column("FD", 4, ">", key="descriptor"),
        Column("ERR", 7 if options.errno_names else 3, ">", key=error),
        *([Column("FLAGS", 8, key=lambda call: f"{call.flags:08o}", cut=False)] if options.extended else []),
        Column("PATH", key="path"),
    )


TOOL = EventTool(
    name="opensnoop",
    doc=__doc__,
    tracing="open(2)",
    options=Options,
    build=build,
    drop_labels={"pending": "calls under way", "opens": "opens"},
    records=opens,
    columns=columns,
    examples=(
        Example("opensnoop", "every open on the machine"),
        Example("opensnoop -x", "only those that failed"),
        Example("opensnoop -p 181", "only process 181"),
        Example("opensnoop -u 1000 -U", "only user 1000, with the id in a column"),
        Example("opensnoop -n sshd -e", "by process name, with the flags"),
        Example("opensnoop -d 10 --json", "for ten seconds, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: opensnoop.open(pid=42)
