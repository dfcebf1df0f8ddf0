"""USDT probes of an ELF file: the notes that <sys/sdt.h> writes into `.note.stapsdt`.

A note's description: addresses of the probe (a nop), of `.stapsdt.base` as it was when the note was written, and of the
semaphore (0: none); then three strings: provider, name, arguments. `SIZE@OPERAND` for each argument, a negative size
for a signed one, the operand as the assembler spells it.
https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation
"""

from __future__ import annotations

import re
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.errors import InvalidValue, MalformedData

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.symbols.elf import ElfSymbols

__all__ = ["UsdtArgument", "UsdtProbe", "parse_argument", "parse_arguments", "usdt_probes"]

_OWNER, _NT_STAPSDT = "stapsdt", 3
_BASE_SECTION = ".stapsdt.base"


class UsdtArgument(NamedTuple):
    """Where an argument is: constant + base + (scaled << scale), and if `in_memory` the value that stands there.

    `base` and `scaled` are registers by their names in struct pt_regs, "" for none. `size` is 1, 2, 4 or 8 bytes.
    """

    size: int
    signed: bool
    constant: int = 0
    base: str = ""
    scaled: str = ""
    scale: int = 0
    in_memory: bool = False


class UsdtProbe(NamedTuple):
    """One place of a probe: `address` is virtual, `offset` and `semaphore` lie in the file (no semaphore: 0).

    `arguments` is the text of the note. `offset` is None where the file has no code at the address.
    """

    provider: str
    name: str
    address: int
    offset: int | None
    semaphore: int
    arguments: str


def usdt_probes(elf: ElfSymbols) -> tuple[UsdtProbe, ...]:
    """Every place of every probe of a file, in the order of its notes. Raises MalformedData."""
    layout = Struct(elf.byte_order + ("QQQ" if elf.wide else "III"))
    base_now = elf.section(_BASE_SECTION)
    found = []
    for note in elf.notes(_OWNER):
        if note.type != _NT_STAPSDT:
            continue
        strings = note.description[layout.size :].split(b"\0")
        if len(note.description) < layout.size or len(strings) < 4:
            raise MalformedData(f"{elf.path}: a USDT note is garbled")
        address, base, semaphore = layout.unpack_from(note.description)
        # What changed the file's addresses after the notes were written, such as prelink, moved this section, too.
        moved = base_now.address - base if base_now is not None and base else 0
        provider, name, arguments = (text.decode(errors="surrogateescape") for text in strings[:3])
        address += moved
        counter = elf.offset_of(semaphore + moved) if semaphore else 0
        if counter is None:
            raise MalformedData(f"{elf.path}: the semaphore of {provider}:{name} is not in the file")
        offset = elf.offset_of(address)
        code = offset is not None and elf.address_of(offset) is not None
        found.append(UsdtProbe(provider, name, address, offset if code else None, counter, arguments))
    return tuple(found)


def parse_arguments(text: str) -> tuple[str, ...]:
    """The arguments of a note one by one, as text."""
    return tuple(text.split())


#: x86-64 registers by the names that instructions have for their parts of 8, 4, 2 bytes and 1 byte.
_LEGACY = {"ax": "al", "bx": "bl", "cx": "cl", "dx": "dl", "si": "sil", "di": "dil", "bp": "bpl", "sp": "spl"}
_REGISTERS: dict[str, tuple[str, int]] = {
    **{f"r{name}": (name, 8) for name in _LEGACY},
    **{f"e{name}": (name, 4) for name in _LEGACY},
    **{name: (name, 2) for name in _LEGACY},
    **{low: (name, 1) for name, low in _LEGACY.items()},
    **{f"r{n}{part}": (f"r{n}", size) for n in range(8, 16) for part, size in {"": 8, "d": 4, "w": 2, "b": 1}.items()},
}
_SIZED = re.compile(r"(-?)([1248])@(.+)", re.DOTALL)
_REGISTER = re.compile(r"%(\w+)")
# disp(base, index, scale); every part may be missing.
_MEMORY = re.compile(r"([^()]*)\((?:%(\w+))?(?:,(?:%(\w+))?(?:,([1248]))?)?\)")
_TERM = re.compile(r"([+-]?)\s*(0[xX][0-9a-fA-F]+|\d+|[A-Za-z_.$][\w.$]*)")
_SCALES = {"": 0, "1": 0, "2": 1, "4": 2, "8": 3}
_ADDRESS = "ip"


def parse_argument(text: str, address: int = 0, symbol: Callable[[str], int] | None = None) -> UsdtArgument:
    """Where an argument of an x86-64 probe at `address` is, from its text such as "-4@112(%rsp)".

    `symbol` gives the virtual address of a symbol of the file. An address in the file is told by its distance from the
    probe, whose own address the instruction pointer has wherever the file is loaded. Raises InvalidValue for a form
    that is not known here (floating point, segments, high bytes).
    """
    match = _SIZED.fullmatch(text)
    if match is None:
        # Without a size it is the register's own, of a machine word (the first version of the notes).
        if "@" in text or not text:
            raise _unknown(text)
        match = _SIZED.fullmatch(f"8@{text}")
        if match is None:
            raise _unknown(text)
    size, signed, operand = int(match[2]), match[1] == "-", match[3]
    if (register := _REGISTER.fullmatch(operand)) is not None:
        return UsdtArgument(size, signed, base=_register(register[1], text, part=True))
    if operand.startswith("$"):
        constant, relative = _displacement(operand[1:], text, address, symbol)
        return UsdtArgument(size, signed, constant, _ADDRESS if relative else "")
    memory = _MEMORY.fullmatch(operand)
    if memory is None:  # an absolute address: a symbol without a register
        constant, relative = _displacement(operand, text, address, symbol)
        if not relative:
            raise _unknown(text)
        return UsdtArgument(size, signed, constant, _ADDRESS, in_memory=True)
    displacement, base, index, scale = (part or "" for part in memory.groups())
    constant, relative = _displacement(displacement, text, address, symbol) if displacement else (0, False)
    if base == "rip":
        # Only a symbol has an address that the text tells; a number would count from an unknown instruction's end.
        if not relative or index:
            raise _unknown(text)
        return UsdtArgument(size, signed, constant, _ADDRESS, in_memory=True)
    if not base and not index:
        raise _unknown(text)
    base = _register(base, text) if base else ""
    index = _register(index, text) if index else ""
    if relative:
        if base and index:
            raise _unknown(text)
        # symbol(,%index,scale), symbol(%base): a table of a program that is not position-independent.
        base, index, scale = _ADDRESS, index or base, scale if index else ""
    return UsdtArgument(size, signed, constant, base, index, _SCALES[scale], in_memory=True)


def _register(name: str, text: str, *, part: bool = False) -> str:
    """The name in struct pt_regs. Parts of registers hold values, but no addresses."""
    known, size = _REGISTERS.get(name, ("", 0))
    if not known or (size != 8 and not part):
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
