"""oomkill: processes that a control group's limit kills."""

from __future__ import annotations

import re
import signal

import pytest

from tests.support.command import running
from tests.support.memory import memory_group
from tests.support.needs import needs

LIMIT = 40 << 20
#: Memory that is written to, more than the limit.
GROW = "open('/proc/self/comm', 'w').write('grows'); b'x' * (400 << 20)"
LINE = re.compile(
    r'(\d\d:){2}\d\d Triggered by PID (\d+) \("grows"\), OOM kill of PID (\d+) \("grows"\), (\d+) pages, '
    r"loadavg: ([\d.]+ ){3}\d+/\d+ \d+"
)


@pytest.fixture
def group():
    needs("attach:tp_btf")
    with memory_group() as made:
        made.limit(LIMIT)
        yield made


def test_kills_of_a_group(group):
    """A line for each, as many as the group counts; the pages of a process that SIGKILL ended are above the limit."""
    with running("oomkill") as text, running("oomkill", "--json") as objects:
        killed = []
        for _ in range(3):
            with group.start(GROW) as process:
                assert process.wait() == -signal.SIGKILL
            killed.append(process.pid)
        with group.start("print()") as process:
            assert process.wait() == 0
        for tool in (text, objects):
            tool.stop()
    assert group.oom_kills() == len(killed)
    found = [each for each in objects.objects() if each["victim_pid"] in killed]
    assert [(each["victim_pid"], each["victim_comm"]) for each in found] == [(pid, "grows") for pid in killed]
    assert [(each["pid"], each["comm"]) for each in found] == [(pid, "grows") for pid in killed]
    assert all(each["pages"] * 4096 > LIMIT for each in found)
    lines = [LINE.fullmatch(line) for line in text.out.splitlines()]
    ours = [line for line in lines if line and int(line[3]) in killed]
    assert [(int(line[2]), int(line[3]), int(line[4])) for line in ours] == [
        (each["pid"], each["victim_pid"], each["pages"]) for each in found
    ]


def test_other_signals_are_none(group):
    """A process that somebody kills, without want of memory."""
    with running("oomkill", "--json") as objects:
        with group.start("import os, signal; os.kill(os.getpid(), signal.SIGKILL)") as process:
            assert process.wait() == -signal.SIGKILL
        objects.stop()
    assert process.pid not in [each["victim_pid"] for each in objects.objects()]
    assert group.oom_kills() == 0
