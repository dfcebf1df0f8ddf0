"""Probes on functions of a made-up kernel: names, positions, patterns, what is shared, what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pyebpf.attach.kernel_functions import is_denied
from pyebpf.compiler.ir import Op
from pyebpf.errors import CompileError, InvalidValue, NotFound, NotSupported
from tests.dsl.fake_target import FakeTarget
from tests.dsl.harness import build, namespace, run

if TYPE_CHECKING:
    from pyebpf.specs import AttachSpec, ModuleSpec

FEW = frozenset({"attach:fentry", "attach:kprobe_multi"})


def compiled(
    decorator: str, parameters: str = "", body: str = "pass", missing: frozenset[str] = frozenset()
) -> ModuleSpec:
    names = namespace()
    run(f"@bpf.{decorator}\ndef on_call({parameters}):\n    {body}\n", names)
    spec: ModuleSpec = names["bpf"].compile(FakeTarget(missing=missing))
    return spec


def places(spec: ModuleSpec) -> list[AttachSpec | None]:
    return [program.attach for program in spec.programs]


def loads(decorator: str, parameters: str, body: str) -> list[tuple[int, int]]:
    """Offset and size of each load of a probe's first block."""
    module = build(body, parameters, decorator=decorator)
    return [(i.imm, i.size) for i in module.main.blocks[0].instructions if i.op is Op.LOAD]


def test_parameters_are_registers_by_name() -> None:
    """On x86-64 the second is `si`, the third `dx`; the result is `ax`."""
    assert loads('@bpf.kprobe("tcp_sendmsg")', "flags", "counts[flags] += 1")[0] == (12 * 8, 8)
    assert loads('@bpf.kprobe("tcp_sendmsg")', "size", "counts[size] += 1")[0] == (13 * 8, 8)
    assert loads('@bpf.kretprobe("tcp_sendmsg")', "retval", "counts[retval] += 1")[0] == (10 * 8, 8)


def test_parameters_of_a_trampoline_are_a_row() -> None:
    """8 bytes each, with the result behind the last."""
    assert loads('@bpf.fentry("tcp_sendmsg")', "flags", "counts[flags] += 1")[0] == (16, 8)
    assert loads('@bpf.fexit("tcp_sendmsg")', "retval", "counts[retval] += 1")[0] == (24, 8)
    assert loads('@bpf.fentry("tcp_close")', "sk", "counts[sk.sk_max_ack_backlog] += 1")[:2] == [(0, 8), (8, 4)]


def test_a_function_without_btf_is_bound_by_position() -> None:
    """As annotated."""
    decorator = '@bpf.kprobe("static_one.isra.0")'
    assert loads(decorator, "first: u64, second: u32", "counts[second] += 1")[1] == (13 * 8, 8)
    with pytest.raises(CompileError, match="first: its type is not known: annotate it"):
        build("pass", "first", decorator=decorator)


def test_a_pattern_is_compiled_once_and_attached_as_one() -> None:
    """Without parameters for any functions; with some for those that have them alike."""
    spec = compiled('kprobe_multi("tcp_*")')
    assert [str(place) for place in places(spec)] == ["kprobe.multi tcp_sendmsg and 2 more"]
    spec = compiled('kprobe("tcp_*msg")', "flags", "counts[flags] += 1")
    assert [str(place) for place in places(spec)] == ["kprobe tcp_sendmsg and tcp_recvmsg"]
    spec = compiled('fentry("tcp_*msg")', "sk", "counts[sk.sk_max_ack_backlog] += 1")
    assert [(str(p.attach), p.attach_btf) for p in spec.programs] == [
        ("fentry tcp_sendmsg", 300),
        ("fentry tcp_recvmsg", 301),
    ]
    assert spec.programs[0].code is spec.programs[1].code


def test_who_reads_the_target_is_compiled_for_each() -> None:
    """`ctx.target` is known at compile time."""
    spec = compiled('kprobe("tcp_*msg")', "ctx", 'counts[1 if ctx.target == "tcp_sendmsg" else 2] += 1')
    assert [str(place) for place in places(spec)] == ["kprobe tcp_sendmsg", "kprobe tcp_recvmsg"]


def test_parameters_that_differ_are_told_with_both_functions() -> None:
    """`flags` is the third of one and missing in another."""
    with pytest.raises(CompileError, match=r"tcp_close\(\) has no parameter flags: it has sk, timeout; the target is"):
        compiled('kprobe("tcp_*")', "flags", "counts[flags] += 1")


def test_arguments_by_position() -> None:
    """`arg2` is the third argument, 64 bits of it; a trampoline of a function with two has 0 in its place."""
    assert loads('@bpf.kprobe("tcp_sendmsg")', "arg2", "counts[arg2] += 1")[0] == (12 * 8, 8)
    assert loads('@bpf.fentry("tcp_sendmsg")', "arg2", "counts[arg2] += 1")[0] == (16, 8)
    assert (16, 8) not in loads('@bpf.fentry("tcp_close")', "arg2", "counts[arg2] += 1")
    spec = compiled('kprobe("tcp_*")', "arg2", "counts[arg2] += 1")
    assert [str(place) for place in places(spec)] == ["kprobe tcp_sendmsg and 2 more"]
    with pytest.raises(CompileError, match=r"tcp_close\(\) has no parameter arg: it has sk, timeout"):
        compiled('kprobe("tcp_close")', "arg", "counts[arg] += 1")


def test_a_result_of_any_type() -> None:
    """`raw_retval` is 64 bits, in code that functions of all types share; a trampoline of one without result has 0."""
    body = "counts[raw_retval] += 1"
    assert [str(place) for place in places(compiled('kretprobe("tcp_*")', "raw_retval", body))] == [
        "kretprobe tcp_sendmsg and 2 more"
    ]
    assert loads('@bpf.fexit("tcp_sendmsg")', "raw_retval", body)[0] == (24, 8)
    assert (16, 8) not in loads('@bpf.fexit("tcp_close")', "raw_retval", body)
    with pytest.raises(CompileError, match=r"tcp_close\(\) returns nothing"):
        compiled('kretprobe("tcp_*")', "retval", "counts[retval] += 1")


@pytest.mark.parametrize(
    ("missing", "candidate", "rejected"),
    [
        (frozenset(), "fentry", []),
        (frozenset({"attach:fentry"}), "kprobe.multi", ["fentry"]),
        (FEW, "kprobe", ["fentry", "kprobe.multi"]),
    ],
)
def test_the_best_candidate_is_taken(missing: frozenset[str], candidate: str, rejected: list[str]) -> None:
    """And those before it are told with the reason."""
    (choice,) = compiled('function("tcp_close")', missing=missing).choices
    assert (choice.candidate, [name for name, _ in choice.rejected]) == (candidate, rejected)


def test_no_way_is_one_line() -> None:
    """With each reason."""
    with pytest.raises(NotSupported) as caught:
        compiled('function("tcp_close")', missing=FEW | {"attach:kprobe"})
    assert str(caught.value) == (
        "needs kernel functions, and this kernel has no kprobes: @function('tcp_close') on on_call: no candidate works "
        "here: fentry: this kernel has no trampolines for programs, or refuses them; kprobe.multi: "
        "this kernel has no kprobe.multi links; "
        "kprobe: this kernel has no kprobes"
    )


def test_a_kernel_without_kprobes_is_told_to_users_of_tools_that_time_calls() -> None:
    """In words that name no decorator, as where only the entry is traced."""
    for target in ('call("tcp_close")', 'function("tcp_close")'):
        with pytest.raises(NotSupported) as caught:
            compiled(target, missing=FEW | {"attach:kprobe", "attach:kprobe_session"})
        told = caught.value.of_tool
        assert told.startswith(
            "needs kernel functions, and this kernel has no kprobes: tcp_close cannot be traced by fe"
        )
        assert "@" not in told


def test_system_calls_bind_by_their_tracepoint() -> None:
    """`sys_openat` is the wrapper; its arguments are in the registers that it was given."""
    spec = compiled('kprobe("sys_openat")', "dfd", "counts[dfd] += 1")
    assert [str(place) for place in places(spec)] == ["kprobe __x64_sys_openat"]
    with pytest.raises(CompileError, match=r"the system call openat has no argument dfdd \(did you mean dfd\?\)"):
        compiled('kprobe("sys_openat")', "dfdd")


def test_patterns_are_bounded_and_keep_off_what_runs_around_programs() -> None:
    """RCU's lock takes no trampoline even by name."""
    with pytest.raises(InvalidValue, match="'tcp_\\*' matches 3 functions, more than 2: narrow it, or allow more"):
        compiled('kprobe_multi("tcp_*", max_probes=2)')
    with pytest.raises(NotFound, match="matches 'rcu_\\*'"):
        compiled('kprobe("rcu_*")')
    for how in ("kprobe", "kprobe_multi", "fentry"):
        with pytest.raises(NotFound, match=r"^no function sch_fq:fq_\*: module sch_fq is not loaded \(modprobe"):
            compiled(f'{how}("sch_fq:fq_*")')
    with pytest.raises(NotFound, match="a probe would hang the machine"):
        compiled('fentry("rcu_read_lock")')
    names = "__rcu_read_lock migrate_disable __bpf_prog_enter_recur preempt_count_add ftrace_stub fprobe_handler"
    assert all(map(is_denied, names.split()))
    others = ("tcp_sendmsg", "rcu_sync_enter", "kmem_cache_alloc", "bpf_prog_load", "migrate_pages")
    assert not any(map(is_denied, others))


@pytest.mark.parametrize(
    ("decorator", "message"),
    [
        ('kprobe("tcp sendmsg")', "write a function's name"),
        ('kprobe("")', "write a function's name"),
        ('kprobe("tcp_*+4")', "a pattern has no offset"),
        ('kretprobe("tcp_close+4")', "only @bpf.kprobe takes an offset"),
        ('kprobe_multi("a", cookies={"b": 1})', "'b' is not one of its functions"),
        ("function()", "names no target"),
    ],
)
def test_names_that_are_none(decorator: str, message: str) -> None:
    """Refused by the decorator itself."""
    with pytest.raises(InvalidValue, match=message):
        compiled(decorator)


def test_cookies_follow_their_functions() -> None:
    """One number each, in one attachment."""
    place: Any = places(compiled('kprobe_multi("tcp_close", "tcp_sendmsg", cookies={"tcp_sendmsg": 7})'))[0]
    assert (place.functions, place.cookies) == (("tcp_close", "tcp_sendmsg"), (0, 7))
