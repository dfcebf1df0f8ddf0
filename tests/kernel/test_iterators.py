"""Iterators: the kernel's lists read as records, each element once."""

from __future__ import annotations

import contextlib
import errno
import itertools
import linecache
import os
import re
import socket
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

import pyebpf
from pyebpf import (
    BPF,
    CompileError,
    InvalidValue,
    KernelError,
    NotFound,
    NotLoaded,
    NotSupported,
    Struct,
    char,
    emit,
    field,
    ptr,
    u32,
    u64,
)
from tests.support.cgroups import cgroup as own_group
from tests.support.needs import needs
from tests.support.release import kernel_release
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.every_kernel


class Task(Struct):
    pid: u32
    tid: u32
    comm: str = field(char[16])


class File(Struct):
    fd: u32
    inode: u64


class Entry(Struct):
    key: u32
    value: u64


class Number(Struct):
    number: u64


@contextmanager
def threads(count):
    """So many threads that do nothing."""
    stop = threading.Event()
    started = [threading.Thread(target=stop.wait) for _ in range(count)]
    for thread in started:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in started:
            thread.join(PATIENCE)


def test_tasks():
    """Every thread of this process is a record; limited to one thread, only that one; a second pass counts again."""
    bpf = BPF()
    runs = bpf.array(value=u64, size=2)

    @bpf.iter("task", Task)
    def tasks(task):
        if task is None:
            runs[1] += 1
            return
        runs[0] += 1
        emit(Task(pid=task.tgid, tid=task.pid, comm=task.comm))

    with bpf, threads(17):
        mine = {int(path.name) for path in Path("/proc/self/task").iterdir()}
        assert len(mine) >= 18
        assert {task.tid for task in tasks.read() if task.pid == os.getpid()} == mine
        if kernel_release() < (6, 1):
            with pytest.raises(NotSupported, match=r"limits to tasks and control groups need Linux 6\.1 or later \(|$"):
                tasks.read(pid=os.getpid())
        needs("member:bpf_iter_link_info.task")
        runs.clear()
        own = Path("/proc/self/comm").read_text().strip()
        assert {task.tid for task in tasks.read(pid=os.getpid())} == mine
        assert dict(runs.items()) == {0: len(mine), 1: 1}
        assert list(tasks.read(tid=threading.get_native_id())) == [
            Task(pid=os.getpid(), tid=threading.get_native_id(), comm=own)
        ]
        assert bpf.attachments == []
        assert runs[1] == 2
    with pytest.raises(NotLoaded):
        tasks.read()


def test_the_end():
    """Elements are counted from 0; after the last the program runs with None, and what it emits then comes last."""
    needs("member:bpf_iter_link_info.task")
    bpf = BPF()

    @bpf.iter("task", Number)
    def tasks(ctx, task):
        if task is None:
            emit(Number(1 << 32))
        else:
            emit(Number(ctx.meta.seq_num))

    with bpf, threads(11):
        *each, last = tasks.read(pid=os.getpid())
        assert last.number == 1 << 32
        assert [number.number for number in each] == list(range(len(list(Path("/proc/self/task").iterdir()))))


def test_files(tmp_path):
    """23 descriptors of one file are 23 records, each with its number."""
    bpf = BPF()

    @bpf.iter("task_file", File)
    def files(task, fd, file):
        if task is not None and file is not None:
            emit(File(fd, file.f_inode.i_ino))

    path = tmp_path / "held"
    path.touch()
    inode = path.stat().st_ino

    def found():
        return {file.fd for file in files.read(tid=threading.get_native_id()) if file.inode == inode}

    with bpf:
        others = found()  # of another file system, whose inodes have numbers of their own
        held = [os.open(path, os.O_RDONLY) for _ in range(23)]
        try:
            numbers = [file.fd for file in files.read(tid=threading.get_native_id()) if file.inode == inode]
            assert numbers == sorted({*held, *others})
        finally:
            for descriptor in held:
                os.close(descriptor)
        assert found() == others


def test_map_entries():
    """Each entry of a hash, with key and value of the map's own types, more than one read of the descriptor takes."""
    needs("iterator:bpf_map_elem")
    bpf = BPF()
    squares = bpf.hash(key=u32, value=u64)
    others = bpf.hash(key=u32, value=u64)

    @bpf.iter("bpf_map_elem", Entry, map=squares)
    def entries(key, value):
        if key is None or value is None:
            return
        if key != 7:
            emit(Entry(key, value))

    with bpf:
        squares.update({n: n * n for n in range(7919)})
        others[5] = 6
        # Programs that use a map see it; this one never names `others`.
        assert sorted((e.key, e.value) for e in entries.read()) == [(n, n * n) for n in range(7919) if n != 7]
        assert list(entries.read(map=others)) == [Entry(5, 6)]
        for first in entries.read():
            assert first.value == first.key**2
            break  # a pass that is left early ends


def test_annotations_of_entries():
    """A key's own type may stand at it; another one can't hold the None after the last entry, and the error says so."""
    needs("iterator:bpf_map_elem")

    def load(annotation):
        bpf = BPF()
        table = bpf.hash(key=u32, value=u64, name="table")

        def entries(key, value):
            if key is None or value is None:
                return
            emit(Entry(key, value))

        entries.__annotations__ = {"key": annotation, "value": u64}
        probe = bpf.iter("bpf_map_elem", Entry, map=table)(entries)
        with bpf:
            table[3] = 4
            return list(probe.read())

    assert load(u32) == load(int) == [Entry(3, 4)]
    for other in (u64, ptr[u32]):
        with pytest.raises(
            CompileError, match=r"key is u32 in the map, and None after the last entry, not .* leave it"
        ):
            load(other)


def test_the_example_of_map_entries(capsys):
    """The program of docs/attachments.md prints the nine entries above a thousand."""
    needs("iterator:bpf_map_elem")
    page = (Path(__file__).resolve().parents[2] / "docs/attachments.md").read_text("utf-8")
    (source,) = [each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if '"bpf_map_elem"' in each]
    linecache.cache["<map entries>"] = (len(source), None, source.splitlines(keepends=True), "<map entries>")
    names = {name: getattr(pyebpf, name) for name in pyebpf.__all__}
    exec(compile(source, "<map entries>", "exec", dont_inherit=True), names)
    shown = sorted(tuple(map(int, line.split())) for line in capsys.readouterr().out.splitlines())
    assert shown == [(n, n * 100) for n in range(11, 20)]


def test_map_of_records_and_of_processors():
    """A value that is a record is read by its fields; a per-CPU value as one number for each processor."""
    needs("iterator:bpf_map_elem")
    bpf = BPF()
    tasks = bpf.hash(key=Entry, value=Task)
    counts = bpf.percpu_array(value=u64, size=3)

    @bpf.iter("bpf_map_elem", Number, map=tasks)
    def walk(key, value):
        if key is None or value is None:
            return
        emit(Number(key.value * 100 + value.tid))

    @bpf.iter("bpf_map_elem", Number, map=counts)
    def first(key, value):
        if key is None or value is None:
            return
        emit(Number(value[0] * 10 + key))

    with bpf:
        tasks[Entry(1, 2)] = Task(3, 4, "x")
        tasks[Entry(1, 5)] = Task(3, 6, "x")
        counts[1] = 7
        assert sorted(n.number for n in walk.read()) == [204, 506]
        assert [n.number for n in first.read()] == [0, 71, 2]


def test_sockets():
    """Sockets of the reader's namespace: 13 that listen, and one of UDP."""
    bpf = BPF()

    @bpf.iter("tcp", Number)
    def listening(sk_common):
        if sk_common is not None and sk_common.skc_state == 10:  # TCP_LISTEN
            emit(Number(sk_common.skc_num))

    @bpf.iter("udp", Number)
    def bound(udp_sk):
        if udp_sk is not None:
            emit(Number(udp_sk.inet.sk.__sk_common.skc_num))

    opened = [socket.create_server(("127.0.0.1", 0)) for _ in range(13)]
    datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        datagram.bind(("127.0.0.1", 0))
        ports = {each.getsockname()[1] for each in opened}
        with bpf:
            found = [each.number for each in listening.read()]
            assert sorted(port for port in found if port in ports) == sorted(ports)
            assert [n.number for n in bound.read()].count(datagram.getsockname()[1]) == 1
    finally:
        for each in (*opened, datagram):
            each.close()


def test_refusals(tmp_path):
    """An iterator that there is none of, a limit that does not fit, a missing process: one line each."""
    needs("iterator:bpf_map_elem")

    def made(name, function=None, **options):
        bpf = BPF()

        def nothing():
            pass

        return bpf, bpf.iter(name, Number, **options)(function or nothing)

    for name in ("tusk", "num_new"):  # bpf_iter_num_new is a function of another kind
        bpf, _ = made(name)
        meant = r" \(did you mean task\?\)" if name == "tusk" else ".*"
        told = rf"^this kernel has no iterator '{name}'{meant}: `pyebpf -l 'iter:\*'` lists"
        with pytest.raises(NotFound, match=told):
            bpf.load()

    def unchecked(task):
        emit(Number(task.pid))

    bpf, _ = made("task", unchecked)
    with pytest.raises(CompileError, match="a struct task_struct may be None: test it with `is None` first"):
        bpf.load()

    def misnamed(taks):
        emit(Number(taks.pid))

    bpf, _ = made("task", misnamed)
    with pytest.raises(CompileError, match=r"has no taks \(did you mean task\?\): it has meta, task"):
        bpf.load()

    def wrong(task):
        emit(Entry(1, 2))

    bpf, _ = made("task", wrong)
    with pytest.raises(CompileError, match="is read as Number records: emit\\(\\) takes one, not the new record Entry"):
        bpf.load()

    bpf = BPF()

    @bpf.raw_tracepoint("sys_enter")
    def elsewhere():
        emit(Number(1))

    with pytest.raises(CompileError, match="emit\\(\\) is for iterators, and gives a record to the reader"):
        bpf.load()

    bpf, probe = made("task")
    with bpf:
        with pytest.raises(NotFound, match=r"^iterator task: there is no process 4194304$"):
            probe.read(pid=1 << 22)
        with pytest.raises(InvalidValue, match="takes no cgroup"):
            probe.read(cgroup="/")
        assert list(probe.read()) == []
    bpf, probe = made("bpf_map_elem")
    with bpf, pytest.raises(InvalidValue, match="iterates over a map: write @bpf\\.iter"):
        probe.read()
    with pytest.raises(InvalidValue, match="give the Struct class"):
        BPF().iter("task", u64)
    needs("iterator:cgroup")
    bpf, probe = made("cgroup")
    with bpf, pytest.raises(KernelError, match="no directory of a cgroup2 file system") as refused:
        probe.read(cgroup=str(tmp_path))
    assert refused.value.errno == errno.EBADF


def test_the_kernel_lists_them():
    """What `iterators()` lists can be loaded, and read, if it is not a map's: a record comes of it."""
    needs("iterator:bpf_map_elem")
    names = BPF.iterators()
    read = set()
    assert {"task", "task_file", "bpf_map", "bpf_map_elem"} <= set(names)
    for name in names:
        bpf = BPF()

        @bpf.iter(name, Number)
        def numbers(ctx):
            emit(Number(ctx.meta.seq_num))

        with bpf:
            if name in {"bpf_map_elem", "bpf_sk_storage_map", "sockmap"}:
                continue
            with contextlib.closing(numbers.read()) as records:
                read.update(name for _ in itertools.islice(records, 1))
    later = {"task_vma": (5, 12), "unix": (5, 15), "bpf_link": (5, 19)}
    always = {"task", "task_file", "bpf_map", "bpf_prog", "tcp", "udp", "netlink"}
    assert always | {name for name, release in later.items() if kernel_release() >= release} <= read


def test_control_groups():
    """A group alone, with its five below in either order, and the way up."""
    needs("iterator:cgroup")
    bpf = BPF()

    @bpf.iter("cgroup", Number)
    def groups(cgroup):
        if cgroup is not None:
            emit(Number(cgroup.kn.id))

    with own_group() as group, bpf:
        below = [group.path / name for name in ("a", "a/b", "a/c", "d", "e")]
        try:
            for path in below:
                path.mkdir()
            ids = {path.stat().st_ino for path in below}
            own = group.path.stat().st_ino

            def walk(order):
                return [number.number for number in groups.read(cgroup=str(group.path), order=order)]

            assert walk("self") == [own]
            first, *others = walk("descendants_pre")
            assert (first, set(others), len(others)) == (own, ids, 5)
            *others, last = walk("descendants_post")
            assert (last, set(others), len(others)) == (own, ids, 5)
            assert walk("ancestors")[0] == own
            assert len(walk("ancestors")) >= 2
            assert {own, *ids} < {number.number for number in groups.read()}  # all there are
            with pytest.raises(InvalidValue, match="give one of self, descendants_pre"):
                walk("down")
        finally:
            for path in reversed(below):
                if path.exists():
                    path.rmdir()
