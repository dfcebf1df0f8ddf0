"""Instructions with R11, the kernel's own register.

No program may have one. The verifier puts some into what it loads, around a division for example, and a loaded program
shows them: they stay raw slots, whose note says what they are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.asm.encoding import decode
from pyebpf.asm.instruction import Instruction
from pyebpf.asm.text import kernel_text

if TYPE_CHECKING:
    from pyebpf.asm.encoding import ByteOrder

_SCRATCH = 11


def ax_register_text(slot: bytes, byteorder: ByteOrder) -> str:
    """The text of a slot that is an instruction but for R11; empty for every other one."""
    registers = (slot[1] >> 4, slot[1] & 15)
    # As another register, one that the instruction does not have, it is decoded and printed.
    other = next(number for number in (9, 8, 7) if number not in registers)
    high, low = (other if number == _SCRATCH else number for number in registers)
    (item,) = decode(bytes([slot[0], high << 4 | low]) + slot[2:], byteorder, raw=True)
    return (
        re.sub(rf"\b([rw]){other}\b", rf"\g<1>{_SCRATCH}", kernel_text(item)) if isinstance(item, Instruction) else ""
    )
