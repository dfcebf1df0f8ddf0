"""Probes of a script that nothing triggers: iterators, signals to this process, benchmarks; and which probes it has."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyebpf.bpftrace import benchmarks
from pyebpf.errors import CompileError, InvalidValue, NotFound
from pyebpf.script import Script
from tests.support.command import pyebpf, running


def test_an_iterator_goes_over_its_list_once() -> None:
    """With the element by the name of the kernel's context; a script of iterators alone ends by itself."""
    text = "".join(
        Script('iter:task { if (ctx.task.pid == $1) { printf("%s\\n", ctx.task.comm); } }', [str(os.getpid())]).output()
    )
    comm = Path("/proc/self/comm").read_text()
    assert text.rstrip("\n") == comm.rstrip("\n")


def test_an_iterator_fills_maps() -> None:
    """The files of this process, counted; the other name for the context."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        text = "".join(
            Script(f"iter:task_file {{ if (args.task.tgid == {child.pid}) {{ @[args.fd] = count(); }} }}").output()
        )
        assert child.stdin is not None
        child.stdin.close()
        child.wait()
    assert {f"@[{number}]: 1" for number in range(3)} <= set(text.split("\n"))


@pytest.mark.parametrize("element", ["task.task", "task_file.file", "bpf_map.map", "netlink.sk"])
def test_the_end_of_a_list_is_no_element(element: str) -> None:
    """The kernel calls the program once more, without one."""
    name, _, field = element.partition(".")
    text = "".join(Script(f"iter:{name} {{ @[(uint64)ctx.{field} == 0] = count(); }}").output()).strip()
    assert re.fullmatch(r"@\[false\]: [1-9]\d*", text)


def test_an_iterator_prints_all_elements_even_behind_exit() -> None:
    """The kernel goes over the list at one go."""
    lines = "".join(Script("iter:task { print(ctx.task.pid); exit(); }").output()).split()
    assert str(os.getpid()) in lines


def test_there_is_no_such_iterator_and_no_such_part() -> None:
    """Each with what there is."""
    with pytest.raises(NotFound, match="no iterator 'tusk'"):
        Script("iter:tusk { }").specs()
    with pytest.raises(CompileError, match="iter:task has no taks"):
        Script("iter:task { print(ctx.taks); }").specs()
    with pytest.raises(CompileError, match="iterators are not pinned"):
        Script("iter:task:/sys/fs/bpf/x { }")


def test_a_signal_runs_a_probe() -> None:
    """In the order in which they stand in the script."""
    script = 'self:signal:SIGUSR1 { printf("first"); } self:signal:SIGUSR1 { printf(" second\\n"); exit(); }'
    with running("-e", script) as tool:
        os.kill(tool.process.pid, signal.SIGUSR1)
        tool.process.wait()
    assert tool.out == "first second\n\n\n"
    with pytest.raises(CompileError, match="the one probe of this kind is self:signal:SIGUSR1"):
        Script("self:signal:SIGUSR2 { }")


def test_benchmarks_are_run_and_timed() -> None:
    """Between BEGIN and END, as a table or as JSON; else they are not run."""
    script = "BEGIN { @ = 1; } bench:a { @n++; } bench:b { } END { print(@n); clear(@n); }"
    done = pyebpf("--mode", "bench", "-e", script)
    first, second, third, fourth, last, *_ = done.stdout.splitlines()
    assert (first, second) == (f"{'Benchmark':<41}Time(ns)       Iterations", "-" * 66)
    assert re.fullmatch(r"a {40}\d+ +10000", third)
    assert re.fullmatch(r"b {40}\d+ +10000", fourth)
    assert last == "@n: 10000"
    done = pyebpf("-e", "bench:a { }", "-q", "-f", "json", "--mode", "bench")
    assert json.loads(done.stdout)["data"]["a"]["iters"] == 10000
    assert "".join(Script("bench:a { @++; } interval:ms:1 { exit(); }").output()) == "\n\n"
    with pytest.raises(InvalidValue, match="No probes attached: --mode bench, or output"):
        next(Script("bench:a { } bench:b { }").output())


def test_benchmarks_end_when_they_are_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two runs; one that takes long is run less often."""
    asked = iter(range(6))
    text = "".join(Script("bench:a { @++; } bench:b { }").output(lambda: next(asked, None) is None, benchmarks=True))
    assert re.search(r"^a +\d+ +7\n\n\n@: 7\n", text, re.MULTILINE), text
    monkeypatch.setattr(benchmarks, "SECONDS", 0)
    assert "@: 1\n" in "".join(Script("bench:a { @++; }").output(benchmarks=True))


def test_only_some_probes_are_wanted() -> None:
    """By a regular expression; BEGIN and END are there all the same."""
    script = 'BEGIN { print("b"); } interval:ms:10 { print("bad"); } interval:ms:20 { print("hit"); exit(); }'
    assert "".join(Script(script, only=":(20|30)$").output()) == "b\nhit\n\n\n"
    assert pyebpf("--probe-filter", "ms:20", "-e", script).stdout == "b\nhit\n\n\n"
    with pytest.raises(InvalidValue, match="No probes to attach"):
        Script("interval:ms:10 { }", only="x")
    with pytest.raises(InvalidValue, match="Invalid --probe-filter regex"):
        Script(script, only="[x")


def test_a_filter_chooses_among_the_places_of_a_pattern() -> None:
    """By their own names, as with bpftrace; a pattern of a uprobe is one name, unless the probe asks for its own."""

    def places(text: str, only: str) -> list[str]:
        return [str(each.attach) for each in Script(text, only=only).specs().programs]

    opens = "tracepoint:syscalls:sys_enter_open* { @ = count(); }"
    assert places(opens, "openat") == [f"tracepoint syscalls:sys_enter_{name}" for name in ("openat", "openat2")]
    assert places(opens, "^tracepoint:syscalls:sys_enter_openat$") == ["tracepoint syscalls:sys_enter_openat"]
    assert places("rt:sched_* { @ = count(); }", "^rawtracepoint:vmlinux:sched_switch$") == ["raw_tp sched_switch"]
    with pytest.raises(InvalidValue, match="No probes to attach"):
        places(opens, "nosuch")
    assert places("u:libc:malloc { @ = count(); }", "^uprobe:/.*/libc.so.6:malloc$") == ["uprobe libc:malloc"]
    assert places("u:libc:malloc_tri* { @[probe] = count(); }", "_trim$") == ["uprobe libc:malloc_trim"]
    with pytest.raises(InvalidValue, match="No probes to attach"):
        places("u:libc:malloc_tri* { @ = count(); }", "_trim$")


def test_a_probe_that_called_exit_does_not_run_again() -> None:
    """It runs each 100 microseconds, and user space needs more to hear of it."""
    assert "".join(Script("interval:us:100 { @n++; if (@n == 7) { exit(); } }").output()) == "\n\n@n: 7\n"
