"""Lengths of x86-64 instructions: where the next one begins, for places inside functions.

Only what decides on the length is decoded: prefixes, the opcode, ModRM and SIB, the displacement and the immediate
operand (Intel's manual, volume 2, chapter 2 and appendix A).
"""

from __future__ import annotations

_OPERAND_SIZE, _ADDRESS_SIZE, _REPNE = 0x66, 0x67, 0xF2
_PREFIXES = frozenset((_OPERAND_SIZE, _ADDRESS_SIZE, _REPNE, 0xF3, 0xF0, 0x2E, 0x36, 0x3E, 0x26, 0x64, 0x65))
#: An instruction has at most so many bytes.
LONGEST = 15

#: Opcodes of one byte that 64-bit code has not, or that begin instructions which are not known here (REX2 of APX).
_INVALID = frozenset((
    0x06, 0x07, 0x0E, 0x16, 0x17, 0x1E, 0x1F, 0x27, 0x2F, 0x37, 0x3F, 0x60, 0x61, 0x82, 0x9A, 0xCE, 0xD4, 0xD5, 0xD6,
    0xEA,
))  # fmt: skip
#: Those with a ModRM byte.
_MODRM = frozenset((
    *(high + low for high in range(0, 0x40, 8) for low in range(4)),
    0x63, 0x69, 0x6B, *range(0x80, 0x90), 0xC0, 0xC1, 0xC6, 0xC7, *range(0xD0, 0xD4), *range(0xD8, 0xE0),
    0xF6, 0xF7, 0xFE, 0xFF,
))  # fmt: skip
#: Bytes of their immediate operands.
_IMMEDIATE = {
    **dict.fromkeys((high + 4 for high in range(0, 0x40, 8)), 1),
    **dict.fromkeys((0x6A, 0x6B, *range(0x70, 0x80), 0x80, 0x83, 0xA8, *range(0xB0, 0xB8), 0xC0, 0xC1, 0xC6, 0xCD), 1),
    **dict.fromkeys((*range(0xE0, 0xE8), 0xEB), 1),
    **dict.fromkeys((0xE8, 0xE9), 4),
    **dict.fromkeys((0xC2, 0xCA), 2),
    0xC8: 3,
}
#: Those whose immediate operand has the operand's size, 4 bytes at most.
_SIZED = frozenset((*(high + 5 for high in range(0, 0x40, 8)), 0x68, 0x69, 0x81, 0xA9, 0xC7))
#: Opcodes behind 0F: those without ModRM, those that are invalid, those with an immediate operand of a byte.
_ALONE_0F = frozenset((
    *range(0x05, 0x0A), 0x0B, 0x0E, *range(0x30, 0x38), 0x77, *range(0x80, 0x90), 0xA0, 0xA1, 0xA2, 0xA8, 0xA9, 0xAA,
    *range(0xC8, 0xD0),
))  # fmt: skip
_INVALID_0F = frozenset((0x04, 0x0A, 0x0C, *range(0x24, 0x28), 0x36, 0x39, *range(0x3B, 0x40), 0x7A, 0x7B, 0xA6, 0xA7))
_IMMEDIATE_0F = frozenset((0x0F, *range(0x70, 0x74), 0xA4, 0xAC, 0xBA, 0xC2, 0xC4, 0xC5, 0xC6))


def around(code: bytes, at: int) -> int | None:
    """Return the start of the instruction that has the byte `at` inside it, where one begins at 0.

    None if one begins at `at`, and where code is not understood.
    """
    start = 0
    while start < at:
        size = length(code, start)
        if not size:
            return None
        if start + size > at:
            return start
        start += size
    return None


def length(code: bytes, at: int) -> int:
    """Return the bytes of the instruction that begins at `at`; 0 for what is none, is cut off, or is not known here."""
    there = code[at : at + LONGEST]
    found = _end(there + bytes(LONGEST))  # so that no byte has to be asked for
    return found if found <= len(there) else 0


def _end(code: bytes) -> int:
    at, prefixes, wide = 0, set(), False
    while code[at] in _PREFIXES:
        prefixes.add(code[at])
        at += 1
    if code[at] & 0xF0 == 0x40:
        wide = bool(code[at] & 8)
        at += 1
    opcode = code[at]
    sized = 2 if _OPERAND_SIZE in prefixes and not wide else 4
    if opcode == 0x0F:
        return _behind_0f(code, at + 1, prefixes)
    if opcode in (0xC4, 0xC5, 0x62) or (opcode == 0x8F and code[at + 1] & 0x1F >= 8):
        return _vector(code, at)
    if opcode in _INVALID:
        return 0
    end = at + 1
    if opcode in _MODRM:
        end = _operand(code, end)
    if opcode in (0xF6, 0xF7) and not code[at + 1] & 0x30:  # test
        end += 1 if opcode == 0xF6 else sized
    if 0xA0 <= opcode < 0xA4:
        end += 4 if _ADDRESS_SIZE in prefixes else 8
    if 0xB8 <= opcode < 0xC0:
        end += 8 if wide else sized
    if opcode in _SIZED:
        end += sized
    return end + _IMMEDIATE.get(opcode, 0)


def _behind_0f(code: bytes, at: int, prefixes: set[int]) -> int:
    """The end of an instruction whose opcode's second byte is at `at`."""
    opcode = code[at]
    if opcode in (0x38, 0x3A):
        return _operand(code, at + 2) + (opcode == 0x3A)
    if opcode in _INVALID_0F:
        return 0
    if opcode in _ALONE_0F:
        return at + 1 + (4 if 0x80 <= opcode < 0x90 else 0)
    if 0x20 <= opcode < 0x24:  # control and debug registers: ModRM is two registers, whatever it says
        return at + 2
    if opcode == 0x78 and prefixes & {_OPERAND_SIZE, _REPNE}:
        return at + 4
    return _operand(code, at + 1) + (opcode in _IMMEDIATE_0F)


def _vector(code: bytes, at: int) -> int:
    """The end of an instruction with a prefix VEX, EVEX or XOP, which has the map of its opcode in it."""
    size, mask = {0xC5: (2, 0), 0xC4: (3, 0x1F), 0x8F: (3, 0x1F), 0x62: (4, 7)}[code[at]]
    opcode_map = code[at + 1] & mask if mask else 1
    opcode, end = code[at + size], at + size + 1
    if code[at] == 0x8F:
        immediate = {8: 1, 9: 0, 10: 4}.get(opcode_map)
        return 0 if immediate is None else _operand(code, end) + immediate
    if opcode_map == 1:
        alone = opcode == 0x77 and code[at] != 0x62  # vzeroupper
        return end if alone else _operand(code, end) + (opcode in _IMMEDIATE_0F)
    return _operand(code, end) + (opcode_map == 3) if opcode_map in (2, 3, 5, 6) else 0


def _operand(code: bytes, at: int) -> int:
    """The end of an operand whose ModRM byte is at `at`, with its SIB byte and displacement."""
    mode, register, end = code[at] >> 6, code[at] & 7, at + 1
    if mode == 3:
        return end
    if register == 4:
        register = code[end] & 7
        end += 1
    if mode == 0:
        return end + (4 if register == 5 else 0)
    return end + (1 if mode == 1 else 4)
