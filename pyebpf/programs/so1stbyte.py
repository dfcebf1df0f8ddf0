"""Time from connect(2) to the first byte that is read, of IP sockets: a histogram for each process.

The time runs from the beginning of connect(2) until the process has read the first data from the socket, by whatever
system call: the network's latency, the server's time, and the process's own until it reads.

Overhead: two probes for each connect(2); a probe and a look-up for each message that is received on the machine.
"""

from __future__ import annotations

import errno

from pyebpf import BPF, KernelObject, cast, char, comm, now
from pyebpf.filters import TaskFilter
from pyebpf.in_flight import InFlight, LatencyHistogram
from pyebpf.programs._messages import Messages
from pyebpf.programs._sockets import AF_UNSPEC, inode_of, is_ip, socket_of
from pyebpf.tool import Example, SummaryTool, TaskLatencyOptions, histograms_of

#: Results of calls that leave a connection, or the making of one, as it was.
_NOTHING_CHANGED = (-errno.EALREADY, -errno.EISCONN, -errno.EINTR)
#: Bit of a time: connect(2) went on in the background, and no later call has said how it ended.
_IN_BACKGROUND = 1


def build(options: TaskLatencyOptions) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf, tasks = Messages(), TaskFilter(options)
    # Sockets by the numbers of their inodes, which no other socket gets: some never read, and are let go of.
    connected = InFlight(bpf, name="connected", oldest_first=True)
    latency = LatencyHistogram(bpf, options, key=char[16], label="comm")

    @bpf.system_call("connect")
    def on_connect(fd: int, uservaddr: int, retval: int, elapsed: int) -> None:
        if retval in _NOTHING_CHANGED or not tasks.wanted():
            return
        sk = socket_of(fd)
        if not is_ip(sk.__sk_common.skc_family):
            return
        socket = inode_of(sk)
        earlier = connected.began.get(socket, 0)
        if retval == -errno.EINPROGRESS:
            connected.began[socket] = (now() - elapsed) | _IN_BACKGROUND
        elif retval != 0:
            if earlier & _IN_BACKGROUND:
                connected.cancel(socket)  # that is what failed
        elif cast("struct sockaddr", uservaddr).sa_family == AF_UNSPEC:
            connected.cancel(socket)
        elif earlier & _IN_BACKGROUND:
            connected.began[socket] = earlier ^ _IN_BACKGROUND  # this call was told that it is established
        else:
            connected.began[socket] = (now() - elapsed) & ~_IN_BACKGROUND

    def received(_direction: int, sk: KernelObject, size: int) -> None:
        if size > 0 and is_ip(sk.__sk_common.skc_family):
            elapsed = connected.end(inode_of(sk))
            if elapsed is not None:
                latency.add(elapsed, comm())

    bpf.trace(received, sent=False)
    return bpf


TOOL = SummaryTool(
    name="so1stbyte",
    doc=__doc__,
    section="10.3.10",
    tracing="the first byte of IP sockets",
    options=TaskLatencyOptions,
    build=build,
    drop_labels={"connected": "connections", "latency": "connections of other processes"},
    snapshot=histograms_of("latency"),
    examples=(
        Example("so1stbyte", "histograms when Ctrl-C ends it"),
        Example("so1stbyte -m 10", "every ten seconds, in milliseconds"),
        Example("so1stbyte --comm java", "of processes with java in their names"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: so1stbyte.open(pid=42)
