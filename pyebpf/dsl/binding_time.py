"""Binding times: the local names that are known at compile time, and those that are run-time variables.

A local is compile-time if every assignment to it is, and none stands under a run-time `if` or in a run-time loop;
otherwise it is a run-time variable everywhere. Whether an assignment is compile-time depends on that of other names,
so the answer is a fixpoint: translation starts with no run-time names, notes each one that it finds, and is done
again until it finds no more. Names only ever become run-time, so this ends; a program without loops or branches that
decide names needs one pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pyebpf.builder.values.entity import RunTimeValue
    from pyebpf.errors import Location


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason that a name is a run-time variable: `what` completes "run-time since line N, where it …"."""

    what: str
    where: Location


class BindingTimes:
    """The names found to be run-time so far, each by its function's place in the program: an `Analysis` of it."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[Hashable, str], Reason] = {}
        self._unsigned: set[tuple[Hashable, str]] = set()
        self._texts: dict[tuple[Hashable, str], int] = {}
        self._numbers: set[tuple[Hashable, str]] = set()
        self._optional_texts: set[tuple[Hashable, str]] = set()
        self._anywhere: set[tuple[Hashable, str]] = set()
        self._optional: dict[tuple[Hashable, str], RunTimeValue] = {}
        #: Whether this build found a new one, so that it is not to be used.
        self.changed = False

    def is_run_time(self, function: Hashable, name: str) -> bool:
        """Whether a name is a run-time variable, as far as is known."""
        return (function, name) in self._reasons

    def reason(self, function: Hashable, name: str) -> Reason | None:
        """Why."""
        return self._reasons.get((function, name))

    def is_unsigned(self, function: Hashable, name: str) -> bool:
        """Whether a name is a u64 somewhere, so that the constants it is given are u64, too."""
        return (function, name) in self._unsigned

    def mark_unsigned(self, function: Hashable, name: str) -> None:
        """Note that a name that had been given constants only is given a u64."""
        self._unsigned.add((function, name))
        self.changed = True

    def string_length(self, function: Hashable, name: str) -> int:
        """N of the `char[N]` that a name has for the strings it is given by turns; 0 if it is given one, or none."""
        return self._texts.get((function, name), 0)

    def mark_string(self, function: Hashable, name: str, length: int) -> None:
        """Note that a name is given strings by turns, one of which takes `length` bytes with its NUL."""
        if length > self.string_length(function, name):
            self._texts[function, name] = length
            self.changed = True

    def is_optional_text(self, function: Hashable, name: str) -> bool:
        """Whether a name is a string on some paths and None on others."""
        return (function, name) in self._optional_texts

    def mark_optional_text(self, function: Hashable, name: str) -> None:
        """Note that a name is a string on some paths and None on others."""
        if (function, name) not in self._optional_texts:
            self._optional_texts.add((function, name))
            self.changed = True

    def is_anywhere(self, function: Hashable, name: str) -> bool:
        """Whether a name may stand for either of two records."""
        return (function, name) in self._anywhere

    def mark_anywhere(self, function: Hashable, name: str) -> None:
        """Note that a name may stand for either of two records."""
        if (function, name) not in self._anywhere:
            self._anywhere.add((function, name))
            self.changed = True

    def is_number(self, function: Hashable, name: str) -> bool:
        """Whether a name that is given characters is given other numbers, too."""
        return (function, name) in self._numbers

    def mark_number(self, function: Hashable, name: str) -> None:
        """Note that a name is given characters and other numbers."""
        if (function, name) not in self._numbers:
            self._numbers.add((function, name))
            self.changed = True

    def optional(self, function: Hashable, name: str) -> RunTimeValue | None:
        """The value, on other paths, of a name that is None on some; None for all other names."""
        return self._optional.get((function, name))

    def mark_optional(self, function: Hashable, name: str, value: RunTimeValue) -> None:
        """Note that a name is None on some paths, and a value like this one on others."""
        if (function, name) not in self._optional or value.static_shape != self._optional[function, name].static_shape:
            self._optional[function, name] = value
            self.changed = True

    def mark(self, function: Hashable, name: str, reason: Reason, *, relied_on: bool) -> None:
        """Note that a name is a run-time variable.

        `relied_on` tells whether this pass has already taken it for known.
        """
        if (function, name) not in self._reasons:
            self._reasons[function, name] = reason
            self.changed |= relied_on
