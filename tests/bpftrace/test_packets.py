"""Capture files of packets that skboutput() copies."""

from __future__ import annotations

from io import BytesIO, TextIOWrapper
from struct import pack

from pyebpf.bpftrace.packets import Captures


class Kept(BytesIO):
    """A file whose content outlives its end."""

    content = b""

    def close(self) -> None:
        self.content = self.getvalue()
        super().close()


def record(number: int, start: int, nanoseconds: int, packet: bytes) -> bytes:
    """A packet as it comes from the kernel, with what is behind it in the buffer."""
    return pack("<4Q", number, start, len(packet), nanoseconds) + packet + b"\xff" * 3


def test_packets_are_written_to_their_files() -> None:
    """Without their beginnings, with the time of day; a file is made when the first comes."""
    made: dict[str, Kept] = {}

    def open_file(path: str) -> TextIOWrapper:
        return TextIOWrapper(made.setdefault(path, Kept()))

    files = Captures(["a", "b", "c"], 10**18, open_file)
    files.write([record(0, 2, 1_500_000, b"--one"), record(2, 0, 0, b"two")])
    files.write([record(0, 0, 2_000_000_000, b"three")])
    files.close()
    begin = bytes.fromhex("d4c3b2a1 0200 0400 00000000 00000000 ffff0f00 65000000")
    assert made.keys() == {"a", "c"}
    first = pack("<4I", 10**9, 1500, 3, 3) + b"one"
    assert made["a"].content == begin + first + pack("<4I", 10**9 + 2, 0, 5, 5) + b"three"
    assert made["c"].content == begin + pack("<4I", 10**9, 0, 3, 3) + b"two"
