"""`&$variable`, and what a division by zero gives, as bpftrace 0.27 has them."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

import pytest

from pyebpf.script import Script
from tests.support.scripts import printed, printed_by

if TYPE_CHECKING:
    from pyebpf.testing import Simulation


@pytest.mark.parametrize(
    ("statements", "text"),
    [
        ("$a = 5; $b = &$a; $a = 6; print(*$b);", "6\n"),
        ("$a = 5; $b = &$a; print((*$b, $a, *$b == $a));", "(5, 5, true)\n"),
        ('$a = (1, "hello", 2); print(*(&$a));', "(1, hello, 2)\n"),
        ('$a = "hello"; $b = (int8 *)&$a; printf("%c %c\\n", *$b, *++$b);', "h e\n"),
        ('$a = "hello"; $b = &$a; printf("%s\\n", *$b);', "hello\n"),
        ('$c = (a=1, b="x"); $d = &$c; print(*$d); print((*$d).b); print($d.b);', "{ .a = 1, .b = x }\nx\nx\n"),
        ("$x = (uint8)200; $y = &$x; $x += 1; print(*$y); $x++; print(*$y);", "201\n202\n"),
        ("$n = 0; $p = &$n; while ($n < 5) { $n++; } print(*$p);", "5\n"),
    ],
)
def test_a_variable_is_read_by_its_address(statements: str, text: str) -> None:
    """As it is when it is read; a text by its characters, too."""
    assert printed(f"BEGIN {{ {statements} }}") == text


@pytest.mark.parametrize("whose", ["user", "kernel"])
def test_a_number_leads_to_whose_memory_it_says(whose: str) -> None:
    """Kept by one probe and followed by another: a process's address, and one of the kernel's."""
    data = pack("<QQ", 0x70656564, 7)  # "deep"

    def events(kernel: Simulation) -> None:
        place = (kernel.user if whose == "user" else kernel.kernel)(data)
        kernel.tracepoint("syscalls:sys_enter_openat", filename=place)

    reads = (
        "print(*(uint32 *)@a == 0x70656564); print(((struct pair *)@a)->b); print(((uint8 *)@a)[3]); "
        'print(str(@a)); print(str(@a, @n)); printf("%r\\n", buf(@a, 2)); '
    )
    begin = "struct pair { u64 a; u64 b; }; tracepoint:syscalls:sys_enter_openat { @a = (uint64)args.filename; @n = 3; "
    text = f"{begin} print(((struct pair *)@a)->b); }} END {{ {reads} clear(@a); clear(@n); }}"
    assert printed(text, events) == "7\ntrue\n7\n112\ndeep\nde\nde\n"


def test_a_map_keeps_addresses_of_both() -> None:
    """Pointers to a process's memory and to the kernel's, in one map."""

    def events(kernel: Simulation) -> None:
        kernel.tracepoint("syscalls:sys_enter_openat", dfd=1, filename=kernel.user(b"one\0"))
        kernel.tracepoint("syscalls:sys_enter_openat", dfd=2, filename=kernel.kernel(b"two\0"))

    text = (
        "tracepoint:syscalls:sys_enter_openat /args.dfd == 1/ { @p[1] = args.filename; } "
        "tracepoint:syscalls:sys_enter_openat /args.dfd == 2/ { @p[2] = kptr((int8 *)(uint64)args.filename); } "
        "END { print(str(@p[1])); print(str(@p[2])); clear(@p); }"
    )
    assert printed(text, events) == "one\ntwo\n"


@pytest.mark.parametrize("operator", ["/", "%"])
def test_a_division_by_zero_gives_one_and_a_warning(operator: str, capsys: pytest.CaptureFixture[str]) -> None:
    """At its place, in bpftrace's words; other divisions are as they were."""
    text = f"BEGIN {{ @z = 0; print((uint64)10 {operator} (uint64)@z); @z = 4; print(10 {operator} @z); clear(@z); }}"
    assert printed(text) == f"1\n{10 // 4 if operator == '/' else 2}\n"
    assert capsys.readouterr().err == (
        "<script>:1:23-46: WARNING: Divide or modulo by 0 detected. This can lead to unexpected results. "
        f"1 is being used as the result.\n{text}\n{' ' * 22}{'~' * 23}\n"
    )


def test_the_warning_as_json() -> None:
    """An object with the place."""
    script = Script("BEGIN { $z = 0; print(10 % $z); }")
    message = "Divide or modulo by 0 detected. This can lead to unexpected results. 1 is being used as the result."
    assert printed_by(script, json=True).splitlines() == [
        f'{{"type": "runtime_error", "msg": "{message}", "filename": "<script>", "line": 1, "col": 23}}',
        '{"type": "value", "data": 1}',
    ]


def test_settings_are_read_by_name() -> None:
    """By config(), as the script or the environment has them."""
    settings = "print((config().max_strlen, config().stack_mode)); print(__builtin_config.max_map_keys);"
    text = f"config = {{ max_strlen = 80 }} BEGIN {{ {settings} }}"
    assert printed(text) == "(80, bpftrace)\n4096\n"


def test_the_mode_of_the_processor() -> None:
    """BEGIN and probes of processes are theirs, those of the kernel are not."""
    text = "BEGIN, END { print(usermode); } tracepoint:syscalls:sys_enter_openat { print(usermode()); }"
    assert printed(text, lambda kernel: kernel.tracepoint("syscalls:sys_enter_openat")) == "1\n0\n1\n"


def test_a_map_has_an_address() -> None:
    """Another one than another map has."""
    assert printed("BEGIN { @a = 5; @b[1] = count(); print((&@a != 0, &@a == &@b)); clear(@a); clear(@b); }") == (
        "(true, false)\n"
    )
