"""`Parameters` bind the arguments of a call as `inspect` does, in its words."""

from __future__ import annotations

import inspect
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from pyebpf.dsl.parameters import parameters_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Bind = Callable[[Any, Sequence[int], Mapping[str, int]], Mapping[str, object]]

PARAMETERS = (
    "",
    "a",
    "a, b=2",
    "a, /, b=2, *, c",
    "a, b=2, /, *rest",
    "a, *rest, c=3",
    "a=1, **more",
    "a, /, **more",
    "a, b=2, *rest, c, d=4, **more",
    "*, c=3, d",
)
#: Calls of up to three arguments by place and up to two by name.
CALLS = [
    (tuple(range(10, 10 + count)), dict(zip(names, (20, 21), strict=False)))
    for count in range(4)
    for names in ((), *combinations("abcdx", 1), *combinations("abcdx", 2))
]


def by_inspect(function: Any, arguments: Sequence[int], keywords: Mapping[str, int]) -> Mapping[str, object]:
    bound = inspect.signature(function).bind(*arguments, **keywords)
    bound.apply_defaults()
    return bound.arguments


def by_parameters(function: Any, arguments: Sequence[int], keywords: Mapping[str, int]) -> Mapping[str, object]:
    return parameters_of(function).bind_all(arguments, keywords)


def answer(bind: Bind, parameters: str, arguments: Sequence[int], keywords: Mapping[str, int]) -> object:
    """The parameters with their values, in order, or the words of the error."""
    try:
        return [*bind(eval(f"lambda {parameters}: None"), arguments, keywords).items()]
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_calls_are_bound_as_python_binds_them(parameters: str) -> None:
    """The same calls are refused, and all others give each parameter the same."""
    for call in CALLS:
        expected, found = (answer(bind, parameters, *call) for bind in (by_inspect, by_parameters))
        assert found == expected or (isinstance(found, str) and isinstance(expected, str)), call


@pytest.mark.parametrize("call", [((), {}), ((1, 2, 3), {}), ((1,), {"a": 2}), ((1,), {"x": 2})])
def test_the_words_are_those_of_inspect(call: tuple[Sequence[int], Mapping[str, int]]) -> None:
    """Where one thing is wrong."""
    expected, found = (answer(bind, "a, b=2", *call) for bind in (by_inspect, by_parameters))
    assert isinstance(found, str)
    assert found == expected
