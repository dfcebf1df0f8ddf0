"""Source lines and inlined functions of user stacks: where a known program calls, and the same by a tool's option."""

from __future__ import annotations

import json
import subprocess

import pytest

from pyebpf import BPF, pid, s32, ustack
from tests.support.command import running
from tests.support.native import build_native
from tests.support.told import told

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
volatile int sink;
__attribute__((noinline)) int probed(int n) { sink += n; return n; }
__attribute__((noinline)) int between(int n) { return probed(n) + sink; }
static inline __attribute__((always_inline)) int inner(int n) {
    int twice = n * 2;
    return between(twice) + 1;
}
static inline __attribute__((always_inline)) int outer(int n) {
    return
        inner(n) * 3;
}
__attribute__((noinline)) int caller(int n) {
    int found = outer(n);
    return found ^ sink;
}
int main(void) {
    char what;
    while (scanf(" %c", &what) == 1) {
        for (int i = 0; i < 7; i++) sink ^= caller(i) + 1;
        puts("done");
        fflush(stdout);
    }
    return 0;
}
"""
PROBED, INNER, OUTER, CALLER, MAIN = 5, 9, 13, 16, 22
#: At a function's entry its caller has no frame pointer there: newer kernels find it nevertheless.
SOMETIMES = "between"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build_native(PROGRAM, tmp_path_factory.mktemp("source") / "calls")


@pytest.fixture
def process(program):
    with told(program) as started:
        yield started


def test_lines_and_inlined_calls(process, program):
    """Each frame has the line where the call stands, the innermost that of the instruction; inlined ones their own."""
    bpf = BPF()
    stacks = bpf.hash(key=s32, value=s32)

    @bpf.uprobe(program, "probed", pid=process.pid)
    def on_call() -> None:
        stacks[ustack()] = pid()

    with bpf:
        process.tell("s")
        (number,) = stacks
        frames = bpf.stacks.user(number, process.pid, source=True)
        plain = bpf.stacks.user(number, process.pid)
    frames, plain = ([each for each in found if each.name != SOMETIMES] for found in (frames, plain))
    found = [(frame.name, frame.line, frame.inlined) for frame in frames[:5]]
    assert found == [
        ("probed", PROBED, False),
        ("inner", INNER, True),
        ("outer", OUTER, True),
        ("caller", CALLER, False),
        ("main", MAIN, False),
    ]
    assert {frame.file for frame in frames[:5]} == {str(program.with_suffix(".c"))}
    assert [frame.source for frame in frames[:2]] == [f"calls.c:{PROBED}", f"calls.c:{INNER}"]
    assert str(frames[1]) == f"inner (inlined) calls.c:{INNER}"
    # The rest is as without, and nothing but the source is added.
    assert [frame[:4] for frame in frames if not frame.inlined] == [frame[:4] for frame in plain]
    assert all(frame.line == 0 for frame in plain)


def test_a_program_without_debugging_information(process, program, tmp_path):
    """Its frames are what they are where no source is asked for."""
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "--strip-debug", "-o", stripped, program], check=True)
    bpf = BPF()
    stacks = bpf.hash(key=s32, value=s32)

    @bpf.uprobe(stripped, "probed")
    def on_call() -> None:
        stacks[ustack()] = pid()

    with bpf, told(stripped) as other:
        other.tell("s")
        ((number, owner),) = stacks.items()
        own = [
            [frame for frame in bpf.stacks.user(number, owner, source=source) if frame.module == str(stripped)]
            for source in (True, False)
        ]
    assert own[0] == own[1]
    assert {"probed", "caller", "main"} <= {frame.name for frame in own[0]}


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("inlined", ["probed", "inner (inlined)", "outer (inlined)", "caller", "main"]),
        (
            "lines",
            [
                f"probed:calls.c:{PROBED}",
                f"inner:calls.c:{INNER} (inlined)",
                f"outer:calls.c:{OUTER} (inlined)",
                f"caller:calls.c:{CALLER}",
                f"main:calls.c:{MAIN}",
            ],
        ),
    ],
)
def test_the_option(what, expected, process, program):
    """`--source` of stackcount: seven calls by one stack."""
    # One that ends by itself reads all names, however slow the machine.
    options = ("--json", "--source", what, "--duration", "3", "-p", str(process.pid))
    with running("stackcount", *options, f"{program}:probed") as command:
        process.tell("s")
        command.wait()
    (stack,) = [json.loads(line) for line in command.out.splitlines()]
    assert stack["count"] == 7
    assert [each for each in stack["user"] if not each.startswith(SOMETIMES)][:5] == expected
    assert not stack["cut"]
