"""Tracepoint formats: real ones of Linux 6.18, odd ones, and text that is none."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from pyebpf.errors import FormatError, NotFound
from pyebpf.types.tracepoint import TracepointField, TracepointFormat, parse_format
from tests.support.errors import only_own_errors

FORMATS = {path.stem: path.read_text() for path in sorted((Path(__file__).parent / "formats").iterdir())}


def one(declaration, *, offset=8, size=8, signed=0):
    """The only field of a format that declares it."""
    line = f"\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};"
    return parse_format(f"name: x\nID: 1\nformat:\n{line}\n").fields[0]


def test_a_real_format_is_read_whole():
    parsed = parse_format(FORMATS["block.block_rq_issue"])
    assert (parsed.name, parsed.id, parsed.size) == ("block_rq_issue", 2104, 64)
    assert [(field.name, field.offset) for field in parsed.common] == [
        ("common_type", 0),
        ("common_flags", 2),
        ("common_preempt_count", 3),
        ("common_pid", 4),
    ]
    assert parsed.fields == (
        TracepointField("dev", "dev_t", 8, 4, signed=False),
        TracepointField("sector", "sector_t", 16, 8, signed=False),
        TracepointField("nr_sector", "unsigned int", 24, 4, signed=False),
        TracepointField("bytes", "unsigned int", 28, 4, signed=False),
        TracepointField("ioprio", "unsigned short", 32, 2, signed=False),
        TracepointField("rwbs", "char", 34, 10, signed=False, length=10),
        TracepointField("comm", "char", 44, 16, signed=False, length=16),
        TracepointField("cmd", "char", 60, 4, signed=False, length=0, location="__data_loc"),
    )


@pytest.mark.parametrize("name", FORMATS)
def test_every_field_line_of_real_formats_gives_a_field(name):
    parsed = parse_format(FORMATS[name])
    assert len(parsed.common) + len(parsed.fields) == FORMATS[name].count("\tfield:")
    assert parsed.name == name.partition(".")[2]
    for field in parsed.fields:
        if field.length and field.element is not None:
            assert field.length * field.element[0] == field.size


def test_a_system_call_argument_keeps_its_type_in_a_slot_of_8_bytes():
    parsed = parse_format(FORMATS["syscalls.sys_enter_openat"])
    dfd, filename, mode = (parsed.field(name) for name in ("dfd", "filename", "mode"))
    assert (dfd.size, dfd.element, dfd.pointer) == (8, (4, True), False)
    assert (filename.type, filename.element, filename.pointer) == ("const char *", (8, False), True)
    assert (mode.type, mode.element) == ("umode_t", (2, False))


@pytest.mark.parametrize(
    ("declaration", "size", "expected"),
    [
        ("char comm[16]", 16, ("comm", "char", 16, None)),
        ("unsigned long args[6]", 48, ("args", "unsigned long", 6, None)),
        ("unsigned long args[]", 0, ("args", "unsigned long", 0, None)),
        ("u8 grid[2][3]", 6, ("grid", "u8", 6, None)),
        ("__u8 saddr[sizeof(struct sockaddr_in6)]", 28, ("saddr", "__u8", 28, None)),
        ("u32 words[MAX_WORDS]", 28, ("words", "u32", 7, None)),
        ("__data_loc char[] cmd", 4, ("cmd", "char", 0, "__data_loc")),
        ("__rel_loc u64[] stack", 4, ("stack", "u64", 0, "__rel_loc")),
        ("__data_loc cpumask_t cpumask", 4, ("cpumask", "cpumask_t", 0, "__data_loc")),
        ("const char *const * argv", 8, ("argv", "const char *const *", None, None)),
        ("void *ptr", 8, ("ptr", "void *", None, None)),
        ("struct x * y", 8, ("y", "struct x *", None, None)),
        ("void __seg_gs * ptr", 8, ("ptr", "void __seg_gs *", None, None)),
        ("int (*call)(void *, int)", 8, ("call", "int (*call)(void *, int)", None, None)),
    ],
)
def test_declarations(declaration, size, expected):
    field = one(declaration, size=size)
    assert (field.name, field.type, field.length, field.location) == expected


@pytest.mark.parametrize(
    ("declaration", "size", "signed", "element"),
    [
        ("s64 x", 8, 1, (8, True)),
        ("const unsigned int x", 4, 0, (4, False)),
        ("enum reason x", 4, 0, (4, False)),
        ("pid_t x", 4, 1, (4, True)),
        ("struct pair x[4]", 24, 0, (6, False)),
        ("struct pair x[5]", 24, 0, None),
        ("__data_loc char[] x", 4, 0, (1, False)),
        ("__data_loc cpumask_t x", 4, 0, None),
        ("void *const x", 8, 0, (8, False)),
        ("int (*x)(void)", 8, 0, (8, False)),
    ],
)
def test_elements(declaration, size, signed, element):
    """From the C name where that tells, else from the kernel's size and sign."""
    assert one(declaration, size=size, signed=signed).element == element


def test_what_arguments_point_to_is_no_field():
    """Since Linux 6.19 records of system calls end with it, but not those that programs are given."""
    text = (
        "name: sys_enter_openat\nID: 700\nformat:\n"
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
        "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n"
        "\tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;\n"
        "\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;\n"
        "\tfield:__data_loc char[] __filename_val;\toffset:48;\tsize:4;\tsigned:0;\n\nprint fmt: x\n"
    )
    assert [each.name for each in parse_format(text).fields] == ["__syscall_nr", "dfd", "filename"]


def test_what_newer_kernels_add_to_a_line_does_no_harm():
    text = "name: x\nID: 1\nnews: 3\nformat:\n\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\tcolour:7;\tx:y;\n"
    assert parse_format(text).fields == (TracepointField("a", "int", 8, 4, signed=True),)


def test_the_print_format_is_not_read():
    text = "name: x\nID: 1\nformat:\n\nprint fmt: 1\n\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\nID: z\n"
    assert parse_format(text) == TracepointFormat("x", 1, (), ())


def test_an_unknown_field_names_the_closest():
    parsed = parse_format(FORMATS["sched.sched_switch"])
    with pytest.raises(NotFound, match=r"sched_switch has no field 'prev_com' \(did you mean prev_comm"):
        parsed.field("prev_com")


def test_common_fields_are_out_of_reach():
    with pytest.raises(NotFound, match="programs can't read 'common_pid'"):
        parse_format(FORMATS["sched.sched_switch"]).field("common_pid")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks its name or its ID"),
        ("name: x\nformat:\n", "lacks its name or its ID"),
        ("name: x\nID: twelve\n", "'ID: twelve' has no number"),
        ("name: x\nID: -1\n", "has no number"),
        ("name: x\nID: 1\n\tfield:int a;\tsize:4;\n", "'int a' has no offset or size"),
        ("name: x\nID: 1\n\tfield:int a;\toffset:8;\tsize:70000;\n", "'int a' has no offset or size"),
        ("name: x\nID: 1\n\tfield:int a;\toffset:-8;\tsize:4;\n", "'int a' has no offset or size"),
        ("name: x\nID: 1\n\tfield:;\toffset:8;\tsize:4;\n", "'' declares no field"),
        ("name: x\nID: 1\n\tfield:int 9;\toffset:8;\tsize:4;\n", "'int 9' declares no field"),
    ],
)
def test_garble_is_refused(text, message):
    with pytest.raises(FormatError, match=message):
        parse_format(text)


@given(st.data())
@settings(max_examples=200)
def test_a_damaged_format_is_read_or_refused(data):
    text = FORMATS[data.draw(st.sampled_from(sorted(FORMATS)))]
    start, stop = sorted(data.draw(st.integers(0, len(text))) for _ in range(2))
    try:
        parsed = parse_format(text[:start] + data.draw(st.text(max_size=20)) + text[stop:])
    except FormatError:
        return
    for field in parsed.fields:
        assert 0 <= field.offset <= 65536
        _ = field.element, field.pointer


@given(st.text())
def test_any_text_is_read_or_refused(text):
    only_own_errors(parse_format, text, kinds=FormatError)
    field = f"name: x\nID: 1\n\tfield:{text};\toffset:8;\tsize:4;\tsigned:0;\n"
    only_own_errors(parse_format, field, kinds=FormatError)


@pytest.mark.parametrize("evil", ["a" * 10**6, "a " * 10**5 + "!", "[]" * 10**5 + "a", " " * 999 + "!", "a[" * 499])
def test_long_nonsense_is_refused_at_once(evil):
    started = time.process_time()
    for text in (evil, f"\tfield:{evil};\toffset:1;\tsize:1;", f"name:x\nID:{evil}"):
        with pytest.raises(FormatError):
            parse_format(text)
    assert time.process_time() - started < 10
