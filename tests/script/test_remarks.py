"""Warnings about a script in bpftrace's words: what is left out, unused or never reached."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError, NotFound
from pyebpf.script import Script
from tests.dsl.fake_target import FakeTarget
from tests.support.scripts import printed, printed_by


def remarks(text: str) -> list[str]:
    """The warnings about a script that was compiled."""
    script = Script(text)
    script.compile(FakeTarget())
    return list(script.remarks)


def test_attach_points_that_are_missing_are_left_out() -> None:
    """With a warning each, and one for a block that has none left; or without a word."""
    points = "tracepoint:syscalls:nonsense,tracepoint:syscalls:sys_enter_openat { print(1); }"
    text = f"config = {{ missing_probes = warn }} {points}"
    place, mark = "<script>:1:36-64: WARNING:", f"\n{text}\n{' ' * 35}{'~' * 28}"
    assert remarks(text) == [f"{place} No matches for tracepoint syscalls:nonsense. Skipping.{mark}"]
    assert remarks(text.replace("warn", "ignore")) == []
    alone = "config = { missing_probes = warn } tracepoint:syscalls:nonsense { } BEGIN { print(7); }"
    assert [each.split("\n")[0] for each in remarks(alone)] == [
        f"{place} No matches for tracepoint syscalls:nonsense. Skipping.",
        f"{place} Probe has no valid attach points. It is being removed which may cause issues with program behavior.",
    ]
    assert printed(alone) == "7\n"
    with pytest.raises(CompileError, match="Invalid value for missing_probes, maybe: give one of error, warn, ignore"):
        Script("config = { missing_probes = maybe } BEGIN { }")


def test_patterns_of_a_list_may_match_nothing() -> None:
    """Without a word, as with bpftrace, if anything is left."""
    text = "kprobe:nosuch*, tracepoint:syscalls:nonsense*, kprobe:tcp_sendmsg { print(1); }"
    script = Script(text)
    spec = script.compile(FakeTarget())
    assert [each.name for each in spec.programs] == ["tcp_sendmsg"]
    assert list(script.remarks) == []
    for refused in ("kprobe:nosuch* { }", "kprobe:nosuch*, tracepoint:syscalls:none* { }"):
        with pytest.raises(NotFound):
            Script(refused).compile(FakeTarget())


def test_maps_have_the_types_that_missing_probes_give_them() -> None:
    """A probe that reads what one of them would write is compiled."""
    script = Script(
        "config = { missing_probes = ignore } kprobe:nosuch, kprobe:nosuch2 { @at[arg0] = nsecs; @by[arg0] = comm; } "
        'kprobe:tcp_sendmsg /@at[arg0]/ { printf("%s", @by[arg0]); @ = hist(nsecs - @at[arg0]); delete(@at[arg0]); }'
    )
    assert [each.name for each in script.compile(FakeTarget()).programs] == ["tcp_sendmsg"]


def test_functions_that_are_known_and_cannot_be_probed_are_missing() -> None:
    """BTF has them; the list of functions that can be probed has not."""

    class Kernel(FakeTarget):
        def functions(self, pattern: str) -> tuple[str, ...]:
            return tuple(name for name in super().functions(pattern) if name != "tcp_recvmsg")

    text = "config = { missing_probes = warn } kprobe:tcp_recvmsg, kprobe:tcp_sendmsg { print(1); }"
    assert Kernel().function("tcp_recvmsg")
    script = Script(text)
    spec = script.compile(Kernel())
    assert [each.name for each in spec.programs] == ["tcp_sendmsg"]
    assert [each.split("\n")[0] for each in script.remarks] == [
        "<script>:1:36-54: WARNING: No matches for kprobe tcp_recvmsg. Skipping."
    ]


def test_a_map_that_nothing_uses() -> None:
    """Its declaration is marked."""
    text = "let @a = percpuhash(1); let @b = hash(1); BEGIN { @b[1] = 1; }"
    assert remarks(text) == [f"<script>:1:1-24: WARNING: Unused map: @a\n{text}\n{'~' * 23}"]


def test_a_map_that_is_read_and_never_assigned() -> None:
    """It is 0, with a warning; one that is assigned of it has a type by that."""
    script = Script("BEGIN { @a[1] = @b; print(@a[1]); print(@b + 1); @c[@d[2]] = 1; @e = @f; @f = @e; }")
    assert printed_by(script) == "0\n1\n@a[1]: 0\n@c[0]: 1\n@e: 0\n@f: 0\n"
    assert [each.partition("WARNING: ")[2].split("\n")[0] for each in script.remarks] == [
        "@b is never assigned: it is 0",
        "@d is never assigned: it is 0",
        "@f is never assigned: it is 0",
    ]


def test_statements_that_nothing_comes_to() -> None:
    """The first one behind exit() or return, in each block."""
    text = "BEGIN { if (pid) { exit(); print(1); print(2); } return; @x = 1; }"
    assert [each.split("\n")[0] for each in remarks(text)] == [
        "<script>:1:28-37: WARNING: Unreachable statement.",
        "<script>:1:58-65: WARNING: Unreachable statement.",
    ]
    assert remarks("BEGIN { if (pid) { exit(); } print(1); while (1) { break; } }") == []


@pytest.mark.parametrize(
    ("text", "part", "found"),
    [
        ("foobar", "bar", "true"),
        ("foo", "bar", "false"),
        ("foo", "", "true"),
        ("", "x", "false"),
        ("ab", "abc", "false"),
    ],
)
def test_a_string_has_another_in_it(text: str, part: str, found: str) -> None:
    """Both known at run time only, or one of them."""
    assert (
        printed(f'BEGIN {{ $t = "{text}"; $p = "{part}"; $p = "{part}"; print(strcontains($t, $p)); }}') == f"{found}\n"
    )
    assert printed(f'BEGIN {{ $p = "{part}"; print(strcontains("{text}", $p)); }}') == f"{found}\n"


def test_a_character_by_an_index_that_is_known_at_run_time_only() -> None:
    """0 behind the string's room."""
    assert (
        printed('BEGIN { $a = "foo"; $i = (uint64)0; printf("%c", $a[$i]); $i += 10; printf("%d", $a[$i]); }') == "f0"
    )


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [
        ("let @a = hash(50000000); BEGIN { @a[1] = 1; }", 3814),
        ("config = { max_map_keys = 50000000 } BEGIN { @a[1] = 1; }", 3814),
        (
            "let @a = percpuhash(5000000); BEGIN { @a[1] = count(); }",
            343 + 5_000_000 * 8 * FakeTarget().possible_cpus // 2**20,
        ),
        ("let @a = hash(1000000); BEGIN { @a[1] = 1; }", None),
        ("config = { max_map_keys = 50000000 } BEGIN { @a = 1; }", None),
    ],
)
def test_large_maps_are_told(text: str, mebibytes: int | None) -> None:
    """The kernel makes all of their entries at once."""
    message = f"@a takes {mebibytes} MiB of the kernel's memory from the start: give it fewer entries"
    found = remarks(text)
    assert (found == []) if mebibytes is None else (message in found[0])


@pytest.mark.parametrize(
    ("body", "marked", "compared"),
    [
        ("if (nsecs < 0) { }", "nsecs < 0", "< 0"),
        ("print(0 > (uint32)tid);", "0 > (uint32)tid", "< 0"),
        ("$x = (uint64)tid; print($x >= 0);", "$x >= 0", ">= 0"),
        ("print(-1 == (uint32)tid);", "-1 == (uint32)tid", "== -1"),
    ],
)
def test_an_unsigned_number_is_never_below_zero(body: str, marked: str, compared: str) -> None:
    """What compares one so is told, since what C returns as an int is such a number."""
    (found,) = remarks(f"BEGIN {{ {body} }}")
    word = f"an unsigned number is never below 0, and this is compared by {compared}: cast it"
    assert f"WARNING: {word}" in found
    assert found.splitlines()[-1].count("~") == len(marked)


@pytest.mark.parametrize(
    "body",
    [
        "$a = nsecs; print(nsecs - $a < 0);",
        "print((int32)tid < 0); print(tid > 0); print((uint64)5 < 0); print(nsecs == 0);",
        "$n = 5; $n = nsecs; @n = nsecs; @n++; @d = nsecs - @n; $d = nsecs; $d += 1;",
    ],
)
def test_signs_that_fit_are_not_told(body: str) -> None:
    """Differences are signed, and casts tell what is meant."""
    assert remarks(f"BEGIN {{ {body} print((@n, @d)); }}" if "@n" in body else f"BEGIN {{ {body} }}") == []


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("$n = nsecs; if (cpu > 5) { $n--; } print($n);", "$n"),
        ("@n = nsecs; @n -= 1;", "@n"),
        ("$n = (uint64)18446744073709551610; $n--; print($n);", "$n"),
    ],
)
def test_a_variable_that_something_else_makes_signed_is_told(body: str, name: str) -> None:
    """Its type is that of all that is assigned to it, in whatever order."""
    (found,) = remarks(f"BEGIN {{ {body} }}")
    assert f"this is unsigned, and {name} is signed, as something else that is assigned to it is: numbers" in found
