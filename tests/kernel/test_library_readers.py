"""Tools as libraries tell what they dropped, and wait no longer than they are told."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from pyebpf.programs import opensnoop, soconnect

OPENS = 5003


def opens(count):
    """Open a file so many times."""
    for _ in range(count):
        os.close(os.open("/dev/null", os.O_RDONLY))


@pytest.mark.parametrize("size", [1 << 12, 1 << 20])
def test_every_event_is_given_or_counted_as_dropped(size):
    """More opens than a small buffer has room for: those that came and those that were dropped are all of them."""
    with opensnoop.open(pid=os.getpid(), buffer=size) as calls:
        opens(OPENS)
        seen = [each for each in calls.poll(0) if each.path == "/dev/null"]
        assert 0 < len(seen) < OPENS
        assert calls.dropped == {"opens: ring buffer full": OPENS - len(seen)}
        opens(3)
        assert [each.path for each in calls.poll(1)].count("/dev/null") == 3
    assert calls.dropped == {"opens: ring buffer full": OPENS - len(seen)}


def test_a_quiet_tool_blocks_no_longer_than_asked():
    """`poll` ends in time, and the descriptor is readable when something happens: in an event loop."""
    with soconnect.open(pid=os.getpid()) as connects:
        began = time.monotonic()
        assert connects.poll(0.1) == []
        assert time.monotonic() - began >= 0.1

    async def watch(calls):
        loop, came = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(calls.fileno(), came.set)
        try:
            assert not came.is_set()
            opens(17)
            await asyncio.wait_for(came.wait(), 10)
            return calls.poll(0)
        finally:
            loop.remove_reader(calls.fileno())

    with opensnoop.open(pid=os.getpid()) as calls:
        seen = asyncio.run(watch(calls))
        assert [each.path for each in seen].count("/dev/null") == 17
