"""Changes to objects that are there before and after a computation: they would be made once, not on each event.

A method that changes its object is refused by its name, before it runs. What else changes a list, a dictionary, a set,
a deque or a `bytearray` is seen by comparing these before and after. An iterator that has a name is not used at all.
"""

from __future__ import annotations

import sys
from collections import deque
from functools import partial
from itertools import chain
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any

from pyebpf.dsl.text_of import called_method, text_of, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    #: Length and elements of a container.
    _Content: TypeAlias = tuple[int, Sequence[object]]

#: Methods of Python's types that change their object.
_CHANGES = words(
    """
    add append appendleft clear difference_update discard extend extendleft insert intersection_update pop popitem
    popleft remove reverse rotate setdefault sort subtract symmetric_difference_update update write writelines truncate
    __setattr__ __delattr__ __setitem__ __delitem__ __setstate__ __next__ send throw
    """
)
#: Built-in functions that change the attributes of an object.
ASSIGNING = (setattr, delattr)
_METHODS = (BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType)
#: A container with more elements than these is seen to change by its length.
_FEW = 1024
#: Containers looked at, and containers in containers.
_MOST, _DEPTH = 64, 3


class Changing(Exception):
    """A call would change, or go on with, an object that is there before and after."""

    def __init__(self, name: str, what: str = "what it is called on") -> None:
        super().__init__(name)
        self.name = name
        self.what = what

    def message(self, outer: str) -> str:  # noqa: ARG002 - as that of Impure
        """Words for the author."""
        call = f"{self.name}()" if self.name else "this"
        return f"{call} changes {self.what}, once, at compile time, not on each event: keep in a map what events change"


def is_iterator(value: object) -> bool:
    """Whether going through a value uses it up."""
    return hasattr(type(value), "__next__")


def check_call(function: object, arguments: Sequence[object], keywords: Mapping[str, object]) -> None:
    """Raise Changing if a call, or one of the functions that it is given, changes an object by what it is."""
    for each in (function, *arguments, *keywords.values()):
        while isinstance(each, partial):
            each = each.func  # noqa: PLW2901 - what is called in the end
        name = _changer(each)
        if name:
            raise Changing(name)


def _changer(function: object) -> str:
    """Name of a function that changes an object; empty for all others."""
    if any(function is each for each in ASSIGNING):
        return text_of(function)
    method = called_method(function)
    if method:
        return method if method in _CHANGES else ""
    if not isinstance(function, _METHODS) or isinstance(getattr(function, "__self__", None), ModuleType):
        return ""
    name = text_of(function)
    # A decimal.Context adds and subtracts.
    of_decimal = text_of(type(getattr(function, "__self__", None)), "__module__") == "decimal"
    return name if name in _CHANGES and not of_decimal else ""


class Contents:
    """The contents of containers that a computation is given, so that it is seen if they change."""

    def __init__(self, function: Callable[..., object], given: Iterable[object]) -> None:
        self._before = (
            [] if _is_authors(function) else [(each, _content(each)) for each in _containers(function, given)]
        )

    def changed(self) -> bool:
        """Whether one of them holds something else now."""
        return any(_differ(before, _content(each)) for each, before in self._before)


def _is_authors(function: object) -> bool:
    """Whether a function is the author's, of which nobody asks what it changes."""
    if not isinstance(function, FunctionType):
        return False
    root = text_of(function, "__module__").partition(".")[0]
    return root not in sys.stdlib_module_names and root != "pyebpf"


def _containers(function: object, given: Iterable[object]) -> Iterator[object]:
    """The containers among the arguments of a call, in bound methods, and in such containers."""
    seen: set[int] = set()
    level = [function, *given]
    for _ in range(_DEPTH):
        inside: list[object] = []
        for each in level:
            if isinstance(each, partial):
                inside += [each.func, *each.args, *each.keywords.values()]
            elif isinstance(each, (*_METHODS, MethodType)):
                inside.append(getattr(each, "__self__", None))
            elif isinstance(each, (*_KINDS, tuple)) and id(each) not in seen and len(seen) < _MOST:
                seen.add(id(each))
                if type(each) is not tuple:
                    yield each
                inside += _elements(each)
        level = inside


def _elements(value: object) -> list[object]:
    """The elements of a container that may be containers themselves; none of a large one."""
    if isinstance(value, bytearray) or _length(value) > _FEW:
        return []
    found = dict.values(value) if isinstance(value, dict) else _kind(value).__iter__(value)
    return [each for each in found if isinstance(each, (*_KINDS, tuple))]


_KINDS: tuple[type, ...] = (list, dict, set, bytearray, deque)


def _kind(value: object) -> Any:
    """The built-in type, whose methods are not the author's."""
    return next((each for each in (*_KINDS, tuple) if isinstance(value, each)), None)


def _length(value: object) -> int:
    return int(_kind(value).__len__(value))


def _content(value: Any) -> _Content:
    """Length and elements, these if they are few; elements of a set in any order."""
    length = _length(value)
    if length > _FEW:
        return length, ()
    kind = _kind(value)
    if kind is bytearray:
        return length, (bytes(value),)
    found = list(chain.from_iterable(dict.items(value)) if kind is dict else kind.__iter__(value))
    return length, sorted(found, key=id) if kind is set else found


def _differ(before: _Content, now: _Content) -> bool:
    if before[0] != now[0]:
        return True
    pairs = zip(before[1], now[1], strict=True)
    return any(one is not other and not (type(one) is bytes and one == other) for one, other in pairs)
