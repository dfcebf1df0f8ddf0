"""Values of threads, sockets and control groups in programs written in Python, in the kernel and the interpreter."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from pyebpf import BPF, CompileError, KernelObject, Struct, current_task, helpers, pid, u32, u64
from tests.support.needs import needs
from tests.support.simulated import simulated
from tests.support.system_calls import GETPGID, NO_PROCESS, getpgid
from tests.support.waiting import wait_until

#: TCP_ESTABLISHED and TCP_CLOSE of include/net/tcp_states.h.
ESTABLISHED, CLOSED = 1, 7


class Seen(Struct):
    count: u64
    last: u32


def tasks() -> BPF:
    """Counts and the last number of each thread; 99 removes its value, 98 asks whether it has one."""
    bpf = BPF()
    counts = bpf.task_storage(value=u64, name="counts")
    seen = bpf.task_storage(value=Seen, name="seen")
    without = bpf.array(value=u64, size=2, name="without")

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def enter(pid: int) -> None:
        if pid < NO_PROCESS:
            return
        task = helpers.get_current_task_btf()
        if pid == NO_PROCESS + 98:
            without[task in counts] += 1
            return
        if pid == NO_PROCESS + 99:
            del counts[task]
            del seen[task]
            return
        counts[task] += 2
        entry = seen.get(task)
        if entry is None:
            seen[task] = Seen(count=1, last=pid - NO_PROCESS)
        else:
            entry.count += 1
            entry.last = pid - NO_PROCESS

    return bpf


def test_each_thread_has_a_value_of_its_own():
    """Another thread's events change nothing in this one's; user space reads by pidfd."""
    needs("helper:task_storage_get@tracepoint")
    bpf = tasks()
    results = []

    def other() -> None:
        getpgid(98, 5, 5, 5, 98, 99, 98, 7)

    with bpf:
        me = os.pidfd_open(os.getpid())
        try:
            assert me not in bpf["counts"]
            getpgid(*range(11))
            thread = Thread(target=other)
            thread.start()
            thread.join(30)
            assert bpf["counts"][me] == 22
            assert (bpf["seen"][me].count, bpf["seen"][me].last) == (11, 10)
            assert list(bpf["without"].values()) == [2, 1]
            bpf["counts"][me] = 100
            getpgid(3)
            assert bpf["counts"].get(me) == 102
            getpgid(99)
            results.append(bpf["counts"].get(me))
            assert (bpf["seen"].get(me), me in bpf["counts"]) == (None, False)
            getpgid(1)
            del bpf["counts"][me]
            assert bpf["counts"].get(me, 9) == 9
            assert not bpf.dropped
        finally:
            os.close(me)
    assert results == [None]


def test_the_interpreter_agrees():
    """The same program, the same values."""
    needs("helper:task_storage_get@tracepoint")
    bpf = tasks()
    with simulated(bpf) as kernel:
        first, second = kernel.kernel(b"x" * 64), kernel.kernel(b"y" * 64)

        def event(task: int, *numbers: int) -> None:
            kernel.machine.task = task
            for number in numbers:
                kernel.tracepoint("syscalls:sys_enter_getpgid", pid=NO_PROCESS + number)

        event(first, *range(11))
        event(second, 98, 5, 5, 5, 98, 99, 98, 7)
        assert (bpf["counts"][first], bpf["counts"][second]) == (22, 2)
        assert (bpf["seen"][first].count, bpf["seen"][second].last) == (11, 7)
        assert list(bpf["without"].values()) == [2, 1]
        event(first, 99)
        assert bpf["counts"].get(first) is None


def test_sockets_keep_values_from_one_event_to_another():
    """What is noted when a connection is made is there when it ends."""
    needs("helper:sk_storage_get@tracing")
    bpf = BPF()
    opened = bpf.sk_storage(value=Seen, name="opened")
    ended = bpf.hash(key=u32, value=u64, name="ended")
    unknown = bpf.array(value=u64, name="unknown")
    with closing(socket.socket()) as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]

        @bpf.btf_tracepoint("inet_sock_set_state")
        def state(sk, newstate: int) -> None:
            if sk.__sk_common.skc_dport != port:
                return
            if newstate == ESTABLISHED:
                opened[sk] = Seen(count=17, last=sk.__sk_common.skc_num)
            elif newstate == CLOSED:
                entry = opened.get(sk)
                if entry is None:
                    unknown[0] += 1
                else:
                    ended[entry.last] += entry.count

        with bpf:
            server.listen(8)
            ports = []
            for _ in range(5):
                with closing(socket.create_connection(("127.0.0.1", port))) as client:
                    peer, _ = server.accept()
                    ports.append(client.getsockname()[1])
                    assert opened[client].count == 17
                    assert peer not in opened
                    peer.close()
                    client.recv(1)
            # The last acknowledgement may wait for the kernel's own thread.
            wait_until(lambda: len(ended) >= len(ports))
            assert dict(ended.items()) == dict.fromkeys(ports, 17)
            assert unknown[0] == 0


def test_control_groups_have_values():
    """A task's own group, by its directory."""
    needs("helper:cgrp_storage_get@tracing")
    bpf = BPF()
    counts = bpf.cgrp_storage(value=u64, name="counts")

    @bpf.btf_tracepoint("sys_enter")
    def enter(id: int) -> None:  # noqa: A002 - the tracepoint's name
        if id == GETPGID:
            task = helpers.get_current_task_btf()
            if task.tgid == me:
                counts[task.cgroups.dfl_cgrp] += 1

    me = os.getpid()
    lines = Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()
    path = next(line.removeprefix("0::") for line in lines if line.startswith("0::"))
    with bpf:
        getpgid(*range(13))
        assert not bpf.dropped
        for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
            if Path(root, "cgroup.procs").is_file():
                group = os.open(root + path, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    assert counts[group] == 13
                finally:
                    os.close(group)


def test_files_have_values(tmp_path):
    """An inode's own, at an LSM hook: 17 openings of one file and 5 of another, read by their descriptors."""
    needs("attach:lsm", "helper:inode_storage_get@lsm")
    bpf = BPF()
    openings = bpf.inode_storage(value=u64, name="openings")
    me = os.getpid()

    @bpf.lsm("file_open")
    def on_open(file: KernelObject) -> int:
        if pid() == me:
            openings[file.f_inode] += 1
        return 0

    paths = {tmp_path / "first": 17, tmp_path / "second": 5}
    for path in paths:
        path.touch()
    with bpf:
        for path, times in paths.items():
            for _ in range(times):
                path.open().close()
        found = {}
        for path in paths:
            file = os.open(path, os.O_RDONLY)
            found[path] = openings[file] - 1
            os.close(file)
    assert found == paths


def test_a_file_has_what_user_space_gives_it(tmp_path):
    """Openings left, set by descriptor and counted down at an LSM hook; hard links share them; appending ends it."""
    needs("attach:lsm", "helper:inode_storage_get@lsm")
    bpf = BPF()
    budgets = bpf.inode_storage(value=Seen, name="budgets")
    me = os.getpid()
    append = os.O_APPEND
    refused = -errno.EPERM

    @bpf.lsm("file_open")
    def on_open(file: KernelObject) -> int:
        if pid() != me:
            return 0
        if file.f_flags & append:
            del budgets[file.f_inode]
            return 0
        budget = budgets.get(file.f_inode)
        if budget is None:
            return 0
        if budget.last == 0:
            budget.count += 1
            return refused
        budget.last -= 1
        return 0

    path, link, other = tmp_path / "path", tmp_path / "link", tmp_path / "other"
    for each in (path, other):
        each.touch()
    link.hardlink_to(path)
    with path.open() as file, other.open() as second, bpf:
        assert file not in budgets
        budgets[file] = Seen(count=0, last=5)
        for _ in range(2):
            path.open().close()
            other.open().close()
        for _ in range(3):
            link.open().close()
        for each in (path, link, path):
            with pytest.raises(PermissionError):
                each.open()
        assert (budgets[file].count, budgets[file].last) == (3, 0)
        assert second not in budgets
        path.open("a").close()
        assert file not in budgets
        path.open().close()
        budgets[file] = Seen(count=7, last=1)
        assert budgets.get(file).count == 7
        del budgets[file]
        assert budgets.get(file) is None
        path.open().close()


def test_owners_are_what_the_verifier_trusts():
    """An address, or an object of another kind, is refused with where to take one from."""
    needs("helper:task_storage_get@tracepoint")
    bpf = BPF()
    counts = bpf.task_storage(value=u64, name="counts")

    def refused(function: object, message: str) -> None:
        bpf.probes.clear()
        bpf.tracepoint("syscalls:sys_enter_getpgid")(function)
        with pytest.raises(CompileError, match=message):
            bpf.specs()

    def untrusted() -> None:
        counts[current_task()] += 1

    def number(pid: int) -> None:
        counts[pid] += 1

    def unchecked() -> None:
        counts[helpers.get_current_task_btf()] = counts.get(helpers.get_current_task_btf()) + 1

    def by_item() -> None:
        counts[helpers.get_current_task_btf()] = counts[helpers.get_current_task_btf()] + 1

    refused(untrusted, r"does not trust as an owner in the task storage counts: give helpers\.get_current_task_btf\(\)")
    refused(number, "has no value in the task storage counts: give helpers")
    refused(unchecked, "may be None")
    refused(by_item, r"counts\[k\] may be missing")
