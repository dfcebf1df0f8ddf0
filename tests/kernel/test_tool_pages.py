"""The library examples on the socket tools' pages run as they are copied, and print what a workload gives them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.support import socket_calls, socket_messages
from tests.support.needs import PROBES, needs_functions
from tests.support.page_examples import check_example

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


@pytest.mark.parametrize(
    "tool",
    # The development machine shows those that it can: an emulated one takes half a minute for each.
    [pytest.param(tool, marks=() if tool in FUNCTIONS else pytest.mark.any_kernel) for tool in PRINTED],
)
def test_the_library_example(tool):
    """It prints the workload's calls: event tools as they happen, summaries after it."""
    if tool in FUNCTIONS or (tool in MESSAGES and not PROBES["tracepoint"]("sock:sock_send_length")):
        needs_functions()
    check_example(tool, work, PRINTED[tool])
