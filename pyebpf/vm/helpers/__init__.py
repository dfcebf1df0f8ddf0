"""Emulated helpers, one file a subject; importing this lists them all in `HELPERS`."""

from pyebpf.vm.helpers import (
    checksums,
    dynptr,
    fib,
    frames,
    maps,
    network,
    output,
    sockets,
    syncookies,
    text,
    tracing,
    tunnels,
)
from pyebpf.vm.helpers.registry import HELPERS, emulates

__all__ = [
    "HELPERS",
    "checksums",
    "dynptr",
    "emulates",
    "fib",
    "frames",
    "maps",
    "network",
    "output",
    "sockets",
    "syncookies",
    "text",
    "tracing",
    "tunnels",
]
