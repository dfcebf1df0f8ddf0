"""Calling conventions: where a function of C finds each of its arguments, by their types."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyebpf.arch import architecture
from pyebpf.bpftrace.translate.argument_parts import (
    PAIR,
    WORD,
    Class,
    Part,
    class_of,
    is_complex,
    natural_alignment,
    parts_of,
    unit_of,
)

if TYPE_CHECKING:
    from pyebpf.elf.dwarf.types import DebugType, Signature


class _Words(NamedTuple):
    """Integer and vector registers that pass an argument, and words of the stack where these do not suffice."""

    integers: int
    vectors: int
    stack: int = 1
    #: Bytes: where it begins on the stack, and of AAPCS64 whether at an even register; 0 if that is not known.
    alignment: int = WORD
    #: Whether it is passed, or returned, by its address.
    by_reference: bool = False
    #: Whether compilers, or their options, decide between these registers and the stack.
    is_either: bool = False


#: In memory, whatever registers are left.
_IN_MEMORY = 1 << 8
#: Vector registers of arguments, on both architectures; the most members of one type that these pass (AAPCS64).
_VECTORS, _MAX_SAME = 8, 4
#: Bytes of the largest vector that a register has.
_LARGEST = 64


def positions(arch: str, signature: Signature) -> list[int | None]:
    """The position of each parameter among integer arguments; None for one that vector registers pass, or nobody knows.

    System V Application Binary Interface, AMD64, section 3.2.3; Procedure Call Standard for the Arm 64-bit
    Architecture, section 6.8.2.
    """
    registers = len(architecture(arch).arguments)
    integers, vectors = registers, _VECTORS
    stack: int | None = 0  # None: how many words it has is not known
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
        if arch == "aarch64" and words.alignment > WORD and words.integers:
            integers -= integers % 2
        if words.integers <= integers and words.vectors <= vectors:
            found.append(registers - integers if words.integers else None)
            integers -= words.integers
            vectors -= words.vectors
            if words.is_either:
                stack = None
            continue
        is_mixed = words.integers and words.vectors and stack is None  # there may be as many vector registers
        # gcc leaves a single register to what follows __int128, clang does not.
        is_split = arch == "x86_64" and each.type.kind == "int" and words.integers == 2 and integers == 1
        if is_mixed or (is_split and not signature.producer.startswith("GNU ")):
            return [*found, *unknown[len(found) :]]
        if stack is None or not words.alignment:
            stack = None
            found.append(None)
        else:
            stack += -stack % (words.alignment // WORD)
            found.append(None if words.vectors else registers + stack)
            stack += words.stack
        if arch == "aarch64":  # what follows goes to the stack, too
            integers, vectors = (integers, 0) if words.vectors else (0, vectors)
    return found


def _is_in_memory(arch: str, result: DebugType) -> bool | None:
    """Whether a result is returned in memory that the caller names; None if that is not known."""
    is_composite = result.kind in ("struct", "union")
    is_one = result.is_vector and result.length == 1
    if result.kind == "void" or (not is_composite and result.size <= PAIR and not is_one):
        return False
    words = _words(arch, result)
    if words is None or words.is_either:
        return None
    if words.by_reference or words.integers != _IN_MEMORY:
        return words.by_reference
    # st0 returns one long double, and st1 the second half of a complex one.
    if result.kind == "float":
        return None if class_of(arch, result) is Class.EITHER else class_of(arch, result) is not Class.X87
    return result.size != PAIR or {*parts_of(arch, result)} != {Part(0, PAIR, Class.X87)}


def _words(arch: str, type_: DebugType) -> _Words | None:
    """Registers and words for an argument of a type; None if that is not known."""
    if type_.is_vector:
        return _vector(arch, type_)
    if type_.kind in ("struct", "union", "array"):
        return _composite(arch, type_)
    size, class_, unit = type_.size, class_of(arch, type_), unit_of(arch, type_)
    if type_.kind in ("void", "function") or not size or class_ is Class.UNKNOWN:
        return None
    if class_ is Class.EITHER and size <= PAIR:
        return None
    words, alignment = -(-size // WORD), max(unit, WORD)
    if arch == "x86_64" and (class_ is Class.X87 or size > PAIR):
        return _Words(_IN_MEMORY, 0, words, alignment)
    if class_ is Class.FLOAT:
        # x86-64 packs two floats of four bytes into one register.
        is_pair = is_complex(type_) and (arch == "aarch64" or size >= PAIR)
        return _Words(0, 2 if is_pair else 1, words, alignment)
    return _Words(1, 0) if size > PAIR else _Words(words, 0, words, alignment)


def _vector(arch: str, type_: DebugType) -> _Words | None:
    size, class_ = type_.size, class_of(arch, type_)
    if class_ is Class.VECTOR and size <= PAIR:
        return _Words(0, 1, size // WORD, size)
    if arch == "aarch64":
        return _Words(1, 0) if class_ is Class.VECTOR else None
    # Compilers differ about vectors of one element, and pass large ones in registers by options such as -mavx.
    is_either = class_ is Class.VECTOR or (class_ is Class.EITHER and size >= WORD)
    return _Words(0, 1, is_either=True) if is_either and size <= _LARGEST else None


def _composite(arch: str, type_: DebugType) -> _Words | None:
    by_reference = type_.owner.by_reference(type_) if type_.owner is not None else False
    if by_reference is not False:
        return _Words(1, 0, by_reference=True) if by_reference else None
    parts = {*parts_of(arch, type_)}
    size, words = type_.size, -(-type_.size // WORD)
    classes = {each.class_ for each in parts}
    if Class.UNKNOWN in classes or (size > PAIR and not parts):
        return None
    natural = natural_alignment(arch, type_)
    if arch == "aarch64":
        alignment = min(max(natural, WORD), PAIR)
        if Class.EITHER in classes:
            return None
        same, count = {(each.size, each.class_) for each in parts}, len({each.offset for each in parts})
        unit, class_ = next(iter(same)) if len(same) == 1 and count <= _MAX_SAME else (0, Class.INTEGER)
        if class_ is not Class.INTEGER and unit <= PAIR and size == count * unit:
            return _Words(0, count, words, alignment)
        return _Words(1, 0) if size > PAIR else _Words(words, 0, words, alignment)
    own = (type_.owner.alignment(type_) if type_.owner is not None else 0) or natural
    # gcc passes a typedef as the struct itself, clang aligns it as the typedef asks.
    alignment = max(own, WORD) if not type_.alignment or max(type_.alignment, WORD) == max(own, WORD) else 0
    if size > PAIR:
        if size <= _LARGEST and classes <= {Class.VECTOR, Class.EITHER} and {each[:2] for each in parts} == {(0, size)}:
            return _Words(0, 1, is_either=True)
        return _Words(_IN_MEMORY, 0, words, alignment)
    # A member where its type is not aligned keeps the whole of it in memory, and a long double without integers beside.
    misaligned = {each.is_repeated for each in parts if each.offset % each.size}
    integers, vectors = _eightbytes(parts)
    if False in misaligned or (Class.X87 in classes and integers * WORD < PAIR):
        return _Words(_IN_MEMORY, 0, words, alignment)
    if misaligned or Class.EITHER in classes:  # of an array gcc looks only at the first element
        return None
    return _Words(integers, vectors, words, alignment)


def _eightbytes(parts: set[Part]) -> tuple[int, int]:
    """The registers of a struct of up to two words: a word is in an integer register if it has a part of an integer.

    The second word of a part that one vector register holds takes none, unless the first is not in that.
    """
    integers: set[int] = set()
    first: set[int] = set()
    second: set[int] = set()
    for offset, size, class_, _ in parts:
        start, end = offset // WORD, -(-(offset + size) // WORD)
        if class_ is Class.INTEGER:
            integers.update(range(start, end))
        else:
            first.add(start)
            second.update(range(start + 1, end))
    vectors = first - integers
    vectors |= {word for word in second - integers if word - 1 in integers}
    return len(integers), len(vectors)
