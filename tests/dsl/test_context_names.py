"""What a parameter is, `ctx.NAME` is, at every kind of attachment; text of variable place is a string like others."""

from __future__ import annotations

import pytest

from pyebpf.asm import Instruction
from pyebpf.compiler import compile_module
from pyebpf.dataclass import replace
from pyebpf.errors import CompileError
from pyebpf.module.linking import link_module
from tests.dsl.fake_target import FakeTarget
from tests.dsl.harness import build, namespace, probe, run

#: Decorator, parameter as declared, what the probe does with it.
SAME = [
    ('@bpf.tracepoint("syscalls:sys_enter_openat")', "dfd", "table[0] = X"),
    ('@bpf.tracepoint("syscalls:sys_enter_openat")', "dfd: u8", "table[0] = X"),
    ('@bpf.tracepoint("syscalls:sys_enter_openat")', "filename", "opens[user_string(X)] += 1"),
    ('@bpf.raw_tracepoint("inet_sock_set_state")', "newstate", "table[0] = X"),
    ('@bpf.raw_tracepoint("inet_sock_set_state")', "sk", "table[0] = X.sk_ack_backlog"),
    ('@bpf.btf_tracepoint("inet_sock_set_state")', "sk", "table[0] = X.sk_ack_backlog"),
    ('@bpf.kprobe("tcp_sendmsg")', "sk", "table[0] = X.sk_ack_backlog"),
    ('@bpf.kprobe("tcp_sendmsg")', "flags", "table[0] = X"),
    ('@bpf.kprobe("tcp_sendmsg")', "flags: u8", "table[0] = X"),
    ('@bpf.kretprobe("tcp_sendmsg")', "retval", "table[0] = X"),
    ('@bpf.fentry("tcp_sendmsg")', "size", "table[0] = X"),
    ('@bpf.fentry("tcp_sendmsg")', "sk", "table[0] = X.sk_ack_backlog"),
    ('@bpf.fexit("tcp_sendmsg")', "retval", "table[0] = X"),
    ('@bpf.fexit("tcp_sendmsg")', "sk", "table[0] = X.sk_ack_backlog"),
    ('@bpf.kprobe("__x64_sys_openat")', "dfd", "table[0] = X"),
    ('@bpf.fentry("__x64_sys_openat")', "filename", "opens[user_string(X)] += 1"),
    ('@bpf.uprobe("/bin/true", "main")', "count: s32", "table[0] = X"),
    ('@bpf.uretprobe("/bin/true", "main")', "retval: s32", "table[0] = X"),
    ("@bpf.sample(frequency=99)", "ip", "table[0] = X"),
]


@pytest.mark.parametrize(("decorator", "declared", "body"), SAME)
def test_an_attribute_of_the_context_is_the_parameter(decorator, declared, body):
    """The same program, whether the parameter is declared, taken from the context, or both."""
    name = declared.partition(":")[0]
    wanted = build(body.replace("X", name), f"ctx, {declared}", decorator=decorator)
    both = build(body.replace("X", f"ctx.{name}"), f"ctx, {declared}", decorator=decorator)
    if ":" in declared:
        assert text(both) == text(wanted)
    else:
        alone = build(body.replace("X", f"ctx.{name}"), "ctx", decorator=decorator)
        assert text(alone) == text(wanted)


def text(module):
    """The instructions of a program, whatever the places in the source."""
    instructions = compile_module(module, FakeTarget()).instructions
    found = [replace(each, where=None) for each in instructions if isinstance(each, Instruction)]
    assert len(found) > 4
    return found


def test_each_function_is_asked_for_its_own_parameter():
    """Functions whose parameters stand elsewhere do not share the code of a probe that takes them from the context."""
    names = run(
        '@bpf.kprobe("tcp_sendmsg", "tcp_close")\ndef probe(ctx):\n'
        '    if ctx.target == "tcp_close":\n        table[0] = ctx.timeout\n    else:\n        table[0] = ctx.flags\n',
        namespace(),
    )
    spec, _ = link_module([names["probe"]], [names["table"]], FakeTarget())
    assert len({id(program.code) for program in spec.programs}) == 2


@pytest.mark.parametrize(
    ("decorator", "name", "message"),
    [
        ('@bpf.fentry("tcp_sendmsg")', "sock", r"tcp_sendmsg\(\) has no parameter sock \(did you mean sk"),
        ('@bpf.fentry("tcp_sendmsg")', "di", "this program has no registers"),
        ('@bpf.kprobe("tcp_sendmsg")', "sock", "x86_64 has no register sock|has no register sock"),
        ('@bpf.kretprobe("tcp_sendmsg")', "sk", "arguments are gone when it returns"),
        ('@bpf.fentry("tcp_sendmsg")', "retval", "has returned nothing yet"),
    ],
)
def test_what_the_context_has_not_is_refused(decorator, name, message):
    """With the closest names, or why it is not to be had there."""
    with pytest.raises(CompileError, match=message):
        build(f"table[0] = ctx.{name}", "ctx", decorator=decorator)


def test_registers_are_there_where_no_parameter_has_their_name():
    """At a kprobe `ctx.di` is the register."""
    build("table[0] = ctx.di", "ctx", decorator='@bpf.kprobe("tcp_sendmsg")')


class NetTarget(FakeTarget):
    """With a tracepoint that has text of variable place."""

    def tracepoint_format(self, category, name):
        from pyebpf.types.tracepoint import parse_format

        if category != "net":
            return super().tracepoint_format(category, name)
        return parse_format(
            f"name: {name}\nID: 9\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
            "\tfield:unsigned int len;\toffset:8;\tsize:4;\tsigned:0;\n"
            '\tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;\n\nprint fmt: ""\n'
        )


NET = '@bpf.tracepoint("net:netif_rx", "net:net_dev_queue")'


def built(body, parameters):
    """The programs of a probe at two such tracepoints."""
    return link_module([probe(body, parameters, decorator=NET)], [], NetTarget())[0].programs


@pytest.mark.parametrize(
    ("body", "parameters"),
    [
        ("table[0] = name == 'eth0'", "name"),
        ("table[0] = 'eth0' != name", "name"),
        ("table[0] = name in ('eth0', 'eth1')", "name"),
        ("table[0] = (name, 1) in {('eth0', 1), ('lo', 2)}", "name"),
        ("table[0] = ctx.name == 'eth0'", "ctx"),
        ("table[0] = ctx.name.startswith('eth')", "ctx"),
        ("table[0] = name[0] == 'e'", "name"),
        ("opens[name] += 1", "name"),
        ("opens[ctx.name] += 1", "ctx"),
        ("kept = name\nopens[kept] += 1\ntable[0] = len(kept)", "name: char[32]"),
        ("table[0] = len(name)", "name: char[32]"),
        ("table[0] = 'et' in name and name.endswith('0')", "name: char[32]"),
        ("kept: char[24] = ctx.name\ntable[0] = len(kept)", "ctx"),
        ("name = 'x' if 0 else name\ntable[0] = name == 'lo'", "name: char[8]"),
        ("for i in range(3):\n    if name == 'lo':\n        table[i] += 1", "name"),
        ("for key in counts:\n    if name == 'lo':\n        counts[key] = 1", "name"),
        ("records[1] = Record(at=1, limit=len, name=name)".replace("len", "2"), "name"),
    ],
)
def test_text_of_variable_place_is_a_string_like_others(body, parameters):
    """As a parameter, in a local, compared, indexed, searched, a key; at several tracepoints, which share the probe."""
    assert len(built(body, parameters)) == 2


def test_where_nothing_tells_the_size_the_error_says_how():
    """A name needs a size, which the annotation gives."""
    message = (
        r"field name has no destination that gives its size: annotate the parameter, name: char\[64\] for example, or "
    )
    message += r"the local, kept: char\[64\] = ctx.name"
    with pytest.raises(CompileError, match=message):
        built("kept = name\ntable[0] = len(kept)", "name")
    with pytest.raises(CompileError, match=message):
        built("kept = ctx.name\ntable[0] = len(kept)", "ctx")
