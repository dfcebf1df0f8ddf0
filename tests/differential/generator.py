"""Random programs of the whole language, as source text that CPython runs as well: a function of a seed alone.

Each file of forms adds to what `tests.differential.core` writes: `bounds` numbers whose bounds are known and tables
that these index, `arrays` what else they index, `trees` deep trees, `copies` records, `strings` texts.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.differential.arrays import Arrays
from tests.differential.copies import Copies
from tests.differential.core import FIELDS, INPUTS, RESULTS
from tests.differential.program import Program, Scope
from tests.differential.strings import Strings
from tests.differential.trees import Trees

if TYPE_CHECKING:
    from tests.differential.core import Statement

__all__ = ["FIELDS", "INPUTS", "RESULTS", "Program", "generate", "generate_from"]


def generate(seed: int, *, small: bool = False) -> Program:
    """The program of a seed; a `small` one has a few statements."""
    return generate_from(random.Random(seed), seed, small=small)


def generate_from(source: random.Random, seed: int, *, small: bool = False) -> Program:
    """The program that a source of random numbers chooses; `seed` only names it."""
    return _Everything(source, seed, small=small).program()


class _Everything(Arrays, Strings, Trees, Copies):
    def outermost(self) -> Scope:
        if self.chance(0.3):
            self.called, self.leave = True, f"return {self.random.randrange(-9, 9)}"
        return super().outermost()

    def further_statements(self, scope: Scope) -> list[Statement]:
        if self.inlined:
            return [self.tables]
        statements = [self.indexed] * 6 + [self.tables, self.copies, self.texts_] * 2 + [self.context]
        if not scope.depth:
            statements += [self.wide_record] + [self.deep] * (self.chance(0.2) if self.small else 3)
        if scope.wide:
            statements += [self.wide_copied]
        return statements

    def further_expression(self, scope: Scope, kind: str, depth: int) -> str:  # noqa: ARG002 - one that decides
        if self.inlined or self.chance(0.4):
            return self.table_expression(scope, kind)
        if kind == "s" and self.chance(0.3):
            return self.text_expression(scope) if self.chance(0.7) else self.summed(scope)
        return self.element(scope, kind)

    def further_condition(self, scope: Scope, depth: int) -> str:  # noqa: ARG002 - as above
        return "" if self.inlined else self.text_condition(scope)
