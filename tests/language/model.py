"""What the language computes, said in Python: two subclasses of int whose operators wrap to 64 bits.

The same source text runs over these in CPython and, compiled, over registers; equal results are the test.
"""

from __future__ import annotations

import functools
import operator
import textwrap
from dataclasses import make_dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.language.harness import ARGUMENTS, RESULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyebpf.types import IntType

BITS = 1 << 64


class Wrapped(int):
    """A run-time integer. What is plain int is a literal: s64, or u64 from 2**63 on."""

    unsigned = False


class SignedInt(Wrapped):
    """An s64."""


class UnsignedInt(Wrapped):
    """A u64."""

    unsigned = True


def is_unsigned(value: int) -> bool:
    """Whether an operand is a u64."""
    return value.unsigned if isinstance(value, Wrapped) else value >= 1 << 63


def wrapped(value: int, *, unsigned: bool) -> Wrapped:
    """A mathematical result in 64 bits."""
    value = int(value) % BITS
    return UnsignedInt(value) if unsigned else SignedInt(value - BITS if value >> 63 else value)


def _quotient(a: int, b: int) -> int:
    return a // b if b else 0


def _remainder(a: int, b: int) -> int:
    return a % b if b else a


PLAIN: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": lambda a, count: a << (count % 64),
    "floordiv": _quotient,
    "mod": _remainder,
}


def _binary(function: Callable[[int, int], int], *, reflected: bool) -> Callable[[Wrapped, int], Wrapped]:
    def method(self: Wrapped, other: int) -> Wrapped:
        left, right = (other, self) if reflected else (self, other)
        return wrapped(function(int(left), int(right)), unsigned=is_unsigned(left) or is_unsigned(right))

    return method


def _right_shift(*, reflected: bool) -> Callable[[Wrapped, int], Wrapped]:
    def method(self: Wrapped, other: int) -> Wrapped:
        left, right = (other, self) if reflected else (self, other)
        return wrapped(int(left) >> (int(right) % 64), unsigned=is_unsigned(left))

    return method


for _name, _operation in PLAIN.items():
    setattr(Wrapped, f"__{_name}__", _binary(_operation, reflected=False))
    setattr(Wrapped, f"__r{_name}__", _binary(_operation, reflected=True))
Wrapped.__rshift__ = _right_shift(reflected=False)  # type: ignore[method-assign,assignment]  # wraps
Wrapped.__rrshift__ = _right_shift(reflected=True)  # type: ignore[method-assign,assignment]  # wraps
Wrapped.__neg__ = lambda self: wrapped(-int(self), unsigned=False)  # type: ignore[method-assign]  # wraps
Wrapped.__pos__ = lambda self: self  # type: ignore[method-assign]  # keeps its type
Wrapped.__abs__ = lambda self: wrapped(abs(int(self)), unsigned=False)  # type: ignore[method-assign]  # wraps
Wrapped.__invert__ = lambda self: wrapped(~int(self), unsigned=self.unsigned)  # type: ignore[method-assign]  # wraps


def loaded(type_: IntType, value: int) -> Wrapped:
    """`T(value)`: its low bits, read back by T's sign, in an s64 or a u64."""
    if type_.is_bool:
        return SignedInt(value != 0)
    return wrapped(type_.wrap(value), unsigned=type_.size == 8 and not type_.signed)


def _extreme(pick: Callable[..., int]) -> Callable[..., int]:
    def function(*operands: int) -> int:
        return wrapped(pick(map(int, operands)), unsigned=any(map(is_unsigned, operands)))

    return function


class Range:
    """`range` whose numbers are run-time ones. CPython's own asks subclasses of int one by one whether they are in."""

    def __init__(self, *ends: int) -> None:
        self.unsigned = is_unsigned(ends[0]) if len(ends) > 1 else False
        self.numbers = range(*map(int, ends))

    def __contains__(self, item: int) -> bool:
        return int(item) in self.numbers

    def __iter__(self) -> Iterator[Wrapped]:
        return (wrapped(number, unsigned=self.unsigned) for number in self.numbers)


@functools.lru_cache(maxsize=4)
def _function(body: str, parameters: str, outside: str) -> tuple[list[Any], Callable[..., Any]]:
    """The source as a Python function, and the list in which it finds its `out`."""
    from pyebpf.types import INTEGERS

    out: list[Any] = [None]
    names: dict[str, Any] = {"out": out, "min": _extreme(min), "max": _extreme(max), "range": Range}
    names["Pair"] = make_dataclass("Pair", ["low", "high"])
    names["unroll"] = lambda values: [int(value) for value in values]
    for name, type_ in INTEGERS.items():
        names[name] = lambda value, type_=type_: loaded(type_, value)
    inside = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    exec(f"{textwrap.dedent(outside)}\ndef function({parameters}):\n{inside}\n", names)
    return out, names["function"]


def run(body: str, parameters: str, given: Mapping[str, int], outside: str = "") -> list[int]:
    """What CPython leaves in `out`, as s64."""
    out, function = _function(body, parameters, outside)
    out[0] = result = SimpleNamespace(**{f"r{number}": 0 for number in range(RESULTS)})
    wanted = [name.partition(":")[0].strip() for name in parameters.split(",") if name.strip()]
    function(**{name: loaded(ARGUMENTS[name], given.get(name, 0)) for name in wanted})
    return [
        wrapped(getattr(result, f"r{number}"), unsigned=False).__int__()  # what an s64 field holds
        for number in range(RESULTS)
    ]
