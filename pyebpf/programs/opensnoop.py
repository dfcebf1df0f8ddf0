"""open(2) calls: a line for each, with the process, the descriptor or error, and the path.

The path is read when the call returns, because at entry its page may not be in memory yet. Paths longer than 255 bytes
are cut.

Overhead: two map operations and a copy of the path for each open(2), openat(2) and openat2(2).
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pyebpf import (
    BPF,
    InvalidValue,
    Struct,
    array,
    char,
    comm,
    container_of,
    current_task,
    errno_name,
    field,
    kernel_string,
    now,
    pid,
    ptr,
    s32,
    s64,
    tid,
    u32,
    u64,
    uid,
    user_string,
)
from pyebpf.filters import TaskFilter
from pyebpf.helpers import get_current_pid_tgid
from pyebpf.programs._paths import LONGEST_PART, STEPS
from pyebpf.tool import (
    Column,
    EventTool,
    Example,
    Stop,
    cgroup_option,
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

#: TASK_COMM_LEN, less the NUL.
LONGEST_NAME = 15


AT_FDCWD = -100
#: Flags of open(2) of which each call has one.
MODES = "O_RDONLY", "O_WRONLY", "O_RDWR"


class Begun(Struct):
    """A call that has not returned: the path's address, and the flags if they are wanted."""

    path: u64
    flags: u64


class BegunIn(Begun):
    """A call whose directory is wanted: a descriptor, or AT_FDCWD."""

    directory: s64


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
    def error(self) -> str | None:
        """The error's name, None without one."""
        return errno_name(-self.result) if self.result < 0 else None


class FullOpen(Open):
    """A call with the names of the directories that its path begins in, the innermost first; "" at a mount point.

    `reached` tells whether they end at the process's root.
    """

    above: list[str] = field(array(char[LONGEST_PART], STEPS))
    reached: u32


@dataclass(frozen=True)
class Options:
    """Options: which calls to report."""

    pid: int | None = pid_option()
    tid: int | None = tid_option()
    uid: int | None = uid_option()
    failed: bool = failures_option("only failed opens")
    name: str | None = option("-n", "--comm", "--name", metavar="NAME", help="only processes whose name contains this")
    cgroup: str | None = cgroup_option()
    flags: tuple[str, ...] = option(
        "-f", "--flag", default=(), metavar="FLAG[,FLAG]", help="only opens with one of these flags: O_CREAT,O_WRONLY"
    )
    print_uid: bool = flag("-U", "--print-uid", help="print the user's id", output_only=True)
    extended: bool = flag("-e", "--extended-fields", help="print the flags of open(2), in octal")
    full_path: bool = flag("-F", "--full-path", help="print relative paths with their directory in front")
    errno_names: bool = flag("--errno-names", help="print the error's name instead of its number", output_only=True)

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
        for name in self.flags:
            if not name.startswith("O_") or not hasattr(os, name):
                raise InvalidValue(f"--flag: {name!r} is no flag of open(2): write its name, such as O_CREAT")

    @property
    def access_modes(self) -> tuple[int, ...]:
        """The access modes among the flags that are asked for, which are numbers and no bits."""
        return tuple(int(getattr(os, name)) for name in self.flags if name in MODES)

    @property
    def flag_bits(self) -> tuple[int, ...]:
        """The other flags; some have several bits."""
        return tuple(int(getattr(os, name)) for name in self.flags if name not in MODES)


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf, tasks = (
        BPF(),
        TaskFilter(SimpleNamespace(pid=options.pid, tid=options.tid, uid=options.uid, cgroup=options.cgroup)),
    )
    modes, bits = options.access_modes, options.flag_bits
    # By the kernel's own numbers: from inside a pid namespace, whatever is outside has 0 for tid().
    pending: Any = bpf.hash(key=u64, value=BegunIn if options.full_path else Begun)
    opens = bpf.ringbuf(
        FullOpen if options.full_path else Open, size=8 << 20
    )  # 26,000: programs that start open many files at once

    def begin(path: int, flags: int, directory: int) -> None:
        if not tasks.wanted():
            return
        if options.flags and flags & os.O_ACCMODE not in modes and not any(flags & each == each for each in bits):
            return
        if options.full_path:
            pending[get_current_pid_tgid()] = BegunIn(path=path, flags=flags, directory=directory)
        else:
            pending[get_current_pid_tgid()] = Begun(path=path, flags=flags)

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_enter(dfd: int, filename: ptr[char], flags: int) -> None:
        begin(filename, flags, dfd)

    @bpf.tracepoint("syscalls:sys_enter_open", optional=True)
    def on_enter1(filename: ptr[char], flags: int) -> None:
        begin(filename, flags, AT_FDCWD)

    @bpf.tracepoint("syscalls:sys_enter_openat2")
    def on_enter2(dfd: int, filename: ptr[char], how: ptr[u64]) -> None:
        # struct open_how begins with the flags. Its page may not be in memory yet, so it is read only if asked for.
        begin(filename, how[0] if options.extended or options.flags else 0, dfd)

    @bpf.tracepoint("syscalls:sys_exit_openat", "syscalls:sys_exit_openat2")
    @bpf.tracepoint("syscalls:sys_exit_open", optional=True)
    def on_exit(ret: int) -> None:
        thread = get_current_pid_tgid()
        begun = pending.get(thread)
        if begun is None:
            return
        path, flags = begun.path, begun.flags
        directory = begun.directory if options.full_path else AT_FDCWD
        del pending[thread]
        if options.failed and ret >= 0:
            return
        name = comm()
        # Here, before the buffer: there, calls of others would take the place of those that are wanted.
        if options.name is not None and options.name not in name:
            return
        if options.full_path:
            call = FullOpen(
                time=now(),
                flags=flags,
                pid=pid(),
                tid=tid(),
                uid=uid(),
                result=ret,
                comm=name,
                path=user_string(path),
                above=[""] * STEPS,
                reached=0,
            )
            if not call.path.startswith("/"):
                follow(call, directory)
            opens.emit(call)
        else:
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


def follow(call: FullOpen, directory: int) -> None:
    """In a probe: write down the names from a directory up to the process's root, across mounts."""
    task = current_task()
    root, root_mount = task.fs.root.dentry, container_of(task.fs.root.mnt, "struct mount", "mnt")
    dentry, mnt = task.fs.pwd.dentry, task.fs.pwd.mnt
    if directory != AT_FDCWD:
        if directory < 0 or directory >= task.files.fdt.max_fds:
            return
        file = task.files.fdt.fd[directory]
        if file is None:
            return
        dentry, mnt = file.f_path.dentry, file.f_path.mnt
    mount = container_of(mnt, "struct mount", "mnt")
    for step in range(STEPS):
        if dentry == root and mount == root_mount:
            call.reached = 1
            break
        if dentry != mount.mnt.mnt_root:
            call.above[step] = kernel_string(dentry.d_name.name)
            dentry = dentry.d_parent
        else:
            dentry, mount = mount.mnt_mountpoint, mount.mnt_parent


def joined(call: FullOpen) -> str:
    """The path with the directory in front; with ".../" where that lies deeper than what is followed."""
    if call.path.startswith("/") or not call.path:
        return call.path
    names = [name for name in reversed(call.above) if name]
    if not names and not call.reached:
        return call.path  # of a descriptor that is none
    return "/".join(["" if call.reached else "...", *names, call.path])


def opens(bpf: BPF, _options: Options, stop: Stop) -> Iterator[Open]:
    """Calls as they return."""
    for call in events(bpf["opens"], stop):
        call.time = monotonic_time(call.time)
        if isinstance(call, FullOpen):
            call.path = joined(call)
        yield call


def columns(options: Options) -> tuple[Column, ...]:
    """The book's columns."""

    def error(call: Open) -> object:
        return call.error if options.errno_names and call.error else max(-call.result, 0)

    return (
        *([Column("UID", 6)] if options.print_uid else []),
        Column("PID", 7) if options.tid is None else Column("TID", 7),
        Column("COMM", 16),
        Column("FD", 4, ">", key="descriptor"),
        Column("ERR", 7 if options.errno_names else 3, ">", key=error, cut=False, field="error", value="error"),
        *(
            [Column("FLAGS", 8, key=lambda call: f"{call.flags:08o}", cut=False, value="flags")]
            if options.extended
            else []
        ),
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
    record=Open,
    time="time",
    columns=columns,
    examples=(
        Example("opensnoop", "every open on the machine"),
        Example("opensnoop -x", "only those that failed"),
        Example("opensnoop -p 181", "only process 181"),
        Example("opensnoop -u 1000 -U", "only user 1000, with the id in a column"),
        Example("opensnoop -n sshd -e", "by process name, with the flags"),
        Example("opensnoop -f O_CREAT -F", "what creates, by whole paths"),
        Example("opensnoop -d 10 --json", "for ten seconds, one object per line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: opensnoop.open(pid=42)
