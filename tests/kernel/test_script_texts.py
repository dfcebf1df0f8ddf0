"""Long texts of scripts: read whole, as keys and values, compared, and sent no longer than they are."""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from pyebpf.errors import KernelError
from pyebpf.objects import make_map
from pyebpf.script import Script
from pyebpf.specs import MapSpec
from pyebpf.types import U8, U64, array_of
from pyebpf.uapi.bpf import MapType
from tests.support.needs import lacks, needs

OPEN = f"tracepoint:syscalls:sys_enter_openat /pid == {os.getpid()}/"
END = "/none/the/end"
LAST = f'if (str(args.filename) == "{END}") {{ exit(); return; }}'
#: Paths that there are not, up to one that is too long for a string of 1024 bytes.
PATHS = [f"/none/{'x' * (size - 6)}" for size in (7, 63, 64, 511, 512, 1022, 1023, 1024, 1025, 2000)]


def opened(body: str, paths: list[str], *, settings: dict[str, str] | None = None, json: bool = False) -> list[str]:
    """The lines that a script prints when this process opens files that there are not."""

    def events(_: int) -> None:
        for path in (*paths, END):
            with suppress(OSError):
                os.close(os.open(path, os.O_RDONLY))

    script = Script(f"{OPEN} {{ {LAST} {body} }}", settings=settings)
    lines = "".join(script.output(attached=events, duration=60, json=json)).splitlines()
    assert not script.last_dropped
    return lines


def shown(path: str, size: int) -> str:
    """A path in a string of so many bytes."""
    return path if len(path) < size else path[:size] + ".."


@pytest.mark.parametrize("size", [1024, 600])
def test_texts_are_printed_whole(size: int) -> None:
    """Two of them among numbers and short ones, with widths; a full one is taken for one that was cut."""
    if size == 1024:
        needs("map:long_keys")
    body = (
        'printf("%d %s %s|%-70s|%s|%x\\n", 7, str(args.filename), "abc", str(args.filename + 1), str(args.filename, 5),'
        " 255); print(str(args.filename)); print((1, str(args.filename))); $s = str(args.filename); @s[1] = $s;"
        ' printf("%s", @s[1]); printf("%s\\n", $s);'
    )
    lines = opened(body, PATHS, settings=None if size == 1024 else {"max_strlen": str(size)})
    for number, path in enumerate(PATHS):
        whole, rest = shown(path, size), shown(path[1:], size)
        found = lines[4 * number : 4 * number + 4]
        assert found[0] == f"7 {whole} abc|{rest:70}|{path[:4]}|ff"
        assert found[1:] == [whole, f"(1, {whole})", whole * 2]


def test_texts_in_json() -> None:
    """As they are printed."""
    needs("map:long_keys")
    lines = opened('printf("%s %d\\n", str(args.filename), 5); print(str(args.filename));', PATHS[:3], json=True)
    assert [json.loads(line)["data"] for line in lines[:6]] == [
        text for path in PATHS[:3] for text in (f"{path} 5\n", path)
    ]


def test_texts_are_keys_and_values() -> None:
    """Also of counts, in tuples, and removed by them."""
    needs("map:long_keys")
    body = (
        "@[str(args.filename)] = count(); @last[str(args.filename), 1] = str(args.filename); "
        'if (@last[str(args.filename), 1] == str(args.filename) && @last["/none", 1] == "") { @same++; } '
        "@gone[str(args.filename)] = 1; delete(@gone[str(args.filename)]);"
    )
    paths = [each for each in PATHS if len(each) < 1024]
    lines = opened(body, paths * 2)
    assert {line for line in lines if line.startswith("@[")} == {f"@[{path}]: 2" for path in paths}
    assert {line for line in lines if line.startswith("@last")} == {f"@last[{path}, 1]: {path}" for path in paths}
    assert f"@same: {2 * len(paths)}" in lines
    assert not [line for line in lines if line.startswith("@gone")]


def test_long_texts_are_searched_and_measured() -> None:
    """By loops whose bounds the verifier sees, and without a search for each end."""
    needs("map:long_keys")
    last = PATHS[5]
    body = (
        "$s = str(args.filename); $t = str(args.filename + 1); "
        'printf("%d %d %d %d %d\\n", strlen($s), strlen($s) > strlen($t), strstr($s, "e/"), strstr($s, comm), '
        'strlen(str_concat($t, "ab"))); '
        f'if ($s == "{last}") {{ @last = 1; }} @t = "{last}"; if (@t == $s) {{ @same = strncmp($s, @t, 1000); }}'
    )
    lines = opened(body, PATHS[:6])
    assert lines[:6] == [f"{len(path)} 1 4 -1 {len(path) + 1}" for path in PATHS[:6]]
    assert "@last: 1" in lines
    assert "@same: 0" in lines


@pytest.mark.parametrize("at", [0, 7, 8, 600, 1022])
def test_texts_differ_by_one_byte(at: int) -> None:
    """Wherever it is."""
    needs("map:long_keys")
    one = "y" * 1023
    other = f"{one[:at]}z{one[at + 1 :]}"
    body = (
        '$s = str(args.filename); if (@x == $s) { print("same"); } else { print("other"); } '
        'if ($s != @x) { print("differ"); } @x = $s;'
    )
    lines = opened(body, [one, one, other, other])
    assert lines[:6] == ["other", "differ", "same", "other", "differ", "same"]


def test_long_texts_are_compared_in_a_loop() -> None:
    """Verifiers go on from each place where two differ: eight words are one place."""
    needs("map:long_keys")
    compared = 'let $v : string[1024] = "_tr1"; for ($i : 0..6) { if ($v == $v) { $z = $i; } } print($z);'
    assert "".join(Script(f"BEGIN {{ {compared} exit(); }}").output()).strip() == "5"


@pytest.mark.parametrize(
    ("body", "printed"),
    [
        ('unroll(40) { let $s : string = str_concat("a", "bc"); printf("%s,", $s); }', "abc," * 40),
        (
            """
            let $s : string = "abc";
            unroll(12) {
                @m[$s, (pid > 0 ? $s : "x"), 5]++;
                if (!has_key(@m, ($s, (pid > 0 ? $s : "x"), 6))) { @n++; }
            }
            print(@m["abc", "abc", 5] + @n);
            """,
            "24",
        ),
        (
            """
            let $s : string = "b";
            unroll(9) {
                if (((pid > 0) ? $s : "x") != $s) { @a++; }
                if (("y" != (pid < 1 ? $s : "b"))) { @b++; }
                if ("b" == (pid < 1 ? "" : $s)) { @c++; }
                if ("b" == (pid < 1 ? $s : "b")) { @d++; }
            }
            print((@a, @b, @c, @d));
            """,
            "(0, 9, 9, 9)",
        ),
    ],
)
def test_texts_that_are_not_needed_at_once_share_memory(body: str, printed: str) -> None:
    """Dozens of strings of 1024 bytes, of which a few are needed at any moment."""
    script = Script(f"config = {{ print_maps_on_exit = false }} BEGIN {{ {body} }}")
    assert "".join(script.output(duration=60)).strip() == printed


@pytest.mark.parametrize("size", [16, 17, 24, 49, 64, 65, 100, 127, 128, 200, 1023])
def test_many_comparisons_stand_beside_each_other(size: int) -> None:
    """Of texts of any length, in one list: each needs a register until all are there, not one for each of its parts."""
    one, other = "a" * (size - 1) + "x", "a" * (size - 1) + "y"
    compared = f'$a == $b, $a == $c, $a != $b, @m == $a, $a == "{other}", $a == "{one}", $b == $a, $b != @m'
    script = Script(
        "config = { print_maps_on_exit = false } "
        f'BEGIN {{ $a = "{one}"; $b = "{other}"; $c = "{one}"; @m = "{one}"; print(({compared})); @[{compared}] = 1; '
        f'print(@); printf("%d%d%d%d%d%d%d%d", {compared}); }}'
    )
    values = "false, true, true, true, false, true, false, true"
    assert "".join(script.output(duration=60)) == f"({values})\n@[{values}]: 1\n01110101\n\n"


def test_many_short_texts_wait_in_the_buffer() -> None:
    """Each takes the room that it needs, and not that of the longest: twenty times as many as of 1024 bytes."""
    needs("map:long_keys")
    paths = [f"/none/{number}" for number in range(10_000)]
    assert [line for line in opened('printf("%s\\n", str(args.filename));', paths) if line] == paths


#: Calls a function of the C library, with a text that nobody else gives it.
CALLER = """
import ctypes, sys
libc = ctypes.CDLL("libc.so.6")
for number in range(int(sys.argv[1])):
    libc.atol(b"7pyebpf")
"""


def test_no_call_is_lost_where_tasks_are_preempted_in_a_probe() -> None:
    """Kernels with full preemption let another task run the probe of one that stands in the middle of it."""
    needs("map:long_keys", "attach:uprobe")
    calls, processes = 3000, 6

    def events(_: int) -> None:
        running = [subprocess.Popen([sys.executable, "-c", CALLER, str(calls)]) for _ in range(processes)]
        for each in running:
            assert each.wait() == 0

    script = Script("uprobe:libc.so.6:atol { @[str(arg0)] = count(); }")
    with script:
        events(0)
        assert script["@"]["7pyebpf"] == calls * processes
        assert not script.dropped


def test_strings_are_short_where_keys_are() -> None:
    """Before Linux 5.11: a key of 1024 bytes is refused, and a string has 64."""
    lacks("map:long_keys")
    with pytest.raises(KernelError, match=r"before Linux 5.11 keys have 512 bytes at most"):
        make_map(MapSpec("long", MapType.HASH, array_of(U8, 1024), U64, 1))
    paths = [PATHS[0], PATHS[-1]]
    lines = opened("@[str(args.filename)] = count();", paths)
    assert {line for line in lines if line} == {f"@[{shown(path, 64)}]: 1" for path in paths}


def test_bytes_up_to_a_page_that_is_not_there() -> None:
    """`buf()` reads as many as it is asked for: of a fault in those behind them it would have zeros only."""
    edge = mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
    pages = mmap.mmap(-1, 2 * edge)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    assert libc.mprotect(start + edge, edge, 0) == 0  # it stays taken: nothing else comes there
    ctypes.memmove(start + edge - 5, b"edges", 5)
    call = f"tracepoint:syscalls:sys_enter_write /pid == {os.getpid()} && args.fd == $1/"
    body = "@[buf(args.buf, args.count)] = buf(args.buf, args.count); print(buf(args.buf, args.count)); exit();"
    with Path(os.devnull).open("wb") as null:
        number = null.fileno()
        script = Script(f"{call} {{ {body} }}", [str(number)])
        text = "".join(script.output(attached=lambda _: libc.write(number, start + edge - 5, 5), duration=60))
    assert text.split() == ["edges", "@[edges]:", "edges"]


def test_names_of_numbers_are_strings_in_programs() -> None:
    """Compared, joined, kept, and keys beside other strings: of the errors that a process has."""
    loops, absent = 7, os.strerror(errno.ESRCH)
    body = (
        '@[args.ret < 0 ? strerror(args.ret) : "ok"] = count(); $e = strerror(args.ret); @last = $e;'
        f' if ($e == "{absent}") {{ @e[str_concat(syscall_name(args.__syscall_nr), $e), strlen($e)] = count(); }}'
    )
    with Script(f"tracepoint:syscalls:sys_exit_kill /pid == {os.getpid()}/ {{ {body} }}") as script:
        for process, signal in ((2**31 - 1, 0), (os.getpid(), 0), (os.getpid(), 999)) * loops:
            with suppress(OSError):
                os.kill(process, signal)
        invalid = os.strerror(errno.EINVAL)
        assert script["@"].snapshot() == dict.fromkeys(["ok", absent, invalid], loops)
        assert script["@e"].snapshot() == {(f"kill{absent}", len(absent)): loops}
        assert script["@last"].only() == invalid
