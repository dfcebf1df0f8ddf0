"""Operands of USDT notes: where an argument is, from the text that the assembler would be given.

A note has `SIZE@OPERAND` for each argument, a negative size for a signed one. What operands look like is each
architecture's own: its `operand_forms` and `operand_names`.
https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.arch.architecture import Architecture


class UsdtArgument(NamedTuple):
    """The location of an argument: constant + base + (scaled << scale), and if `in_memory` the value stored there.

    `base` and `scaled` are registers by their names in struct pt_regs, "" for none. `size` is 1, 2, 4 or 8 bytes.
    `is_high` tells that the value is bits 8 to 15 of the base, and of one byte.
    """

    size: int
    signed: bool
    constant: int = 0
    base: str = ""
    scaled: str = ""
    scale: int = 0
    in_memory: bool = False
    is_high: bool = False


_SIZED = re.compile(r"(-?)([1248])@(.+)", re.DOTALL)
# arm64's [sp, 12] has a space inside.
_BETWEEN = re.compile(r"\s+(?![^\[\]]*\])")
_TERM = re.compile(r"([+-]?)\s*(0[xX][0-9a-fA-F]+|\d+|[A-Za-z_.$][\w.$]*)")
_SCALES = {"": 0, "1": 0, "2": 1, "4": 2, "8": 3}
_ADDRESS_SIZE = 8


def parse_arguments(text: str) -> tuple[str, ...]:
    """The arguments of a note one by one, as text."""
    return tuple(each for each in _BETWEEN.split(text) if each)


def parse_argument(
    text: str, arch: Architecture, address: int = 0, symbol: Callable[[str], int] | None = None
) -> UsdtArgument:
    """Return the location of an argument of a probe at `address`, from text such as "-4@112(%rsp)", "-4@[sp, 112]".

    `symbol` gives the virtual address of a symbol of the file. An address in the file is told by its distance from the
    probe, whose own address the instruction pointer has wherever the file is loaded. Raises InvalidValue for a form
    that is not known here (floating point, segments, extended registers).
    """
    match = _SIZED.fullmatch(text)
    if match is None and text and "@" not in text:
        # Without a size it is the register's own, of a machine word (the first version of the notes).
        match = _SIZED.fullmatch(f"8@{text}")
    if match is None:
        raise _unknown(text)
    size, signed = int(match[2]), match[1] == "-"
    parts = _parts(match[3], text, arch)
    if size == 1 and parts["register"] in arch.high_bytes:
        return UsdtArgument(size, signed, base=arch.high_bytes[parts["register"]], is_high=True)
    if parts["register"]:
        return UsdtArgument(size, signed, base=_register(parts["register"], text, arch, part=True))
    here = arch.instruction
    if parts["constant"]:
        constant, relative = _displacement(parts["constant"], text, address, symbol)
        return UsdtArgument(size, signed, constant, here if relative else "")
    constant, relative = (
        _displacement(parts["displacement"], text, address, symbol) if parts["displacement"] else (0, False)
    )
    base, index = (_register(parts[name], text, arch) if parts[name] else "" for name in ("base", "index"))
    scale = int(parts["shift"]) if parts["shift"] else _SCALES[parts["scale"]]
    if base == here:
        # Only a symbol has an address that the text tells; a number would count from an unknown instruction's end.
        if not relative or index:
            raise _unknown(text)
        base = ""
    if relative:
        if base and index:
            raise _unknown(text)
        # symbol(,%index,scale), symbol(%base): a table of a program that is not position-independent.
        base, index, scale = here, index or base, scale if index else 0
    if not base and not index:
        raise _unknown(text)
    return UsdtArgument(size, signed, constant, base, index, scale, in_memory=True)


def _parts(operand: str, text: str, arch: Architecture) -> dict[str, str]:
    """Return the parts of an operand by the first form that fits, "" for parts that the form lacks."""
    for form in arch.operand_forms:
        match = re.fullmatch(form, operand, re.DOTALL | re.ASCII)
        if match is not None:
            none = dict.fromkeys(("register", "constant", "displacement", "base", "index", "scale", "shift"), "")
            return none | {name: part for name, part in match.groupdict().items() if part}
    raise _unknown(text)


def _register(name: str, text: str, arch: Architecture, *, part: bool = False) -> str:
    """The name in struct pt_regs. Parts of registers hold values, but no addresses."""
    known, size = arch.operand_names.get(name, ("", 0))
    if not known or (size != _ADDRESS_SIZE and not part):
        raise _unknown(text)
    return known


def _displacement(written: str, text: str, address: int, symbol: Callable[[str], int] | None) -> tuple[int, bool]:
    """The sum of numbers and at most one symbol; whether it is the distance of the symbol from the probe."""
    total, relative, place = 0, False, 0
    while place < len(written):
        match = _TERM.match(written, place)
        if match is None or (place and not match[1]):
            raise _unknown(text)
        sign, term = match.groups()
        if term[0].isdigit():
            try:
                number = int(term, 8 if term[0] == "0" and term[:2] not in {"0x", "0X"} else 0)
            except ValueError:
                raise _unknown(text) from None
        else:
            if symbol is None or relative or sign == "-":
                raise _unknown(text)
            number, relative = symbol(term) - address, True
        total += -number if sign == "-" else number
        place = match.end()
    return (total + (1 << 63)) % (1 << 64) - (1 << 63), relative


def _unknown(text: str) -> InvalidValue:
    return InvalidValue(f"a USDT argument in a form that is not known here: {text}")
