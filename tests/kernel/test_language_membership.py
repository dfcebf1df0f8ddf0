"""Tuples and text compared and searched, by programs that the kernel's verifier takes."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from pyebpf import BPF, comm, cpu, pid, u64, user_string

OPENED = (
    "/nonexistent/a.conf",
    "/nonexistent/deeper/and/longer/than/two/words",
    "/nonexistent/.confx",
    "/elsewhere/conf/x",
)


@pytest.fixture
def hits():
    """Function from a condition on a path, as text, to how many of the opened paths it was true of."""

    def count(condition, **names):
        bpf = BPF()
        found = bpf.array(value=u64)
        text = "@bpf.tracepoint('syscalls:sys_enter_openat')\ndef on_open(filename):\n"
        text += "    if pid() == me:\n"
        text += f"        path = user_string(filename, 200)\n        if {condition}:\n            found[0] += 1\n"
        bpf.define(
            text,
            {
                "bpf": bpf,
                "found": found,
                "pid": pid,
                "cpu": cpu,
                "comm": comm,
                "me": os.getpid(),
                "user_string": user_string,
                **names,
            },
        )
        with bpf:
            for path in OPENED:
                with contextlib.suppress(OSError):
                    os.close(os.open(path, os.O_RDONLY))
            # The interpreter opens files of its own at times; none is called so.
            return found[0]

    return count


CONDITIONS = [
    "'/nonexistent/' in path",
    "'/deeper/and/longer/than/two/words' in path and 'x/deeper' not in path",
    "path.startswith('/nonexistent/') and path.endswith('.conf')",
    "path.endswith(('.confx', '/conf/x'))",
    "path in ('/nonexistent/a.conf', '/elsewhere/conf/x', '/etc')",
    "(path, len(path)) in {('/elsewhere/conf/x', 17), ('/nonexistent/a.conf', 5)}",
    "'/conf' in path and '/deeper/' not in path and ('a' in path or '.x' in path)",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_on_text_are_pythons(hits, condition):
    """The same as Python says of the paths."""
    assert hits(condition) == sum(bool(eval(condition, {"path": path})) for path in OPENED)


def test_a_literal_tells_how_much_of_a_string_is_read(hits):
    """A string that goes on behind the literal is another one."""
    assert hits("user_string(filename) == '/nonexistent/a.conf'") == 1
    assert hits("user_string(filename) == '/nonexistent/'") == 0
    assert hits("user_string(filename).startswith('/nonexistent/')") == 3


def test_a_filter_by_pairs(hits):
    """A set of tuples made outside, of text and a number; forty of them."""
    allowed = {(f"program-{number}", number) for number in range(40)}
    mine = Path("/proc/self/comm").read_text().strip()
    condition = "path.startswith('/nonexistent') and (comm(), cpu() & 0) in allowed"
    assert hits(condition, allowed=allowed | {(mine, 0)}) == 3
    assert hits(condition, allowed=allowed | {(mine, 1)}) == 0
