"""Computations that depend on the order of a set: the hashes of strings decide it, other ones in each run.

Whatever goes through such a set is refused, but for what gives the same in any order. So a function that nobody has
thought of is refused, too.
"""

from __future__ import annotations

import builtins
import operator
import sys
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import TYPE_CHECKING

from pyebpf.dsl.text_of import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Functions of Python's that give the same for a set, or for what a generator makes of one, in any order.
AGGREGATES = frozenset([all, any, frozenset, len, max, min, set, sorted, sum])
#: Such as ask about the set, or make a set.
_ASK = frozenset([bool, callable, getattr, hasattr, hash, id, isinstance, type])
_ASK |= {getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "contains", "truth", "not_", "is_")}
_ASK |= {getattr(operator, name) for name in ("or_", "and_", "xor", "sub", "ior", "iand", "ixor", "isub", "is_not")}
#: Methods of a set itself that tell of its order.
_TELL = frozenset(["__iter__", "__repr__", "__str__", "__format__", "__reduce__", "__reduce_ex__", "pop"])
#: Methods of dictionaries, tuples and lists that compare what they are given.
_COMPARE = frozenset(["get", "index", "count", "__getitem__", "__contains__", "__eq__", "__ne__"])
#: Functions that go through what is in their arguments, too.
_DEEP = frozenset(["repr", "str", "ascii", "format", "mod", "imod", "__mod__", "__format__", "join"])
_DEEP |= {"map", "filter", "reduce", "from_iterable", "starmap"}
_DEPTH = 4


def is_unordered(value: object) -> bool:
    """Whether a value is a set in which the hashes of strings, or addresses, decide who comes first."""
    return (
        isinstance(value, (set, frozenset))
        and len(value) > 1
        and not all(isinstance(each, (int, float)) for each in value)
    )


def goes_through(function: object, arguments: Sequence[object], keywords: Mapping[str, object]) -> bool:
    """Whether a call depends on the order of a set that it is given, as far as no function of the author's does it."""
    while isinstance(function, partial):
        arguments, keywords = [*function.args, *arguments], {**function.keywords, **keywords}
        function = function.func
    owner = getattr(function, "__self__", None)
    name = text_of(function)
    if isinstance(function, (MethodDescriptorType, WrapperDescriptorType)) and arguments:
        owner, arguments = arguments[0], arguments[1:]
    if is_unordered(owner):
        return name in _TELL
    given = [*arguments, *([] if function is dict else keywords.values())]
    if not any(map(_holds_unordered if name in _DEEP else is_unordered, (*given, owner))):
        return False
    if isinstance(owner, (dict, tuple, list)) and name in _COMPARE:
        return False
    if _is_one_of(function, AGGREGATES):
        return bool(keywords.get("key"))
    return _is_pythons(function) and not _is_one_of(function, _ASK)


def _is_one_of(function: object, those: frozenset[object]) -> bool:
    return any(function is each for each in those)


def _is_pythons(function: object) -> bool:
    """Whether a function is Python's own: built in, or of its library."""
    if isinstance(function, (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, MethodWrapperType)):
        return True
    if isinstance(function, (type, FunctionType)):
        root = text_of(function, "__module__").partition(".")[0]
        return root == builtins.__name__ or (root in sys.stdlib_module_names and root != "copy")
    return False


def _holds_unordered(value: object, depth: int = _DEPTH) -> bool:
    """Whether a value is such a set, or has one in it."""
    if is_unordered(value):
        return True
    if not depth or not isinstance(value, (dict, tuple, list)):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return any(_holds_unordered(each, depth - 1) for each in inside)
