"""Programs that Python runs, and programs that change what a tracepoint gives them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pyebpf import (
    BPF,
    CompileError,
    InvalidValue,
    KernelError,
    NotFound,
    NotLoaded,
    Struct,
    VerifierError,
    char,
    comm,
    field,
    pid,
    s64,
    u32,
    u64,
)
from tests.support.needs import needs


class Sum(Struct):
    a: u64
    b: u32
    name: str = field(char[16], default="")
    total: s64 = field(s64, default=0)


class Other(Struct):
    a: u64


def test_a_call():
    """29 calls are 29 runs, in this process; numbers and text come back, the returned number with its sign."""
    needs("program:syscall")
    bpf = BPF()
    runs = bpf.hash(key=u32, value=u64)

    @bpf.syscall(Sum)
    def add(ctx):
        runs[pid()] += 1
        ctx.total = ctx.a + ctx.b
        ctx.b += 1
        ctx.name = comm()
        return ctx.b - 1000

    @bpf.syscall()
    def nothing():
        return -(1 << 31)

    with bpf:
        for number in range(29):
            found = add.run(Sum(a=number, b=100))
            assert found.value == 101 - 1000
            assert (found.record.a, found.record.b, found.record.total) == (number, 101, number + 100)
            assert found.record.name == Path("/proc/self/comm").read_text().strip()
        assert dict(runs.items()) == {os.getpid(): 29}
        assert nothing.run().value == -(1 << 31)
        assert nothing.run().record is None
        assert bpf.attachments == []
        with pytest.raises(InvalidValue, match=r"^a syscall program is not attached: run it, probe\.run\(\)$"):
            add.attach()
        with pytest.raises(InvalidValue, match="is not of type Sum"):
            add.run(Other(1))
        with pytest.raises(InvalidValue, match="nothing takes no record"):
            nothing.run(Other(1))
    with pytest.raises(NotLoaded):
        add.run(Sum(a=1, b=2))


def test_what_cannot_be_called():
    """A field that the record lacks, a number that 32 bits lose, a path without a number, a class that is none."""

    def compiled(function, record=Sum):
        bpf = BPF()
        (bpf.syscall(record) if record else bpf.syscall())(function)
        with pytest.raises(CompileError) as refused:
            bpf.specs()
        return refused.value.message

    def field_lacks(ctx):
        return ctx.c

    assert compiled(field_lacks) == "Sum has no field c: it has a, b, name, total"

    def wide(ctx):
        return 1 << 31

    assert compiled(wide).startswith("the caller gets 32 bits of a program's result, which 2147483648 does not fit")

    def silent(ctx):
        ctx.a = 1

    assert compiled(silent).startswith("silent: every path of a program of this type returns a value")

    def none(ctx):
        return ctx.a

    assert compiled(none, None).startswith("a: this program is run without a record: name one in the decorator")
    with pytest.raises(InvalidValue, match="give the Struct class"):
        BPF().syscall(u64)


def spoiling():
    """A module that makes test runs of this process fail, with a program to run."""
    bpf = BPF()
    spoilt = bpf.array(value=u64)
    me = os.getpid()

    @bpf.raw_tracepoint_writable("bpf_test_finish")
    def spoil(err):
        if pid() == me and err[0] == 0:
            spoilt[0] += 1
            err[0] = -errno.EKEYREJECTED

    @bpf.socket_filter()
    def accept():
        return 1

    return bpf, spoilt, accept


def test_a_writable_tracepoint():
    """11 test runs fail with the errno that the program wrote; once it is detached they succeed, uncounted."""
    bpf, spoilt, accept = spoiling()
    with bpf:
        program = accept.program
        for _ in range(11):
            with pytest.raises(KernelError) as failed:
                program.test_run(data=bytes(64))
            assert failed.value.errno == errno.EKEYREJECTED
        assert spoilt[0] == 11
        bpf.detach()
        for _ in range(3):
            assert program.test_run(data=bytes(64)).retval == 1
        assert spoilt[0] == 11


def test_what_cannot_be_written():
    """A tracepoint that is not writable, one that there is none of, and what lies behind the value."""
    bpf = BPF()

    @bpf.raw_tracepoint_writable("sched_switch")
    def change(preempt):
        pass

    with bpf:
        pass  # nothing is written
    bpf = BPF()

    @bpf.raw_tracepoint_writable("task_newtask")
    def write(task):
        task.pid = 1

    with pytest.raises(KernelError, match="the tracepoint is not writable, or not as far as the program writes") as no:
        bpf.__enter__()
    assert no.value.errno == errno.EINVAL
    bpf = BPF()

    @bpf.raw_tracepoint_writable("bpf_test_finsh")
    def misnamed():
        pass

    with pytest.raises(NotFound, match=r"bpf_test_finish"):
        bpf.__enter__()
    bpf = BPF()

    @bpf.raw_tracepoint_writable("bpf_test_finish")
    def beyond(err):
        err[1] = 0

    with pytest.raises((CompileError, VerifierError), match="1 is outside"):
        bpf.__enter__()
