"""The kernel's WiFi stack asked by netlink (nl80211), as iw(8) does: scans, networks without access point."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

NETLINK_GENERIC, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP = 16, 270, 1
NLM_F_REQUEST, NLM_F_ACK, NLMSG_ERROR = 1, 4, 2
GENL_ID_CTRL, CTRL_CMD_GETFAMILY = 16, 3
CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME, CTRL_ATTR_MCAST_GROUPS = 1, 2, 7
GROUP_NAME, GROUP_ID = 1, 2
# enum nl80211_commands, nl80211_attrs, nl80211_iftype
SET_INTERFACE, TRIGGER_SCAN, NEW_SCAN_RESULTS, SCAN_ABORTED, JOIN_IBSS, ABORT_SCAN = 6, 33, 34, 35, 43, 114
IFINDEX, IFTYPE, MAC, BEACON_INTERVAL, WIPHY_FREQ, SCAN_FREQUENCIES, SSID, FREQ_FIXED = 3, 5, 6, 12, 38, 44, 52, 60
ADHOC, STATION, MONITOR = 1, 2, 6
PATIENCE = 60


def attribute(kind: int, value: bytes) -> bytes:
    """Struct nlattr and its value, padded."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def number(kind: int, value: int) -> bytes:
    """An attribute of 32 bits."""
    return attribute(kind, struct.pack("=I", value))


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and value of each attribute."""
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        yield kind & 0x3FFF, data[4:length]
        data = data[length + -length % 4 :]


def set_link(interface: str, state: str) -> None:
    """Set an interface up or down."""
    subprocess.run(["ip", "link", "set", interface, state], check=True)


class Wifi:
    """A socket to nl80211 that hears of the ends of scans; a context manager."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_GENERIC)
        self._socket.settimeout(PATIENCE)
        self._family = GENL_ID_CTRL
        self._heard: list[int] = []  # commands of the multicast group "scan"
        family = self.ask(CTRL_CMD_GETFAMILY, attribute(CTRL_ATTR_FAMILY_NAME, b"nl80211\0"))
        for kind, value in attributes(family):
            if kind == CTRL_ATTR_FAMILY_ID:
                self._family = int.from_bytes(value, "little")
            if kind == CTRL_ATTR_MCAST_GROUPS:
                groups = [dict(attributes(group)) for _, group in attributes(value)]
        (scan,) = (int.from_bytes(group[GROUP_ID], "little") for group in groups if group[GROUP_NAME] == b"scan\0")
        self._socket.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, scan)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, command: int, *items: bytes) -> bytes:
        """Send a command; the attributes of its answer, if it has one. Raises OSError where the kernel refuses."""
        body = struct.pack("=BBH", command, 1, 0) + b"".join(items)
        self._socket.send(struct.pack("=IHHII", 16 + len(body), self._family, NLM_F_REQUEST | NLM_F_ACK, 0, 0) + body)
        answer = b""
        while True:
            for kind, data in self._messages():
                if kind == NLMSG_ERROR:
                    (code,) = struct.unpack_from("=i", data)
                    if code:
                        raise OSError(-code, os.strerror(-code))
                    return answer
                if kind == GENL_ID_CTRL:
                    answer = data[4:]

    def _messages(self) -> list[tuple[int, bytes]]:
        """Type and body of what the kernel sends next; ends of scans are noted."""
        data, found = self._socket.recv(1 << 16), []
        while data:
            length, kind = struct.unpack_from("=IH", data)
            found.append((kind, data[16:length]))
            if kind == self._family != GENL_ID_CTRL:
                self._heard.append(data[16])
            data = data[length + -length % 4 :]
        return found

    def become(self, interface: str, kind: int) -> None:
        """Make an interface of another kind, and set it up."""
        set_link(interface, "down")
        self.ask(SET_INTERFACE, number(IFINDEX, socket.if_nametoindex(interface)), number(IFTYPE, kind))
        set_link(interface, "up")

    def start_scan(self, interface: str, frequencies: tuple[int, ...]) -> None:
        """Ask for a passive scan of channels by their frequencies in MHz."""
        listed = b"".join(number(index, each) for index, each in enumerate(frequencies))
        index = socket.if_nametoindex(interface)
        self.ask(TRIGGER_SCAN, number(IFINDEX, index), attribute(SCAN_FREQUENCIES, listed))

    def scan(self, interface: str, frequencies: tuple[int, ...], *, abort: bool = False) -> None:
        """Scan to the end; with `abort`, to one that is asked for."""
        self.start_scan(interface, frequencies)
        if abort:
            self.ask(ABORT_SCAN, number(IFINDEX, socket.if_nametoindex(interface)))
        end = SCAN_ABORTED if abort else NEW_SCAN_RESULTS
        while end not in self._heard:
            self._messages()
        self._heard.clear()

    def join_ibss(self, interface: str, ssid: bytes, frequency: int, beacon_interval: int) -> None:
        """Make a network without access point, whose stations send beacons each `beacon_interval` times 1,024 us.

        Identifier and channel are fixed, so that the kernel does not look for such a network first.
        """
        self.ask(
            JOIN_IBSS,
            number(IFINDEX, socket.if_nametoindex(interface)),
            attribute(SSID, ssid),
            number(WIPHY_FREQ, frequency),
            number(BEACON_INTERVAL, beacon_interval),
            attribute(MAC, b"\2pyebp"),
            attribute(FREQ_FIXED, b""),
        )
        deadline = time.monotonic() + PATIENCE
        while Path("/sys/class/net", interface, "carrier").read_text() != "1\n":
            assert time.monotonic() < deadline
            time.sleep(0.05)
