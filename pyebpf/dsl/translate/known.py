"""Values known while compiling: bounds of what Python is let compute, and errors of the author's own objects."""

from __future__ import annotations

import builtins
import operator
import sys
from functools import lru_cache
from math import prod
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

from pyebpf.dsl.translate.tuples import TupleValue, is_run_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.dsl.translate.frame import Frame

__all__ = ["bounded", "checked", "raised", "rounds", "said"]

#: Rounds and elements beyond these are a mistake: a program could hold no such table.
_MOST_ROUNDS = 1_000_000
#: Elements of a tuple of tuples, one that stands in it twice counted twice.
_MOST_NESTED = 1 << 16
#: The same of a tuple with run-time values, each of which is a variable.
_MOST_VALUES = 1024
#: Bits of an integer; Python itself prints no more than some 14,000.
_MOST_BITS = 8192
_BITS = f"a probe computes in 64 bits, and Python with {_MOST_BITS:,} for it at most"

#: Python's functions that take what they are given one by one.
_GO_OVER: tuple[Any, ...] = (list, tuple, set, frozenset, sorted, sum, min, max, any, all, bytes, bytearray, dict)
_GO_OVER += (dict.fromkeys,)
_PADDING = frozenset(["ljust", "rjust", "center", "zfill"])

#: Methods by which a class makes its integers others than Python's.
_ARITHMETIC = frozenset(
    f"__{prefix}{name}__"
    for name in ("add", "sub", "mul", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or", "xor")
    for prefix in ("", "r")
) | frozenset(["__neg__", "__invert__", "__abs__", "__index__", "__int__", "__bool__"])
_ARITHMETIC |= {f"__{name}__" for name in ("eq", "ne", "lt", "le", "gt", "ge")}


def _rounds_of(value: Any) -> int:
    """How many elements a sequence has; 1 for what has no length that can be asked."""
    if type(value) is range:
        return max(0, -(-(value.stop - value.start) // value.step))
    return len(value) if type(value) in (tuple, list, dict, set, frozenset, str, bytes) else 1


def bounded(f: Frame, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
    """Refuse a computation whose result, or whose rounds, would be too many, before Python is asked."""
    if function in _GO_OVER:
        for each in arguments:
            if _rounds_of(each) > _MOST_ROUNDS:
                f.fail(
                    f"{_rounds_of(each):,} rounds are too many to go through while compiling, at most {_MOST_ROUNDS:,}"
                )
        if function in (bytes, bytearray) and arguments and type(arguments[0]) is int and arguments[0] > _MOST_ROUNDS:
            _too_long(f, arguments[0])
        return
    name = getattr(function, "__name__", "")
    if name in _PADDING and arguments and type(arguments[0]) is int and arguments[0] > _MOST_ROUNDS:
        _too_long(f, arguments[0])
    if len(arguments) != 2:
        return
    left, right = arguments
    if isinstance(left, int) and isinstance(right, int):
        bits = 0
        if function in (operator.pow, builtins.pow) and right > 0:
            bits = (left.bit_length() - 1) * right if left not in (0, 1, -1) else 0
        elif function is operator.lshift and left and right > 0:
            bits = left.bit_length() + right
        elif function is operator.mul:
            bits = left.bit_length() + right.bit_length() - 2
        if bits > _MOST_BITS:
            f.fail(f"this number would have some {bits:,} bits: {_BITS}" if bits < 1 << 64 else f"this number: {_BITS}")
    elif function is operator.mul:
        count, repeated = (left, right) if isinstance(left, int) else (right, left)
        if isinstance(count, int) and count > 0 and _rounds_of(repeated) * count > _MOST_ROUNDS:
            _too_long(f, _rounds_of(repeated) * count)
    elif function is operator.add and _rounds_of(left) + _rounds_of(right) > _MOST_ROUNDS:
        _too_long(f, _rounds_of(left) + _rounds_of(right))


def _too_long(f: Frame, length: int) -> NoReturn:
    f.fail(f"{length:,} elements are too many to keep while compiling, at most {_MOST_ROUNDS:,}")


def checked(f: Frame, value: Any) -> Any:
    """A value as it is; what no program can hold, or would compute otherwise than Python, is refused."""
    kind: Any = type(value)
    if kind is int:
        if value.bit_length() > _MOST_BITS:
            f.fail(f"this number has {value.bit_length():,} bits: {_BITS}")
    elif kind is str:
        if not value.isascii():
            _encodable(f, value)
    elif kind in (tuple, list, TupleValue):
        _counted(f, value)
    elif kind is not bool and issubclass(kind, int):
        own = _own_arithmetic(kind)
        if own:
            f.fail(
                f"{kind.__name__} is an int whose {own}() is its own, which no program can call: give the number "
                "itself, int(…), a name above the probe"
            )
    return value


def _encodable(f: Frame, text: str) -> None:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        f.fail(f"{text!a} is no text in UTF-8: {text[error.start : error.start + 1]!a} is half of a surrogate pair")


def _counted(f: Frame, value: Any) -> None:
    """Refuse a tuple whose elements, those of the tuples in it counted each time, are too many."""
    elements = value.elements if type(value) is TupleValue else value
    if not any(isinstance(each, (tuple, list, TupleValue)) for each in elements):
        return
    known: dict[int, int] = {}
    distinct = 0

    def count(each: Any) -> int:
        nonlocal distinct
        inner = each.elements if isinstance(each, TupleValue) else each
        if not isinstance(inner, (tuple, list)):
            return 1
        if id(inner) not in known:
            known[id(inner)] = 1
            distinct += len(inner)
            known[id(inner)] = 1 + sum(map(count, inner))
        return known[id(inner)]

    total = count(value)
    if total > _MOST_VALUES and is_run_time(value):
        f.fail(f"{total:,} elements are too many in a tuple of what only each event knows, at most {_MOST_VALUES:,}")
    # A table of many rows is what it is; what grows by standing in itself twice is seen here.
    if total > _MOST_NESTED and total > 8 * distinct:
        f.fail(f"{total:,} elements are too many in a tuple that has the same tuples in it again and again")


@lru_cache(maxsize=256)
def _own_arithmetic(kind: type) -> str:
    """Name of a method by which integers of a class are others than Python's; empty for those of enums."""
    for each in kind.__mro__[: kind.__mro__.index(int)]:
        for name, method in vars(each).items():
            if name in _ARITHMETIC and isinstance(method, FunctionType) and not _is_standard(method.__module__):
                return name
    return ""


def _is_standard(module: str | None) -> bool:
    """Whether a module is Python's own; code that was given to `exec` may have none."""
    return module is not None and module.partition(".")[0] in sys.stdlib_module_names


def raised(f: Frame, error: BaseException) -> None:
    """Make an error of the place of what an object of the author's raised; return if it was this package itself."""
    if isinstance(error, UnicodeEncodeError):
        f.fail(f"a text here is none in UTF-8: {error.object[error.start : error.end]!a}")
    if isinstance(error, ValueError) and "integer string conversion" in str(error):
        f.fail(f"a number here is too large: {_BITS}")
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        module = trace.tb_frame.f_globals.get("__name__")
        ours = code.co_filename == "<compile time>" or (module or "").partition(".")[0] == "pyebpf"
        if not ours and not _is_standard(module):
            f.fail(
                f"{code.co_qualname}() of a value here raised {said(error)}: a probe is given plain numbers, texts, "
                "tuples and dictionaries"
            )
        trace = trace.tb_next


def said(error: BaseException) -> str:
    """An error's kind and words, as far as it has such."""
    kind = type(error).__name__
    try:
        return f"{kind}: {error}" if str(error) else kind
    except Exception:  # noqa: BLE001 - the author's own class may raise anything here
        return kind


def rounds(f: Frame, sequences: Sequence[Any]) -> None:
    """Refuse a comprehension of more rounds than these sequences may give together."""
    total = prod(map(_rounds_of, sequences))
    if total > _MOST_ROUNDS:
        f.fail(f"{total:,} rounds are too many to go through while compiling, at most {_MOST_ROUNDS:,}")
