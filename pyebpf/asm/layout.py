"""Labels to distances, and names of maps and functions to numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pyebpf.asm.instruction import Instruction, Label, check_items, slot_starts
from pyebpf.asm.op import JUMPS, Form
from pyebpf.asm.opcodes import find_op
from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import AssemblyError, closest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyebpf.asm.instruction import Item

_T = TypeVar("_T")
_EMPTY: Mapping[str, int] = {}
_LOW = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Placed:
    """Instructions with every jump resolved, and the slot that each label stands for."""

    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]


def layout(items: Sequence[Item], *, gotol: bool = False) -> tuple[Instruction, ...]:
    """The instructions among `items`, jumps to labels replaced by distances. See `place`."""
    return place(items, gotol=gotol).instructions


def place(items: Sequence[Item], *, gotol: bool = False) -> Placed:
    """Lay out instructions and labels.

    Distances count slots; a two-slot instruction counts twice. A jump further than 16 bits reach becomes a `gotol`
    (a conditional one the opposite condition around a `gotol`) if `gotol` allows that instruction, else AssemblyError.
    Local calls and function loads keep their symbols: `resolve` fills them in, for instance from `labels`.
    """
    far: set[int] = set()
    while True:
        labels, jumps = _positions(items, far)
        distances = {index: _target(labels, jump) - slot - 1 for index, (jump, slot) in jumps.items()}
        more = {
            index
            for index, distance in distances.items()
            if not -0x8000 <= distance <= 0x7FFF and index not in far and jumps[index][0].op.form is not Form.JUMP_LONG
        }
        if not more:
            break
        if not gotol:
            index = min(more)
            jump, _ = jumps[index]
            raise AssemblyError(
                f"{jump.op.name}: label {jump.symbol!r} is {distances[index]} slots away and 16 bits "
                "reach -32768..32767 (allow gotol, or split the function)"
            )
        far |= more
    out: list[Instruction] = []
    for index, item in enumerate(items):
        if isinstance(item, Label):
            continue
        if index not in jumps:
            out.append(item)
        elif index in far:
            out += _long(item, distances[index])
        elif item.op.form is Form.JUMP_LONG:
            out.append(replace(item, imm=distances[index], symbol=None))
        else:
            out.append(Instruction(item.op, item.dst, item.src, distances[index], item.imm, None, item.where))
    return Placed(tuple(out), labels)


def _positions(items: Sequence[Item], far: set[int]) -> tuple[dict[str, int], dict[int, tuple[Instruction, int]]]:
    """The slot of each label, and the jumps to labels by their index, each with its slot."""
    labels: dict[str, int] = {}
    jumps: dict[int, tuple[Instruction, int]] = {}
    slot = 0
    for index, item in enumerate(items):
        if isinstance(item, Label):
            if item.name in labels:
                raise AssemblyError(f"label {item.name!r} is defined twice")
            labels[item.name] = slot
            continue
        if item.symbol is not None and item.op.form in JUMPS:
            jumps[index] = item, slot
        slot += _long_slots(item) if index in far else item.op.slots
    return labels, jumps


def _target(labels: Mapping[str, int], jump: Instruction) -> int:
    assert jump.symbol is not None
    try:
        return labels[jump.symbol]
    except KeyError:
        raise AssemblyError(f"{jump.op.name}: no label {jump.symbol!r}{closest(jump.symbol, labels)}") from None


def _long_slots(jump: Instruction) -> int:
    if jump.op.name == "ja":
        return 1
    return 2 if jump.op.inverse else 3


def _long(jump: Instruction, distance: int) -> list[Instruction]:
    """`jump` as instructions that end with a gotol. `distance` counts from the slot after the first of them."""
    slots = _long_slots(jump)
    gotol = Instruction(find_op("gotol", Form.JUMP_LONG), imm=distance - (slots - 1), where=jump.where)
    if slots == 1:
        return [gotol]
    if jump.op.inverse:
        opposite = find_op(jump.op.inverse, jump.op.form)
        return [replace(jump, op=opposite, offset=1, symbol=None), gotol]
    # jset and may_goto have no opposite: step over the jump that steps over the gotol.
    around = Instruction(find_op("ja", Form.JUMP), offset=1, where=jump.where)
    return [replace(jump, offset=1, symbol=None), around, gotol]


def resolve(
    instructions: Sequence[Instruction],
    maps: Mapping[str, int] = _EMPTY,
    functions: Mapping[str, int] = _EMPTY,
    *,
    kfuncs: Mapping[str, tuple[int, int]] | None = None,
    ksyms: Mapping[str, tuple[int, int]] | None = None,
) -> tuple[Instruction, ...]:
    """Fill in what is known only at load.

    maps       name to descriptor (or index into fd_array, for the `_index` forms)
    functions  name to the slot where the subprogram starts, in these same instructions
    kfuncs     name to (BTF id, index of the module's BTF in fd_array; 0 for vmlinux)
    ksyms      name to (BTF id, descriptor of the module's BTF; 0 for vmlinux)

    AssemblyError for a name that is in none of them.
    """
    check_items(instructions)
    out = []
    for instruction, start in zip(instructions, slot_starts(instructions), strict=False):
        name = instruction.symbol
        if name is None:
            out.append(instruction)
            continue
        form = instruction.op.form
        offset = instruction.offset
        if form is Form.LDDW_MAP:
            imm = instruction.imm | _known(maps, name, "map", instruction)
        elif form is Form.LDDW_KSYM:
            identifier, descriptor = _known(ksyms or {}, name, "kernel symbol", instruction)
            imm = identifier | descriptor << 32
        elif form is Form.CALL_KFUNC:
            imm, offset = _known(kfuncs or {}, name, "kfunc", instruction)
        elif form is Form.CALL_LOCAL:
            imm = _known(functions, name, "function", instruction) - start - 1
        elif form is Form.LDDW_FUNCTION:
            imm = (_known(functions, name, "function", instruction) - start - 1) & _LOW
        else:
            raise AssemblyError(f"{instruction.op.name}: label {name!r} is not resolved (layout() does that)")
        out.append(replace(instruction, imm=imm, offset=offset, symbol=None))
    return tuple(out)


def _known(names: Mapping[str, _T], name: str, kind: str, instruction: Instruction) -> _T:
    try:
        return names[name]
    except KeyError:
        raise AssemblyError(f"{instruction.op.name}: no {kind} {name!r}{closest(name, names)}") from None
