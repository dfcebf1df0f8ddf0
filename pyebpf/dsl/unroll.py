"""`unroll`: a loop over `range` written out while compiling."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


class Unrolled:
    """The answer of `unroll` in a probe: values that a `for` takes one by one while compiling."""

    def __init__(self, values: Iterable[object]) -> None:
        self.values = list(values)


def unroll(values: Iterable[T]) -> Iterable[T]:
    """Written around what a `for` goes over, write its iterations out, so that a probe knows `i` in each of them.

    In Python itself these are the values given.
    """
    return values
