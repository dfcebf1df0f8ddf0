"""freplace: a function of a loaded program is replaced, and given back, counted call by call."""

from __future__ import annotations

import pytest

from pyebpf import (
    BPF,
    CompileError,
    InvalidValue,
    KernelError,
    NotFound,
    NotLoaded,
    NotPermitted,
    Struct,
    s32,
    u32,
    u64,
)
from pyebpf.btf import Btf
from pyebpf.features import Features, Support
from pyebpf.kernel.btf_files import read_btf
from tests.support.needs import needs


class Sample(Struct):
    number: u32


def replaceable():
    """A program that lets packets pass by a function's word: the probe, the function, its calls."""
    bpf = BPF()
    calls = bpf.array(value=u64)

    @bpf.replaceable
    def verdict(length: u32, change: s32) -> s32:
        calls[0] += 1
        return length + change

    @bpf.socket_filter()
    def look(ctx):
        return 1 if verdict(ctx.len, -3) > 50 else 0

    return bpf, look, verdict, calls


def runs(look):
    """What the program returns for packets of 66 and 46 bytes behind the Ethernet header."""
    return [(look.program.test_run(data=bytes(80)).retval, look.program.test_run(data=bytes(60)).retval)]


def test_without_a_replacement():
    """A function that can be replaced is called as any other: 1 for 66 - 3, 0 for 46 - 3."""
    base, look, _, calls = replaceable()
    with base:
        for _ in range(11):
            assert runs(look) == [(1, 0)]
        assert calls[0] == 22


def test_replaced():
    """While the other program is attached it is called, and the old function is not; then the old one is again."""
    needs("attach:freplace")
    base, look, verdict, calls = replaceable()
    other = BPF()
    mine = other.array(value=u64, size=2)

    @other.freplace(look, verdict)
    def opposite(length, change):
        mine[0] += 1
        mine[1] += length
        return length * change

    with base:
        assert runs(look) == [(1, 0)]
        assert calls[0] == 2
        with other:
            assert other.attachments == ["opposite: function verdict of program look, by freplace link"]
            for _ in range(7):
                assert runs(look) == [(0, 0)]
            assert (mine[0], mine[1]) == (14, 7 * (66 + 46))
            assert calls[0] == 2
            other.detach()
            for _ in range(3):
                assert runs(look) == [(1, 0)]
            assert mine[0] == 14
            assert calls[0] == 8
        assert runs(look) == [(1, 0)]


def test_one_at_a_time():
    """A second replacement is refused while the first is there."""
    needs("attach:freplace")
    base, look, verdict, _ = replaceable()
    first, second = BPF(), BPF()
    for module in (first, second):

        @module.freplace(look, verdict)
        def instead(change):
            return change

    with base, first, pytest.raises(KernelError, match="another program has taken its place already"), second:
        pytest.fail("two programs have its place")


def test_where_it_is_forbidden():
    """A kernel without trampolines for programs says so in one line."""
    if Features(lambda: Btf(read_btf())).ask("attach:freplace") is Support.YES:
        return  # the tests above have shown that it works
    base, look, verdict, _ = replaceable()
    other = BPF()

    @other.freplace(look, verdict)
    def instead():
        return 1

    with base, pytest.raises(NotPermitted, match=r"^loading program instead is refused") as refused:
        other.load()
    assert "\n" not in str(refused.value)


def test_refusals():
    """Functions of other kinds, parameters of other names, programs that are not loaded or do not call it."""
    base, look, verdict, _ = replaceable()

    def freplace(program, function, instead):
        bpf = BPF()
        bpf.freplace(program, function)(instead)
        return bpf

    def fine():
        return 1

    with pytest.raises(InvalidValue, match=r"only functions made by @bpf\.replaceable can be replaced"):
        freplace(look, fine, fine)
    with pytest.raises(InvalidValue, match=r"only functions made by @bpf\.replaceable can be replaced"):
        freplace(look, base.subprogram(fine), fine)
    with pytest.raises(NotLoaded, match="look is not loaded"):
        freplace(look, verdict, fine).load()

    def misnamed(lenght):
        return 1

    with pytest.raises(CompileError, match=r"has no parameter lenght \(did you mean length\?\): it has length, change"):
        freplace(look, verdict, misnamed).specs()

    def silent():
        pass

    with pytest.raises(CompileError, match="every path returns a value"):
        freplace(look, verdict, silent).specs()
    stranger, _, other_verdict, _ = replaceable()

    @stranger.socket_filter()
    def calls_nothing():
        return 1

    with stranger, pytest.raises(NotFound, match=r"^program calls_nothing calls no function verdict that can be"):
        freplace(calls_nothing, other_verdict, fine).load()
    bpf = BPF()

    @bpf.replaceable
    def contextual() -> u32:
        samples.emit(Sample(1))
        return 1

    samples = bpf.perf_buffer(Sample)

    @bpf.raw_tracepoint("sys_enter")
    def call():
        contextual()

    with pytest.raises(CompileError, match="a function that can be replaced has no context"):
        bpf.specs()
