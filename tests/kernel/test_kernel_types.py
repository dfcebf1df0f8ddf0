"""BTF and tracepoint formats of the running kernel."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from pyebpf.btf import (
    Btf,
    BtfBuilder,
    Composite,
    Enumeration,
    FuncInfo,
    FuncProto,
    Index,
    LineInfo,
    c_declaration,
    digest,
    encode_func_info,
    encode_line_info,
    raw_tracepoint,
    raw_tracepoint_names,
    sanitise_name,
)
from pyebpf.btf.nullable import NULLABLE_ARGUMENTS
from pyebpf.kernel.bpf import btf_load, prog_load
from pyebpf.kernel.btf_files import read_btf
from pyebpf.kernel.tracefs import Tracefs
from pyebpf.target import LiveTarget, RecordedTarget, Recorder
from pyebpf.types.tracepoint import parse_format
from tests.support.needs import needs
from tests.support.release import kernel_release

BPF_PROG_TYPE_SOCKET_FILTER = 1
BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP = 26, 23
RETURN_0 = bytes.fromhex("b700000000000000 9500000000000000")


#: How many fields have another's name in Linux 5.10: `char[] type` and `int type`.
DOUBLED = {("regmap", "regcache_sync"): 1}
#: Kinds of types that the builder makes and Linux 5.10 does not know, with their releases.
LATER_KINDS = {"float": (5, 13), "decl_tag": (5, 16), "type_tag": (5, 17), "enum64": (6, 0)}


@pytest.fixture(scope="module")
def btf():
    return Btf(read_btf())


@pytest.fixture(scope="module")
def formats():
    with Tracefs() as tracefs:
        return {
            (category, name): tracefs.event_format(category, name)
            for category in tracefs.categories()
            for name in tracefs.events(category)
        }


def test_every_type_agrees_with_bpftool(btf):
    """Kind, name, size and number of entries of each of the kernel's types; each prints as C."""
    needs("command:bpftool")
    dump = subprocess.run(
        ["bpftool", "btf", "dump", "file", "/sys/kernel/btf/vmlinux", "format", "raw"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    seen = 0
    for number, kind, name, rest in re.findall(r"^\[(\d+)\] (\w+) '(.*?)'(.*)$", dump, re.MULTILINE):
        seen += 1
        # The dump is fast to make; comparing every 7th of 126,000 types is enough to meet all kinds.
        if seen % 7:
            continue
        node = btf.type_by_id(int(number))
        assert (type(node).__name__.upper(), node.name or "(anon)") == (kind.replace("_", ""), name)
        facts = dict(re.findall(r"(\w+)=(-?\w+)", rest))
        if isinstance(node, Composite):
            assert (node.size, len(node.members)) == (int(facts["size"]), int(facts["vlen"]))
        if isinstance(node, Enumeration):
            assert (node.size, len(node.enumerators)) == (int(facts["size"]), int(facts["vlen"]))
        if isinstance(node, FuncProto):
            assert (node.type, len(node.params)) == (int(facts["ret_type_id"]), int(facts["vlen"]))
        assert c_declaration(btf, int(number), "x")
    assert seen == btf.stop - 1


def test_members_agree_with_bpftool(btf):
    """Every member of struct sk_buff and task_struct that bpftool prints lies where it says."""
    needs("command:bpftool")
    dump = subprocess.run(
        ["bpftool", "btf", "dump", "file", "/sys/kernel/btf/vmlinux", "format", "raw"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    for struct in ("sk_buff", "task_struct", "request"):
        node = btf.struct(struct)
        text = re.search(rf"^\[{node.id}\] .*\n((?:\t.*\n)*)", dump, re.MULTILINE)
        expected = [
            (name.replace("(anon)", ""), int(type_), int(offset), int(bits or 0))
            for name, type_, offset, bits in re.findall(
                r"'(.*?)' type_id=(\d+) bits_offset=(\d+)(?: bitfield_size=(\d+))?", text[1]
            )
        ]
        assert [tuple(member) for member in node.members] == expected
        flat = btf.members(node.id)
        assert {name for name, *_ in expected if name} <= set(flat)


def test_the_index_of_the_kernel_is_stored_and_restored(btf):
    content = digest(btf.data)
    index = Index.from_bytes(btf.index.to_bytes(content), content)
    again = Btf(btf.data, index=index)
    assert again.struct("task_struct") == btf.struct("task_struct")
    assert again.enumerator("TCP_LISTEN") == btf.enumerator("TCP_LISTEN") == 10
    for type_id in range(1, btf.stop, 997):
        name = btf.type_by_id(type_id).name
        assert again.find(name) == btf.find(name)
    assert again.stop == btf.stop


def test_every_raw_tracepoint_has_named_arguments(btf):
    """By BTF's names, or by numbers where it has none."""
    names = list(raw_tracepoint_names(btf))
    assert len(names) > 500
    for name in names[::17]:
        assert all(argument.name for argument in raw_tracepoint(btf, name).arguments), name
    assert [argument.name for argument in raw_tracepoint(btf, "sched_switch").arguments][:3] == [
        "preempt",
        "prev",
        "next",
    ]


def test_the_verifier_allows_loads_through_arguments_that_are_not_called_nullable(btf):
    """A sample of all tracepoints, and all that the table names: the verifier never says "or_null" of another one."""
    live = LiveTarget(btf=lambda: btf)
    names = list(raw_tracepoint_names(btf))
    for name in {*names[::11], *(set(names) & set(NULLABLE_ARGUMENTS))}:
        tracepoint = live.raw_tracepoint(name)
        for number, parameter in enumerate(tracepoint.parameters):
            pointee = parameter.type.element
            if parameter.nullable or pointee is None or pointee.kind != "struct":
                continue
            # r1 = *(u64 *)(r1 + 8 * number); r1 = *(u8 *)(r1 + 0); r0 = 0; exit
            load = bytes((0x79, 0x11, 8 * number, 0, 0, 0, 0, 0)) + bytes.fromhex("7111000000000000") + RETURN_0
            result = prog_load(
                BPF_PROG_TYPE_TRACING,
                load,
                expected_attach_type=BPF_TRACE_RAW_TP,
                attach_btf_id=tracepoint.btf_id,
                log_level=1,
                log_size=4096,
            )
            if result.descriptor is not None:
                result.descriptor.close()
            assert "or_null" not in result.log, (name, parameter.name)


def test_every_format_of_the_kernel_is_read(formats):
    """Each field line gives a field, and records end where their last field does."""
    assert len(formats) > 500
    for (category, name), text in formats.items():
        parsed = parse_format(text)
        assert parsed.name == name
        head = text.partition("print fmt:")[0]
        doubled = DOUBLED.get((category, name), 0) if kernel_release() < (6, 1) else 0
        # Copies of text behind a system call's arguments (since Linux 6.19), which programs are not given.
        copies = head.count("\tfield:__data_loc") if name.startswith("sys_enter_") else 0
        assert len(parsed.common) + len(parsed.fields) == head.count("\tfield:") - doubled - copies, (category, name)
        for field in parsed.fields:
            if field.length and field.element is not None:
                assert field.length * field.element[0] == field.size, (category, name, field)


def test_facts_for_tools_are_the_same_live_and_recorded(btf, formats):
    """Request to disk name, a socket's ports and state, a tracepoint's fields."""
    live = LiveTarget(btf=lambda: btf, formats=lambda category, name: formats[category, name])

    def ask(target):
        request = target.raw_tracepoint("block_rq_issue").parameters[0].type.element
        known = target.has_field("struct request", "q.disk.disk_name")
        if known:
            disk = target.member(request, "q").type.element
            disk = target.member(disk, "disk").type.element
        else:  # before Linux 5.15
            disk = target.member(request, "rq_disk").type.element
        sock = target.type_named("struct sock")
        return [
            request.c_name,
            target.member(disk, "disk_name").type.c_name,
            known or target.has_field("struct request", "rq_disk.disk_name"),
            target.struct_member("struct sock", "__sk_common.skc_dport").type.aliases[0],
            target.member(sock, "sk_protocol").type.kind,
            target.enumerator("TCP_LISTEN"),
            target.enumerator("BPF_MAP_TYPE_RINGBUF", "bpf_map_type"),
            target.tracepoint_format("sched", "sched_switch").field("prev_comm").length,
        ]

    recorder = Recorder(live)
    assert ask(recorder) == ["struct request", "char[32]", True, "__be16", "int", 10, 27, 16]
    assert ask(RecordedTarget.from_json(recorder.to_json())) == ask(live)


def test_the_kernel_takes_btf_of_every_kind_that_the_builder_makes():
    """All that it knows by its release."""
    known = {kind for kind, release in LATER_KINDS.items() if kernel_release() >= release}
    b = BtfBuilder()
    number = b.add_int("int", 4, signed=True)
    if "float" in known:
        b.add_float("double", 8)
    pointer = b.add_ptr(number)
    array = b.add_array(number, number, 3)
    b.add_struct("s", 24, [("a", number, 0, 0), ("b", array, 32, 0), ("p", pointer, 128, 0)])
    b.add_struct("bits", 4, [("low", number, 0, 3), ("high", number, 3, 29)])
    b.add_union("u", 4, [("a", number, 0, 0), ("b", number, 0, 0)])
    signed = "enum64" in known  # since then an enum says so of itself
    b.add_enum("e", 4, [("A", -1 if signed else 1)], signed=signed)
    if "enum64" in known:
        b.add_enum64("e64", 8, [("B", 2**63)])
    b.add_fwd("f")
    alias = b.add_typedef("t", number)
    b.add_ptr(b.add_const(b.add_volatile(alias)))
    b.add_restrict(pointer)
    tag = b.add_ptr(b.add_type_tag("user", number)) if "type_tag" in known else pointer
    function = b.add_func("f.<locals>.<lambda>", b.add_func_proto(number, [("x", tag)]))
    variable = b.add_var("v", number)
    b.add_datasec(".data", 4, [(variable, 0, 4)])
    if "decl_tag" in known:
        b.add_decl_tag("kept", function)
    result = btf_load(b.to_bytes(), log_level=1, log_size=1 << 16)
    assert result.descriptor is not None, result.log
    result.descriptor.close()


@pytest.mark.parametrize("name", ["<lambda>", "größe", "2nd", "a b", "$x", "-", "", "x" * 500, "a.b"])
def test_the_kernel_takes_every_sanitised_name(name):
    b = BtfBuilder()
    b.add_func(sanitise_name(name), b.add_func_proto(b.add_int("int", 4)))
    result = btf_load(b.to_bytes())
    assert result.descriptor is not None
    result.descriptor.close()


def test_the_verifier_shows_the_line_that_line_info_names():
    b = BtfBuilder()
    function = b.add_func("f", b.add_func_proto(b.add_int("int", 4)))
    lines = [LineInfo(0, b.string("probe.py"), b.string("    return grüße  # 17"), 17, 4)]
    loaded = btf_load(b.to_bytes())
    assert loaded.descriptor is not None
    with loaded.descriptor as descriptor:
        refused = prog_load(
            BPF_PROG_TYPE_SOCKET_FILTER,
            bytes.fromhex("bf10000000000000 bf60000000000000 9500000000000000"),
            btf_fd=descriptor.fileno(),
            func_info=encode_func_info([FuncInfo(0, function)]),
            line_info=encode_line_info(lines),
            log_level=1,
            log_size=1 << 16,
        )
        accepted = prog_load(
            BPF_PROG_TYPE_SOCKET_FILTER,
            RETURN_0,
            btf_fd=descriptor.fileno(),
            func_info=encode_func_info([FuncInfo(0, function)]),
            line_info=encode_line_info(lines),
        )
    assert refused.descriptor is None
    assert "return grüße  # 17" in refused.log
    assert accepted.descriptor is not None
    accepted.descriptor.close()


def test_modules_have_split_btf_on_top_of_vmlinux(btf):
    modules = [path for path in Path("/sys/kernel/btf").iterdir() if path.name != "vmlinux"]
    if not modules:
        needs("setting:/sys/kernel/btf/overlay")
    for path in modules[:5]:
        split = Btf(path.read_bytes(), btf)
        assert split.start == btf.stop
        for type_id in range(split.start, split.stop):
            assert c_declaration(split, type_id, "x")
