"""`Kind`: what one kind of aggregation is, to programs and to user space."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from pyebpf.aggregations.backend import combiner
from pyebpf.compiler.ir import Op
from pyebpf.types import U64, ArrayType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyebpf.aggregations.backend import Words
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.integers import Int
    from pyebpf.compiler import ir
    from pyebpf.types import Type

__all__ = ["Kind", "add_word"]

R = TypeVar("R")


class Kind(ABC, Generic[R]):
    """Layout, update and combination.

    A value is `len(codes)` words of 8 bytes, struct code "Q" or "q" each, that are all zero before the first `add`.
    `update` may be interrupted anywhere by another program that updates the same value on the same processor: every
    word must come out exact. `R` is the result's Python type.
    """

    #: The name in messages: "a log2 histogram".
    name: str
    codes: str
    #: The amount that `add` without an argument adds; None if it must have one.
    default: int | None = None
    #: Functions that make one word of two processors' words; None for sums.
    combine: Sequence[Callable[..., int]] | None = None

    @property
    def layout(self) -> Type:
        """The map's value type: what one processor keeps."""
        return U64 if len(self.codes) == 1 else ArrayType(U64, len(self.codes))

    def combiner(self) -> Callable[[bytes], Words]:
        """Function from all processors' bytes to the words of all."""
        return combiner(self.codes, self.combine)

    @abstractmethod
    def update(self, p: ProgramBuilder, place: ir.Value, value: Int) -> None:
        """Append the code that adds a number to the words at the address `place`, which is not NULL."""

    @abstractmethod
    def result(self, words: Words, labels: Mapping[str, object]) -> R:
        """Return what people read; `labels` names the key's parts, empty without a key."""

    def difference(self, now: Words, before: Words) -> Words:
        """Return what was added between two readings."""
        return tuple(a - b for a, b in zip(now, before, strict=True))

    def result_of_difference(self, words: Words, labels: Mapping[str, object]) -> R:
        """Return what people read of a `difference`."""
        return self.result(words, labels)


def add_word(p: ProgramBuilder, place: ir.Value, offset: int, number: ir.Value) -> None:
    """Add to a word: one atomic instruction, since a program that interrupts this one may be adding to it, too."""
    p.b.emit(Op.ATOMIC, place, number, imm=offset, size=8, symbol="add")
