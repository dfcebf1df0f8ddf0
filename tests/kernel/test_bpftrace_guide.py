"""The examples of docs/bpftrace.md are compiled for this kernel."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyebpf.errors import InvalidValue, NotLoaded
from pyebpf.script import Script
from tests.support.needs import needs
from tests.support.python import ROOT
from tests.support.system_calls import GETPGID, NO_PROCESS, getpgid

PAGE = (Path(__file__).parents[2] / "docs" / "bpftrace.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```bt\n(.*?)```", PAGE, re.DOTALL)
ONE_LINERS = re.findall(r"pyebpf -e '([^'P].*?)'", PAGE)


#: Programs in Python, and what stands below the first.
IN_PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PRINTED = re.search(r"```python\n.*?```\n\n```\n(.*?)```", PAGE, re.DOTALL)
#: The program that examples with debugging information are about. The line that they name is in its function.
SERVER = """struct request { char *path; struct { long length; } body; };
#line 119 "server.c"
__attribute__((noinline)) int handle_request(struct request *req, int status) {
    return status + (int)req->body.length;
}
int handle(int fd) __asm__("_ZN5MyApp6Server6handleEi");  // of C++, without its compiler
int handle(int fd) { return fd; }
int main(int argc, char **argv) { struct request request = { argv[0], { argc } }; return handle_request(&request, 1); }
"""


@pytest.mark.parametrize("text", [*EXAMPLES, *ONE_LINERS])
def test_an_example_is_compiled(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its attach points becomes a program."""
    if "socket_cookie" in text:
        needs("helper:get_socket_cookie@tracing")
    if "dw_ustack" in text:
        needs("helper:task_pt_regs@perf_event")
    if "./server" in text:
        needs("command:gcc")
        monkeypatch.chdir(tmp_path)
        subprocess.run(["gcc", "-g", "-x", "c", "-o", "server", "-"], input=SERVER, text=True, check=True)
    if "server.c" in text:
        needs("attach:uprobe")
        with Script(text):  # the line is looked for where it is attached
            return
    assert Script(text, ["1"]).specs().programs


@pytest.mark.parametrize("text", [each for each in EXAMPLES if "nsecs -" in each])
def test_times_are_taken_of_calls_whose_start_was_seen(text: str) -> None:
    """Others would seem to have begun with the machine."""
    ends = [each for each in re.findall(r"^tracepoint:[^{]*", text, re.MULTILINE) if "sys_exit" in each]
    assert ends
    assert all("/@start[tid]/" in each for each in ends)


def test_maps_are_read_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    """The page shows what the example prints."""
    assert PRINTED is not None
    exec(IN_PYTHON[0], {})
    assert capsys.readouterr().out == PRINTED[1]


def test_what_was_printed_is_read_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    """Of END, too, after detaching."""
    exec(IN_PYTHON[1], {})
    assert capsys.readouterr().out == "2\n"


def test_output_is_read_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON, until the time is over."""
    exec(IN_PYTHON[2], {})
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert found["type"] == "map"
    assert 0 < found["data"]["@"] <= 51


def test_a_file_runs_by_its_name(tmp_path: Path) -> None:
    """With the page's first line: what `env` finds is the command."""
    (text,) = (each for each in EXAMPLES if each.startswith("#!"))
    for name, content in (("pyebpf", f'#!/bin/sh\nexec {sys.executable} -m pyebpf "$@"\n'), ("a.bt", text)):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        [tmp_path / "a.bt", "x", "-q", "y"],
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "2 arguments\n\n\n", "")


def test_values_have_their_types_in_python() -> None:
    """Those of the page's table."""
    names = {
        "@number": "(int8)-3",
        "@text": '"text"',
        "@tuple": '(1, "x")',
        "@true": "true",
        "@address": "ntop(0x0100007f)",
        "@bytes": 'buf("abc", 3)',
        "@user": "username",
        "@stack": "kstack(2)",
        "@series": "tseries(1, 1s, 5)",
    }
    given = " ".join(f"{name} = {value};" for name, value in names.items())
    # Not at syscalls:sys_enter_getpgid, where Linux 6.1 has no stack of the kernel.
    place = f"tracepoint:raw_syscalls:sys_enter /pid == {os.getpid()} && args.id == {GETPGID}/"
    with Script(f'{place} {{ {given} @time = strftime("%Y", 5000); @stacks[ustack(2)] = count(); }}') as bpf:
        getpgid(1)
        found = {name: bpf[name].only() for name in (*names, "@time")}
        stack, series = found.pop("@stack"), found.pop("@series")
        assert bpf.stacks.kernel(stack)
        ((stack, pid),) = bpf["@stacks"].snapshot()
        assert pid == os.getpid()
        assert bpf.stacks.user(stack, pid)
    ((when, value),) = series
    assert (value, when % 10**9) == (1, 0)
    assert found == {
        "@number": -3,
        "@text": "text",
        "@tuple": (1, "x"),
        "@true": 1,
        "@address": (2, bytes([127, 0, 0, 1, *[0] * 12])),
        "@bytes": (3, b"abc"),
        "@user": os.getuid(),
        "@time": 5000,
    }


def test_output_is_not_asked_for_inside_a_with() -> None:
    """It would attach a second time, and count each event twice."""
    with Script("interval:s:100 { }") as bpf, pytest.raises(InvalidValue, match="leave out the `with` around it"):
        next(bpf.output())


def test_begin_runs_before_what_a_with_attaches() -> None:
    """Once for each `with`, and what it printed waits; END runs as it is detached."""
    event = f"tracepoint:syscalls:sys_enter_getpgid /pid == {os.getpid()} && args.pid >= @min/"
    low = NO_PROCESS + 100
    script = Script(f'BEGIN {{ @min = {low}; printf("begun\\n"); }} {event} {{ @ = count(); }} END {{ @end = @min; }}')
    for _ in range(2):
        with script:
            for pid in (3, 101, 103):
                getpgid(pid)
            assert script["@"].only() == 2
            assert list(script.printed()) == ["begun\n"]
            assert list(script.printed()) == []
            assert script["@end"].only() is None
            script.detach()
            assert script["@end"].only() == low


def test_begin_and_end_run_once_in_output() -> None:
    """Whoever attaches."""
    script = Script('BEGIN { @ += 1; printf("b"); } interval:ms:10 { exit(); } END { @ += 10; printf("e"); }')
    assert "".join(script.output()) == "be\n\n@: 11\n"


def test_trying_to_attach_runs_no_begin() -> None:
    """As --dry-run: a signal to this process would end it."""
    script = Script('BEGIN { signal("KILL"); } interval:s:100 { } END { signal("KILL"); }', unsafe=True)
    script.try_attaching()
    with pytest.raises(NotLoaded):
        script.detach()


@pytest.mark.parametrize("place", ["iter:task", "self:signal:SIGUSR1", "bench:name"])
def test_a_with_refuses_what_only_output_runs(place: str) -> None:
    """It would wait for what never comes."""
    with pytest.raises(InvalidValue, match=f"does not run the {place.rpartition(':')[0]} probes.*for text in script"):
        Script(f"BEGIN {{ @ = 1; }} {place} {{ @ = 2; }}").__enter__()


def test_a_map_is_read_inside_the_with() -> None:
    """Before it there is no type of any."""
    with pytest.raises(NotLoaded, match="read \\['@'\\] inside `with script:`"):
        Script("BEGIN { @ = 1; }")["@"]


def test_output_has_no_empty_pieces() -> None:
    """Neither as text nor as JSON, where nothing stands before the maps."""
    script = Script("BEGIN { @ = 1; clear(@); } iter:task { clear(@); }")
    assert [*script.output(), *script.output(json=True)] == ["\n\n"]


def test_the_page_has_examples() -> None:
    """As many as this file found."""
    assert (len(EXAMPLES), len(ONE_LINERS)) == (13, 14)
