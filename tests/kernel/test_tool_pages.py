"""The library examples on the socket tools' pages run as they are copied, and print what a workload gives them."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support import socket_calls, socket_messages
from tests.support.command import ROOT
from tests.support.needs import PROBES, needs_functions
from tests.support.waiting import PATIENCE, wait_until

#: Each tool, and something of the workload that its example prints.
PRINTED = {
    "so1stbyte": "so-pages",
    "soaccept": "EAGAIN",
    "socketio": "so-pages write UDP",
    "socksize": "'write', 'comm': 'so-pages'",
    "sockstat": "socketpair 2",
    "soconnect": "ECONNREFUSED",
    "soconnlat": "so-pages .*connect",
    "sofamily": "so-pages",
    "sofdsnoop": "SEND .* passwd",
    "solife": "so-pages",
    "solisten": "so-pages TCPv6",
    "soprotocol": "so-pages",
    "sormem": "'allocated'",
    "tcpbind": "EADDRINUSE",
}
#: Those that need functions of the kernel, some only where it has no tracepoints for messages.
FUNCTIONS, MESSAGES = {"solife", "sormem"}, {"so1stbyte", "socketio", "socksize", "sockstat"}


def work():
    """Every call that the tools trace."""
    with socket_calls.calls("so-pages") as callers, socket_messages.messages("so-pages") as messengers:
        callers.run()
        messengers.run()
    one, other = socket.socketpair()
    with one, other, Path("/etc/passwd").open("rb") as file:
        socket.send_fds(one, [b"x"], [file.fileno()])


#: A summary's example waits for a second: here, for the end of the workload.
SECOND, WORKLOAD = "time.sleep(1)", "print('attached'); input()"


@pytest.mark.parametrize(
    "tool",
    # The development machine shows those that it can: an emulated one takes half a minute for each.
    [pytest.param(tool, marks=() if tool in FUNCTIONS else pytest.mark.any_kernel) for tool in PRINTED],
)
def test_the_library_example(tool):
    """It prints the workload's calls: event tools as they happen, summaries after it."""
    if tool in FUNCTIONS or (tool in MESSAGES and not PROBES["tracepoint"]("sock:sock_send_length")):
        needs_functions()
    page = (ROOT / "docs" / "tools" / f"{tool}.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    command = [sys.executable, "-u", "-c", example.replace(SECOND, WORKLOAD)]
    with (
        tempfile.TemporaryFile("w+") as out,
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=out, stderr=out, text=True) as process,
    ):

        def printed():
            out.seek(0)
            return out.read()

        def seen():
            if SECOND not in example:
                work()
            assert process.poll() in (None, 0), printed()
            return re.search(PRINTED[tool], printed())

        try:
            if SECOND in example:
                wait_until(lambda: "attached" in printed() or process.poll() is not None, printed)
                work()
                process.communicate("\n", timeout=PATIENCE)
            wait_until(seen, printed, seconds=PATIENCE)
        finally:
            process.kill()
