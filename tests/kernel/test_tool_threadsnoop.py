"""threadsnoop and bashreadline: threads of a program of the test's own, lines that are typed into a shell."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time

import pytest

from pyebpf.errors import NotFound
from pyebpf.programs import bashreadline, threadsnoop
from tests.support.command import running
from tests.support.native import build_native
from tests.support.needs import needs
from tests.support.waiting import PATIENCE

PROGRAM = """
#include <pthread.h>
#include <unistd.h>
static void *count(void *n) { ++*(long *)n; return 0; }
static void *rest(void *n) { return n; }
static void make(void *(*start)(void *), int threads) {
    long number = 0;
    pthread_t thread;
    for (int i = 0; i < threads; i++) {
        pthread_create(&thread, 0, start, &number);
        pthread_join(thread, 0);
    }
}
/* Lives for a second behind its threads: the tool has to see what it has mapped. */
int main(void) { make(count, 5); make(rest, 3); make(count, 2); sleep(1); return 0; }
"""
FUNCTIONS = ["count"] * 5 + ["rest"] * 3 + ["count"] * 2
LINES = ["echo hello", "true  'two  blanks'", ": caf\u00e9", ": " + "x" * 509, ": " + "y" * 510, "exit"]
PROMPT = "ready> "


@pytest.fixture(autouse=True)
def _uprobes():
    needs("attach:uprobe")


def test_threads(tmp_path):
    """Each thread in order with the function that it begins with, and its creator's, though the process has ended."""
    program = build_native(PROGRAM, tmp_path / "makes-threads", "-pthread")
    with running("threadsnoop", "--comm", "makes-threads", "--json") as objects, running("threadsnoop") as text:
        with subprocess.Popen([program]) as process:
            assert process.wait() == 0
        for tool in (objects, text):
            tool.await_text(FUNCTIONS[-1])  # once it is to stop, it has a second for all names
            tool.stop()
    found = objects.objects()
    assert [each["function"] for each in found] == FUNCTIONS
    assert {(each["pid"], each["tid"], each["comm"]) for each in found} == {
        (process.pid, process.pid, "makes-threads"),
    }
    assert {each["module"] for each in found} == {str(program)}
    assert all("main" in each["stack"] for each in found)
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["TIME", "PID", "COMM", "FUNC"]
    ours = [line.split() for line in lines if line.split()[1] == str(process.pid)]
    assert [line[2:] for line in ours] == [["makes-threads", name] for name in FUNCTIONS]


MADE = """
#include <pthread.h>
#include <stdio.h>
static void *count(void *n) { return n; }
__attribute__((noinline)) void nearest(void) {
    pthread_t thread;
    pthread_create(&thread, 0, count, 0);
    pthread_join(thread, 0);
    puts("done");
    fflush(stdout);
}
int main(void) { while (getchar() == '!') nearest(); return 0; }
"""


def test_the_nearest_caller(tmp_path):
    """--unwind has it of each thread of a process that -p names, and of another's once it was seen."""
    needs("helper:task_pt_regs@kprobe")
    program = build_native(MADE, tmp_path / "nearest", "-O1", "-pthread", "-fomit-frame-pointer")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
    with (
        subprocess.Popen([program], **pipes) as process,
        threadsnoop.open(pid=process.pid, unwind=True) as of_it,
        threadsnoop.open(comm="nearest", unwind=True) as of_any,
    ):

        def create():
            process.stdin.write(b"!")
            assert process.stdout.readline() == b"done\n"

        create()
        assert next(of_it).stack[:2] == ("nearest", "main")
        until = time.monotonic() + PATIENCE
        while next(of_any).stack[:2] != ("nearest", "main"):
            assert time.monotonic() < until
            create()
        process.stdin.close()


def test_a_program_without_symbols(tmp_path):
    """The file's name stands for the function's."""
    program = build_native(PROGRAM, tmp_path / "bare", "-pthread", "-s")
    with threadsnoop.open(comm="bare") as threads:
        subprocess.run([program], check=True)
        found = [next(threads) for _ in FUNCTIONS]
    assert [(each.function, each.module) for each in found] == [(None, str(program))] * len(FUNCTIONS)
    assert threadsnoop.function_name(found[0]) == f"[{program}]"


def typed(history):
    """Type the lines into a shell at a terminal, each when it asks for one: its number, and its own history."""
    main, side = pty.openpty()
    environment = {"PS1": PROMPT, "HISTFILE": str(history), "TERM": "dumb", "LC_ALL": "C.UTF-8", "PATH": os.defpath}
    with subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"], stdin=side, stdout=side, stderr=side, env=environment,
        start_new_session=True,
    ) as shell:  # fmt: skip
        os.close(side)
        for line in LINES:
            seen = b""
            while not seen.endswith(PROMPT.encode()):
                assert select.select([main], [], [], PATIENCE)[0], seen
                seen += os.read(main, 4096)
            os.write(main, line.encode() + b"\n")
        while select.select([main], [], [], PATIENCE)[0]:
            try:
                os.read(main, 4096)
            except OSError:  # its end
                break
    os.close(main)
    return shell.pid, history.read_text().splitlines()


def test_lines(tmp_path):
    """Each line that bash's own history has, those of 512 bytes and more cut."""
    needs("command:bash")
    with (
        running("bashreadline", "--json") as objects,
        running("bashreadline") as text,
        bashreadline.open(uid=1) as none,
    ):
        pid, history = typed(tmp_path / "history")
        for tool in (objects, text):
            tool.stop()
        assert not [each for each in none.poll(0) if each.pid == pid]
    assert history == LINES
    found = [each for each in objects.objects() if each["pid"] == pid]
    assert [each["command"] for each in found] == [line[:511] for line in history]
    assert {(each["uid"], each["comm"]) for each in found} == {(os.getuid(), "bash")}
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["TIME", "PID", "COMMAND"]
    ours = [line.split(maxsplit=2)[2] for line in lines if line.split()[1] == str(pid)]
    assert ours == [line[:511] for line in history]


def test_a_program_without_readline():
    """One line says so."""
    with pytest.raises(NotFound, match="has no function readline"), bashreadline.open(shared="libm.so.6"):
        pass
