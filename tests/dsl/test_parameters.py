"""Parameters: bound by the names that the target gives; the context; several targets; what each kind returns."""

from __future__ import annotations

import pytest

from pyebpf.builder.drop_counters import DropCounters
from pyebpf.compiler.ir import Op
from pyebpf.errors import CompileError
from pyebpf.module.probe import Attachment
from pyebpf.module.program import build_program
from pyebpf.uapi.bpf import ProgramType
from tests.dsl.fake_target import FakeTarget
from tests.dsl.harness import build, message, namespace, probe, run

RAW = '@bpf.raw_tracepoint("inet_sock_set_state")'
BTF = '@bpf.btf_tracepoint("inet_sock_set_state")'

#: Body, parameters, decorator, message, what the carets stand under.
REFUSED = [
    ("pass", "cuont", "", "tracepoint sys_enter_openat has no field 'cuont' (did you mean count?)", "cuont"),
    (
        "pass",
        "common_type",
        "",
        "tracepoint sys_enter_openat: programs can't read 'common_type', nor any other common field",
        "common_type",
    ),
    (
        "pass",
        "newstat",
        RAW,
        "raw tracepoint inet_sock_set_state has no argument newstat (did you mean newstate?)",
        "newstat",
    ),
    ("pass", "count=3", "", "a probe's parameters have no defaults: the kernel gives every argument", "count"),
    ("pass", "*rest", "", "a probe's parameters are named one by one: leave out *rest", "rest"),
    ("pass", "**rest", "", "a probe's parameters are named one by one: leave out *rest", "rest"),
    (
        "pass",
        "count, ctx",
        "",
        "`ctx`, the context, is the first parameter; a kernel argument of that name is `ctx_`",
        "ctx",
    ),
    ("x = sk.sk_famil", "sk", BTF, "struct sock has no member sk_famil (did you mean sk_family?)", "sk.sk_famil"),
    (
        "sk.sk_family = 3",
        "sk",
        BTF,
        "a struct sock is kernel memory, which probes only read: sk_family cannot be assigned",
        "sk.sk_family = 3",
    ),
    ("x = sk + 1", "sk", BTF, "a struct sock has no operator +", "sk + 1"),
    ("x = ctx.cuont", "ctx", "", "tracepoint sys_enter_openat has no field 'cuont' (did you mean count?)", "ctx.cuont"),
    ("ctx.count = 3", "ctx", "", "the context of a tracepoint program cannot be written: count", "ctx.count = 3"),
    ("x = ctx + 1", "ctx", "", "the context has no operator +: read one of its fields, ctx.NAME", "ctx + 1"),
]


@pytest.mark.parametrize(("body", "parameters", "decorator", "expected", "under"), REFUSED)
def test_refused(body: str, parameters: str, decorator: str, expected: str, under: str) -> None:
    """What the target does not have is an error at its name, with the closest ones."""
    with pytest.raises(CompileError) as caught:
        build(body, parameters, decorator=decorator)
    assert message(caught.value) == (expected, under)


def loads(body: str, parameters: str, decorator: str = "") -> list[tuple[int, int]]:
    """Offset and size of each load of a probe's first block."""
    module = build(body, parameters, decorator=decorator)
    return [(i.imm, i.size) for i in module.main.blocks[0].instructions if i.op is Op.LOAD]


def test_only_what_is_named_is_read() -> None:
    """A probe without parameters reads nothing of its record; one reads just its fields."""
    assert loads("pass", "") == []
    assert loads("results[0] = prio", "prio")[0] == (40, 1)
    assert loads("results[0] = dfd", "dfd")[0] == (16, 4)


def test_the_context_has_the_same_fields() -> None:
    """`ctx.count` is what the parameter `count` is; `ctx.target` the target's name, known at compile time."""
    assert loads("results[0] = ctx.count", "ctx")[0] == loads("results[0] = count", "count")[0]
    assert loads('if ctx.target == "syscalls:sys_enter_openat":\n    results[0] = ctx.count', "ctx")[0] == (32, 8)
    assert loads('if ctx.target == "another":\n    results[0] = ctx.count', "ctx") == []


def test_arguments_of_raw_tracepoints_by_their_kernel_names() -> None:
    """By position in the prototype, with and without BTF trust."""
    for decorator in (RAW, BTF):
        assert loads("results[0] = newstate", "newstate: int", decorator)[0][0] == 16


def test_an_argument_missing_at_another_target_names_both() -> None:
    """Which of the two lacks it, and which has it."""
    names = run(
        '@bpf.btf_tracepoint("sched_process_exit", "inet_sock_set_state")\ndef probe(p):\n    results[0] = p.pid\n',
        namespace(),
    )
    with pytest.raises(CompileError) as caught:
        names["bpf"].compile(FakeTarget())
    assert caught.value.message == (
        "BTF tracepoint inet_sock_set_state has no argument p: it has sk, oldstate, newstate; the target is tp_btf "
        "inet_sock_set_state, while tp_btf sched_process_exit compiles"
    )


def test_an_argument_of_another_type_at_another_target_names_both() -> None:
    """The same name must mean the same."""
    names = run('@bpf.raw_tracepoint("tcp_a", "tcp_b")\ndef probe(sk):\n    results[0] = 1\n', namespace())
    with pytest.raises(CompileError) as caught:
        names["bpf"].compile(FakeTarget())
    assert caught.value.message == (
        "sk is a struct sock with raw_tp tcp_a and a struct task_struct with raw_tp tcp_b: write a probe for each"
    )


def test_programs_that_decide_return_on_every_path() -> None:
    """Where the kernel acts on the value, leaving it out is an error at the function's name."""
    for body, expected, under in (
        (
            "pass",
            (
                "probe: every path of a program of this type returns a value, and one reaches the end: end it "
                "with `return`"
            ),
            "probe",
        ),
        ("return", "every path of a program of this type returns a value: return one here, too", "return"),
        ('return "a"', "a program returns an integer, not 'a'", '"a"'),
    ):
        made = probe(body)
        with pytest.raises(CompileError) as caught:
            build_program(
                made.body,
                Attachment(ProgramType.SOCKET_FILTER, made.attachments[0].attach),
                FakeTarget(),
                DropCounters(),
                "p",
            )
        assert message(caught.value) == (expected, under)
    made = probe("return 3 if pid() == 1 else 4")
    build_program(
        made.body, Attachment(ProgramType.SYSCALL, made.attachments[0].attach), FakeTarget(), DropCounters(), "p"
    )
