"""Lines that are typed into bash: each with the time and the shell's process.

Traces the return of readline(), which bash and programs like it read a line with. A bash that uses a library for that
needs -s libreadline.so.8; then other programs that use it are traced, too. Lines longer than 511 bytes are cut.

Overhead: a probe in user space for each line; nothing else is slowed down.
"""

from __future__ import annotations

from pyebpf import BPF, InvalidValue, Struct, char, comm, field, now, pid, ptr, u32, u64, uid, user_string
from pyebpf.filters import TaskFilter
from pyebpf.tool import Column, EventTool, Example, TaskOptions, dataclass, option


class Line(Struct):
    """A line that was read; time in nanoseconds."""

    time: u64
    pid: u32
    uid: u32
    comm: str = field(char[16])
    command: str = field(char[512])


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options: whose lines to report."""

    shared: str = option("-s", "--shared", metavar="FILE", help="the program or library with readline", default="bash")

    def __post_init__(self) -> None:
        """Refuse what names nothing."""
        if not self.shared:
            raise InvalidValue("--shared: name the program or library with readline, such as libreadline.so.8")


def build(options: Options) -> BPF:
    """The probe and its buffer; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    lines = bpf.ringbuf(Line, name="lines")

    @bpf.uretprobe(options.shared, "readline", pid=options.pid)
    def on_line(retval: ptr[char]) -> None:
        if tasks.wanted() and retval is not None:  # None at the end of the input
            lines.emit(Line(time=now(), pid=pid(), uid=uid(), comm=comm(), command=user_string(retval)))

    return bpf


TOOL = EventTool(
    name="bashreadline",
    doc=__doc__,
    section="11.2.4",
    tracing="lines of bash",
    options=Options,
    build=build,
    drop_labels={"lines": "lines"},
    record=Line,
    columns=(
        Column("TIME", 8),
        Column("PID", 7),
        Column("UID", printed=False),
        Column("COMM", printed=False),
        Column("COMMAND"),
    ),
    examples=(
        Example("bashreadline", "every line of every bash"),
        Example("bashreadline -u 1000", "only those of user 1000"),
        Example("bashreadline -s libreadline.so.8", "of programs with this library"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: bashreadline.open(pid=42)
