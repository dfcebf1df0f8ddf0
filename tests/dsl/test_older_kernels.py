"""Probes for kernels that lack something: another form of it, or a refusal with the release and what to write."""

from __future__ import annotations

import pytest

from pyebpf import Struct, helpers, user, ustack
from pyebpf.asm import listing
from pyebpf.attach.uprobes import COOKIE_MAP
from pyebpf.errors import CompileError
from pyebpf.uapi.helper_ids import GET_ATTACH_COOKIE
from pyebpf.uapi.helpers import helper_release
from tests.dsl.fake_target import FakeTarget
from tests.dsl.harness import namespace, run


def compiled(text, *missing):
    """The module of a probe for a kernel that lacks some features."""
    return run(text, namespace() | {"helpers": helpers})["bpf"].compile(FakeTarget(missing=frozenset(missing)))


@pytest.mark.parametrize(
    ("body", "missing", "message"),
    [
        (
            '@bpf.raw_tracepoint("sched_process_exit")\ndef probe():\n    table[1] |= 4\n',
            ["isa:atomic"],
            (
                "table[k] is shared with other processors, and this kernel has no atomic |= (since Linux 5.12): "
                "use + or -, or read it, compute, and assign"
            ),
        ),
        (
            '@bpf.raw_tracepoint("sched_process_exit")\ndef probe():\n    helpers.ktime_get_tai_ns()\n',
            ["helper:ktime_get_tai_ns@raw_tracepoint"],
            (
                "helpers.ktime_get_tai_ns(): this kernel has no helper bpf_ktime_get_tai_ns for raw tracepoint "
                "programs, which came with Linux 6.1: u64 bpf_ktime_get_tai_ns(void)"
            ),
        ),
        (
            "@bpf.syscall()\ndef probe() -> int:\n    return helpers.ktime_get_tai_ns()\n",
            ["helper:ktime_get_tai_ns@syscall", "program:syscall"],
            "this kernel has no syscall programs (since Linux 5.14): do it in Python, or in a probe on an event",
        ),
        (
            "@bpf.sk_reuseport()\ndef probe(ctx):\n    table[0] = ctx.sk.mark\n    return 1\n",
            [],
            "struct sk_reuseport_md has no sk in this kernel (since Linux 5.14)",
        ),
    ],
    ids=["atomic", "helper", "syscall", "field"],
)
def test_a_refusal_names_the_release(body, missing, message):
    """One line, before the verifier is asked."""
    with pytest.raises(CompileError) as caught:
        compiled(body, *missing)
    assert caught.value.message == message


@pytest.mark.parametrize(
    "probe",
    [
        '@bpf.usdt("/bin/true", "a:b")\ndef probe(first: u64):\n    table[0] = first\n',
        '@bpf.uprobe("/bin/true", "main")\ndef probe(ctx):\n    table[0] = ctx.cookie\n',
    ],
    ids=["usdt", "uprobe"],
)
def test_without_cookies_a_place_has_its_number_from_a_map(probe):
    """The hidden map is used exactly where the helper is not."""

    def uses(*missing):
        module = compiled(probe, "attach:uprobe_multi", *missing)
        calls = [each.imm for each in module.programs[0].code.instructions if each.op.name == "call"]
        return GET_ATTACH_COOKIE in calls, COOKIE_MAP in {spec.name for spec in module.maps}

    assert uses() == (True, False)
    assert uses("helper:get_attach_cookie@kprobe") == (False, True)


def test_helpers_have_releases():
    """Those of Linux 5.10 and before none; the first and the last of a release."""
    assert [helper_release(name) for name in ("map_lookup_elem", "redirect_peer")] == ["", ""]
    assert [helper_release(name) for name in ("task_storage_get", "sock_from_file", "check_mtu")] == ["5.11"] * 2 + [
        "5.12"
    ]
    assert helper_release("cgrp_storage_delete") == "6.2"


USER_READS = [
    "opens[user_string(address)] += 1",
    "table[0] = user(address, u64)[0]",
    "table[0] = ustack()",
    "helpers.probe_read_user(Pair(low=0, high=0), 16, address)",
]


@pytest.mark.parametrize("decorator", ["raw_tracepoint", "btf_tracepoint"])
@pytest.mark.parametrize("statement", USER_READS)
def test_no_program_on_page_faults_causes_its_own_event(decorator, statement):
    """A kernel without a guard against that would panic; one with it leaves the inner run out."""
    text = f'@bpf.{decorator}("page_fault_user")\ndef probe(address):\n    {statement}\n'
    names = namespace() | {"helpers": helpers, "user": user, "ustack": ustack}
    bpf = run(text, names)["bpf"]
    assert bpf.compile(FakeTarget()).programs
    with pytest.raises(CompileError) as caught:
        bpf.compile(FakeTarget(missing=frozenset({"function:bpf_prog_inc_misses_counter"})))
    assert caught.value.message == (
        "reading a process's memory causes page faults, and before Linux 6.1 a program on page_fault_user would run "
        'inside itself until the kernel panics: use @bpf.tracepoint("exceptions:page_fault_user"), which does not'
    )


@pytest.mark.parametrize(
    ("index", "restated"),
    [
        ("max(first, second)", True),
        ("first + 1 if first < second else second", True),
        ("first", False),
        ("first & 3", False),
    ],
)
@pytest.mark.parametrize("old", [True, False])
def test_an_index_whose_bounds_may_contradict_each_other(index, restated, old):
    """Verifiers before Linux 6.8 get it with the bounds of its bits, if it was compared with a number in a register."""
    text = (
        "class Held(Struct):\n    slots: u64[5]\n\n"
        'held = bpf.array(value=Held, name="held")\n'
        '@bpf.tracepoint("syscalls:sys_enter_openat")\n'
        "def probe(dfd: int):\n"
        "    first, second, entry = dfd & 3, pid() & 1, held[0]\n"
        f"    table[1] = entry.slots[{index}]\n"
    )
    missing = ["isa:may_goto"] if old else []
    names = namespace() | {"Struct": Struct}
    module = run(text, names)["bpf"].compile(FakeTarget(missing=frozenset(missing)))
    assert ("^= 0" in listing(module.programs[0].code.instructions)) is (restated and old)
