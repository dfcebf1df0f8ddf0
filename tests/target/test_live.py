"""What a target answers about kernel types, functions and tracepoints."""

from __future__ import annotations

import pytest

from pyebpf.btf import Btf, BtfBuilder
from pyebpf.errors import InvalidValue, NotFound, NotSupported
from pyebpf.target import KernelParameter, KernelType, LiveTarget
from tests.target.conftest import vmlinux


def step(target, owner, name):
    member = target.member(owner, name)
    return member.type, member.bit_offset, member.bit_size


def test_plain_facts_are_as_given(kernel):
    facts = (kernel.arch, kernel.byteorder, kernel.page_size, kernel.possible_cpus, kernel.pid_namespace)
    assert facts == ("x86_64", "little", 4096, 3, (4, 4026531836))
    assert (kernel.has("isa:v4"), kernel.has("helper:loop")) == (True, False)


def test_a_chain_of_pointers_is_followed_step_by_step(kernel):
    queue = kernel.type_named("struct queue")
    disk, offset, _ = step(kernel, queue, "disk")
    assert (disk.kind, disk.c_name, offset) == ("pointer", "struct disk *", 0)
    name, offset, _ = step(kernel, disk.element, "name")
    assert (name.c_name, name.length, name.size, name.element.character, offset) == ("char[32]", 32, 32, True, 64)


def test_members_of_anonymous_unions_and_structs_are_found(kernel):
    queue = kernel.type_named("struct queue")
    port, offset, bits = step(kernel, queue, "port")
    assert (port.name, port.aliases, port.size, offset, bits) == (
        "short unsigned int",
        ("__be16", "__u16"),
        2,
        64,
        0,
    )
    assert step(kernel, queue, "mode")[1:] == (97, 3)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("alive", {"kind": "int", "boolean": True, "size": 1, "aliases": ("bool",)}),
        ("state", {"kind": "enum", "name": "state", "size": 4, "signed": False}),
        ("both", {"kind": "int", "name": "int", "signed": True, "size": 4}),
        ("counts", {"kind": "array", "c_name": "long unsigned int[2][1]", "size": 16, "length": 1}),
        ("call", {"kind": "pointer", "c_name": "function *", "size": 8}),
    ],
)
def test_kinds_of_members(kernel, name, expected):
    type_ = kernel.member(kernel.type_named("struct queue"), name).type
    assert {key: getattr(type_, key) for key in expected} == expected


def test_a_user_pointer_carries_its_tag(kernel):
    assert kernel.member(kernel.type_named("struct queue"), "text").type.element.tags == ("user",)


def test_a_struct_only_declared_is_sought_by_name(kernel):
    """In BTF a pointer may lead to a declaration though the definition is there too."""
    queue = kernel.type_named("struct queue")
    later = kernel.member(queue, "later").type.element
    assert kernel.member(later, "x").type.name == "int"
    hidden = kernel.member(queue, "hidden").type.element
    assert hidden.size == 0
    with pytest.raises(NotFound, match="only declares struct hidden"):
        kernel.member(hidden, "x")


@pytest.mark.parametrize(
    ("name", "c_name", "size"),
    [
        ("struct queue", "struct queue", 72),
        ("queue", "struct queue", 72),
        ("struct queue *", "struct queue *", 8),
        ("const struct queue **", "struct queue **", 8),
        ("enum state", "enum state", 4),
        ("u64", "long unsigned int", 8),
        ("unsigned long", "long unsigned int", 8),
        ("char *", "char *", 8),
        ("void *", "void *", 8),
        ("void", "void", 0),
    ],
)
def test_types_by_their_c_name(kernel, name, c_name, size):
    type_ = kernel.type_named(name)
    assert (type_.c_name, type_.size) == (c_name, size)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda t: t.type_named("struct queu"), r"no struct 'queu' \(did you mean queue\?\)"),
        (lambda t: t.type_named("union queue"), r"no union 'queue'"),
        (lambda t: t.type_named("quue"), r"no type 'quue' \(did you mean queue\?\)"),
        (
            lambda t: t.member(t.type_named("queue"), "disc"),
            r"struct queue has no member 'disc' \(did you mean disk\?\)",
        ),
        (lambda t: t.member(t.type_named("int"), "x"), r"int has no member 'x': it is not a struct"),
        (lambda t: t.enumerator("BUSSY"), r"no enumerator 'BUSSY' \(did you mean BUSY\?\)"),
        (lambda t: t.enumerator("BUSY", "nvme_state"), "enum nvme_state has no enumerator 'BUSY'"),
        (lambda t: t.function("submitt"), r"no function 'submitt' \(did you mean submit\?\)"),
        (lambda t: t.raw_tracepoint("strt"), r"no raw tracepoint 'strt' \(did you mean start\?\)"),
        (lambda t: t.tracepoint_format("block", "strt"), "no tracepoint block:strt"),
    ],
)
def test_what_is_missing_names_the_closest(kernel, ask, message):
    with pytest.raises(NotFound, match=message):
        ask(kernel)


@pytest.mark.parametrize(
    ("struct", "path", "there"),
    [
        ("struct queue", "disk", True),
        ("struct queue", "disk.name", True),
        ("struct queue", "disk[2].name[31]", True),
        ("struct queue", "disk.nme", False),
        ("struct queue", "hidden.x", False),
        ("struct queue", "later.x", True),
        ("struct quee", "disk", False),
        ("struct nvme", "queue.disk.major", True),
    ],
)
def test_has_field_walks_through_pointers(kernel, struct, path, there):
    assert kernel.has_field(struct, path) is there


def test_paths_inside_one_struct(kernel):
    member = kernel.struct_member("struct queue", "counts[0][1]")
    assert (member.type.name, member.offset) == ("long unsigned int", 48)
    assert kernel.struct_size("struct disk") == 40
    with pytest.raises(InvalidValue, match="leads through a pointer, struct disk \\*"):
        kernel.struct_member("struct queue", "disk.name")
    with pytest.raises(InvalidValue, match="index 1 where there is long unsigned int\\[2\\]\\[1\\]"):
        kernel.struct_member("struct queue", "counts[1]")
    with pytest.raises(InvalidValue, match="is not a path"):
        kernel.has_field("struct queue", "disk..name")


def test_the_enum_of_an_enumerator(kernel):
    """Its name, with those of the kernel alone."""
    assert kernel.enum_of("BUSY") == "state"
    assert kernel.enum_of("NVME_LIVE") == kernel.enum_of("BUSSY") == ""


def test_enumerators_of_any_enum_or_one(kernel):
    assert (
        kernel.enumerator("BUSY") == kernel.enumerator("BUSY", "state") == kernel.enumerator("BUSY", "enum state") == 5
    )
    assert kernel.enumerator("NVME_LIVE") == kernel.enumerator("NVME_LIVE", "nvme_state") == 3


def test_a_function_has_named_parameters(kernel):
    function = kernel.function("submit")
    assert [(p.name, p.type.c_name, p.nullable) for p in function.parameters] == [
        ("q", "struct queue *", False),
        ("key", "struct disk *", True),
    ]
    assert (function.variadic, function.returns.c_name, function.module) == (True, "int", "")


def test_a_raw_tracepoint_has_named_arguments_and_an_id(kernel):
    tracepoint = kernel.raw_tracepoint("start")
    assert [(p.name, p.nullable) for p in tracepoint.parameters] == [("q", False), ("disk", True)]
    assert kernel.btf().type_by_id(tracepoint.btf_id).name == "btf_trace_start"
    assert kernel.raw_tracepoint_parameters("start") == tracepoint.parameters


def test_raw_tracepoints_by_a_pattern(kernel):
    """Of the kernel and its modules, or of those that the pattern names."""
    assert kernel.raw_tracepoints("*") == kernel.raw_tracepoints("*:*") == ("nvme_sq", "start")
    assert kernel.raw_tracepoints("nv*") == kernel.raw_tracepoints("nvme:*") == ("nvme_sq",)
    assert kernel.raw_tracepoints("vmlinux:*") == ("start",)
    assert kernel.raw_tracepoints("other:*") == kernel.raw_tracepoints("vmlinux:nv*") == ()


def test_tracepoints_by_a_pattern(kernel):
    assert kernel.tracepoint_categories("b?o*") == ("block",)
    assert kernel.tracepoint_categories("*") == ("block", "bus")
    assert kernel.tracepoints("block", "*a*") == ("start",)
    for ask in (lambda: LiveTarget().tracepoints("block", "*"), lambda: LiveTarget().tracepoint_categories("*")):
        with pytest.raises(NotSupported, match="no list of the kernel's tracepoints"):
            ask()


def test_modules_are_searched_for_what_vmlinux_lacks(kernel):
    """Their own types say so, vmlinux's types that they use do not."""
    tracepoint = kernel.raw_tracepoint("nvme_sq")
    nvme = tracepoint.parameters[0].type.element
    assert (tracepoint.module, nvme.module, nvme.key) == ("nvme", "nvme", f"struct nvme#{nvme.id}@nvme")
    queue = kernel.member(nvme, "queue").type.element
    assert (queue.module, queue) == ("", kernel.type_named("struct queue"))
    assert kernel.function("nvme_submit").module == "nvme"
    assert kernel.btf("nvme").type_by_id(tracepoint.btf_id).name == "btf_trace_nvme_sq"


def test_modules_are_read_only_as_far_as_the_search_goes():
    """What vmlinux has, of any kind, costs no module; later ones are asked for when earlier ones lack the name."""
    base, asked = vmlinux(), []

    def modules():
        for name in ("first", "second", "third"):
            asked.append(name)
            b = BtfBuilder(base)
            b.add_struct(f"of_{name}", 4, [("x", 1, 0, 0)])
            b.add_typedef("queue", 1)
            yield name, Btf(b.to_bytes(), base)

    target = LiveTarget(btf=lambda: base, modules=modules)
    assert target.type_named("queue").kind == "struct"
    assert target.enumerator("BUSY") == 5
    assert asked == []
    assert target.type_named("struct of_second").module == "second"
    assert target.type_named("struct of_first").module == "first"
    assert asked == ["first", "second"]
    assert not target.has_field("struct nowhere", "x")
    assert asked == ["first", "second", "third"]


def test_a_tracepoint_format_is_parsed_once(kernel):
    first = kernel.tracepoint_format("block", "start")
    assert first is kernel.tracepoint_format("block", "start")
    assert first.field("comm").length == 16


def test_without_btf_the_error_says_what_the_kernel_lacks():
    target = LiveTarget()
    for ask in (
        lambda: target.type_named("struct queue"),
        lambda: target.has_field("struct queue", "disk"),
        lambda: target.raw_tracepoint("start"),
        lambda: target.enumerator("BUSY"),
    ):
        with pytest.raises(NotSupported, match="CONFIG_DEBUG_INFO_BTF"):
            ask()
    with pytest.raises(NotSupported, match="no tracepoint formats"):
        target.tracepoint_format("block", "start")
    assert not target.has("isa:v4")


def test_btf_is_not_asked_for_until_a_type_is():
    target = LiveTarget(btf=lambda: pytest.fail("asked too early"), modules=lambda: pytest.fail("asked too early"))
    assert target.arch == "x86_64"
    assert not target.has("isa:v4")


def test_kernel_types_are_values():
    """Equal by content, so that signatures can be compared."""
    a = KernelType("pointer", 8, element=KernelType("struct", 72, "queue", id=3))
    b = KernelType("pointer", 8, element=KernelType("struct", 72, "queue", id=3))
    assert len({a, b}) == 1
    assert KernelParameter("q", a) == KernelParameter("q", b)
