"""A text to instructions whose jumps and local calls are numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.asm.instruction import Instruction, Label, Raw, check_items
from pyebpf.asm.op import JUMPS, Form
from pyebpf.asm.parser import parse
from pyebpf.dataclass import replace
from pyebpf.errors import AssemblyError, closest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyebpf.asm.instruction import Item

_LOW = 0xFFFF_FFFF
_EXIT = "exit"


def assemble(text: str, file: str = "<text>") -> tuple[Instruction | Raw, ...]:
    """The instructions of a text, labels replaced by distances; maps and kernel functions keep their names.

    `exit`, unless it is a label of the text, is the label of the first `exit` instruction. AssemblyError, with
    `location`, for what means nothing, a label that is not there or is defined twice, a jump that is too far.
    """
    return link(parse(text, file))


def link(items: Sequence[Item | Raw]) -> tuple[Instruction | Raw, ...]:
    """Replace the names of labels in jumps, local calls and function loads of what `parse` gave."""
    check_items(items)
    labels = _labels(items)
    out: list[Instruction | Raw] = []
    slot = 0
    for item in items:
        if isinstance(item, Label):
            continue
        is_linked = isinstance(item, Raw) or item.symbol is None
        out.append(item if is_linked else _linked(item, slot, labels))  # type: ignore[arg-type]  # a Raw is linked
        slot += item.slots
    return tuple(out)


def _labels(items: Sequence[Item | Raw]) -> dict[str, int]:
    labels: dict[str, int] = {}
    first_exit = None
    slot = 0
    for item in items:
        if isinstance(item, Label):
            if item.name in labels:
                raise AssemblyError(f"label {item.name!r} is defined twice: rename one", item.where)
            labels[item.name] = slot
            continue
        if first_exit is None and isinstance(item, Instruction) and item.op.form is Form.EXIT:
            first_exit = slot
        slot += item.slots
    if first_exit is not None:
        labels.setdefault(_EXIT, first_exit)
    return labels


def _linked(instruction: Instruction, slot: int, labels: Mapping[str, int]) -> Instruction:
    name, form = instruction.symbol, instruction.op.form
    assert name is not None
    if form not in JUMPS and form not in (Form.CALL_LOCAL, Form.LDDW_FUNCTION):
        return instruction
    if name not in labels:
        what = "label" if form in JUMPS else "function"
        remedy = closest(name, labels)
        if form is Form.CALL_LOCAL and not remedy:
            remedy = f": a helper is called by its name `bpf_…` or number, a kernel function as `kfunc[{name}]`"
        raise AssemblyError(f"there is no {what} {name!r}{remedy}", instruction.where)
    distance = labels[name] - slot - 1
    if form is Form.LDDW_FUNCTION:
        return replace(instruction, imm=instruction.imm | distance & _LOW, symbol=None)
    if form in (Form.JUMP_LONG, Form.CALL_LOCAL):
        return replace(instruction, imm=distance, symbol=None)
    if not -0x8000 <= distance <= 0x7FFF:
        raise AssemblyError(
            f"label {name!r} is {distance} slots away and 16 bits reach -32768..32767: jump there by `gotol`",
            instruction.where,
        )
    return replace(instruction, offset=distance, symbol=None)
