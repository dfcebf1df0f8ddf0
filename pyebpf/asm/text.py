"""The kernel's and LLVM's text: `r0 = *(u32 *)(r1 + 4)`.

A row's template names these: d and s (register numbers), imm (decimal), wide (64 bits, hex), high (upper half of a wide
imm, or of a 32-bit one for casts) and low, off (`+ 4`, `- 8`), to (a jump's label or distance), and map, ksym, kfunc,
function (the symbol, or the number that it became).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.asm.instruction import Instruction, slot_starts
from pyebpf.asm.op import Form

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyebpf.asm.instruction import Item
    from pyebpf.errors import Location

__all__ = ["kernel_text", "listing"]

_LOW = 0xFFFF_FFFF


def kernel_text(instruction: Instruction, target: str | None = None) -> str:
    """One instruction in the syntax that `llvm-mc -triple=bpf` reads and the kernel's verifier prints.

    `target` replaces the distance of a jump or local call. What is symbolic until load, or points at a map or a kernel
    function, has no such syntax; it is written as the verifier does: `r1 = map[counts]`, `call pc+3`.
    """
    op = instruction.op
    imm = instruction.imm
    distance = instruction.distance
    wide = op.slots == 2
    half = 32 if wide else 16
    symbol = instruction.symbol
    to = symbol or target or (f"{distance:+d}" if distance is not None else "")
    number = str(imm & _LOW) if wide else str(imm)
    return op.text.format(
        d=int(instruction.dst),
        s=int(instruction.src),
        imm=imm,
        wide=f"{imm:#x}",
        high=imm >> half & (_LOW if wide else 0xFFFF),
        low=imm & (_LOW if wide else 0xFFFF),
        off=f"- {-instruction.offset}" if instruction.offset < 0 else f"+ {instruction.offset}",
        to=to,
        map=symbol or f"fd:{number}",
        ksym=symbol or f"btf:{number}",
        kfunc=symbol or f"btf:{number}",
        function=symbol or target or f"pc{to}",
    )


def listing(
    items: Iterable[Item],
    *,
    labels: Mapping[str, int] | None = None,
    source: bool = True,
) -> str:
    """A program as text, a line an instruction, ending in a newline (empty for no items).

    Each line has the slot number; a helper's call has its name as a comment. Labels among `items`, and `labels`
    (name to slot), stand on lines of their own; a jump whose target has no name gets one, L and the target's slot.
    Where `where` changes from one instruction to the next, the source line is given as a comment, unless `source` is
    false.
    """
    from pyebpf.asm.instruction import Label

    instructions: list[Instruction] = []
    names: dict[int, list[str]] = {}
    slot = 0
    for item in items:
        if isinstance(item, Label):
            names.setdefault(slot, []).append(item.name)
        else:
            instructions.append(item)
            slot += item.op.slots
    for name, place in (labels or {}).items():
        names.setdefault(place, []).append(name)
    starts = slot_starts(instructions)
    targets: dict[int, int] = {}
    for index, instruction in enumerate(instructions):
        distance = instruction.distance
        if distance is not None and instruction.symbol is None:
            # A distance counts from the instruction's first slot, also for the two-slot function load.
            targets[index] = starts[index] + 1 + distance
            if targets[index] not in names and targets[index] in starts:
                names[targets[index]] = [f"L{targets[index]}"]
    lines = []
    previous: Location | None = None
    for index, instruction in enumerate(instructions):
        lines += [f"{name}:" for name in names.get(starts[index], ())]
        where = instruction.where
        if source and where is not None and (previous is None or str(where) != str(previous)):
            lines.append(f"      ; {where}: {text}" if (text := where.text.strip()) else f"      ; {where}")
            previous = where
        target = names.get(targets.get(index, -1), [None])[0]
        text = kernel_text(instruction, target)
        comment = _helper_comment(instruction)
        lines.append(f"{starts[index]:5} {text}" + (f"  ; {comment}" if comment else ""))
    lines += [f"{name}:" for name in names.get(starts[-1], ())]
    return "".join(f"{line}\n" for line in lines)


def _helper_comment(instruction: Instruction) -> str:
    if instruction.op.form is not Form.CALL:
        return ""
    from pyebpf.uapi.helpers import helper_name

    return helper_name(instruction.imm) or ""
