"""Named bits of a Struct's field: read as numbers, written without touching the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.values.operations import binary, rvalue, to_int
from pyebpf.errors import InvalidValue
from pyebpf.types import S64, U64
from pyebpf.types.bits import Bits

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.types import StructType


def bits_of(type_: StructType, name: str) -> Bits | None:
    """Return the bits of a field that the Struct's class calls `name`, if it has such."""
    found = getattr(type_.cls, name, None)
    return found if isinstance(found, Bits) else None


def read_bits(p: ProgramBuilder, held: object, bits: Bits) -> object:
    """The number that the bits of a field, read already, stand for."""
    if bits.shift:
        held = binary(p, ">>", held, bits.shift)
    return binary(p, "*", binary(p, "&", held, bits.mask), bits.unit)


def changed_bits(p: ProgramBuilder, held: object, bits: Bits, value: object) -> object:
    """The field with these bits changed; of a number of each event the low bits count."""
    value = rvalue(p, value)
    if isinstance(value, int):
        try:
            count: object = bits.held(int(value)) << bits.shift
        except InvalidValue as error:
            p.fail(str(error))
    else:
        count = binary(p, "//", to_int(p, value), bits.unit) if bits.unit > 1 else to_int(p, value)
        count = binary(p, "<<", binary(p, "&", count, bits.mask), bits.shift)
    others = ~(bits.mask << bits.shift)
    if others < S64.minimum:
        others &= U64.maximum  # of 64 bits, the top one among those that change
    return binary(p, "|", binary(p, "&", held, others), count)
