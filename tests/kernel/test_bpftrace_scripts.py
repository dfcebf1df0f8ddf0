"""Scripts of bpftrace's language in the running kernel: this process's own calls, counted exactly."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyebpf.arch import host
from pyebpf.errors import CompileError, NotSupported
from pyebpf.script import Script
from pyebpf.symbols.search import SymbolText
from tests.support.command import pyebpf, running
from tests.support.needs import needs
from tests.support.system_calls import NO_PROCESS, getpgid, getppid

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS, MORE = 211, 97
MINE = f"/pid == {os.getpid()}/"


def output(text: str, workload: Callable[[], object] = lambda: None, *arguments: str) -> str:
    """What a script prints that is ended when the workload has been done."""
    script = Script(text, arguments)
    ended = False

    def attached(_: int) -> None:
        nonlocal ended
        workload()
        ended = True

    return "".join(script.output(lambda: ended, attached=attached))


def test_calls_are_counted_exactly() -> None:
    """By a tracepoint, with a predicate; the map is read in Python."""
    bpf = Script(f"tracepoint:syscalls:sys_enter_getppid {MINE} {{ @ = count(); @by[comm, pid] = count(); }}")
    with bpf:
        getppid(CALLS)
        assert bpf["@"].snapshot() == {0: CALLS}
        assert list(bpf["@by"].snapshot().values()) == [CALLS]
        assert not bpf.dropped


def test_a_kprobe_at_an_address() -> None:
    """It is that of a function here, which `func` names; --unsafe allows it."""
    needs("attach:kprobe")
    (symbol,) = SymbolText().find("do_sys_openat2")
    probe = f'kprobe:{symbol.address:#x} {MINE} {{ printf("%s %s\\n", func, probe); }}'
    with pytest.raises(CompileError, match="a kprobe at an address may stand anywhere: allow it by --unsafe"):
        Script(probe).specs()
    script = Script(probe, unsafe=True)
    text = "".join(script.output(lambda: True, attached=lambda _: Path("/proc/self/comm").read_text()))
    assert text.split("\n")[:2] == [f"do_sys_openat2 kprobe:{symbol.address:#x}", ""]
    with (
        pytest.raises(NotSupported, match="kprobe 0x1000: no instruction of the kernel's that can be probed begins"),
        Script("kprobe:0x1000 { exit(); }", unsafe=True),
    ):
        pass


def test_prints_come_in_the_order_of_the_probes() -> None:
    """BEGIN, events with their arguments, END, the maps."""
    text = output(
        'BEGIN { printf("begin\\n"); } '
        f'tracepoint:syscalls:sys_enter_getpgid {MINE} {{ @n++; printf("%d %d\\n", @n, args.pid - {NO_PROCESS}); }} '
        'END { print("end"); }',
        lambda: getpgid(*range(7)),
    )
    lines = "".join(f"{n + 1} {n}\n" for n in range(7))
    assert text == f"begin\n{lines}end\n\n\n@n: 7\n"


def test_text_of_the_process_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`str(args.filename)`, as a key and in a print."""
    (tmp_path / "a file").write_text("")
    monkeypatch.chdir(tmp_path)
    text = output(
        f"tracepoint:syscalls:sys_enter_openat {MINE} {{ $name = str(args.filename); "
        'if ($name == "a file") { @[$name] = count(); printf("%s|%10s\\n", $name, $name); } }',
        lambda: [os.close(os.open("a file", os.O_RDONLY)) for _ in range(5)],
    )
    assert text == "a file|    a file\n" * 5 + "\n\n@[a file]: 5\n"


def test_the_time_between_two_events_is_kept_by_thread() -> None:
    """`@start[tid] = nsecs`: as many times as calls, and no start is left."""
    bpf = Script(
        f"tracepoint:syscalls:sys_enter_getpgid {MINE} {{ @start[tid] = nsecs; }} "
        f"tracepoint:syscalls:sys_exit_getpgid /pid == {os.getpid()} && @start[tid]/ "
        "{ @us = hist((nsecs - @start[tid]) / 1000); @ret[args.ret] = count(); delete(@start, tid); }"
    )
    with bpf:
        getpgid(*range(MORE))
        assert bpf["@us"].only().total == MORE
        assert bpf["@ret"].snapshot() == {-3: MORE}
        assert dict(bpf["@start"]) == {}


def test_an_interval_ends_a_script() -> None:
    """It runs on one processor, so that a count of its turns is exact; exit() gives the status."""
    done = pyebpf("-e", "interval:ms:300 { @n++; print(@n); if (@n == 3) { exit(5); } }")
    assert (done.returncode, done.stdout) == (5, "@n: 1\n@n: 2\n@n: 3\n\n\n@n: 3\n")
    assert done.stderr == "Tracing 1 probe... Hit Ctrl-C to end\n"


def test_a_file_is_run_with_its_arguments(tmp_path: Path) -> None:
    """`pyebpf run FILE.bt ARGUMENTS`, also one that begins with #!."""
    path = tmp_path / "script.bt"
    path.write_text('#!/usr/bin/env bpftrace\nBEGIN { printf("%d %s\\n", $1 + 1, str($2)); exit(); }\n')
    done = pyebpf("run", str(path), "41", "word")
    assert (done.returncode, done.stdout) == (0, "42 word\n\n\n")


def test_ctrl_c_prints_the_maps() -> None:
    """As bpftrace does, behind END."""
    script = f'tracepoint:syscalls:sys_enter_getppid {MINE} {{ @ = count(); }} END {{ print("end"); }}'
    with running("-e", script) as tool:
        getppid(CALLS)
        tool.stop(signal.SIGINT)
    assert tool.out == f"end\n\n\n@: {CALLS}\n"


def test_stacks_of_the_kernel_have_names() -> None:
    """The innermost frames of a system call."""
    text = output(
        # Not at syscalls:sys_enter_getppid, where Linux 6.1 has no stack of the kernel.
        f"tracepoint:raw_syscalls:sys_enter /pid == {os.getpid()} && args.id == {host().system_call('getppid')}/ "
        "{ @[kstack(perf)] = count(); @raw = kstack(1); }",
        lambda: getppid(CALLS),
    )
    assert f"]: {CALLS}\n" in text
    assert any(f"{name}+" in text for name in ("do_syscall_64", "el0_svc"))  # x86-64, arm64


def test_functions_of_a_library_are_probed() -> None:
    """Uprobe and uretprobe, with arg0 and retval, of this process alone."""
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line)
    bpf = Script(
        f"uprobe:{libc}:getpgid {{ @arg = sum(arg0); @ = count(); }} "
        f"uretprobe:{libc}:getpgid {{ @ret[retval] = count(); }}",
        pid=os.getpid(),
    )
    with bpf:
        getpgid(*range(10))
        assert bpf["@"].snapshot() == {0: 10}
        assert bpf["@arg"].snapshot() == {0: 10 * NO_PROCESS + 45}
        ((returned, count),) = bpf["@ret"].snapshot().items()
        assert (returned & 0xFFFFFFFF, count) == (0xFFFFFFFF, 10)


def test_functions_of_the_kernel_are_probed() -> None:
    """Kprobe and kretprobe: arguments in registers, results."""
    needs("attach:kprobe")
    bpf = Script(
        f"kprobe:find_get_pid {MINE} {{ @[arg0] = count(); }} kretprobe:find_get_pid {MINE} {{ @ret = count(); }} "
        f"kprobe:do_sys_openat2 {MINE} {{ @open[str(uptr(arg1))] = count(); }}"
    )
    with bpf:
        for _ in range(3):
            os.close(os.open("/proc/self/comm", os.O_RDONLY))
        assert bpf["@open"]["/proc/self/comm"] == 3  # attaching the others opens files, too


def test_members_of_structs_are_read_by_btf() -> None:
    """`curtask` is a struct task_struct: names, numbers, chains of pointers."""
    text = output(
        'BEGIN { printf("%s %d %d\\n", curtask->comm, curtask->tgid, curtask->real_parent->tgid); exit(); }',
    )
    comm = Path("/proc/self/comm").read_text().strip()
    assert text == f"{comm} {os.getpid()} {os.getppid()}\n\n\n"


def test_a_wrong_script_is_an_error_at_its_place() -> None:
    """With the line and a caret."""
    done = pyebpf("-e", "BEGIN { @x = foo(); }")
    assert done.returncode == 1
    assert done.stderr == (
        "pyebpf -e: <script>:1: there is no function foo()\n    BEGIN { @x = foo(); }\n                 ^^^^^\n"
    )


def test_what_functions_gathered_is_read_in_probes() -> None:
    """A loop over counts, averages by key, the length of a map: of events on whatever processors they came to."""
    needs("helper:map_lookup_percpu_elem@raw_tracepoint", "helper:for_each_map_elem@raw_tracepoint")
    text = output(
        f"tracepoint:syscalls:sys_enter_getpgid {MINE} {{ $n = args.pid - {NO_PROCESS}; "
        "@[$n % 2] = count(); @a[$n % 2] = avg($n); @hi[$n % 2] = max($n); } "
        "END { $calls = 0; for ($kv : @) { $calls += $kv.1; } "
        'printf("%d %d %d %d\\n", len(@a), $calls, @a[1], @hi[0]); clear(@); clear(@a); clear(@hi); }',
        lambda: getpgid(*range(7)),
    )
    assert text == "2 7 3 6\n\n\n"


def test_writes_to_memory_are_watched() -> None:
    """A watchpoint at an address of this process, which writes there; the number is an address that can be read."""
    needs("setting:/sys/bus/event_source/devices/breakpoint")
    words = (ctypes.c_uint64 * 2)()
    place = f"{ctypes.addressof(words):#x}"
    bpf = Script(f"watchpoint:{place}:8:w {{ @[pid] = count(); @sum = sum(*(uint64 *){place}); }}", pid=os.getpid())
    with bpf:
        for _ in range(MORE):
            words[0] += 1
            words[1] += 1
        assert bpf["@"].snapshot() == {os.getpid(): MORE}
        assert bpf["@sum"].snapshot() == {0: sum(range(MORE + 1))}


def test_an_argument_is_followed_by_another_probe() -> None:
    """One that a uprobe keeps as a number, in a system call that comes later."""
    libc = ctypes.CDLL(None)
    libc.getenv.argtypes = [ctypes.c_char_p]
    text = (
        "uprobe:libc:getenv { @name = arg0; } tracepoint:syscalls:sys_enter_getpgid /@name/ { "
        'printf("%s %c%c\\n", str(@name), *(uint8 *)@name, ((uint8 *)@name)[1]); @name = 0; }'
    )
    script = Script(text, pid=os.getpid())

    def stop() -> bool:
        libc.getenv(b"PYEBPF_TEST")
        getpgid(0)
        return True

    assert "".join(script.output(stop)).splitlines()[0] == "PYEBPF_TEST PY"


def test_a_watchpoint_is_taken_off() -> None:
    """`unwatch` of an address: of two watchpoints the other one goes on."""
    needs("setting:/sys/bus/event_source/devices/breakpoint")
    words = (ctypes.c_uint64 * 2)()
    first, second = (ctypes.addressof(words) + 8 * index for index in range(2))
    script = Script(
        f"watchpoint:{first:#x}:8:w {{ @first = count(); unwatch({first:#x}); }} "
        f"watchpoint:{second:#x}:8:w {{ @second = count(); unwatch(1); }}",
        pid=os.getpid(),
    )
    rounds = 0

    def stop() -> bool:
        nonlocal rounds
        words[0] += 1
        words[1] += 1
        rounds += 1
        return rounds == 5

    text = "".join(script.output(stop))
    assert text == "\n\n@first: 1\n@second: 5\n", text


def test_arrays_and_loops_are_verified() -> None:
    """An index and an end of a loop that are known at run time only; a member of the kernel's that is an array."""
    text = output(
        "BEGIN { $a = (uint8[8])(uint64)0x0807060504030201; $n = (pid & 0) + 8; $sum = 0; "
        "for ($i : 0..$n) { $sum += $a[$i]; @x[$a] = $a; } print(($sum, $a[$n])); clear(@x); "
        "$v = curtask.mm.saved_auxv; print($v[0] != 0); exit(); }"
    )
    assert text == "(36, 0)\ntrue\n\n\n"


def test_options_stand_behind_two_dashes() -> None:
    """`--name=value` for getopt(), and what is left is `$1`."""
    done = pyebpf("-e", 'BEGIN { print((getopt("n", 1), $1, getopt("on"))); exit(); }', "--", "--n=5", "7", "--on")
    assert (done.returncode, done.stdout) == (0, "(5, 7, true)\n\n\n")
