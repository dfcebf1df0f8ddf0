"""Limits of what Python computes at compile time: steps, elements, bits.

Steps are counted, not timed, so that a program compiles on every machine or on none. What runs in C takes no steps:
each call of it is judged by what it is given before it begins, and an iterator that it consumes is counted.
"""

from __future__ import annotations

import math
import operator
import re
import sys
from collections import deque
from itertools import repeat
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any, NoReturn

from pyebpf.dsl.backtracking import check_pattern
from pyebpf.dsl.steps import ABOVE, COUNTING, MAX_ELEMENTS, TooMuch, counted
from pyebpf.dsl.text_of import text_of, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence, Sized

#: Bits of an integer; Python itself prints no more than some 14,000.
MAX_BITS = 8192
BITS = f"a probe computes in 64 bits, and Python with {MAX_BITS:,} for it at most"


SIZED: tuple[type[Sized], ...] = (tuple, list, dict, set, frozenset, str, bytes, bytearray, deque)
#: Python's functions that take what they are given one by one.
_GO_OVER: tuple[object, ...] = (list, tuple, set, frozenset, sorted, sum, min, max, any, all, bytes, bytearray, dict)
_GO_OVER_NAMES = words("join extend update deque Counter reduce prod fsum fromkeys")
_PADDING = frozenset(["ljust", "rjust", "center", "zfill", "expandtabs"])
#: Functions that ask an iterator for one element at most, or for none.
_LAZY: tuple[object, ...] = (next, iter, isinstance, type, hasattr, getattr, callable, repr, id, bool)
#: Modules and types whose functions take no longer than what they are given is long, whatever numbers it has.
_LINEAR = words(
    """
    builtins operator itertools functools collections collections_abc enum dataclasses types typing ipaddress socket
    datetime numbers math cmath copy bisect heapq uuid errno stat binascii fractions struct abc contextlib weakref
    thread inspect unicodedata posixpath ntpath genericpath pathlib os posix statistics decimal html keyword
    """
)
#: The functions of other modules are given no more than this.
_MAX_GIVEN = 4096
#: Elements that sums of sequences copy.
_MAX_COPIED = 50_000_000


def size(value: Any) -> int:
    """How many elements a sequence has; 1 for what has no length that can be asked."""
    if type(value) is range:
        return max(0, -(-(value.stop - value.start) // value.step))
    return len(value) if type(value) in SIZED else 1


def too_long(length: int) -> NoReturn:
    """Refuse what would have so many elements."""
    raise TooMuch(f"{length:,} elements are too many to keep at compile time, at most {MAX_ELEMENTS:,}")


def too_many_iterations(iterations: int) -> NoReturn:
    """Refuse what would take so many iterations."""
    raise TooMuch(f"{iterations:,} iterations are too many to run at compile time, at most {MAX_ELEMENTS:,}")


def too_many_bits(bits: int) -> NoReturn:
    """Refuse a number that would have so many bits."""
    raise TooMuch(f"this number would have some {bits:,} bits: {BITS}" if bits < 1 << 64 else f"this number: {BITS}")


def check_kept(value: Any) -> None:
    """Refuse a result that is too large to keep."""
    if type(value) is int:
        if value.bit_length() > MAX_BITS:
            raise TooMuch(f"this number has {value.bit_length():,} bits: {BITS}")
    elif type(value) in SIZED and len(value) > MAX_ELEMENTS:
        too_long(len(value))


def within_limits(
    function: Callable[..., object], arguments: Sequence[object], keywords: Mapping[str, object]
) -> tuple[Sequence[object], Mapping[str, object]]:
    """The arguments for a call, iterators in them counted. Raises TooMuch if its cost or its result is too large."""
    name = text_of(function)
    if type(function) in _CALLING or _is_special(function, name):
        same, given = _call_of(function, arguments)
        if same is not None:
            within_limits(same, given, keywords)
    if isinstance(function, FunctionType) and not _is_standard(text_of(function, "__module__")):
        return arguments, keywords
    if not any(function is each for each in _LAZY):
        arguments = [counted(each) for each in arguments]
        keywords = {key: counted(each) for key, each in keywords.items()}
    given = [*arguments, *keywords.values()]
    if _among(function, _GO_OVER) or name in _GO_OVER_NAMES:
        for each in given:
            if size(each) > MAX_ELEMENTS:
                too_many_iterations(size(each))
    owner = getattr(function, "__self__", None)
    unbound: tuple[object, ...] = ()
    if isinstance(function, MethodDescriptorType) and arguments:  # str.join(",", values)
        owner, *arguments = arguments
        unbound, given = (owner,), given[1:]
    rule = _RULES.get((_root(function, owner), name))
    if rule is not None:
        for each in given:
            if isinstance(getattr(type(each), "__index__", None), FunctionType) and not isinstance(each, int):
                raise TooMuch(f"{type(each).__name__}.__index__() gives an unbounded number here: write int(…)")
        arguments = [*unbound, *rule(owner, function, list(arguments), given)]
    elif not _is_linear(function, owner):
        for each in given:
            if size(each) > _MAX_GIVEN or (isinstance(each, int) and abs(each) > MAX_ELEMENTS):
                raise TooMuch(f"cannot prove that {name}() ends soon with these arguments: {ABOVE}")
    return arguments if rule is not None else [*unbound, *arguments], keywords


def is_ruled(function: object) -> bool:
    """Whether the cost of a call of a C function depends on its arguments."""
    if type(function) in _CALLING:
        return True
    owner = getattr(function, "__self__", None)
    return type(function) in _OF_C and (_root(function, owner), text_of(function)) in _RULES


_CALLING = (MethodWrapperType, WrapperDescriptorType, operator.methodcaller)
_OF_C = (BuiltinFunctionType, MethodDescriptorType)


def _call_of(
    function: Callable[..., object], arguments: Sequence[object]
) -> tuple[Callable[..., object] | None, Sequence[object]]:
    """The operation behind `(3).__pow__`, `int.__pow__` and `methodcaller("pow", 3)`, and its operands."""
    if type(function) is operator.methodcaller:
        name, *given = tuple(function.__reduce__()[1])
        return (getattr(arguments[0], name, None), given) if arguments else (None, ())
    owner = getattr(function, "__self__", None)
    operands = [*arguments] if owner is None else [owner, *arguments]
    name = function.__name__.strip("_")
    same = getattr(operator, name, None)
    if same is None and name[:1] == "r":
        same, operands = getattr(operator, name[1:], None), operands[::-1]
    return (same, operands) if same is not None and len(operands) == 2 else (None, ())


def _is_special(function: object, name: str) -> bool:
    """Whether it is an operator that Python's library has in Python: `Fraction.__pow__`."""
    module = text_of(function, "__module__")
    return name[:2] == "__" and isinstance(function, (FunctionType, MethodType)) and _is_standard(module)


def _among(value: object, those: Sequence[object]) -> bool:
    return any(value is each for each in those)


def _is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def _root(function: object, owner: object) -> str:
    module = text_of(function, "__module__")
    if not module:
        kind = getattr(function, "__objclass__", None) or (owner if isinstance(owner, type) else type(owner))
        module = text_of(kind, "__module__")
    return module.partition(".")[0].removeprefix("_")


def _is_linear(function: object, owner: object) -> bool:
    root = _root(function, owner)
    return root in _LINEAR or root not in sys.stdlib_module_names


# -- rules: what a call costs, by what it is given ---------------------------------------------------------------------


def _numbers_in(text: object) -> int:
    """The largest number that is written in a format."""
    if isinstance(text, (bytes, bytearray)):
        text = text.decode("latin-1")
    if not isinstance(text, str):
        return 0
    return max((int(digits[-20:]) if len(digits) < 20 else 1 << 64 for digits in _DIGITS.findall(text)), default=0)


_DIGITS = re.compile(r"[0-9]+")


def _largest(values: object) -> int:
    values = values if isinstance(values, (tuple, list)) else values.values() if isinstance(values, dict) else [values]
    return max((abs(each) for each in values if isinstance(each, int)), default=0)


def _check_format(text: object, *values: object) -> None:
    """Refuse a format whose widths are too large, or are numbers given with it that are."""
    length = _numbers_in(text)
    if _has_dynamic_width(text):
        length = max([length, *map(_largest, values)])
    if length > MAX_ELEMENTS:
        too_long(length)


def _has_dynamic_width(text: object) -> bool:
    shown = text.decode("latin-1") if isinstance(text, (bytes, bytearray)) else text
    return isinstance(shown, str) and bool(_DYNAMIC.search(shown))


_DYNAMIC = re.compile(r"%[^a-zA-Z%]*\*|\{[^{}]*:[^{}]*\{")


def is_wide(text: object) -> bool:
    """Whether a text is a format with a large width, or with one that is given with the values."""
    return isinstance(text, (str, bytes)) and (_numbers_in(text) > MAX_ELEMENTS or _has_dynamic_width(text))


def _power(_: object, __: object, arguments: list[object], ___: list[object]) -> list[object]:
    if len(arguments) == 2:
        left, right = arguments
        if isinstance(right, int) and right > 0 and left not in (0, 1, -1):
            bits = _bits(left)
            if bits and (bits - (1 if isinstance(left, int) else 0)) * right > MAX_BITS:
                too_many_bits((bits - (1 if isinstance(left, int) else 0)) * right)
        elif isinstance(right, int) and right < 0 and not isinstance(left, int) and _bits(left) * -right > MAX_BITS:
            too_many_bits(_bits(left) * -right)
    return arguments


def _bits(value: Any) -> int:
    """Bits of an integer, or of both parts of a fraction; 0 of what keeps its size."""
    if isinstance(value, int):
        return value.bit_length()
    if type(value).__name__ == "Fraction":
        return int(value.numerator.bit_length() + value.denominator.bit_length())
    return 0


def _shift(_: object, __: object, arguments: list[object], ___: list[object]) -> list[object]:
    left, right = arguments
    if isinstance(left, int) and isinstance(right, int) and left and right > 0 and left.bit_length() + right > MAX_BITS:
        too_many_bits(left.bit_length() + right)
    return arguments


def _product(_: object, __: object, arguments: list[object], ___: list[object]) -> list[object]:
    left, right = arguments
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length() + right.bit_length() - 2
        if bits > MAX_BITS:
            too_many_bits(bits)
        return arguments
    count, repeated = (left, right) if isinstance(left, int) else (right, left)
    if isinstance(count, int) and count > 0 and type(repeated) in SIZED and size(repeated) * count > MAX_ELEMENTS:
        too_long(size(repeated) * count)
    return arguments


def _sum(_: object, __: object, arguments: list[object], ___: list[object]) -> list[object]:
    left, right = arguments
    if size(left) + size(right) > MAX_ELEMENTS and type(left) in SIZED:
        too_long(size(left) + size(right))
    return arguments


def _remainder(_: object, __: object, arguments: list[object], ___: list[object]) -> list[object]:
    if isinstance(arguments[0], (str, bytes, bytearray)):
        _check_format(*arguments)
    return arguments


def _formatted(owner: object, _: object, arguments: list[object], given: list[object]) -> list[object]:
    _exponent(owner, _, [], [each for each in given if not isinstance(each, str)])
    if isinstance(owner, str):
        _check_format(owner, given, *given)
    elif len(arguments) > 1:
        _check_format(arguments[1])
    elif arguments:
        _check_format(arguments[0])
    return arguments


def _structure(_: object, __: object, arguments: list[object], ___: list[object]) -> list[object]:
    _check_format(arguments[0] if arguments else "")
    return arguments


def _padded(_: object, __: object, arguments: list[object], given: list[object]) -> list[object]:
    if _largest(given) > MAX_ELEMENTS:
        too_long(_largest(given))
    return arguments


def _filled(_: object, __: object, arguments: list[object], ___: list[object]) -> list[object]:
    if arguments and type(arguments[0]) is int and arguments[0] > MAX_ELEMENTS:
        too_long(arguments[0])
    return arguments


def _joined(owner: object, _: object, arguments: list[object], ___: list[object]) -> list[object]:
    if not isinstance(owner, (str, bytes, bytearray)) or len(arguments) != 1:
        return arguments
    pieces: Any = arguments[0]
    if type(pieces) not in SIZED:  # it runs when it is gone through, not now
        return [_within(pieces, lambda total, each: total + len(owner) + size(each), MAX_ELEMENTS, too_long)]
    length = len(owner) * max(len(pieces) - 1, 0)
    length += len(pieces) if isinstance(pieces, (str, bytes)) else sum(map(size, pieces))
    if length > MAX_ELEMENTS:
        too_long(length)
    return arguments


def _within(
    values: Any, add: Callable[[int, object], int], most: int, refuse: Callable[[int], NoReturn]
) -> Iterator[object]:
    """The values, while what `add` makes of them is not too large."""
    total = 0
    for each in values:
        total = add(total, each)
        if total > most:
            try:
                refuse(total)
            except TooMuch as error:
                if COUNTING.watch is not None:
                    COUNTING.watch.refuse(error)
                raise
        yield each


def _added(_: object, __: object, arguments: list[object], given: list[object]) -> list[object]:
    """`sum(lists, [])`: each of its sums is a copy of all that came before."""
    if len(given) < 2 or type(given[1]) not in SIZED:
        return arguments
    before = size(given[1])

    def copied(total: int, each: object) -> int:
        nonlocal before
        before += size(each)
        return total + before

    values = _within(arguments[0], copied, _MAX_COPIED, _too_many_copies)
    if type(arguments[0]) in SIZED:
        deque(values, maxlen=0)
        return arguments
    return [values, *arguments[1:]]


def _too_many_copies(elements: int) -> NoReturn:
    raise TooMuch(
        f"sum() copies more than {elements - 1:,} elements to put these together: write "
        "[*itertools.chain.from_iterable(…)]"
    )


def _replaced(owner: object, _: object, arguments: list[object], ___: list[object]) -> list[object]:
    if isinstance(owner, (str, bytes, bytearray)) and len(arguments) > 1 and size(arguments[1]) > 1:
        old: Any = arguments[0]
        length = len(owner) + size(arguments[1]) * owner.count(old)
        if length > MAX_ELEMENTS:
            too_long(length)
    return arguments


def _translated(owner: object, _: object, arguments: list[object], ___: list[object]) -> list[object]:
    if isinstance(owner, str) and arguments and isinstance(arguments[0], dict):
        length = len(owner) * max(map(size, arguments[0].values()), default=1)
        if length > MAX_ELEMENTS:
            too_long(length)
    return arguments


def _extended(owner: object, _: object, arguments: list[object], ___: list[object]) -> list[object]:
    if size(owner) + sum(map(size, arguments)) > MAX_ELEMENTS:
        too_long(size(owner) + sum(map(size, arguments)))
    return arguments


def _contained(_: object, __: object, arguments: list[object], ___: list[object]) -> list[object]:
    values, item = arguments
    if type(values) is range and type(item) not in (int, bool) and size(values) > MAX_ELEMENTS:
        too_many_iterations(size(values))
    return arguments


def _found_in(owner: object, _: object, arguments: list[object], ___: list[object]) -> list[object]:
    return _contained(None, None, [owner, *arguments], []) and arguments if len(arguments) == 1 else arguments


def _precise(owner: object, _: object, arguments: list[object], given: list[object]) -> list[object]:
    """`decimal.Context` and its methods: results have up to as many digits as it says."""
    digits = getattr(owner, "prec", 0) if type(owner).__name__ == "Context" else _largest(given)
    if digits > _MAX_DIGITS and (type(owner).__name__ == "Context" or len(given)):
        too_many_bits(digits * 10 // 3)
    return arguments


def _choices(_: object, function: object, arguments: list[object], __: list[object]) -> list[object]:
    """`math.comb`, `math.perm`, `math.factorial`: at least (n/k)**k, or n to the power of about half of k."""
    n, k = (arguments[0], arguments[-1]) if arguments else (0, 0)
    if isinstance(n, int) and isinstance(k, int) and 0 < k <= n:
        if text_of(function) == "comb":
            k = min(k, n - k)
            bits = k * max((n // k).bit_length() - 1, 1) if k else 0
        else:
            bits = k // 2 * max(n.bit_length() - 2, 1)
        if bits > MAX_BITS:
            too_many_bits(bits)
    return arguments


def _multiplied(_: object, __: object, arguments: list[object], ___: list[object]) -> list[object]:
    if arguments:
        return [_within(arguments[0], _more_bits, 2 * MAX_BITS, too_many_bits), *arguments[1:]]
    return arguments


def _more_bits(bits: int, each: object) -> int:
    return bits + (each.bit_length() if isinstance(each, int) else 0)


def _least_multiple(_: object, __: object, arguments: list[object], ___: list[object]) -> list[object]:
    total = 1
    for each in arguments:
        if isinstance(each, int):
            total = math.lcm(total, each)
            if total.bit_length() > MAX_BITS:
                too_many_bits(total.bit_length())
    return arguments


def _exponent(_: object, __: object, arguments: list[object], given: list[Any]) -> list[object]:
    """Numbers that are written with an exponent become as many digits."""
    for each in given:
        exponent = 0
        if type(each).__name__ == "Decimal" and each.is_finite():
            exponent = abs(each.adjusted())
        elif isinstance(each, str):
            exponent = _numbers_in(each.lower().partition("e")[2])
        if exponent > _MAX_DIGITS:
            too_many_bits(exponent * 10 // 3)
    return arguments


def _all_ordered(_: object, __: object, arguments: list[object], ___: list[object]) -> list[object]:
    """Iterators of itertools that keep what they are given."""
    for each in arguments:
        if size(each) > MAX_ELEMENTS:
            too_many_iterations(size(each))
    return arguments


_MAX_DIGITS = 2_400

#: By module and name. Each takes what a method is called on, the function, its arguments, and those with the keywords'.
_RULES: dict[tuple[str, str], Callable[[object, object, list[object], list[object]], list[object]]] = {
    **dict.fromkeys([("operator", "pow"), ("builtins", "pow"), ("operator", "ipow")], _power),
    **dict.fromkeys([("operator", "lshift"), ("operator", "ilshift")], _shift),
    **dict.fromkeys([("operator", "mul"), ("operator", "imul")], _product),
    **dict.fromkeys([("operator", name) for name in ("add", "iadd", "concat", "iconcat")], _sum),
    **dict.fromkeys([("operator", "mod"), ("operator", "imod")], _remainder),
    **dict.fromkeys([("operator", "contains")], _contained),
    **dict.fromkeys([("builtins", "format"), ("builtins", "format_map"), ("builtins", "__format__")], _formatted),
    **dict.fromkeys(zip(repeat("builtins"), _PADDING), _padded),
    **dict.fromkeys(zip(repeat("builtins"), ("bytes", "bytearray", "to_bytes")), _filled),
    ("builtins", "join"): _joined,
    ("builtins", "sum"): _added,
    ("builtins", "replace"): _replaced,
    ("builtins", "translate"): _translated,
    **dict.fromkeys(zip(repeat("builtins"), ("extend", "__iadd__", "__add__")), _extended),
    **dict.fromkeys(zip(repeat("math"), ("comb", "perm", "factorial")), _choices),
    ("math", "prod"): _multiplied,
    ("math", "lcm"): _least_multiple,
    **dict.fromkeys([("builtins", "count"), ("builtins", "index")], _found_in),
    **dict.fromkeys([("decimal", "Context"), ("decimal", "localcontext")], _precise),
    **dict.fromkeys(zip(repeat("decimal"), ("power", "divide", "sqrt", "ln", "log10", "exp", "multiply")), _precise),
    **dict.fromkeys([("builtins", "int"), ("fractions", "Fraction"), ("math", "ceil"), ("math", "floor")], _exponent),
    **dict.fromkeys([("builtins", "round"), ("math", "trunc")], _exponent),
    **dict.fromkeys(
        zip(repeat("struct"), ("pack", "unpack", "calcsize", "Struct", "pack_into", "unpack_from", "iter_unpack")),
        _structure,
    ),
    **dict.fromkeys(
        zip(repeat("itertools"), ("product", "permutations", "combinations", "combinations_with_replacement")),
        _all_ordered,
    ),
    **dict.fromkeys(
        zip(
            repeat("re"),
            ("match", "search", "fullmatch", "findall", "finditer", "sub", "subn", "split", "compile", "escape"),
        ),
        check_pattern,
    ),
}
