"""`pyebpf list PATTERN` without a kernel: patterns, what they match on a small machine, types, lines and JSON."""

from __future__ import annotations

import json

import pytest

from pyebpf.btf import Btf, BtfBuilder, Kind
from pyebpf.cli import attach_points as command
from pyebpf.cli.report import UsageError
from pyebpf.errors import InvalidValue, NotFound, NotSupported
from pyebpf.runtime.attach_point_values import values_of
from pyebpf.runtime.attach_points import BY_NAME, KINDS, AttachPoint, AttachPoints, parse_pattern
from pyebpf.target import LiveTarget
from pyebpf.types.tracepoint import parse_format
from tests.target.conftest import FORMAT, module, vmlinux

EVENTS = {
    "block": ("start", "start_late"),
    "ftrace": ("print",),
    "tcp": ("tcp_probe", "tcp_reset"),
}
#: Functions of the small machine: those that BTF has, one that it has not, one that a probe would hang on.
FUNCTIONS = ("submit", "finish", "nvme_submit", "assembled", "rcu_read_lock")


def types():
    base = vmlinux()
    b = BtfBuilder(base)
    integer, character = (base.find(name, {Kind.INT})[0] for name in ("int", "char"))
    text = b.add_ptr(b.add_const(character))
    b.add_func("finish", b.add_func_proto(0, [("path", text), ("flags", integer)]))
    return base, Btf(b.to_bytes(), base)


class Machine(AttachPoints):
    """The small machine of tests/target, with the features of a kernel that is named."""

    def __init__(self, *features):
        super().__init__()
        base, more = types()
        self.modules = {"more": more, "nvme": module(base)}
        self.base = base
        self.target = LiveTarget(
            btf=lambda: base,
            modules=self.modules.items,
            formats=lambda *_: FORMAT,
            features=lambda name: name in features,
            functions=self.matching,
        )

    @staticmethod
    def matching(pattern):
        from fnmatch import filter as matching

        _, colon, name = pattern.rpartition(":")
        return tuple(f"nvme:{each}" if colon else each for each in matching(FUNCTIONS, name))

    def tracefs(self):
        return self

    @staticmethod
    def categories():
        return tuple(EVENTS)

    @staticmethod
    def events(category):
        return EVENTS[category]

    def _types(self):
        yield self.base
        yield from self.modules.values()


@pytest.fixture
def forbidden(monkeypatch):
    """The kernel's list of functions that kprobes keep away from."""
    monkeypatch.setattr("pyebpf.kernel.functions.kprobe_blacklist", lambda: frozenset({"assembled"}))


def listed(machine, pattern):
    return [str(each) for each in machine.find(parse_pattern(pattern)).points]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("t:sched:*", ("tracepoint", "sched", "*")),
        ("tracepoint:sched:sched_switch", ("tracepoint", "sched", "sched_switch")),
        ("t:sched_*", ("tracepoint", "", "sched_*")),
        ("rt:sched_*", ("raw_tracepoint", "", "sched_*")),
        ("rawtracepoint:sched_*", ("raw_tracepoint", "", "sched_*")),
        ("k:tcp_*", ("kprobe", "", "tcp_*")),
        ("kr:nf_tables:nft_*", ("kprobe", "nf_tables", "nft_*")),
        ("fentry:tcp_*", ("fentry", "", "tcp_*")),
        ("f:tcp_[a-c]*", ("fentry", "", "tcp_[a-c]*")),
        ("u:libc.so.6:get*", ("uprobe", "libc.so.6", "get*")),
        ("u:/bin/true", ("uprobe", "/bin/true", "*")),
        ("usdt:python3:*", ("usdt", "python3", "*")),
        ("usdt:python3:python:gc__*", ("usdt", "python3", "python:gc__*")),
        ("*tcp_conn*", ("", "", "*tcp_conn*")),
        ("p::vfs_read", ("kprobe", "", "vfs_read")),
        ("r::vfs_*", ("kprobe", "", "vfs_*")),
        ("p:c:malloc", ("uprobe", "c", "malloc")),
        ("r:c:", ("uprobe", "c", "*")),
    ],
)
def test_patterns(text, parts):
    """A kind's name or letter, a category, module or file, and a name."""
    assert parse_pattern(text) == (text, *parts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'': write a pattern, such as '*tcp_conn*'"),
        ("k:", "'k:': write 'k:FUNCTION'"),
        ("t::x", "'t::x': write 't:CATEGORY:NAME'"),
        ("t:a:b:c", "'t:a:b:c': write 't:CATEGORY:NAME'"),
        ("rt:sched:x", "'rt:sched:x': write 'rt:NAME'"),
        ("u::x", "'u::x': write 'u:FILE:FUNCTION'"),
        ("p:vfs_read", "'p:vfs_read': write 'p::FUNCTION' or 'k:FUNCTION', 'p:FILE:FUNCTION' or 'u:FILE:…'"),
        ("r::", "'r::': write 'r::FUNCTION' or 'k:FUNCTION', 'r:FILE:FUNCTION' or 'u:FILE:…'"),
        ("k:tcp\n", "'k:tcp\\n': nothing in the kernel has such a name"),
        ("kprob:x:y", "'kprob:x:y': there is no kind 'kprob' (did you mean kprobe or uprobe or kretprobe?)"),
        (
            "sched:*",
            (
                "'sched:*': there is no kind 'sched': kinds are tracepoint, raw_tracepoint, kprobe, fentry, uprobe, "
                "usdt; tracepoints are 't:sched:*'"
            ),
        ),
    ],
)
def test_what_is_no_pattern_is_told(text, message):
    """With the form that it should have."""
    with pytest.raises(InvalidValue) as caught:
        parse_pattern(text)
    assert str(caught.value) == message


def test_no_two_kinds_share_a_name():
    """Each kind has its own name, and each letter one kind."""
    assert len(BY_NAME) == sum(1 + len(kind.aliases) for kind in KINDS.values())


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("t:block:*", ["tracepoint:block:start", "tracepoint:block:start_late"]),
        ("t:*:start", ["tracepoint:block:start"]),
        ("t:tcp*", ["tracepoint:tcp:tcp_probe", "tracepoint:tcp:tcp_reset"]),
        ("t:*_res?t", ["tracepoint:tcp:tcp_reset"]),
        ("rt:*", ["raw_tracepoint:nvme_sq", "raw_tracepoint:start"]),
        ("k:*submit", ["kprobe:nvme_submit", "kprobe:submit"]),
        ("k:nvme:nvme_*", ["kprobe:nvme:nvme_submit"]),
        ("k:*", ["kprobe:finish", "kprobe:nvme_submit", "kprobe:submit"]),
        ("f:*", ["fentry:finish", "fentry:nvme_submit"]),
        ("*t*t", ["tracepoint:block:start", "tracepoint:tcp:tcp_reset", "raw_tracepoint:start"]),
    ],
)
@pytest.mark.usefixtures("forbidden")
def test_what_a_pattern_matches(pattern, found):
    """Not ftrace's own records, nor functions that hang, that are forbidden to kprobes, or have variable arguments."""
    assert listed(Machine("attach:kprobe", "attach:fentry"), pattern) == found


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("t:blok:*", "no category of tracepoints matches 'blok' (did you mean block?)"),
        ("t:block:stat*", "no tracepoint matches 't:block:stat*' (did you mean start?)"),
        ("rt:stat", "no raw tracepoint matches 'rt:stat' (did you mean start?)"),
        ("k:assemble?", "the kernel forbids probes on all that 'k:assemble?' matches (its kprobes blacklist)"),
        ("f:submi?", "the kernel's BTF has no function that 'f:submi?' matches"),
        ("*strat*", "nothing in the kernel matches '*strat*' (did you mean start or start_late?)"),
    ],
)
@pytest.mark.usefixtures("forbidden")
def test_what_matches_nothing_has_the_closest_name(pattern, message):
    """One line, which says why where there is something that probes cannot be put on."""
    with pytest.raises(NotFound) as caught:
        listed(Machine("attach:kprobe", "attach:fentry"), pattern)
    assert str(caught.value) == message


def test_a_kernel_without_kprobes_lists_the_rest_and_says_why():
    """For all kinds together; asked for by its kind, nothing is there to list."""
    machine = Machine("attach:fentry")
    found = machine.find(parse_pattern("*t*t"))
    assert [str(each) for each in found.points] == [
        "tracepoint:block:start",
        "tracepoint:tcp:tcp_reset",
        "raw_tracepoint:start",
    ]
    assert found.left_out == ["kprobe: this kernel has no kprobes"]
    with pytest.raises(NotSupported, match=r"^this kernel has no kprobes$"):
        listed(machine, "k:*")


def declarations(machine, point):
    values, result = values_of(point, machine.target)
    shown = [(each.name, each.type, each.size, each.declaration) for each in values]
    return shown, result and (result.type, result.size)


def test_fields_of_a_tracepoint():
    """Arrays with their length, text of variable place without a size."""
    assert declarations(Machine(), AttachPoint("tracepoint", "block", "start")) == (
        [
            ("dev", "dev_t", 4, "dev_t dev"),
            ("comm", "char[16]", 16, "char comm[16]"),
            ("cmd", "char[]", None, "char cmd[]"),
        ],
        None,
    )


def test_a_pointer_to_a_function_is_declared_around_its_name():
    """As the kernel's text has it."""
    text = FORMAT.replace("field:dev_t dev;", "field:int (*dev)(int);").replace("dev_t", "int")
    machine = Machine()
    machine.target = LiveTarget(formats=lambda *_: text)
    assert parse_format(text).fields[0].name == "dev"
    assert declarations(machine, AttachPoint("tracepoint", "block", "start"))[0][0][3] == "int (*dev)(int)"


@pytest.mark.parametrize(
    ("point", "values"),
    [
        (
            AttachPoint("raw_tracepoint", "", "start"),
            (
                [
                    ("q", "struct queue *", 8, "struct queue *q"),
                    ("disk", "const struct disk *", 8, "const struct disk *disk"),
                ],
                None,
            ),
        ),
        (
            AttachPoint("raw_tracepoint", "", "nvme_sq"),
            ([("nvme", "struct nvme *", 8, "struct nvme *nvme")], None),
        ),
        (
            AttachPoint("fentry", "", "finish"),
            ([("path", "const char *", 8, "const char *path"), ("flags", "int", 4, "int flags")], None),
        ),
        (
            AttachPoint("kprobe", "nvme", "nvme_submit"),
            ([("nvme", "struct nvme *", 8, "struct nvme *nvme")], ("int", 4)),
        ),
        (
            AttachPoint("kprobe", "", "__x64_sys_start"),
            ([("cmd", "char[]", None, "char cmd[]")], None),
        ),
        (
            AttachPoint("usdt", "/bin/x", "p:n", (7, 9), ("-4@112(%rsp) 8@%rax", "-4@%eax 8@%rdi")),
            ([("arg0", "s32", 4, "s32 arg0"), ("arg1", "u64", 8, "u64 arg1")], None),
        ),
    ],
)
def test_arguments_and_results(point, values, monkeypatch):
    """With the kernel's own types, qualified; a system call's by its tracepoint, a USDT probe's by its assembler."""
    from pyebpf.arch import architecture

    monkeypatch.setattr("pyebpf.arch.host", lambda: architecture("x86_64"))
    assert declarations(Machine(), point) == values


def test_a_function_that_btf_lacks_has_no_arguments_to_tell():
    """None is said of them, and none of the result."""
    assert values_of(AttachPoint("kprobe", "", "assembled"), Machine().target) == (None, None)


@pytest.fixture
def machine(monkeypatch, forbidden):
    monkeypatch.setattr(command, "AttachPoints", lambda _: Machine("attach:kprobe"))


def test_a_process_has_a_number_above_0():
    """Other numbers are refused before anything is looked for."""
    with pytest.raises(UsageError, match=r"^0 is not a process$"):
        command.run_list(["-p", "0", "u:c:getenv"])


@pytest.mark.usefixtures("machine")
def test_lines_with_types(capsys):
    """Declarations below their attach point, sizes below each other; an attach point that two patterns match, once."""
    assert command.run_list(["-v", "t:block:start", "t:*:start", "k:nvme_submit", "k:finish"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines() == [
        "tracepoint:block:start",
        "    dev_t dev        4 bytes",
        "    char comm[16]   16 bytes",
        "    char cmd[]     variable",
        "kprobe:nvme_submit",
        "    struct nvme *nvme    8 bytes",
        "    returns int          4 bytes",
        "kprobe:finish",
        "    const char *path    8 bytes",
        "    int flags           4 bytes",
    ]


@pytest.mark.usefixtures("machine")
def test_json_has_a_line_an_attach_point(capsys):
    """What -v prints, and the parts of the name; what is not known is null."""
    assert command.run_list(["--json", "t:block:start", "rt:nvme_sq", "k:nvme:nvme_submit", "k:finish"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    argument = {"name": "nvme", "type": "struct nvme *", "size": 8}
    assert lines == [
        {
            "attach_point": "tracepoint:block:start",
            "kind": "tracepoint",
            "category": "block",
            "name": "start",
            "fields": [
                {"name": "dev", "type": "dev_t", "size": 4},
                {"name": "comm", "type": "char[16]", "size": 16},
                {"name": "cmd", "type": "char[]", "size": None},
            ],
        },
        {
            "attach_point": "raw_tracepoint:nvme_sq",
            "kind": "raw_tracepoint",
            "name": "nvme_sq",
            "arguments": [argument],
        },
        {
            "attach_point": "kprobe:nvme:nvme_submit",
            "kind": "kprobe",
            "module": "nvme",
            "name": "nvme_submit",
            "arguments": [argument],
            "returns": {"type": "int", "size": 4},
        },
        {
            "attach_point": "kprobe:finish",
            "kind": "kprobe",
            "module": "",
            "name": "finish",
            "arguments": [
                {"name": "path", "type": "const char *", "size": 8},
                {"name": "flags", "type": "int", "size": 4},
            ],
            "returns": None,
        },
    ]


@pytest.mark.usefixtures("machine")
def test_a_pattern_without_a_match_is_status_1_and_the_others_are_listed(capsys):
    """The line is on standard error."""
    assert command.run_list(["t:block:stat", "f:*", "t:tcp:*t"]) == 1
    out, err = capsys.readouterr()
    assert out == "tracepoint:tcp:tcp_reset\n"
    assert err.splitlines() == [
        "pyebpf list: no tracepoint matches 't:block:stat' (did you mean start?)",
        "pyebpf list: f:*: this kernel has no trampolines for programs, or refuses them",
    ]
