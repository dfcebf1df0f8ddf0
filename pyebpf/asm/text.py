"""Instructions as text, in the kernel's and LLVM's syntax and in the mnemonic one of RFC 9669's tools.

    kernel     r0 = *(u32 *)(r1 + 4)
    mnemonic   ldxw %r0, [%r1+4]

Both come from the table's templates, whose fields `FIELDS` writes; `parser.py` reads both.
"""

from __future__ import annotations

import re
from functools import cache
from string import Formatter
from typing import TYPE_CHECKING, Literal

from pyebpf.asm.instruction import Instruction, Label, Raw, check_items, slot_starts
from pyebpf.asm.op import Form

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from pyebpf.asm.instruction import Item
    from pyebpf.errors import Location

Syntax = Literal["kernel", "mnemonic"]

_LOW = 0xFFFF_FFFF
_PLAIN_NAME = re.compile(r"(?!%?[rwRW]\d+$|fd$|idx$|btf$|pc$|[.$]$)[A-Za-z_.$][\w.$]*", re.ASCII)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _name(text: str) -> str:
    """A name as both syntaxes read it back: plain, or in double quotes."""
    if _PLAIN_NAME.fullmatch(text):
        return text
    shown = (
        _ESCAPES.get(c) or (c if c.isprintable() and c.isascii() else f"\\u{{{ord(c):x}}}") for c in text
    )  # other alphabets survive as numbers, so that a line is ASCII
    return f'"{"".join(shown)}"'


def _signed(number: int, space: str = "") -> str:
    return f"{'-' if number < 0 else '+'}{space}{abs(number)}"


def _to(instruction: Instruction, target: str | None, prefix: str = "") -> str:
    if instruction.symbol is not None:
        return _name(instruction.symbol)
    return _name(target) if target is not None else f"{prefix}{instruction.distance:+d}"


def _number(instruction: Instruction, prefix: str) -> str:
    if instruction.symbol is not None:
        return _name(instruction.symbol)
    return prefix + str(instruction.imm & _LOW if instruction.op.slots == 2 else instruction.imm)


def _map(instruction: Instruction, named_by: str | None) -> str:
    return _number(instruction, "idx:" if "index" in instruction.op.name else f"{named_by or 'fd'}:")


def _suffix(word: str, number: int) -> str:
    return f" {word} {number}" if number else ""


# What each field of a template is written as; the second argument is the name of a jump's or local call's target, or
# what the number of a map is ("id"; a descriptor without it).
FIELDS: dict[str, Callable[[Instruction, str | None], str]] = {
    "d": lambda i, _: str(int(i.dst)),
    "s": lambda i, _: str(int(i.src)),
    "imm": lambda i, _: str(i.imm),
    "wide": lambda i, _: f"{i.imm:#x}",
    "high": lambda i, _: str(i.imm >> 16 & 0xFFFF),
    "low": lambda i, _: str(i.imm & 0xFFFF),
    "off": lambda i, _: _signed(i.offset, " "),
    "disp": lambda i, _: f"{i.offset:+d}" if i.offset else "",
    "index": lambda i, _: f" {_signed(i.imm, ' ')}" if i.imm else "",
    "place": lambda i, _: f"+ {i.imm >> 32}",
    "upper": lambda i, _: _suffix("upper", i.imm >> 32),
    "module": lambda i, _: _suffix("module", i.offset),
    "to": _to,
    "function": lambda i, target: _to(i, target, "pc"),
    "map": _map,
    "ksym": lambda i, _: _number(i, "btf:"),
    "kfunc": lambda i, _: _number(i, "btf:"),
}


@cache
def _writer(template: str) -> Callable[[Instruction, str | None], str]:
    parts = [(literal, FIELDS[field] if field else None) for literal, field, _, _ in Formatter().parse(template)]

    def write(instruction: Instruction, target: str | None) -> str:
        return "".join(
            [literal + field(instruction, target) if field is not None else literal for literal, field in parts]
        )

    return write


def kernel_text(instruction: Instruction | Raw, target: str | None = None) -> str:
    """One instruction in the syntax that `llvm-mc -triple=bpf` reads and the kernel's verifier prints.

    `target` replaces the distance of a jump or local call. What is symbolic until load, or points at a map or a kernel
    function, has no such syntax; it is written as the verifier does: `r1 = map[counts]`, `call pc+3`.
    """
    return text_of(instruction, "kernel", target)


def mnemonic_text(instruction: Instruction | Raw, target: str | None = None) -> str:
    """One instruction as uBPF and the conformance tests of RFC 9669 write it: `jeq %r1, 0, exit`."""
    return text_of(instruction, "mnemonic", target)


def text_of(instruction: Instruction | Raw, syntax: Syntax, target: str | None = None) -> str:
    """One instruction in either syntax. Bytes that are none are `.byte` and eight numbers in both."""
    if isinstance(instruction, Raw):
        return ".byte " + ", ".join(f"{byte:#04x}" for byte in instruction.data)
    op = instruction.op
    return _writer(op.text if syntax == "kernel" else op.mnemonic)(instruction, target)


def listing(
    items: Iterable[Item | Raw],
    *,
    labels: Mapping[str, int] | None = None,
    source: bool = True,
    syntax: Syntax = "kernel",
    comments: Mapping[int, str] | None = None,
    maps_by_id: bool = False,
) -> str:
    """A program as text, a line an instruction, ending in a newline (empty for no items). `parse` reads it back.

    Each line has the slot number; a helper's call has its name as a comment. Labels among `items`, and `labels`
    (name to slot), stand on lines of their own; a jump whose target has no name gets one, L and the target's slot.
    Where `where` changes from one instruction to the next, the source line is given as a comment, unless `source` is
    false. `comments` tells of the instruction at a slot, in place of a helper's name and of a label for its target.
    With `maps_by_id` numbers of maps are ids (`map[id:7]`), as in a program that is loaded.
    """
    items = [*items] if hasattr(items, "__iter__") else items
    check_items(items)
    instructions: list[Instruction | Raw] = []
    names: dict[int, list[str]] = {}
    slot = 0
    for item in items:
        if isinstance(item, Label):
            names.setdefault(slot, []).append(item.name)
        else:
            instructions.append(item)
            slot += item.slots
    for name, place in (labels or {}).items():
        names.setdefault(place, []).append(name)
    starts = slot_starts(instructions)
    comments = comments or {}
    targets = _name_targets(instructions, starts, names, comments)
    lines = []
    previous: Location | None = None
    for index, instruction in enumerate(instructions):
        start = starts[index]
        lines += [f"{_name(name)}:" for name in names.get(start, ())]
        where = instruction.where
        if source and where is not None and (previous is None or str(where) != str(previous)):
            text = where.text.strip().partition("\n")[0]
            lines.append(f"      ; {where}: {text}" if text else f"      ; {where}")
            previous = where
        target = names.get(targets.get(index, -1), [None])[0]
        text = text_of(instruction, syntax, "id" if maps_by_id and _loads_map(instruction) else target)
        comment = comments.get(start) or _comment(instruction)
        lines.append(f"{start:5} {text}" + (f"  ; {comment}" if comment else ""))
    lines += [f"{_name(name)}:" for name in names.get(starts[-1], ())]
    return "".join(f"{line}\n" for line in lines)


def _name_targets(
    instructions: Sequence[Instruction | Raw],
    starts: tuple[int, ...],
    names: dict[int, list[str]],
    without: Container[int],
) -> dict[int, int]:
    """The slot that each jump goes to, by the jump's index; places without a name get one in `names`."""
    targets: dict[int, int] = {}
    places = set(starts)
    taken = {name for given in names.values() for name in given}
    for index, instruction in enumerate(instructions):
        if isinstance(instruction, Raw) or instruction.symbol is not None or instruction.distance is None:
            continue
        if starts[index] in without:
            continue
        # A distance counts from the instruction's first slot, also for the two-slot function load.
        target = targets[index] = starts[index] + 1 + instruction.distance
        if target not in names and target in places:
            name = f"L{target}"
            while name in taken:
                name += "_"
            names[target] = [name]
            taken.add(name)
    return targets


def _loads_map(instruction: Instruction | Raw) -> bool:
    return isinstance(instruction, Instruction) and instruction.op.form is Form.LDDW_MAP


def _comment(instruction: Instruction | Raw) -> str:
    """A helper's name, or what is known of a raw slot."""
    if isinstance(instruction, Raw):
        return instruction.note
    if instruction.op.form is not Form.CALL:
        return ""
    from pyebpf.uapi.helpers import helper_name

    return helper_name(instruction.imm) or ""
