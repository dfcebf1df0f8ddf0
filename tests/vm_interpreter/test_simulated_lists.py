"""`Simulation`: USDT probes that a test fires, and lists of the kernel that it makes up."""

from __future__ import annotations

import pytest

from pyebpf import BPF, KernelObject, Struct, char, emit, field, ptr, s32, u8, u32, u64, user_string
from pyebpf.errors import InvalidValue, NotFound
from pyebpf.target import KernelFunction, KernelMember, KernelParameter, KernelType
from pyebpf.testing import Simulation
from tests.dsl.fake_target import INT, TASK, U64, FakeTarget

META = KernelType("struct", 24, "bpf_iter_meta")
VOID = KernelType("void", 0)
META_PARAMETER = KernelParameter("meta", KernelType("pointer", 8, element=META))
LISTS = {
    "bpf_iter_task": (META_PARAMETER, KernelParameter("task", KernelType("pointer", 8, element=TASK))),
    "bpf_iter_bpf_map_elem": (
        META_PARAMETER,
        KernelParameter("map", KernelType("pointer", 8, element=KernelType("struct", 64, "bpf_map"))),
        KernelParameter("key", KernelType("pointer", 8, element=VOID)),
        KernelParameter("value", KernelType("pointer", 8, element=VOID)),
    ),
}


class Target(FakeTarget):
    """With the kernel's lists of tasks and of a map's entries."""

    def type_named(self, name: str) -> KernelType:
        if name in ("struct bpf_iter__task", "struct bpf_iter__bpf_map_elem"):
            return KernelType("struct", 16, name.removeprefix("struct "))
        return META if name == "struct bpf_iter_meta" else super().type_named(name)

    def member(self, owner: KernelType, name: str) -> KernelMember:
        if owner.name == "bpf_iter_meta":
            return KernelMember(U64, 64 * ("seq", "session_id", "seq_num").index(name))
        return super().member(owner, name)

    def function(self, name: str) -> KernelFunction:
        if name in LISTS:
            return KernelFunction(name, 400, LISTS[name], INT)
        return super().function(name)


class Line(Struct):
    number: s32
    file: str = field(char[16])


class Seen(Struct):
    key: u32
    value: u64


def test_usdt_probes() -> None:
    """Arguments of any kind, by position and by name, at the probes that a name or a pattern means."""
    bpf = BPF()
    lines = bpf.ringbuf(Line)
    calls = bpf.hash(key=u32, value=u64)

    @bpf.usdt("/usr/bin/python3", "python:line", args=("file", "function", "number"))
    def on_line(file: ptr[char], number: s32) -> None:
        lines.emit(Line(number=number, file=user_string(file)))

    @bpf.usdt("/usr/bin/python3", "python:gc__*")
    def on_gc(generation: u8) -> None:
        calls[generation] += 1

    @bpf.usdt("/usr/bin/python3", "python:line")
    def on_any() -> None:
        calls[100] += 1

    with Simulation(bpf, Target()) as simulation:
        for number, file in ((7, "a.py"), (-5, "b.py")):
            assert len(simulation.usdt("python:line", file, "f", number)) == 2
        simulation.usdt("python:line", number=3, file="c.py")
        assert list(lines.poll()) == [Line(7, "a.py"), Line(-5, "b.py"), Line(3, "c.py")]
        assert len(simulation.usdt("python:gc__start", 2)) == len(simulation.usdt("python:gc__done", 0x102)) == 1
        with pytest.raises(NotFound, match=r"no probe is at 'python:lime' \(did you mean python:line"):
            simulation.usdt("python:lime")
        assert dict(calls.items()) == {2: 2, 100: 3}
        with pytest.raises(InvalidValue, match="python:line has no argument lineno"):
            simulation.usdt("python:line", lineno=3)
        with pytest.raises(InvalidValue, match='write "provider:name"'):
            simulation.usdt("line")


def test_a_list_of_the_kernel() -> None:
    """Every element in order, the end with None, and the records of all; who asks for what is not there is told."""
    bpf = BPF()
    ends = bpf.array(value=u64)

    @bpf.iter("task", Line)
    def tasks(task: KernelObject) -> None:
        if task is None:
            ends[0] += 1
            return
        if task.pid > 1:
            emit(Line(number=task.pid, file=task.comm))
        if task.pid == 4:
            emit(Line(number=-4, file="again"))

    @bpf.raw_tracepoint("sched_process_exit")
    def other() -> None:
        pass

    with Simulation(bpf, Target()) as simulation:
        given = [{"task": {"pid": pid, "comm": f"name {pid}"}} for pid in (1, 3, 4)]
        assert simulation.iterate("tasks", *given) == [Line(3, "name 3"), Line(4, "name 4"), Line(-4, "again")]
        address = simulation.object("struct task_struct", pid=9, comm="nine")
        assert simulation.iterate("tasks", {"task": address}) == [Line(9, "nine")]
        assert simulation.iterate("tasks") == []
        assert ends[0] == 3
        with pytest.raises(InvalidValue, match="iterator task has no tsk \\(did you mean task"):
            simulation.iterate("tasks", {"tsk": 0})
        with pytest.raises(InvalidValue, match="which is not an iterator"):
            simulation.iterate("other")
        with pytest.raises(NotFound, match="there is no program task"):
            simulation.iterate("task")


def test_entries_of_maps() -> None:
    """A map's own entries, and made-up ones; of a per-CPU map the values of every processor."""
    bpf = BPF()
    table = bpf.hash(key=u32, value=u64)
    split = bpf.percpu_array(value=u64, size=3)

    @bpf.iter("bpf_map_elem", Seen, map=table)
    def entries(key: KernelObject, value: KernelObject) -> None:
        if key is not None and value is not None:
            emit(Seen(key=key, value=value))

    @bpf.iter("bpf_map_elem", Seen, map=split)
    def sums(key: KernelObject, value: KernelObject) -> None:
        if key is None or value is None:
            return
        total: u64 = 0
        for each in range(2):
            total += value[each]
        emit(Seen(key=key, value=total))

    with Simulation(bpf, Target()) as simulation:
        table.update({5: 50, 7: 70})
        assert simulation.iterate("entries") == [Seen(5, 50), Seen(7, 70)]
        assert simulation.iterate("entries", {"key": 1, "value": 2}) == [Seen(1, 2)]
        split[1] = 9
        whole = sum(split.per_cpu[1])
        assert simulation.iterate("sums") == [Seen(0, 0), Seen(1, whole), Seen(2, 0)]
