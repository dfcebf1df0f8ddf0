"""Host-name look-ups (DNS, resolver) and their latency: a line for each, with the process and the name.

Times getaddrinfo(3), gethostbyname(3) and gethostbyname2(3) of the C library, from call to return, in every process or
in one. Look-ups by programs with a resolver of their own are not seen. Calls without a name, by which servers ask for
addresses to listen on, are left out.

Overhead: two probes in user space for each look-up; nothing else is slowed down.
"""

from __future__ import annotations

from pyebpf import BPF, InvalidValue, char, field, ptr, u64, user_string
from pyebpf.tasks import TaskEvent
from pyebpf.tool import Column, EventTool, Example, dataclass, option, pid_option

RESOLVER = ("getaddrinfo", "gethostbyname", "gethostbyname2")


class Lookup(TaskEvent):
    """One look-up that returned after `elapsed` nanoseconds; `host` is the name as asked for, cut after 255 bytes."""

    elapsed: u64
    host: str = field(char[256])


@dataclass(frozen=True)
class Options:
    """Options: whose look-ups to report."""

    pid: int | None = pid_option()
    library: str = option(
        "-l", "--library", metavar="FILE", help="the library or program with the functions", default="libc.so.6"
    )

    def __post_init__(self) -> None:
        """Refuse what names nothing."""
        if not self.library:
            raise InvalidValue("--library: name the library or program with the functions")


def build(options: Options) -> BPF:
    """The probe and its buffer; nothing is loaded yet."""
    bpf = BPF()
    lookups = bpf.ringbuf(Lookup)

    # The name is read at the return: by then the resolver has read it, so that its page is in memory.
    @bpf.user_call(options.library, *RESOLVER, pid=options.pid)
    def on_return(host: ptr[char], elapsed: int) -> None:
        if host is not None:
            lookups.emit(Lookup(elapsed=elapsed, host=user_string(host)))

    return bpf


TOOL = EventTool(
    name="gethostlatency",
    doc=__doc__,
    section="10.3.21",
    tracing="getaddrinfo/gethostbyname calls",
    options=Options,
    build=build,
    drop_labels={"lookups": "look-ups"},
    record=Lookup,
    columns=(
        Column("TIME", 8),
        Column("PID", 7),
        Column("COMM", 16),
        Column("LATms", 9, ">", key="elapsed", scale=1_000_000, decimals=3, field="latency_ns", drawn=True),
        Column("HOST", key="host"),
    ),
    examples=(
        Example("gethostlatency", "every look-up on the machine"),
        Example("gethostlatency -p 181", "only process 181, by its own C library"),
        Example("gethostlatency -d 60 --json", "for a minute, one object per line"),
        Example("gethostlatency -l ./libc.so", "of another C library"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: gethostlatency.open(pid=42)
