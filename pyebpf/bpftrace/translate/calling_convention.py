"""Calling conventions: where a function of C finds each of its arguments, by their types."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pyebpf.arch import architecture

if TYPE_CHECKING:
    from pyebpf.elf.dwarf.types import DebugType, Signature

#: A number or a pointer in a type: its offset and size, and whether it is a float.
_Part: TypeAlias = "tuple[int, int, bool]"
#: Bytes of an integer register, and of what is passed in two.
_WORD, _PAIR = 8, 16
#: Structs in structs that are looked into, and their members in all.
_MAX_DEPTH, _MAX_PARTS = 16, 1 << 10


class _Words(NamedTuple):
    """Integer and vector registers that pass an argument, and words of the stack where these do not suffice."""

    integers: int
    vectors: int
    stack: int = 1
    #: Whether it begins at an even word of the stack, or register of AAPCS64.
    is_even: bool = False
    #: Whether it is passed, or returned, by its address.
    by_reference: bool = False


#: In memory, whatever registers are left.
_IN_MEMORY = 1 << 8
#: Vector registers of arguments, on both architectures; the most members of one type that these pass (AAPCS64).
_VECTORS, _MAX_SAME = 8, 4


def positions(arch: str, signature: Signature) -> list[int | None]:
    """The position of each parameter among integer arguments; None for one that vector registers pass, or nobody knows.

    System V Application Binary Interface, AMD64, section 3.2.3; Procedure Call Standard for the Arm 64-bit
    Architecture, section 6.8.2.
    """
    registers = len(architecture(arch).arguments)
    integers, vectors, stack = registers, _VECTORS, 0
    parameters = signature.parameters
    unknown: list[int | None] = [None] * len(parameters)
    if arch == "x86_64":  # where a result goes that no registers return is an argument before the others
        in_memory = _is_in_memory(arch, signature.result)
        if in_memory is None:
            return unknown
        integers -= in_memory
    found: list[int | None] = []
    for each in parameters:
        words = _words(arch, each.type)
        if words is None:  # nor is it known where those behind it are
            return [*found, *unknown[len(found) :]]
        if arch == "aarch64" and words.is_even and words.integers:
            integers -= integers % 2
        if words.integers <= integers and words.vectors <= vectors:
            found.append(registers - integers if words.integers else None)
            integers -= words.integers
            vectors -= words.vectors
            continue
        stack += words.is_even and stack % 2
        found.append(None if words.vectors else registers + stack)
        stack += words.stack
        if arch == "aarch64":  # what follows goes to the stack, too
            integers, vectors = (integers, 0) if words.vectors else (0, vectors)
    return found


def _is_complex(type_: DebugType) -> bool:
    return type_.kind == "float" and "complex" in type_.name.lower()


def _alignment(type_: DebugType) -> int:
    """The alignment of a number or a pointer: that of its halves for a complex one."""
    return max(type_.size // 2, 1) if _is_complex(type_) else type_.size


def _is_in_memory(arch: str, result: DebugType) -> bool | None:
    """Whether a result is returned in memory that the caller names; None if that is not known."""
    if result.kind not in ("struct", "union"):
        return False
    words = _words(arch, result)
    if words is None:
        return None
    is_long_double = result.size == _PAIR and _parts(result, 0, {}) == [(0, _PAIR, True)]  # which st0 returns
    return words.by_reference or (words.integers == _IN_MEMORY and not is_long_double)


def _words(arch: str, type_: DebugType) -> _Words | None:
    """Registers and words for an argument of a type; None if that is not known."""
    size = type_.size
    words = -(-size // _WORD)
    if type_.kind == "float":
        if arch == "x86_64" and "long double" in type_.name:
            return _Words(_IN_MEMORY, 0, words, is_even=True)
        # x86-64 packs two floats of four bytes into one register.
        is_pair = _is_complex(type_) and (arch == "aarch64" or size >= _PAIR)
        return _Words(0, 2 if is_pair else 1, words, is_even=_alignment(type_) > _WORD)
    if type_.kind in ("void", "function") or (not size and type_.kind not in ("struct", "union")):
        return None
    if type_.kind not in ("struct", "union", "array"):
        return _Words(words, 0, words, is_even=size > _WORD)
    by_reference = type_.owner.by_reference(type_) if type_.owner is not None else False
    if by_reference is not False:
        return _Words(1, 0, by_reference=True) if by_reference else None
    parts = sorted({*_parts(type_, 0, {})})
    is_even = any(size > _WORD and offset % _PAIR == 0 for offset, size, _ in parts)
    if arch == "aarch64":
        same = {(size, is_float) for _, size, is_float in parts}
        if len(same) == 1 and parts[0][2] and len(parts) <= _MAX_SAME:
            return _Words(0, len(parts), words, is_even)
        return _Words(1, 0) if size > _PAIR else _Words(words, 0, words, is_even)
    # A member where its type is not aligned, and a long double, keep the whole of it in memory.
    if size > _PAIR or any(offset % size or (is_float and size > _WORD) for offset, size, is_float in parts):
        return _Words(_IN_MEMORY, 0, words, is_even)
    integers = {offset // _WORD for offset, _, is_float in parts if not is_float}
    vectors = {offset // _WORD for offset, _, is_float in parts if is_float} - integers
    return _Words(len(integers), len(vectors), words, is_even)


def _parts(type_: DebugType, depth: int, known: dict[tuple[int, int], list[_Part]]) -> list[_Part]:
    """The numbers and pointers that a type consists of, the first ones; `known` has those of structs.

    What lies deeper than that has none.
    """
    found: list[_Part] = []
    if type_.kind == "array" and type_.element is not None:
        inner = _parts(type_.element, depth + 1, known) if depth < _MAX_DEPTH else []
        for number in range(min(type_.length, _MAX_PARTS // max(len(inner), 1) + 1)):
            start = number * type_.element.size
            found += [(start + offset, size, is_float) for offset, size, is_float in inner]
    elif type_.owner is not None and type_.kind in ("struct", "union"):
        key = id(type_.owner), type_.place
        if key in known:
            return known[key]
        known[key] = found
        for each in type_.owner.members(type_) if depth < _MAX_DEPTH else ():
            start = each.bit_offset // 8
            if each.bit_size:
                found.append((start, 1, False))
            else:
                inner = _parts(each.type, depth + 1, known)
                found += [(start + offset, size, is_float) for offset, size, is_float in inner]
            if len(found) > _MAX_PARTS:
                break
    elif type_.size:
        part = _alignment(type_)
        found += [(offset, part, type_.kind == "float") for offset in range(0, type_.size, part)]
    return found
