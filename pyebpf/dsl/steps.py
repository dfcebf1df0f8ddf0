"""Steps of a computation, counted by iterators that are C's: a step costs some 65 nanoseconds, and no hook sees it.

`True in COUNTING.ticker` is one step. It raises once the computation that runs in this thread has used all of them.
"""

from __future__ import annotations

import threading
from itertools import chain, compress, islice, repeat
from types import GeneratorType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyebpf.dsl.purity import Watch

#: Rounds and elements beyond these are a mistake: a program could hold no such table.
MAX_ELEMENTS = 1_000_000
#: Iterations, calls, elements of iterators, and lines of loops in code that Python itself calls. All of them take less
#: than a second.
MAX_STEPS = 800_000
ABOVE = "compute this above the probe, and use its result here by name"


class TooMuch(Exception):
    """A computation would take too long, or too much memory, or cannot be proved not to."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words

    def message(self, outer: str) -> str:  # noqa: ARG002 - as that of Impure
        """Words for the author."""
        return self.words


class Counting(threading.local):
    """The counter of the steps in this thread: endless, where nothing is computed."""

    ticker: Iterator[bool] = repeat(True)  # noqa: FBT003 - what is repeated
    watch: Watch | None = None


COUNTING = Counting()


class _End:
    """The end of the steps: an error, each time."""

    def __init__(self, refuse: Callable[[], object]) -> None:
        self._refuse = refuse

    def __iter__(self) -> _End:
        return self

    def __next__(self) -> bool:
        self._refuse()
        raise AssertionError("a refusal is raised")


def ticker_of(steps: int, refuse: Callable[[], object]) -> Iterator[bool]:
    """An iterator that gives True so many times, and calls `refuse`, which raises, each time after that."""
    return chain(repeat(True, steps), _End(refuse))  # noqa: FBT003 - what is repeated


class _Rest:
    """The rest of an iterator that has given as many elements as it may: nothing, or an error."""

    def __init__(self, values: Iterator[object]) -> None:
        self._values = values

    def __iter__(self) -> _Rest:
        return self

    def __next__(self) -> NoReturn:
        next(self._values)
        word = type(self._values).__name__
        error = TooMuch(
            f"more than {MAX_ELEMENTS:,} iterations of {'an' if word[0] in 'aeiou' else 'a'} {word} are too many "
            f"to run at compile time: {ABOVE}"
        )
        if COUNTING.watch is not None:
            COUNTING.watch.refuse(error)
        raise error


def counted(values: Any) -> object:
    """An iterator that ends in an error after `MAX_ELEMENTS`; as it is what has a length, or is counted anyway."""
    if isinstance(values, GeneratorType) or not hasattr(type(values), "__next__") or hasattr(values, "read"):
        return values
    return chain(compress(islice(values, MAX_ELEMENTS), COUNTING.ticker), _Rest(values))
