"""Offloads of a network device, by the ioctl of ethtool(8)."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from typing import TYPE_CHECKING

from tests.support.traffic import inside

if TYPE_CHECKING:
    from tests.support.namespaces import Namespace

SIOCETHTOOL = 0x8946
ETHTOOL_STSO = 0x1F


def split_in_software(namespace: Namespace, name: str) -> None:
    """Have the kernel split what a device of a test's own namespace sends: no segmentation by the device (TSO)."""
    value = ctypes.create_string_buffer(struct.pack("=II", ETHTOOL_STSO, 0), 8)
    request = struct.pack("16sQ16x", name.encode(), ctypes.addressof(value))
    with inside(namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        fcntl.ioctl(end, SIOCETHTOOL, request)
