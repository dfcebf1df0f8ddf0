"""`Parameters` of a function, and the values that a call gives them.

As `inspect.Signature` has it, in its words; the import of `inspect` takes as long as that of twenty modules here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FunctionType

#: Of a code object: inspect's CO_VARARGS and CO_VARKEYWORDS.
_REST, _KEYWORDS = 0x04, 0x08


@dataclass(frozen=True, slots=True)
class Parameters:
    """The names of parameters, and their defaults.

    `positional` are given by place, and but for the `only_by_place` first ones by name, too; `by_name` by name only;
    `rest` is that of `*rest`, `keywords` that of `**keywords`, empty where there is none.
    """

    positional: tuple[str, ...]
    by_name: tuple[str, ...]
    rest: str
    keywords: str
    defaults: Mapping[str, object]
    only_by_place: int = 0

    def bind(self, arguments: Sequence[object], keywords: Mapping[str, object]) -> dict[str, object]:
        """The parameters that a call gives values, in their order. Raises TypeError for a call that Python refuses."""
        count = len(self.positional)
        given = dict(zip(self.positional, arguments, strict=False))
        if len(arguments) > count and not self.rest:
            raise TypeError("too many positional arguments")
        more: dict[str, object] = {}
        named = {*self.positional[self.only_by_place :], *self.by_name}
        for name, value in keywords.items():
            if name not in named:
                more[name] = value
            elif name in given:
                raise TypeError(f"multiple values for argument {name!r}")
            else:
                given[name] = value
        for name in (*self.positional, *self.by_name):
            if name not in given and name not in self.defaults:
                raise TypeError(f"missing a required argument: {name!r}")
        if more and not self.keywords:
            raise TypeError(f"got an unexpected keyword argument {next(iter(more))!r}")
        if self.rest and len(arguments) > count:
            given[self.rest] = tuple(arguments[count:])
        if more:
            given[self.keywords] = more
        return {name: given[name] for name in self.names if name in given}

    def bind_all(self, arguments: Sequence[object], keywords: Mapping[str, object]) -> dict[str, object]:
        """Every parameter with its value, in their order: that of the call, or its default."""
        given = self.bind(arguments, keywords)
        without: dict[str, object] = {**self.defaults, self.rest: (), self.keywords: {}}
        return {name: given.get(name, without.get(name)) for name in self.names}

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, in Python's order."""
        return tuple(filter(None, (*self.positional, self.rest, *self.by_name, self.keywords)))


def parameters_of(function: FunctionType) -> Parameters:
    """The parameters that Python gives the arguments of a call to: a wrapper's own, not those of what it wraps."""
    code = function.__code__
    count, by_name = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    variable = iter(code.co_varnames[by_name:])
    positional = code.co_varnames[:count]
    values = function.__defaults__ or ()
    return Parameters(
        positional,
        code.co_varnames[count:by_name],
        next(variable) if code.co_flags & _REST else "",
        next(variable) if code.co_flags & _KEYWORDS else "",
        {**dict(zip(positional[count - len(values) :], values, strict=True)), **(function.__kwdefaults__ or {})},
        code.co_posonlyargcount,
    )
