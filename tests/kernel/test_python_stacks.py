"""Python's functions in stacks: programs whose functions and lines are known, under each CPython that is here."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pyebpf.programs import offcputime, profile, stackcount
from tests.support.python import ROOT
from tests.support.told import told

pytestmark = pytest.mark.any_kernel
FREQUENCY, SECONDS = 997, 0.2
# Line by line: the tests know in which lines a function is.
PROGRAM = """\
import sys, threading, time

def inner(n):
    total = 0
    for each in range(n):
        total += each * each
    return total

def outer(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        inner(3000)

def nap(times):
    for _ in range(times):
        time.sleep(0.004)

class Äpfel:
    def mapped(self, seconds):
        end = time.thread_time() + seconds
        return list(map(self.spin, [end]))

    def spin(self, end):
        while time.thread_time() < end:
            inner(3000)

print("done", flush=True)
for line in sys.stdin:
    what, amount = line.split()
    if what == "work":
        outer(float(amount))
    elif what == "nap":
        nap(int(amount))
    elif what == "nested":
        Äpfel().mapped(float(amount))
    elif what == "thread":
        thread = threading.Thread(target=outer, args=(float(amount),))
        thread.start()
        thread.join()
    print("done", flush=True)
"""
#: First and last line of each function of the program.
LINES = {
    "inner": (3, 7), "outer": (9, 12), "nap": (14, 16), "Äpfel.mapped": (19, 21), "Äpfel.spin": (23, 25),
    "<module>": (1, 41),
}  # fmt: skip
_LABEL = re.compile(r"py::(.*):(.*):([0-9]+)")


def interpreters():
    """The one that runs the tests, and one of each release among pyenv's."""
    found = {sys.version_info[:2]: sys.executable}
    for path in sorted(Path.home().glob(".pyenv/versions/3.1[1-4].*/bin/python3")):
        release = tuple(int(part) for part in path.parts[-3].split(".")[:2])
        found.setdefault(release, str(path))
    return list(found.values())


@contextmanager
def program(interpreter, tmp_path):
    path = tmp_path / "app.py"
    path.write_text(PROGRAM, encoding="utf-8")
    with told(interpreter, path) as process:
        assert process.answer() == "done"
        yield process


def functions(stack, path):
    """The names of the program's functions in a stack, the innermost first; each in its lines."""
    found = []
    for frame in stack.user:
        match = _LABEL.fullmatch(frame.label)
        if match is not None and match[2] == str(path):
            first, last = LINES[match[1]]
            assert first <= int(match[3]) <= last
            found.append(match[1])
    return found


def shares(stacks, path):
    """What part of the samples has which functions."""
    total, found = sum(stack.count for stack in stacks), {}
    for stack in stacks:
        key = tuple(functions(stack, path))
        found[key] = found.get(key, 0) + stack.count / total
    return found


@pytest.mark.parametrize("interpreter", interpreters())
def test_what_is_busy(interpreter, tmp_path):
    """Each sample has the functions that its thread was running, with their file and a line of theirs.

    A method that map() calls is run by another evaluator, and is above the function that called map().
    """
    with (
        program(interpreter, tmp_path) as process,
        profile.open(pid=process.pid, python=True, user=True, frequency=FREQUENCY) as collect,
    ):
        process.tell("work", SECONDS)
        working = shares(collect(0), tmp_path / "app.py")
        process.tell("nested", SECONDS)
        nested = shares(collect(0), tmp_path / "app.py")
        process.tell("thread", SECONDS)
        threads = collect(0)
    assert set(working) <= {("inner", "outer", "<module>"), ("outer", "<module>"), ("<module>",)}
    assert working["inner", "outer", "<module>"] > 0.9
    assert nested["inner", "Äpfel.spin", "Äpfel.mapped", "<module>"] > 0.9
    assert shares(threads, tmp_path / "app.py")["inner", "outer"] > 0.9
    busiest = max(threads, key=lambda stack: stack.count)
    assert busiest.user[-1].name.startswith("py::Thread._bootstrap:")


def test_time_off_the_processors(tmp_path):
    """Sleep is the function's that asked for it, and of the line."""
    with (
        program(sys.executable, tmp_path) as process,
        offcputime.open(pid=process.pid, python=True, user=True) as collect,
    ):
        process.tell("nap", 23)
        stacks = collect(0)
    napping = [stack for stack in stacks if "nap" in functions(stack, tmp_path / "app.py")]
    assert sum(stack.count for stack in napping) >= 23 * 4000
    assert {functions(stack, tmp_path / "app.py")[0] for stack in napping} == {"nap"}
    assert all(any(frame.label.endswith("app.py:16") for frame in stack.user) for stack in napping)


def test_events(tmp_path):
    """Each system call is counted with the function that made it."""
    with (
        program(sys.executable, tmp_path) as process,
        stackcount.open("t:syscalls:sys_enter_clock_nanosleep", pid=process.pid, python=True, user=True) as collect,
    ):
        process.tell("nap", 23)
        stacks = collect(0)
    assert sum(stack.count for stack in stacks) == 23
    assert {tuple(functions(stack, tmp_path / "app.py")) for stack in stacks} == {("nap", "<module>")}


def test_a_process_that_has_ended(tmp_path):
    """Names that were read while it lived stay."""
    with ExitStack() as stack:
        with program(sys.executable, tmp_path) as process:
            opened = profile.open(pid=process.pid, python=True, user=True, frequency=FREQUENCY)
            collect = stack.enter_context(opened)
            process.tell("work", SECONDS)
            assert shares(collect(0), tmp_path / "app.py")
            process.tell("work", SECONDS)
        found = shares(collect(0), tmp_path / "app.py")
    assert found["inner", "outer", "<module>"] > 0.5


def test_a_process_that_becomes_python(tmp_path):
    """A shell that calls exec(2) after the probes are attached, and Python that does so."""
    path = tmp_path / "app.py"
    path.write_text(PROGRAM, encoding="utf-8")
    again = (
        "import os, sys; print('done', flush=True); sys.stdin.buffer.raw.read(3); os.execv(sys.argv[1], sys.argv[1:])"
    )
    script = 'echo waits; read line; exec "$0" -c "$1" "$0" "$2"'
    with (
        told("/bin/sh", "-c", script, sys.executable, again, path) as process,
        profile.open(pid=process.pid, python=True, user=True, frequency=FREQUENCY) as collect,
    ):
        assert process.answer() == "waits"
        for _ in range(2):
            process.tell("go")
            collect(1.1)  # each second it looks for processes that run Python
        process.tell("work", SECONDS)
        found = shares(collect(0), path)
    assert found["inner", "outer", "<module>"] > 0.9


def test_the_page(tmp_path):
    """The program of docs/stacks.md names the functions of a program that is busy."""
    page = (ROOT / "docs" / "stacks.md").read_text(encoding="utf-8")
    (example,) = re.findall(r'^```python\n("""Where Python .*?)^```$', page, re.MULTILINE | re.DOTALL)
    assert "[:3]" in example
    example = example.replace("[:3]", "")  # something else may be busier here
    with (
        program(sys.executable, tmp_path) as process,
        (tmp_path / "printed").open("w+") as printed,
        subprocess.Popen([sys.executable, "-c", example], cwd=ROOT, stdout=printed) as running,
    ):
        while running.poll() is None:
            process.tell("work", 0.2)
        printed.seek(0)
        text = printed.read()
    assert re.search(
        rf"^process {process.pid}, \d+ times, innermost first:\n(    .*\n)*    py::inner:", text, re.MULTILINE
    )
