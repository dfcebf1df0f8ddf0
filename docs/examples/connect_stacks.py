"""Count the stacks that lead to connect(2): `pyebpf run connect_stacks.py 10`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf import BPF, Struct, char, comm, field, pid, s32, u32, ustack
from pyebpf.filters import TaskFilter
from pyebpf.tool import Stack, StackTool, TaskOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.tool import Stop


class Caller(Struct):
    """Key of the counts."""

    pid: u32
    stack: s32
    comm: str = field(char[16])


def build(options: TaskOptions) -> BPF:
    bpf, tasks = BPF(), TaskFilter(options)
    calls = bpf.counter(key=Caller, name="calls")

    @bpf.tracepoint("syscalls:sys_enter_connect")
    def on_connect() -> None:
        if tasks.wanted():
            calls[Caller(pid=pid(), stack=ustack(), comm=comm())].add()

    return bpf


def collect(bpf: BPF, _options: TaskOptions, stop: Stop) -> Iterator[Stack]:
    stop.wait()
    for caller, count in sorted(bpf["calls"].interval().items(), key=lambda item: -item[1]):
        yield Stack(count, caller.comm, caller.pid, user=bpf.stacks.user(caller.stack, caller.pid))
    bpf.stacks.release()


TOOL = StackTool(
    name="connect_stacks",
    doc="Stacks that lead to connect(2).",
    tracing="connect(2)",
    options=TaskOptions,
    build=build,
    collect=collect,
    unit="calls",
)
