"""File descriptors that processes pass to each other over UNIX sockets: a line for each, sent or received.

Traces sendmsg(2) and recvmsg(2) with SCM_RIGHTS. SOCKET is the descriptor of the UNIX socket with its inode's number,
FD the passed descriptor by its number in the process of the line, NAME the last part of its file's name.

Overhead: two probes for each sendmsg(2) and recvmsg(2), more for those that pass descriptors.
"""

from __future__ import annotations

from stat import S_ISFIFO, S_ISSOCK

from pyebpf import (
    BPF,
    Struct,
    cast,
    char,
    comm,
    current_task,
    field,
    kernel_string,
    now,
    pid,
    s32,
    tid,
    u16,
    u32,
    u64,
    user,
)
from pyebpf.endpoints import AF_UNIX
from pyebpf.filters import TaskFilter
from pyebpf.programs._sockets import inode_of, socket_of
from pyebpf.tool import Column, EventTool, Example, TaskOptions, dataclass, tid_option

#: include/linux/socket.h: control messages that pass descriptors, and how many there may be in one (include/net/scm.h).
SOL_SOCKET, SCM_RIGHTS, SCM_MAX_FD = 1, 1, 253
#: Kinds of control messages of UNIX sockets: descriptors, credentials, security labels, pidfds. Each is there once.
MOST_MESSAGES = 4
#: Bytes of a `struct cmsghdr`, behind which the descriptors are, and of its length's alignment.
HEADER, ALIGNMENT = 16, 8
SENT, RECEIVED = 0, 1


class PassedDescriptor(Struct):
    """A descriptor that was sent (0) or received (1): the time in nanoseconds, the UNIX socket, the file."""

    time: u64
    inode: u64
    socket_inode: u64
    pid: u32
    tid: u32
    socket: s32
    fd: s32
    direction: u16
    mode: u16
    comm: str = field(char[16])
    file: str = field(char[64])

    @property
    def action(self) -> str:
        """SEND or RECV."""
        return "RECV" if self.direction == RECEIVED else "SEND"

    @property
    def name(self) -> str:
        """The last part of the file's name; as /proc has it for sockets and pipes, which have none."""
        if S_ISSOCK(self.mode):
            return f"socket:[{self.inode}]"
        return f"pipe:[{self.inode}]" if S_ISFIFO(self.mode) and not self.file else self.file


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options: whose descriptors to report."""

    tid: int | None = tid_option()


def build(options: Options) -> BPF:
    """The probes and the buffer; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    passed = bpf.ringbuf(PassedDescriptor, name="passed")

    def report(direction: int, socket: int, socket_inode: int, fd: int) -> None:
        table = current_task().files.fdt
        address: u64 = 0
        if 0 <= fd < table.max_fds:
            address = u64(table.fd[fd])
        file = cast("struct file", address)
        passed.emit(
            PassedDescriptor(
                time=now(),
                inode=file.f_inode.i_ino,
                socket_inode=socket_inode,
                pid=pid(),
                tid=tid(),
                socket=socket,
                fd=fd,
                direction=direction,
                mode=file.f_inode.i_mode,
                comm=comm(),
                file=kernel_string(file.f_path.dentry.d_name.name),
            )
        )

    def control_messages(direction: int, socket: int, message: int) -> None:
        header = cast("struct user_msghdr", message)
        control, length = u64(header.msg_control), u64(header.msg_controllen)
        sk = socket_of(socket)
        if sk.__sk_common.skc_family != AF_UNIX or not tasks.wanted():
            return
        socket_inode = inode_of(sk)
        offset: u64 = 0
        for _ in range(MOST_MESSAGES):
            if offset + HEADER > length:
                return
            found = cast("struct cmsghdr", user(control + offset, char))
            size = u64(found.cmsg_len)
            if size < HEADER or offset + size > length:
                return
            if found.cmsg_level == SOL_SOCKET and found.cmsg_type == SCM_RIGHTS:
                descriptors = user(control + offset + HEADER, s32)
                for number in range(min((size - HEADER) >> 2, SCM_MAX_FD)):
                    report(direction, socket, socket_inode, descriptors[number])
                return
            offset += (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1)

    @bpf.system_call("sendmsg")
    def on_send(fd: int, msg: int, retval: int) -> None:
        if retval >= 0 and cast("struct user_msghdr", msg).msg_controllen >= HEADER:
            control_messages(SENT, fd, msg)

    @bpf.system_call("recvmsg")
    def on_receive(fd: int, msg: int, retval: int) -> None:
        if retval >= 0 and cast("struct user_msghdr", msg).msg_controllen >= HEADER:
            control_messages(RECEIVED, fd, msg)

    return bpf


TOOL = EventTool(
    name="sofdsnoop",
    doc=__doc__,
    section="10.3.31",
    tracing="descriptors that are passed over UNIX sockets",
    options=Options,
    build=build,
    drop_labels={"passed": "descriptors"},
    record=PassedDescriptor,
    columns=(
        Column("ACTION", 6, key="action"),
        Column("TID", 7),
        Column("PID", printed=False),
        Column("COMM", 16),
        Column("SOCKET", 24, key=lambda passed: f"{passed.socket}:socket:[{passed.socket_inode}]", field=None),
        Column("SOCKET", key="socket", field="socket_fd", printed=False),
        Column("INODE", key="socket_inode", printed=False),
        Column("FD", 5),
        Column("NAME"),
    ),
    examples=(
        Example("sofdsnoop", "every descriptor that is passed"),
        Example("sofdsnoop -T -d 10", "with the time of day, for ten seconds"),
        Example("sofdsnoop -t 184", "by thread 184"),
        Example("sofdsnoop -p 181 --json", "by process 181, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: sofdsnoop.open(pid=42)
