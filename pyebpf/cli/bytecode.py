"""Options and hexadecimal that `asm` and `disasm` share."""

from __future__ import annotations

import argparse
import re
from functools import partial
from typing import TYPE_CHECKING

from pyebpf.cli import arguments
from pyebpf.errors import MalformedData

if TYPE_CHECKING:
    from pyebpf.asm.encoding import ByteOrder

_HEX = re.compile(rb"[0-9a-fA-F\s]*")
_TEXT = re.compile(rb"[\x20-\x7e\s]+")


class Parser(arguments.Parser):
    """The parser of a command."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(
            prog=f"pyebpf {name}",
            description=description,
            formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=78),
            allow_abbrev=False,
        )

    def add_big_endian(self) -> None:
        """The option for the other byte order."""
        self.add_argument(
            "--big-endian",
            dest="byteorder",
            action="store_const",
            const="big",
            default="little",
            help="bytes as big-endian machines have them",
        )


def to_hex(data: bytes) -> str:
    """Eight bytes a line."""
    return "".join(f"{data[at : at + 8].hex(' ')}\n" for at in range(0, len(data), 8))


def is_text(data: bytes) -> bool:
    """Whether it is printable ASCII; programs in bytes never are, for the zeros in them."""
    return _TEXT.fullmatch(data) is not None


def from_hex(data: bytes, name: str) -> bytes:
    """Bytes written in hexadecimal, white space between them or not. MalformedData names the place of what is not."""
    for number, line in enumerate(data.split(b"\n"), 1):
        found = _HEX.match(line)
        if found is not None and found.end() < len(line):
            column = found.end()
            raise MalformedData(f"{name}:{number}:{column + 1}: {chr(line[column])!r} is not a hexadecimal digit")
    digits = b"".join(data.split())
    if len(digits) % 2:
        raise MalformedData(f"{name}: an odd number of hexadecimal digits ({len(digits)}): one is missing")
    return bytes.fromhex(digits.decode("ascii"))


def byte_order(options: argparse.Namespace) -> ByteOrder:
    """Return the byte order that `--big-endian` chose."""
    return "big" if options.byteorder == "big" else "little"
