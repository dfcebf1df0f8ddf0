"""Wrong arguments of declarations: each is an InvalidValue at its line, in words that name it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pyebpf import BPF, CompileError, InvalidValue, u32, u64
from pyebpf.asm import assemble
from pyebpf.vm import run
from tests.dsl.fake_target import FakeTarget

if TYPE_CHECKING:
    from collections.abc import Callable


def no_function(decorator: str, binary: str, example: str) -> str:
    """Return what is said of a file without a function: with nothing to trace there, nothing would ever be."""
    words = f'@bpf.{decorator}("{binary}") names no function: write @bpf.{decorator}({example})'
    return f"{words}, or name neither and attach it later"


WRONG: list[tuple[Callable[[Any], object], str]] = [
    (lambda bpf: bpf.tracepoint(5), "@bpf.tracepoint(5): give a text, not int"),
    (lambda bpf: bpf.tracepoint(None), "@bpf.tracepoint(None): give a text, not NoneType"),
    (lambda bpf: bpf.tracepoint(["a:b"]), "@bpf.tracepoint(['a:b']): give a text, not list"),
    (lambda bpf: bpf.tracepoint("a:b", "a:\0"), r"@bpf.tracepoint('a:\x00'): a name has no NUL"),
    (lambda bpf: bpf.raw_tracepoint(b"sys_enter"), "@bpf.raw_tracepoint(b'sys_enter'): give a text, not bytes"),
    (lambda bpf: bpf.kprobe(1.5), "@bpf.kprobe(1.5): give a text, not float"),
    (lambda bpf: bpf.function("a", None), "@bpf.function(None): give a text, not NoneType"),
    (lambda bpf: bpf.lsm(5), "@bpf.lsm(5): give a text, not int"),
    (lambda bpf: bpf.uprobe("libc.so.6", 1.5), "@bpf.uprobe(1.5): give a text or an integer, not float"),
    (lambda bpf: bpf.uprobe(5, "malloc"), "@bpf.uprobe(5): give a text or a path, not int"),
    (lambda bpf: bpf.uprobe("a\0b", "malloc"), r"@bpf.uprobe('a\x00b'): a name has no NUL"),
    (lambda bpf: bpf.uprobe("c:getenv"), no_function("uprobe", "c:getenv", '"c", "getenv"')),
    (lambda bpf: bpf.uretprobe("nosuch.so"), no_function("uretprobe", "nosuch.so", '"nosuch.so", "FUNCTION"')),
    (lambda bpf: bpf.uprobe_session("/none/x"), no_function("uprobe_session", "/none/x", '"/none/x", "FUNCTION"')),
    (
        lambda bpf: bpf.user_call("c:getenv"),
        "@bpf.user_call(binary, function, …): name the program or library, and a function of it",
    ),
    (
        lambda bpf: bpf.usdt("python:line"),
        '@bpf.usdt(binary, "provider:name"): name both, or neither and attach later',
    ),
    (lambda bpf: bpf.usdt("python3", "gc__start", pid="x"), "@bpf.usdt(pid='x'): give an integer or None, not str"),
    (lambda bpf: bpf.sample(frequency="a"), "@bpf.sample(frequency='a'): give an integer, not str"),
    (
        lambda bpf: bpf.sample(frequency=1 << 70),
        f"@bpf.sample(frequency={1 << 70}): the kernel's numbers have 64 bits at most",
    ),
    (lambda bpf: bpf.sample(99, 5), "@bpf.sample(5): one argument too many without a name: write pid=5"),
    (lambda bpf: bpf.counter(u32), "bpf.counter(u32): one argument too many without a name: write key=u32"),
    (lambda bpf: bpf.hash(u32, u64, size="a"), "bpf.hash(size='a'): give an integer, not str"),
    (lambda bpf: bpf.array(u64, size=None), "bpf.array(size=None): give an integer, not NoneType"),
    (lambda bpf: bpf.queue(u64, name="a\0b"), r"bpf.queue(name='a\x00b'): a name has no NUL"),
    (lambda bpf: bpf.task_storage(u64, name=5), "bpf.task_storage(name=5): give a text, not int"),
    (lambda bpf: bpf.counter(u32, size="a"), "bpf.counter(size='a'): give an integer, not str"),
    (lambda bpf: bpf.log2_hist(u32, size=1.5), "bpf.log2_hist(size=1.5): give an integer, not float"),
    (lambda bpf: bpf.arena(pages="a"), "bpf.arena(pages='a'): give an integer, not str"),
    (lambda bpf: bpf.hash(u32), "bpf.hash(): value is missing: write bpf.hash(u32, value=u64)"),
    (lambda bpf: bpf.hash(), "bpf.hash(): key and value are missing: write bpf.hash(key=u64, value=u64)"),
    (lambda bpf: bpf.ringbuf(), "bpf.ringbuf(): record is missing: write bpf.ringbuf(record=Event)"),
    (lambda bpf: bpf.arena(), "bpf.arena(): pages is missing: write bpf.arena(pages=1024)"),
    (lambda bpf: bpf.array(u64, sise=3), "bpf.array(u64, sise): there is no argument sise (did you mean size?)"),
    (
        lambda bpf: bpf.hash(u32, u64, key=u32),
        "bpf.hash(u32, u64, key): key is given twice, by its position and by its name",
    ),
    (
        lambda bpf: bpf.linear_hist(stop=9),
        "bpf.linear_hist(): start is missing: write bpf.linear_hist(stop=9, start=1024)",
    ),
    (
        lambda bpf: bpf.netfilter(),
        '@bpf.netfilter(): family and hook are missing: write @bpf.netfilter(family="...", hook="...")',
    ),
    (
        lambda bpf: bpf.iter(),
        '@bpf.iter(): name and record are missing: write @bpf.iter(name="...", record=Event)',
    ),
    (lambda bpf: bpf.xdp("lo", modee="x"), "@bpf.xdp('lo', modee): there is no argument modee (did you mean mode?)"),
    (lambda bpf: bpf.struct_ops(), 'bpf.struct_ops(): operations is missing: write bpf.struct_ops(operations="...")'),
    (lambda _: assemble(5), "a program's text is a str, not int"),  # type: ignore[arg-type]  # what is tested
    (lambda _: run(assemble("exit"), "abc"), "context is bytes, not str"),  # type: ignore[arg-type]  # what is tested
    (lambda _: run(assemble("exit"), packet=5), "packet is bytes, not int"),  # type: ignore[arg-type]  # what is tested
]


@pytest.mark.parametrize(("declare", "expected"), WRONG, ids=[words.partition(":")[0] for _, words in WRONG])
def test_a_wrong_argument_is_told_where_it_is_given(declare: Callable[[Any], object], expected: str) -> None:
    """Nothing is declared."""
    bpf = BPF()
    with pytest.raises(InvalidValue) as refused:
        declare(bpf)
    assert str(refused.value) == expected
    assert not bpf.maps
    assert not bpf.probes


@pytest.mark.parametrize("size", [-5, 0, 4097, 1 << 40])
def test_a_ring_has_a_size_that_kernels_take(size: int) -> None:
    """A power of two of bytes, from a page to what a u32 holds."""
    with pytest.raises(InvalidValue, match="power of two"):
        BPF().byte_ring(size=size)


def test_a_frequency_needs_no_name() -> None:
    """`@bpf.sample(99)` is what everybody writes first."""
    bpf = BPF()

    @bpf.sample(99)
    def on_sample() -> None:
        pass

    assert "99 Hz" in str(bpf.probes[0].requests[0].candidates[0].attachments[0].attach)


def test_a_verdict_of_a_control_group_is_named() -> None:
    """A bare `return` would be refused in turn."""
    bpf = BPF()

    @bpf.cgroup_skb_egress("/sys/fs/cgroup")
    def on_packet(ctx) -> None:  # type: ignore[no-untyped-def]  # what is tested
        pass

    with pytest.raises(CompileError, match="reaches the end: end it with `return 1`"):
        bpf.compile(FakeTarget())
