"""The Python line that a message is about: from what the message names to the `where` of an instruction."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from pyebpf.asm import Form, slot_starts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.asm import Instruction
    from pyebpf.errors import Location
    from pyebpf.specs import FunctionStart
    from pyebpf.verifier.log import Explanation

_LOW = 0xFFFF_FFFF
_CALLS = (Form.CALL_LOCAL, Form.LDDW_FUNCTION)


def fault_location(
    instructions: Sequence[Instruction], subprograms: Sequence[FunctionStart], explanation: Explanation
) -> Location | None:
    """Source of the instruction meant, or of the nearest before it in the function that has one.

    Of a message that names none (checks before the walk, and those of several functions together), the instruction
    that what it does name fits; else the program's first line. None if no instruction has a source.
    """
    return _at_or_before(instructions, subprograms, _index(instructions, subprograms, explanation))


def _index(instructions: Sequence[Instruction], subprograms: Sequence[FunctionStart], explanation: Explanation) -> int:
    if explanation.instruction is not None:
        return min(bisect_right(slot_starts(instructions), explanation.instruction) - 1, len(instructions) - 1)
    named = explanation.named
    if "opcode" in named:
        code = int(named["opcode"], 16)
        return next((i for i, each in enumerate(instructions) if each.op.code == code), 0)
    if "descriptor" in named:
        # The low half of a two-slot load; the upper one is the place in the map's value.
        number = int(named["descriptor"]) & _LOW
        wide = ((i, each) for i, each in enumerate(instructions) if each.op.form is Form.LDDW_MAP)
        return next((i for i, each in wide if each.imm & _LOW == number), 0)
    if "address" in named:
        offset = int(named["address"])
        wide = ((i, each) for i, each in enumerate(instructions) if each.op.form is Form.LDDW_MAP)
        return next((i for i, each in wide if each.imm >> 32 & _LOW == offset), 0)
    if "call" in named:
        starts = slot_starts(instructions)
        calls = (i for i, each in enumerate(instructions) if each.op.form in _CALLS)
        return next((i for i in calls if not 0 <= starts[i] + 1 + instructions[i].imm < starts[-1] + 1), 0)
    if "end" in named:
        ends = [each.start - 1 for each in subprograms[1:]] + [len(instructions) - 1]
        return next((i for i in ends if instructions[i].op.falls_through), ends[-1])
    return 0


def _at_or_before(
    instructions: Sequence[Instruction], subprograms: Sequence[FunctionStart], index: int
) -> Location | None:
    start = max((each.start for each in subprograms if each.start <= index), default=0)
    before = (instructions[i].where for i in range(index, start - 1, -1))
    after = (instruction.where for instruction in instructions[index:])
    return next((where for where in (*before, *after) if where is not None), None)
