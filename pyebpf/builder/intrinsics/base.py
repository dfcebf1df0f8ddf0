"""Intrinsics: functions of the language that stand for code, such as `pid()`, `comm()` and `now()`.

An intrinsic is declared as a typed function for people and type checkers; its decorator is given the function that
builds its code. Called by Python itself it raises OnlyInProbe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pyebpf.builder.values.entity import Entity
from pyebpf.builder.values.methods import invoke
from pyebpf.errors import OnlyInProbe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyebpf.builder.program import ProgramBuilder

P = ParamSpec("P")
R = TypeVar("R")


class Intrinsic(Entity):
    """A function of the language: a call in a probe runs `build(p, *arguments, **keywords)` while compiling."""

    def __init__(self, name: str, build: Callable[..., object], documentation: str | None) -> None:
        self.name = name
        self.build = build
        self.__doc__ = documentation
        self.__name__ = name

    def describe(self) -> str:
        """Return the intrinsic as it is written where it is an operand."""
        return f"{self.name} without its parentheses"

    def call(self, p: ProgramBuilder, arguments: Sequence[object], keywords: Mapping[str, object]) -> object:
        """Build the code; an argument that the intrinsic does not take is an error."""
        return invoke(p, f"{self.name}()", self.build, arguments, keywords)

    def __call__(self, *_arguments: object, **_keywords: object) -> Any:
        """Refuse: only a probe can ask."""
        msg = f"{self.name}() has an answer only inside a probe, on each event"
        raise OnlyInProbe(msg)


def intrinsic(build: Callable[..., object]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare an intrinsic: the decorated function gives name, types and documentation, `build` the code."""

    def declare(function: Callable[P, R]) -> Callable[P, R]:
        return Intrinsic(function.__name__, build, function.__doc__)

    return declare
