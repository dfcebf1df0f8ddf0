"""execsnoop: every execution of a known workload, with the arguments that /proc has of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pyebpf.errors import InvalidValue
from pyebpf.programs import execsnoop
from tests.support.command import running
from tests.support.needs import needs, unless
from tests.support.waiting import wait_until

SHELL = "/bin/sh"
#: Arguments of a shell that waits for a line: none, an empty one, blanks and quotes, no UTF-8, many.
ARGUMENTS = (["x"], ["x", "", "a b", "it's", "\udcff"], [*"abcdefghijklmnop"])
NOBODY = 65534


@pytest.fixture(autouse=True)
def _tracepoints():
    needs("attach:tp_btf")


def execute(*command, **options):
    """Run a program that waits for its standard input: its number, and its arguments by /proc while it runs."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, **options) as process:
        # It is ours, or empty, until the program's memory is whole, which takes longer than what Popen waits for.
        ours, its = Path("/proc/self/cmdline"), Path(f"/proc/{process.pid}/cmdline")
        told = wait_until(lambda: its.read_bytes().removeprefix(ours.read_bytes()))
        process.communicate(b"\n")
    assert process.returncode == 0
    return process.pid, [os.fsdecode(each) for each in told.split(b"\0")[:-1]]


def fail(*command, **options):
    """Try to run what can't be: the number of the error."""
    with pytest.raises(OSError, match="Errno") as caught:
        subprocess.run(command, check=True, **options)
    return caught.value.errno


@pytest.fixture
def script(tmp_path):
    """A shell's script that waits for a line."""
    path = tmp_path / "script"
    path.write_text(f"#!{SHELL}\nread x\n")
    path.chmod(0o700)
    return path


def test_arguments(script):
    """Those of programs and of a script, as /proc has them, as text, quoted text and JSON, with both processes."""
    mine = ("execsnoop", "-P", str(os.getpid()), "-n", "s")
    with running(*mine, "--json") as objects, running(*mine) as text, running(*mine, "-q", "-U") as quoted:
        commands = [[SHELL, "-c", "read x", *each] for each in ARGUMENTS]
        expected = [execute(*each) for each in commands] + [execute(script, "a", "b")]
        for tool in (objects, text, quoted):
            tool.stop()
    assert [each[1] for each in expected] == [*commands, [SHELL, str(script), "a", "b"]]
    ours = {pid for pid, _ in expected}
    found = [each for each in objects.objects() if each["pid"] in ours]
    assert [(each["pid"], each["ppid"]) for each in found] == [(pid, os.getpid()) for pid, _ in expected]
    shown = [[each.replace("\udcff", "\\xff") for each in args] for _, args in expected]
    assert [each["args"] for each in found] == shown
    assert [each["comm"] for each in found] == ["sh"] * len(ARGUMENTS) + ["script"]
    assert [each["path"] for each in found] == [SHELL] * len(ARGUMENTS) + [str(script)]
    assert {(each["error"], each["cut"]) for each in found} == {(None, False)}
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["PCOMM", "PID", "PPID", "RET", "ARGS"]
    lines = [line.split(maxsplit=4) for line in lines if int(line.split()[1]) in ours]
    assert [line[3:] for line in lines] == [["0", " ".join(args)] for args in shown]
    assert quoted.out.split()[0] == "UID"
    assert "sh -c 'read x' x '' 'a b' 'it'\"'\"'s'" in quoted.out


def test_the_parent_and_the_processor():
    """The parent's name and the processor that the program began on; -M and -C print them."""
    mine = ("execsnoop", "-P", str(os.getpid()), "-n", "sh")
    processors = sorted(os.sched_getaffinity(0))
    with running(*mine, "--json") as objects, running(*mine, "-M", "-C") as text:
        for each in processors:
            execute(SHELL, "-c", "read x", preexec_fn=lambda each=each: os.sched_setaffinity(0, {each}))
        for tool in (objects, text):
            tool.stop()
    name = Path("/proc/self/comm").read_text().strip()
    found = [(each["parent_comm"], each["cpu"]) for each in objects.objects()]
    assert found == [(name, each) for each in processors]
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["PCOMM", "PID", "PARENT", "PPID", "CPU", "RET", "ARGS"]
    assert [line[25:].split()[:3] for line in lines] == [[name, str(os.getpid()), str(each)] for each in processors]


def by_descriptor():
    """Execute a program by its descriptor: the process, and its status."""
    child = os.fork()
    if not child:
        try:
            os.execve(os.open(SHELL, os.O_RDONLY), ["sh", "-c", ":", "by descriptor"], os.environ)
        finally:  # it failed: nothing of the tests may go on here
            os._exit(1)
    return os.waitpid(child, 0)


def test_a_program_by_its_descriptor():
    """execveat(2), which fexecve(3) calls."""
    unless(by_descriptor()[1] == 0, "mount:with-execveat")  # Linux 5.10's 9p has it not
    with execsnoop.open(ppid=os.getpid()) as calls:
        child, _ = by_descriptor()
        call = next(calls)
    assert (call.pid, call.args, call.error) == (child, ["sh", "-c", ":", "by descriptor"], None)


def test_failures(tmp_path):
    """-x has calls that failed, with the error and what they were given; without it they are left out."""
    plain, unknown = tmp_path / "plain", tmp_path / "unknown"
    for path in (plain, unknown):
        path.write_text("neither a program nor a script")
    unknown.chmod(0o700)
    ours = {"ppid": os.getpid()}
    with execsnoop.open(failed=True, **ours) as calls, execsnoop.open(**ours) as successes:
        for path in ("/no/such", plain, unknown):
            fail(path, "a", "", "b c")
        fail("/no/such", "an argument", executable=plain)
        fail("/no/such", *["z" * 126], *["z" * 127], *["z" * 128])
        fail("/no/such", *["y"] * 19)
        fail("/no/such", *["y"] * 20)
        child, _ = execute(SHELL, "-c", "read x")
        found = [next(calls) for _ in range(8)]
        assert next(successes).pid == child
    assert [each.error for each in found] == ["ENOENT", "EACCES", "ENOEXEC", "EACCES", *["ENOENT"] * 3, None]
    assert [each.args for each in found[:3]] == [[str(p), "a", "", "b c"] for p in ("/no/such", plain, unknown)]
    assert (found[3].path, found[3].args, str(found[3].words)) == (
        str(plain),
        ["/no/such", "an argument"],
        f"{plain} an argument",
    )
    assert [len(each) for each in found[4].args] == [8, 126, 127, 127]
    assert [(len(each.args), each.cut) for each in found[4:7]] == [(4, True), (20, False), (20, True)]


def test_limits():
    """--max-args arguments are shown, and 4,096 bytes; what is left out is told."""
    with execsnoop.open(ppid=os.getpid(), max_args=5) as few, execsnoop.open(ppid=os.getpid()) as calls:
        for arguments in (["x"], ["x", "y"], ["v" * 4077], ["v" * 4078]):
            execute(SHELL, "-c", "read x", *arguments)
        found = [(next(few), next(calls)) for _ in range(4)]
    assert [(len(five.args), five.cut) for five, _ in found] == [(4, False), (5, False), (4, False), (4, True)]
    assert [each.cut for _, each in found] == [False, False, False, True]
    with execsnoop.open(ppid=os.getpid(), max_args=3) as few:
        execute(SHELL, "-c", "read x", "y")
        call = next(few)
    assert (call.args, call.cut) == ([SHELL, "-c", "read x"], True)


def test_filters(script):
    """By the user, by the program's name, and by what an expression finds in the arguments."""
    ours = {"ppid": os.getpid()}
    with (
        execsnoop.open(uid=NOBODY, **ours) as of_user,
        execsnoop.open(comm="scrip", **ours) as named,
        execsnoop.open(line="x b+$", **ours) as matching,
    ):
        users, _ = execute(SHELL, "-c", "read x", user=NOBODY)
        scripts, _ = execute(script)
        matches, _ = execute(SHELL, "-c", "read x", "bb")
        found = [next(each) for each in (of_user, named, matching)]
        rest = [each for tool in (of_user, named, matching) for each in tool.poll(0)]
    assert [(each.pid, each.uid) for each in found] == [(users, NOBODY), (scripts, os.getuid()), (matches, os.getuid())]
    assert not rest


def test_an_expression_that_is_none():
    """It is refused before anything is attached."""
    with pytest.raises(InvalidValue, match=r"^--line: '\(' is no regular expression: missing \)"):
        execsnoop.Options(line="(")
