"""Host-name look-ups (DNS, resolver) and their latency: a line for each, with the process and the name.

Times getaddrinfo(3), gethostbyname(3) and gethostbyname2(3) of the C library, from call to return, in every process or
in one. Look-ups by programs with a resolver of their own are not seen. Calls without a name, by which servers ask for
addresses to listen on, are left out.

Overhead: two probes in user space for each look-up; nothing else is slowed down.
"""

from __future__ import annotations

from pyebpf import BPF, InvalidValue, Struct, char, comm, field, now, pid, ptr, u32, u64, user_string
from pyebpf.helpers import get_current_pid_tgid
from pyebpf.tool import Column, EventTool, Example, dataclass, events_of, option, pid_option

RESOLVER = ("getaddrinfo", "gethostbyname", "gethostbyname2")


class Begun(Struct):
    """A look-up that has not returned: when it began, and the name's address."""

    at: u64
    host: u64


class Lookup(Struct):
    """One look-up: when it returned, nanoseconds of time.monotonic_ns(), after `elapsed`.

    `host` is the name as it was asked for, cut after 255 bytes.
    """

    time: u64
    elapsed: u64
    pid: u32
    comm: str = field(char[16])
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
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    # By the kernel's own numbers: from inside a pid namespace, whatever is outside has 0 for tid().
    begun = bpf.hash(key=u64, value=Begun)
    lookups = bpf.ringbuf(Lookup)

    @bpf.uprobe(options.library, *RESOLVER, pid=options.pid)
    def on_call(host: ptr[char]) -> None:
        if host is not None:
            begun[get_current_pid_tgid()] = Begun(at=now(), host=host)

    @bpf.uretprobe(options.library, *RESOLVER, pid=options.pid)
    def on_return() -> None:
        thread = get_current_pid_tgid()
        call = begun.get(thread)
        if call is None:
            return
        at, host = call.at, call.host
        del begun[thread]
        # Read only now: by then the resolver has read the name, so that its page is in memory.
        time = now()
        lookups.emit(Lookup(time=time, elapsed=time - at, pid=pid(), comm=comm(), host=user_string(host)))

    return bpf


TOOL = EventTool(
    name="gethostlatency",
    doc=__doc__,
    section="10.3.21",
    tracing="getaddrinfo/gethostbyname calls",
    options=Options,
    build=build,
    drop_labels={"begun": "look-ups under way", "lookups": "look-ups"},
    records=events_of("lookups", "time"),
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
