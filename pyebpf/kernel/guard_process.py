"""The guard: a process that waits for its owner's death, then removes what that left attached.

Started by `kernel/guard.py` with one end of a socket as standard input. Messages are JSON: `{"add": id, "removal":
name, "arguments": [...], "locked": bool}` with descriptors beside it, of which the last is the owner's lock if it is
"locked"; and `{"drop": id}`. When the owner dies the socket ends; one that has nothing left to guard kills this
process.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket

from pyebpf.kernel.removals import NEEDS, REMOVALS

_MAX_ELEMENTS = 1 << 16
_MAX_DESCRIPTORS = 8


def main() -> None:
    """Serve the owner at standard input until it ends, then keep its promises."""
    # A terminal's Ctrl-C and a service manager's stop are for the owner, who then removes all or dies.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as shown:
        shown.write("pyebpf-guard")
    held: dict[int, tuple[str, list[object], list[int], list[int]]] = {}
    with socket.socket(fileno=0) as owner:
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(owner, _MAX_ELEMENTS, _MAX_DESCRIPTORS)
            except ConnectionError:
                data, descriptors = b"", []
            if not data:
                break
            message = json.loads(data)
            if "add" in message:
                name = message["removal"]
                if name in NEEDS:
                    importlib.import_module(NEEDS[name])
                # Locks are only held: to this process's end, which is when nothing is left to remove.
                locks = [descriptors.pop()] if message["locked"] else []
                held[message["add"]] = name, message["arguments"], descriptors, locks
            else:
                _, _, descriptors, locks = held.pop(message["drop"])
                for each in (*descriptors, *locks):
                    os.close(each)
    for name, arguments, descriptors, _ in reversed(held.values()):
        # One that fails leaves the others to be removed; there is nobody to tell.
        with contextlib.suppress(Exception):
            REMOVALS[name](*arguments, *descriptors)
