"""The tables of contexts are the kernel's: its BTF has the same layout, its verifier allows what they allow."""

from __future__ import annotations

import re

import pytest

from pyebpf import BPF, CompileError, NotFound, u8, u64
from pyebpf.attach import context_annotations, struct_fields
from pyebpf.attach.cgroups import HOOKS
from pyebpf.attach.fields import Bytes, FieldTable, IntegerField, NestedField, WordArrayField
from pyebpf.attach.skb import SKB_FIELDS
from pyebpf.runtime.host import host_target
from tests.support.needs import needs

TABLES = {name: value for name, value in vars(struct_fields).items() if isinstance(value, FieldTable)}

ADDRESS_TABLES = {
    "CgroupSock": struct_fields.SOCK,
    "CgroupSockAddr": struct_fields.SOCK_ADDR,
    "CgroupSockopt": struct_fields.SOCKOPT,
    "CgroupSysctl": struct_fields.SYSCTL,
    "CgroupDevice": struct_fields.CGROUP_DEVICE,
    "SockOps": struct_fields.SOCK_OPS,
}
#: Decorators and their tables: those of control groups, and those of sockets.
PROGRAMS = {
    **{f"cgroup_{hook}": (ADDRESS_TABLES[row.spec], hook) for hook, row in HOOKS.items() if row.spec != "CgroupSkb"},
    "sk_reuseport": (struct_fields.SK_REUSEPORT, ""),
    "sk_lookup": (struct_fields.SK_LOOKUP, ""),
    "sk_msg": (struct_fields.SK_MSG, ""),
    "flow_dissector": (struct_fields.DISSECTED, ""),
}
UNIX = "attach:cgroup_unix_connect"


def target():
    return host_target(lambda: pytest.fail("no tracefs is needed"))


@pytest.mark.parametrize("name", TABLES)
def test_layout(name):
    """Every field stands where the kernel's BTF has it, in as many bytes."""
    table, kernel = TABLES[name], target()
    struct = kernel.type_named(table.c_name)
    for field in table.fields.values():
        try:
            member = kernel.member(struct, field.name)
        except NotFound:
            assert field.since, field.name
            continue
        assert member.offset == field.offset, field.name
        size = member.type.size
        if field.name not in ("replylong", "args") and not isinstance(field, Bytes):
            # Linux before 5.18 has remote_port in the first half of a __u32.
            assert field.size == size or (field.name, size) == ("remote_port", 4), field.name


def uses(table: FieldTable, hook: str, base: str = "ctx") -> list[str]:
    """Statements that read every field that a hook's programs have, and write back those that they may."""
    lines = []
    kernel = target()
    struct = kernel.type_named(table.c_name)
    for field in table.fields.values():
        if hook and field.on is not None and hook not in field.on:
            continue
        if field.since and not kernel.has_field(table.c_name, field.name):
            continue
        assert struct
        place = f"{base}.{field.name}"
        writable = field.writable is True or (isinstance(field.writable, tuple) and hook in field.writable)
        if isinstance(field, IntegerField):
            lines.append(f"seen[0] = u64({place})")
        elif isinstance(field, Bytes):
            lines.append(f"seen[0] = {place}[15]")
        elif isinstance(field, WordArrayField):
            lines.append(f"seen[0] = {place}[3]")
            place += "[3]"
        elif isinstance(field, NestedField):
            lines.append(f"{field.name} = {place}")
            inner = uses(field.table, "", field.name)
            if field.nullable:
                lines.append(f"if {field.name} is not None:")
                inner = ["    " + line for line in inner]
            lines += inner
        if writable and not isinstance(field, NestedField):
            lines.append(f"{place} = {place}")
    return lines


@pytest.mark.parametrize("decorator", PROGRAMS)
def test_verifier(decorator):
    """A program that reads every field of its hook, and writes those that it may, loads."""
    if decorator.endswith("_unix"):
        needs(UNIX)
    table, hook = PROGRAMS[decorator]
    lines = uses(table, hook)
    bpf = BPF()
    seen = bpf.array(value=u64)
    body = "".join(f"    {line}\n" for line in lines)
    bpf.define(f"@bpf.{decorator}()\ndef all_fields(ctx) -> int:\n{body}    return 1\n", {"seen": seen, "u64": u64})
    bpf.load()
    bpf.close()


def test_hooks_have_decorators():
    """Each row of the table is a decorator, with the row's text as its documentation."""
    for hook, row in HOOKS.items():
        assert row.text in getattr(BPF(), f"cgroup_{hook}").__doc__


REFUSED = {
    "cgroup_connect4": {
        "x = ctx.user_ip6[0]": "struct bpf_sock_addr has no user_ip6 in connect4 programs: it has user_family,",
        "x = ctx.user_prot": "struct bpf_sock_addr has no field user_prot (did you mean user_port or user_ip4?)",
        "x = ctx.sk.mar": "struct bpf_sock has no field mar",
        "ctx.user_ip4 = 1 << 32": "4294967296 does not fit be32",
        "ctx.user_port = 70000": "70000 does not fit be16",
        "ctx.type = 1": "type of struct bpf_sock_addr is read-only: what may be written is user_ip4, user_port",
        "ctx.sk.mark = 1": "mark of struct bpf_sock is read-only",
    },
    "cgroup_bind6": {"ctx.user_ip6 = b'abc'": "b'abc' does not fit user_ip6, which has 16 bytes"},
    "cgroup_getsockopt": {
        "ctx.level = 1": "level of struct bpf_sockopt is read-only in getsockopt programs: setsockopt",
    },
    "cgroup_sock_ops": {
        "x = ctx.args[4]": "index 4 is outside the array args of the context: 0 to 3",
        "x = ctx.args[ctx.op]": "the array args of the context is indexed by numbers known at compile time",
        "ctx.args[0] = 1": "the array args of the context cannot be assigned to by index",
        "x = ctx.sk.family": "a struct bpf_sock may be None: test it with `is None` first",
    },
    "sk_msg": {"x = ctx.packet.load(u8[4])": "the message is read in place: write .header(u8[4], at=…)"},
}


@pytest.mark.parametrize(("decorator", "line"), [(name, line) for name, lines in REFUSED.items() for line in lines])
def test_refusals(decorator, line):
    """What a hook's programs do not have, or may not write, is an error while compiling."""
    bpf = BPF()
    bpf.define(f"@bpf.{decorator}()\ndef wrong(ctx) -> int:\n    {line}\n    return 1\n", {"u8": u8})
    with pytest.raises(CompileError, match=re.escape(REFUSED[decorator][line])):
        bpf.specs()


@pytest.mark.parametrize(
    ("decorator", "result", "message"),
    [
        ("cgroup_connect4", "2", "a program at cgroup connect4 returns 0 or 1, not 2"),
        ("cgroup_bind4", "4", "a program at cgroup bind4 returns 0 to 3, not 4"),
        ("cgroup_recvmsg6", "0", "a program at cgroup recvmsg6 returns 1, not 0"),
        ("cgroup_getpeername4", "ctx.type", "and this number is not known to be: write 1"),
        ("cgroup_sysctl", "ctx.write", "and this number is not known to be: write `return 1 if … else 0`"),
        ("sk_lookup", "-1", "a program at sk_lookup of a network namespace returns 0 or 1, not -1"),
    ],
)
def test_results(decorator, result, message):
    """A number that the kernel takes from no program of the hook is an error while compiling."""
    bpf = BPF()
    bpf.define(f"@bpf.{decorator}()\ndef wrong(ctx) -> int:\n    return {result}\n")
    with pytest.raises(CompileError, match=message):
        bpf.specs()


ANNOTATIONS = {
    "SOCK": ("Sock", "SockContext"),
    "SOCK_ADDR": ("SockAddrContext",),
    "SOCKOPT": ("SockoptContext",),
    "SYSCTL": ("SysctlContext",),
    "CGROUP_DEVICE": ("DeviceContext",),
    "SOCK_OPS": ("SockOpsContext",),
    "SK_MSG": ("SkMsgContext",),
    "SK_REUSEPORT": ("SkReuseportContext",),
    "SK_LOOKUP": ("SkLookupContext",),
    "FLOW_KEYS": ("FlowKeys",),
    "DISSECTED": ("FlowDissectorContext",),
}


def test_annotations():
    """The classes for type checkers have the tables' fields, and what is beside them."""
    assert ANNOTATIONS.keys() == TABLES.keys() - {"SOCK_COMMON"}
    for table, classes in ANNOTATIONS.items():
        for name in classes:
            names = annotated(vars(context_annotations)[name])
            assert names - {"target", "packet", "optval", "name"} == TABLES[table].fields.keys()
    assert annotated(context_annotations.SkBuff) - {"target", "packet", "data_meta"} == SKB_FIELDS.keys()


def annotated(kind):
    """The names that a class and those it is made of annotate."""
    return {name for each in kind.__mro__[:-1] for name in each.__annotations__}
