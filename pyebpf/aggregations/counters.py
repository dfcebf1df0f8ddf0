"""Counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.aggregations.kind import Kind, add_word

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.aggregations.kind import Words
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.integers import Int
    from pyebpf.compiler import ir

__all__ = ["Counter"]


class Counter(Kind[int]):
    """A count: `add()` adds 1."""

    name = "a counter"
    codes = "Q"
    default = 1

    def update(self, p: ProgramBuilder, place: ir.Value, value: Int) -> None:
        add_word(p, place, 0, value.value)

    def result(self, words: Words, labels: Mapping[str, object]) -> int:  # noqa: ARG002 - one signature for all kinds
        return words[0]
