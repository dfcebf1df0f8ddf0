"""Stores at run-time offsets that may change a part of eight bytes of the stack whose rest a register was stored to.

The verifier keeps what it knows of a register that is stored to eight aligned bytes of the stack. Most forget that the
rest holds anything, where a store at an offset that varies overwrites a part: they refuse to read it ("invalid read
from stack"). Linux 5.10 and 6.1 do so of registers with bounds, Linux 6.18.15 of all and of constants; 6.12.117,
6.18.44 and 7.3 of none. A store of one byte at a fixed offset, before, makes every verifier take the eight bytes for
plain data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.ir import Op

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.compiler import ir

#: Bytes of which the verifier keeps a register: BPF_REG_SIZE in include/linux/bpf_verifier.h.
_UNIT = 8


class PartialStores:
    """Bytes to store anew before the stores of a function. `slots` has the offset of each stack slot from r10."""

    def __init__(self, function: ir.Function, slots: Mapping[str, int]) -> None:
        #: For each address in the stack that has bounds: the lowest and the highest offset from r10.
        self.ranges: dict[int, tuple[int, int]] = {}
        #: Eights of bytes, by the offset of the first, that hold plain data here.
        self.plain: set[int] = set()
        if slots:
            self._find_ranges(function, slots)

    def _find_ranges(self, function: ir.Function, slots: Mapping[str, int]) -> None:
        numbers: dict[int, int] = {}
        for block in function.blocks:
            for each in block.instructions:
                if each.result is None:
                    continue
                number = each.result.number
                if each.op is Op.CONST:
                    numbers[number] = each.imm
                elif each.op is Op.SLOT:
                    self.ranges[number] = (slots[each.symbol] + each.imm,) * 2
                elif each.op in (Op.OFFSET, Op.REFINE) and each.operands[0].number in self.ranges:
                    low, high = self.ranges[each.operands[0].number]
                    if each.op is Op.OFFSET:
                        distance = numbers.get(each.operands[1].number, 0)
                        if not distance and not each.imm:
                            continue
                        low, high = low + distance, high + (distance or each.imm)
                    self.ranges[number] = low, high

    def forget(self) -> None:
        """Take into account that other code may have stored anywhere."""
        self.plain.clear()

    def before(self, pointer: ir.Value, offset: int, size: int) -> list[int]:
        """Offsets from r10 of bytes to load and store before `size` bytes are stored at `pointer` + `offset`."""
        if pointer.number not in self.ranges:
            return []
        lowest, highest = self.ranges[pointer.number]
        low, end = lowest + offset, highest + offset + size
        first, last = low - low % _UNIT, (end - 1) - (end - 1) % _UNIT
        if lowest == highest:
            self.plain.discard(first)  # here a register may be stored
            return []
        found = []
        for unit in sorted({first, last} - self.plain):
            if unit < low or end < unit + _UNIT:
                # The store may reach this byte: it is initialized.
                found.append(min(end, unit + _UNIT) - 1)
                self.plain.add(unit)
        return found
