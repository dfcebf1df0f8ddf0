"""Kernel functions called by name: what they give is counted and given back, and what leaks is refused."""

from __future__ import annotations

import os
import subprocess

import pytest

from pyebpf import BPF, CompileError, OnlyInProbe, Struct, VerifierError, char, field, kfunc, s64, u32, u64
from tests.kernel.test_struct_ops import SIZE, transfer
from tests.support.needs import lacks, needs
from tests.support.waiting import PATIENCE, wait_until


class Asked(Struct):
    number: u32
    group: u32 = 0
    name: str = field(char[16], default="")
    threads: s64 = 0


def looking():
    """A module whose program looks a task up by its number, and the count of those it found."""
    bpf = BPF()
    found = bpf.array(value=u64)

    @bpf.syscall(Asked)
    def look(ctx):
        with kfunc("bpf_task_from_pid")(ctx.number) as task:
            if task is None:
                return -1
            found[0] += 1
            ctx.group = task.tgid
            ctx.name = task.comm
            if task.tgid != task.pid:
                return 1
        return 0

    return bpf, found, look


def test_a_task_by_its_number():
    """Looked up 1,009 times, a task is given back each time: no count of it stays when it has ended."""
    needs("kfunc:bpf_task_from_pid")
    bpf, found, look = looking()
    with bpf, subprocess.Popen(["sleep", "1000"]) as child:
        try:
            if look.run(Asked(child.pid)).value == -1:
                pytest.fail("the kernel looks numbers up in the first pid namespace, and this is another")
            for _ in range(1008):
                result = look.run(Asked(child.pid))
                assert (result.value, result.record.group) == (0, child.pid)
            assert result.record.name in ("sleep", "python", "python3")
            assert found[0] == 1009
        finally:
            child.kill()
        child.wait(PATIENCE)
        wait_until(lambda: look.run(Asked(child.pid)).value == -1)
        assert found[0] in (1009, 1010)
        assert look.run(Asked(0)).value == -1


def test_in_a_congestion_control():
    """A table's functions hand over to the kernel's own: the transfer is carried by Reno, called from Python."""
    needs("attach:struct_ops", "kernel:5.13")
    bpf = BPF()
    counts = bpf.array(value=u64, size=3)
    table = bpf.struct_ops("tcp_congestion_ops", name="py_kfunc")
    slow_start = kfunc("tcp_reno_cong_avoid")

    @table.member
    def ssthresh(sk):
        return kfunc("tcp_reno_ssthresh")(sk)

    @table.member
    def cong_avoid(sk, ack, acked):
        counts[0] += 1
        slow_start(sk, ack, acked)

    @table.member
    def undo_cwnd(sk):
        return kfunc("tcp_reno_undo_cwnd")(sk)

    @table.member
    def release(sk):
        counts[1] += sk.bytes_acked
        counts[2] += 1

    with bpf:
        sent, received = transfer("py_kfunc")
        assert sent == received
        wait_until(lambda: counts[2] == 1)
        assert counts[1] == SIZE + 2
        assert counts[0] > 0


def test_where_no_program_calls_any():
    """Before Linux 5.13 the verifier knows no such call: the line says since when."""
    lacks("kernel:5.13")
    bpf = BPF()

    @bpf.xdp
    def slow(ctx):
        kfunc("tcp_reno_ssthresh")(None)
        return 2

    with pytest.raises(VerifierError, match=r"programs call kernel functions \(kfunc\) since Linux 5\.13"):
        bpf.load()


def refusal(function, error=CompileError):
    bpf = BPF()
    bpf.syscall(Asked)(function)
    with pytest.raises(error) as caught:
        bpf.load()
    return caught.value.message if error is CompileError else str(caught.value)


def test_refusals():
    """No such function, arguments that do not fit, objects that would leak or be given back twice."""
    needs("kfunc:bpf_task_from_pid")

    def missing(ctx):
        return kfunc("bpf_task_form_pid")(ctx.number)

    assert refusal(missing).startswith("this kernel has no function bpf_task_form_pid for programs: ")

    def none(ctx):
        with kfunc("bpf_task_from_pid")() as task:
            return 0 if task is None else 1

    assert refusal(none) == "bpf_task_from_pid() takes 1 arguments by position, pid"

    def text(ctx):
        with kfunc("bpf_task_from_pid")("1") as task:
            return 0 if task is None else 1

    assert refusal(text) == "pid of bpf_task_from_pid() is a s32, not '1'"

    def unheld(ctx):
        task = kfunc("bpf_task_from_pid")(ctx.number)
        return 0 if task is None else task.pid

    assert refusal(unheld).startswith("what bpf_task_from_pid() gave must be released: hold it, `with kfunc(")

    def unchecked(ctx):
        with kfunc("bpf_task_from_pid")(ctx.number) as task:
            return task.pid

    assert refusal(unchecked) == "a struct task_struct may be None: test it with `is None` first"

    def twice(ctx):
        with kfunc("bpf_task_from_pid")(ctx.number) as task:
            if task is not None:
                kfunc("bpf_task_release")(task)
        return 0

    assert refusal(twice).startswith("bpf_task_release() is called automatically, at the end of the `with`")

    def other(ctx):
        with kfunc("bpf_task_from_pid")(ctx.number) as task:
            if task is not None:
                with kfunc("bpf_cgroup_acquire")(task) as group:
                    return 0 if group is None else 1
        return 0

    assert refusal(other) == "cgrp of bpf_cgroup_acquire() is a struct cgroup *, not a struct task_struct"

    def dropped(ctx):
        kfunc("bpf_task_from_pid")(ctx.number)
        return 0

    assert "nreleased reference" in refusal(dropped, VerifierError)

    def forbidden(ctx):
        kfunc("tcp_reno_undo_cwnd")(None)
        return 0

    assert "tcp_reno_undo_cwnd" in refusal(forbidden, VerifierError)
    with pytest.raises(OnlyInProbe):
        kfunc("bpf_task_from_pid")(os.getpid())
