"""A tool in an event loop: the opens of this program, and how many of them found no room in the buffer."""

import os
import selectors

from pyebpf.programs import opensnoop

with (
    opensnoop.open(pid=os.getpid(), buffer=1 << 20) as opens,  # room for a mebibyte of events
    selectors.DefaultSelector() as selector,
):
    selector.register(opens, selectors.EVENT_READ)  # it has a fileno()
    for _ in range(23):
        os.close(os.open("/dev/null", os.O_RDONLY))
    seen = []
    while selector.select(timeout=1.0):  # until nothing happens for a second
        seen += [each for each in opens.poll(0) if each.path == "/dev/null"]
    print(f"{len(seen)} opens, the last: {seen[-1].as_dict()}")
    print(f"dropped: {sum(opens.dropped.values())}", opens.dropped)
