"""Maps of scripts: what they hold after events, and how they are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyebpf.errors import CompileError
from pyebpf.script import Script
from tests.dsl.fake_target import FakeTarget
from tests.support.scripts import printed, printed_by

if TYPE_CHECKING:
    from pyebpf.testing import Simulation

OPEN = "tracepoint:syscalls:sys_enter_openat"
BAR = "@" * 52


def opens(*files: tuple[str, int]) -> object:
    """Events: files that processes open, each with a descriptor."""

    def run(kernel: Simulation) -> None:
        for name, dfd in files:
            kernel.process(pid=100 + dfd, comm=f"proc{dfd}")
            kernel.at(1000 * (dfd + 1))
            kernel.tracepoint("syscalls:sys_enter_openat", filename=name, dfd=dfd)

    return run


THREE = opens(("/a", 3), ("/b", 5), ("/a", 4))


def after(action: str, files: object = THREE, begin: str = "") -> str:
    """What a script prints whose probe does this at each open."""
    return printed(f"{OPEN} {{ {action} }} {begin}", files)  # type: ignore[arg-type]  # from `opens`


def test_counts_by_key_are_sorted_by_their_values() -> None:
    """The least first; equal ones by key."""
    assert after("@[str(args.filename)] = count();") == "@[/b]: 1\n@[/a]: 2\n"
    assert after("@n[comm, args.dfd] = args.dfd;") == "@n[proc3, 3]: 3\n@n[proc4, 4]: 4\n@n[proc5, 5]: 5\n"


def test_values_that_are_no_numbers_are_sorted_by_key() -> None:
    """Texts and tuples."""
    assert after("@[args.dfd] = str(args.filename);") == "@[3]: /a\n@[4]: /a\n@[5]: /b\n"
    assert after("@[comm] = (args.dfd, 1);") == "@[proc3]: (3, 1)\n@[proc4]: (4, 1)\n@[proc5]: (5, 1)\n"


def test_aggregations() -> None:
    """Sums, averages and extremes; an average is rounded to zero, a sum of signed numbers is signed."""
    text = after(
        "@c = count(); @s = sum(args.dfd); @a = avg(-args.dfd); @lo = min(args.dfd); @hi = max(args.dfd); "
        "@st = stats(args.dfd); @neg = sum(-args.dfd); @least = min(-args.dfd);"
    )
    assert text == (
        "@a: -4\n@c: 3\n@hi: 5\n@least: -5\n@lo: 3\n@neg: -12\n@s: 12\n@st: { .count = 3, .average = 4, .total = 12 }\n"
    )


def test_extremes_may_be_the_last_number_of_64_bits() -> None:
    """The least that is greatest and the greatest that is least, also with keys; zero() makes them 0."""
    text = printed(
        "BEGIN { @a = min((uint64)-1); @b = max((int64)0x8000000000000000); @c[1] = min((uint64)-1); "
        "@d[1] = max((int64)0x8000000000000000); @e = max(-5); zero(@e); @f[1] = min(5); zero(@f); }"
    )
    assert text.split("\n") == [
        "@a: 18446744073709551615",
        "@b: -9223372036854775808",
        "@c[1]: 18446744073709551615",
        "@d[1]: -9223372036854775808",
        "@e: 0",
        "@f[1]: 0",
        "",
    ]


def test_histograms_of_powers_of_two() -> None:
    """As bpftrace draws them, to the character: negative numbers, 0, 1, then powers, K and M for 2^10 and 2^20."""
    text = printed("BEGIN { @h = hist(5); @h = hist(0); @h = hist(-4); @k = hist(1000); @k = hist(1500); }")
    assert text == (
        "@h:\n"
        f"(..., 0)               1 |{BAR}|\n"
        f"[0]                    1 |{BAR}|\n"
        f"[1]                    0 |{' ' * 52}|\n"
        f"[2, 4)                 0 |{' ' * 52}|\n"
        f"[4, 8)                 1 |{BAR}|\n"
        "\n"
        "@k:\n"
        f"[512, 1K)              1 |{BAR}|\n"
        f"[1K, 2K)               1 |{BAR}|\n"
        "\n"
    )


def test_a_histogram_cuts_powers_of_two_by_its_bits() -> None:
    """`hist(n, 2)` has four buckets for each power; those of single numbers come first."""
    text = printed("BEGIN { @ = hist(7, 2); @ = hist(9, 2); @ = hist(9, 2); }")
    assert text == f"@:\n[7]                    1 |{'@' * 26}{' ' * 26}|\n[8, 10)                2 |{BAR}|\n\n"


def test_a_number_of_all_bits_is_negative_in_histograms() -> None:
    """In both, as bpftrace has it; a large one of the range is where it belongs."""
    text = printed(
        "BEGIN { @h = hist((uint64)-1); @l = lhist((uint64)-1, 0, 10, 5); @l = lhist((uint64)7, 0, 10, 5); }"
    )
    assert [line.split("|")[0].split() for line in text.splitlines()] == [
        ["@h:"],
        ["(...,", "0)", "1"],
        [],
        ["@l:"],
        ["(...,", "0)", "1"],
        ["[0,", "5)", "0"],
        ["[5,", "10)", "1"],
        [],
    ]


def test_histograms_of_equal_steps() -> None:
    """What lies outside has buckets of its own; by 1024 the borders are K."""
    text = printed(
        "BEGIN { @l[1] = lhist(5, 0, 10, 5); @l[1] = lhist(-5, 0, 10, 5); @l[1] = lhist(50, 0, 10, 5); "
        "@w = lhist(5000, 0, 10240, 5120); }"
    )
    assert text == (
        "@l[1]:\n"
        f"(..., 0)               1 |{BAR}|\n"
        f"[0, 5)                 0 |{' ' * 52}|\n"
        f"[5, 10)                1 |{BAR}|\n"
        f"[10, ...)              1 |{BAR}|\n"
        "\n"
        "@w:\n"
        f"[0, 5K)                1 |{BAR}|\n"
        "\n"
    )


def test_missing_entries_are_nothing() -> None:
    """0, and an empty string; reading makes no entry."""
    text = printed('BEGIN { print(@n[5]); print(@t["x"] == ""); @n[1] = 2; @t["y"] = "z"; print(has_key(@n, 5)); }')
    assert text == "0\ntrue\nfalse\n@n[1]: 2\n@t[y]: z\n"


def test_a_latency_script_keeps_times_between_two_events() -> None:
    """`@start[tid] = nsecs`, then the difference, then delete."""
    text = printed(
        f"{OPEN} /!@start[1]/ {{ @start[1] = nsecs; }} "
        f"{OPEN} /args.dfd == 5/ {{ @ns = nsecs - @start[1]; delete(@start, 1); }}",
        opens(("/a", 3), ("/b", 5)),  # type: ignore[arg-type]  # from `opens`
    )
    assert text == "@ns: 2000\n"


def test_operators_on_entries() -> None:
    """`++`, `+=` and the rest; their values where they are asked for."""
    text = printed(
        "BEGIN { @x = 5; @x++; @x += 10; @x -= 1; @x *= 2; print(@x++); print(@x); @y[1]++; @y[1]++; @z |= 6; }"
    )
    assert text == "30\n@x: 31\n@x: 31\n@y[1]: 2\n@z: 6\n"


def test_maps_are_printed_cleared_and_zeroed_in_the_order_of_the_probes() -> None:
    """By user space, which reads the map when it comes to the action."""
    text = printed(
        'BEGIN { @c[1] = count(); @c[2] = count(); @c[2] = count(); @n = 4; print(@c); print(@c, 1); print("then"); '
        "zero(@c); print(@c); clear(@c); clear(@n); print(@c); print((1, @n)); }"
    )
    assert text == "@c[1]: 1\n@c[2]: 2\n@c[2]: 2\nthen\n@c[1]: 0\n@c[2]: 0\n(1, 4)\n"


def test_exit_ends_a_probe_and_a_script() -> None:
    """What stands behind it does not run; END and the maps come nevertheless."""
    assert printed("BEGIN { print(1); exit(); print(2); } END { print(3); @e = 1; }") == "1\n3\n@e: 1\n"


def test_print_divides_and_takes_the_last() -> None:
    """`print(@x, top, div)`."""
    assert (
        printed("BEGIN { @[1] = 1000; @[2] = 3000; @[3] = 2000; print(@, 2, 1000); clear(@); }") == "@[3]: 2\n@[2]: 3\n"
    )


def test_maps_can_be_read_in_python() -> None:
    """They are maps of pyebpf, by their names with the @."""
    script = Script(f"{OPEN} {{ @opens[comm] = count(); @last[tid] = args.dfd; }}")
    found: dict[str, object] = {}

    def events(kernel: Simulation) -> None:
        THREE(kernel)  # type: ignore[operator]  # from `opens`
        found.update(opens=script["@opens"].snapshot(), last=dict(script["@last"]))

    printed_by(script, events)
    assert found == {"opens": {"proc3": 1, "proc4": 1, "proc5": 1}, "last": {103: 3, 104: 4, 105: 5}}


def test_stacks_are_kept_by_content_and_shown_by_names() -> None:
    """As bpftrace indents them; `kstack(1)` is the innermost frame."""

    def events(kernel: Simulation) -> None:
        kernel.stacks(kernel=["vfs_open+4", "do_sys_open+9"])
        for _ in range(3):
            kernel.tracepoint("syscalls:sys_enter_openat")

    text = printed(f"{OPEN} {{ @[kstack] = count(); @one[kstack(1)] = count(); }}", events)
    assert text == "@[\n        vfs_open+4\n        do_sys_open+9\n]: 3\n@one[\n        vfs_open+4\n]: 3\n"


def test_a_map_may_be_declared() -> None:
    """With the kind and the number of entries; one that is full counts what it drops."""
    script = Script("let @n = hash(2); BEGIN { @n[1] = 1; @n[2] = 2; @n[3] = 3; }")
    found: dict[str, int] = {}
    text = printed_by(script, lambda _: found.update(script.dropped))
    assert text == "@n[1]: 1\n@n[2]: 2\n"
    assert found == {"@n: map full": 1}


def test_bytes_and_addresses() -> None:
    """`buf` with what cannot be printed by its code, `ntop` of numbers, times of the day."""
    text = printed(
        'BEGIN { printf("%r|%rx|%rh ", buf("a\x01c", 3), buf("ab", 2), buf("ab", 2)); '
        'printf("%s %s ", ntop(2, 0x0100007f), ntop(10, 0)); print(ksym(0)); printf("%s", strftime("%Y", nsecs)); }'
    )
    assert text.partition("\n")[0] == "a\\x01c|\\x61\\x62|61 62 127.0.0.1 :: 0"
    assert len(text.partition("\n")[2]) == 4


def test_arrays_of_text_are_joined() -> None:
    """`join(argv)`, by spaces or what is given."""
    from struct import pack

    def events(kernel: Simulation) -> None:
        words = [kernel.user(word) for word in ("ls", "-l", "/")]
        kernel.tracepoint("syscalls:sys_enter_openat", filename=pack("<4Q", *words, 0))

    assert printed(f"{OPEN} {{ join(args.filename); }}", events) == "ls -l /\n"
    assert printed(f'{OPEN} {{ join(args.filename, ","); }}', events) == "ls,-l,/\n"
    assert printed(f"{OPEN} {{ $words = (uint64)args.filename; join($words); }}", events) == "ls -l /\n"


def test_long_texts_are_joined() -> None:
    """A kilobyte of each, whatever `max_strlen` is; the buffer has room for many such records."""
    from struct import pack

    def events(kernel: Simulation) -> None:
        words = [kernel.user(word) for word in ("cc", "-D" + "x" * 998, "y" * 2000)]
        kernel.tracepoint("syscalls:sys_enter_openat", filename=pack("<4Q", *words, 0))

    assert printed(f"{OPEN} {{ join(args.filename); }}", events) == f"cc -D{'x' * 998} {'y' * 1023}\n"
    script = Script(f"{OPEN} {{ join(args.filename); }}")
    script.specs()
    assert script._script.script.events.size >= 256 * 16 * 1024


def test_counts_and_sums_are_read_in_probes() -> None:
    """All processors' parts put together; what is missing is 0."""
    text = printed(
        'BEGIN { @c = count(); @c = count(); @s["a"] = sum(-5); @s["a"] = sum(2); '
        'if (@c > 1) { printf("%d %d %d", @c + 1, @s["a"], @s["b"] + 0); } clear(@c); clear(@s); }'
    )
    assert text == "3 -3 0"


def test_the_length_of_a_map_is_the_number_of_its_entries() -> None:
    """Of assigned ones and of gathered ones, also of none."""
    text = printed(
        "BEGIN { @n[1] = 5; @n[2] = 6; @c[3] = hist(4); print((len(@n), len(@c))); delete(@n, 1); delete(@n, 2); "
        "print(len(@n)); clear(@c); }"
    )
    assert text == "(2, 1)\n0\n"


def test_gathered_entries_are_asked_for() -> None:
    """`has_key` of a map that a function fills."""
    assert printed("BEGIN { @c[1] = avg(4); print((has_key(@c, 1), has_key(@c, 2))); clear(@c); }") == "(true, false)\n"


def test_gathered_maps_may_be_declared() -> None:
    """With room for so many; the least recently used make room."""
    text = printed("let @c = percpuhash(2); BEGIN { @c[1] = count(); @c[2] = count(); @c[3] = count(); }")
    assert text == "@c[1]: 1\n@c[2]: 1\n"
    text = printed("let @c = percpulruhash(64); BEGIN { @c[1] = sum(4); @c[1] = sum(5); print(@c[1]); }")
    assert text == "9\n@c[1]: 9\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BEGIN { if ($1) { @a = count(); } } END { print(@a); }", "@a: 0\n"),
        ("BEGIN /0/ { @a = count(); } END { print(@a); }", "@a: 0\n"),
        ("BEGIN { if (1) { } else if (2) { @a = 5; } print(@a + 1); }", "1\n"),
        ("BEGIN { return; @a = 5; } END { print(@a + 1); }", "1\n"),
        ("BEGIN { if (0) { @a = 5; } } END { print(2); }", "2\n"),
    ],
)
def test_a_map_has_the_type_of_what_nothing_comes_to(text: str, expected: str) -> None:
    """As with bpftrace; one that nothing else reads is not there."""
    assert printed(text, arguments=["0"]).startswith(expected)


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("@ = (uint64)18446744073709551608 >> 3; @++;", "2305843009213693952"),
        ("@ = (uint64)18446744073709551608 / 2; @ += 3;", "9223372036854775807"),
        ("@ = 7 - 3; @++; @ += 2; @ = (uint64)5;", "5"),
        ("@ = pid ? 1 : 2; @++; @ -= 3;", "-1"),
    ],
)
def test_the_type_of_numbers_that_are_known_settles(statements: str, expected: str) -> None:
    """Whichever of them is met first."""
    assert printed(f"BEGIN {{ {statements} print(@); clear(@); }}").splitlines()[0] == f"@: {expected}"


def test_a_negative_number_of_entries_is_all_of_them() -> None:
    """As with bpftrace, for which it is a large one."""
    text = "BEGIN { @[1] = 1; @[2] = 2; print(@, -1); clear(@); }"
    assert printed(text).splitlines()[:2] == ["@[1]: 1", "@[2]: 2"]


@pytest.mark.parametrize(("divisor", "numbers"), [(2, "-3 3"), (-2, "-3 3"), (0, "-7 7")])
def test_numbers_are_divided_towards_nothing(divisor: int, numbers: str) -> None:
    """As C divides, by a negative number, too; 0 divides by nothing, as with bpftrace."""
    text = printed(f"BEGIN {{ @[1] = 7; @[2] = -7; print(@, 2, {divisor}); clear(@); }}")
    assert sorted([line.partition(": ")[2] for line in text.splitlines()[:2]]) == numbers.split()


def test_what_is_wrong_where_nothing_comes_to_is_no_error() -> None:
    """But tells no type."""
    assert printed("BEGIN { if (0) { nonsense(5); } print(1); }") == "1\n"
    with pytest.raises(CompileError, match="@a is never assigned"):
        Script("BEGIN { if (0) { nonsense(5); @a = 5; } print(@a); }").compile(FakeTarget())


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        ("count()", ("1", "0")),
        ("sum(-5)", ("-5", "0")),
        ("avg(5)", ("5", "0")),
        ("min(-5)", ("-5", "0")),
        ("max(5)", ("5", "0")),
    ],
)
def test_an_entry_is_printed_as_it_was(call: str, texts: tuple[str, str]) -> None:
    """What is added afterwards does not show; an entry that is missing, or removed, is a zero."""
    one, missing = texts
    statements = f"@[1] = {call}; print(@[1]); @[1] = {call}; print(@[2]); delete(@[1]); print(@[1]);"
    assert printed(f"BEGIN {{ {statements} }}") == f"{one}\n{missing}\n{missing}\n"


def test_an_entry_of_what_no_probe_reads_is_printed_by_user_space() -> None:
    """As it is there then: statistics of nothing, and no histogram."""
    text = "{ .count = 0, .average = 0, .total = 0 }\n"
    assert printed("BEGIN { @[1] = stats(5); print(@[2]); delete(@[1]); }") == text
    assert printed("BEGIN { @[1] = hist(5); print(@[2]); delete(@[1]); }") == ""
    older = FakeTarget(missing=frozenset({"helper:map_lookup_percpu_elem@raw_tracepoint"}))
    assert printed("BEGIN { @[1] = count(); print(@[1]); print(@[2]); delete(@[1]); }", target=older) == "0\n0\n"


def test_numbers_in_values_are_divided() -> None:
    """Those of tuples, records and arrays, towards 0; booleans and texts are as they are."""
    text = (
        'BEGIN { @t[1] = (10, "a", (7, -7)); @r = (x = 9, y = true); @a[1] = (int32[2])(uint64)30064771077; '
        "print(@t, 0, 2); print(@r, 1, 2); print(@a, 1, 2); clear(@t); clear(@r); clear(@a); }"
    )
    assert printed(text) == "@t[1]: (5, a, (3, -3))\n@r: { .x = 4, .y = true }\n@a[1]: [2,3]\n"
