"""Directives that make bytes of their own, `.byte`, `.8byte`, `.quad` and the like: together, whole slots."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.asm.encoding import decode
from pyebpf.asm.instruction import Instruction, Raw
from pyebpf.asm.operands import integer
from pyebpf.dataclass import replace
from pyebpf.errors import AssemblyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.asm.instruction import Item
    from pyebpf.asm.shapes import Token
    from pyebpf.errors import Location

#: Bytes of each of their numbers.
DATA = {".byte": 1, ".2byte": 2, ".short": 2, ".4byte": 4, ".long": 4, ".int": 4, ".8byte": 8, ".quad": 8}
_NUMBERS = re.compile(r"[+]?#(,[+]?#)*")  # kinds of tokens: `+#` has a sign


class Data(NamedTuple):
    """The bytes that one line makes, which need not be a whole slot."""

    data: bytes
    where: Location


def read_data(tokens: Sequence[Token], at: Callable[[int, int], Location]) -> Data:
    """The bytes of a line with such a directive, numbers low byte first."""
    name, size = tokens[0].text, DATA[tokens[0].text]
    where = at(tokens[0].start, tokens[-1].end)
    if not _NUMBERS.fullmatch("".join(token.kind for token in tokens[1:])):
        raise AssemblyError(f"{name} takes numbers of {size} bytes, with commas between them", where)
    most, out = (1 << 8 * size) - 1, bytearray()
    for token in tokens[1::2]:
        number = integer(token.text)
        if not -(most >> 1) - 1 <= number <= most:
            what = "byte" if size == 1 else f"number of {size} bytes"
            raise AssemblyError(f"{token.text} is not a {what} (0 to {most:#x})", at(token.start, token.end))
        out += (number & most).to_bytes(size, "little")
    return Data(bytes(out), where)


def slots_of(items: Sequence[Item | Raw | Data]) -> list[Item | Raw]:
    """Data of one or more lines in a row as slots."""
    out: list[Item | Raw] = []
    for is_data, group in groupby(items, lambda item: isinstance(item, Data)):
        if not is_data:
            out += group  # type: ignore[arg-type]  # none of them is data
            continue
        lines: list[Data] = list(group)  # type: ignore[arg-type]  # all of them are
        together = b"".join(line.data for line in lines)
        if len(together) % 8:
            raise AssemblyError(f"{len(together)} bytes of data make no whole slots of 8", lines[-1].where)
        ends = list(accumulate(len(line.data) for line in lines))
        for at in range(0, len(together), 8):
            out.append(Raw(together[at : at + 8], lines[bisect_right(ends, at)].where))
    return out


def instructions_of(items: Sequence[Instruction | Raw]) -> tuple[Instruction, ...]:
    """The instructions of a program, those that are written as bytes among them.

    AssemblyError, with `location`, for a slot that is no instruction: it cannot be run.
    """
    if all(isinstance(item, Instruction) for item in items):
        return tuple(items)  # type: ignore[arg-type]  # as has just been seen
    out: list[Instruction] = []
    slot = 0
    for is_raw, group in groupby(items, lambda item: isinstance(item, Raw)):
        if not is_raw:
            out += group  # type: ignore[arg-type]  # no others are left
            slot = sum(each.slots for each in out)
            continue
        slots: list[Raw] = list(group)  # type: ignore[arg-type]  # all of them are
        first = slot
        for each in decode(b"".join(raw.data for raw in slots), raw=True):
            where = slots[slot - first].where
            if isinstance(each, Raw):
                raise AssemblyError(f"slot {slot}: unknown opcode {each.data[0]:02x} ({each.data.hex()})", where)
            out.append(replace(each, where=where))
            slot += each.slots
    return tuple(out)
