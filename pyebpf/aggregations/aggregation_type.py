"""`AggregationType`: what one kind of aggregation is, to programs and to user space."""

from __future__ import annotations

from abc import ABC, abstractmethod
from struct import Struct
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from pyebpf.compiler.ir import Op
from pyebpf.types import U64, ArrayType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.integers import Int
    from pyebpf.compiler import ir
    from pyebpf.types import Type

#: The 8-byte cells of one value, all processors' put together.
Cells: TypeAlias = tuple[int, ...]

R = TypeVar("R")


class AggregationType(ABC, Generic[R]):
    """Layout, update and combination.

    A value is `len(codes)` cells of 8 bytes, struct code "Q" or "q" each, that are all zero before the first `add`.
    `update` may be interrupted anywhere by another program that updates the same value on the same processor: every
    word must come out exact. `R` is the result's Python type.
    """

    #: The name in messages: "a log2 histogram".
    name: str
    codes: str
    #: The amount that `add` without an argument adds; None if it must have one.
    default: int | None = None
    #: Functions that make one word of two processors' cells; None for sums.
    combine: Sequence[Callable[..., int]] | None = None

    @property
    def layout(self) -> Type:
        """The map's value type: what one processor keeps."""
        return U64 if len(self.codes) == 1 else ArrayType(U64, len(self.codes))

    def combiner(self) -> Callable[[bytes], Cells]:
        """Function from all processors' bytes to the cells of all."""
        return combiner(self.codes, self.combine)

    @abstractmethod
    def update(self, p: ProgramBuilder, place: ir.Value, value: Int) -> None:
        """Append the code that adds a number to the cells at the address `place`, which is not NULL."""

    @abstractmethod
    def result(self, cells: Cells, labels: Mapping[str, object]) -> R:
        """Return what people read; `labels` names the key's parts, empty without a key."""

    def difference(self, now: Cells, before: Cells) -> Cells:
        """Return what was added between two readings."""
        return tuple(a - b for a, b in zip(now, before, strict=True))

    def result_of_difference(self, cells: Cells, labels: Mapping[str, object]) -> R:
        """Return what people read of a `difference`."""
        return self.result(cells, labels)


def add_cell(p: ProgramBuilder, place: ir.Value, offset: int, number: ir.Value) -> None:
    """Add to a word: one atomic instruction, since a program that interrupts this one may be adding to it, too."""
    p.b.emit(Op.ATOMIC, place, number, imm=offset, size=8, symbol="add")


def combiner(codes: str, combine: Sequence[Callable[..., int]] | None) -> Callable[[bytes], Cells]:
    """Function from a value's bytes to its cells.

    `codes` has a struct code ("Q", "q") for each word; `combine` a function of two for each, None for sums.
    Processors that hold nothing but zeros, most of them for most keys, have nothing to add.
    """
    packer = Struct(f"<{codes}")
    size, unpack = packer.size, packer.unpack_from
    nothing = bytes(size)

    def cells(value: bytes) -> Cells:
        slots = [unpack(value, at) for at in range(0, len(value), size) if value[at : at + size] != nothing]
        if not slots:
            return (0,) * len(codes)
        if len(slots) == 1:
            return slots[0]
        if combine is None:
            return tuple(map(sum, zip(*slots, strict=True)))
        combined: Cells = slots[0]
        for slot in slots[1:]:
            combined = tuple(join(a, b) for join, a, b in zip(combine, combined, slot, strict=True))
        return combined

    return cells
