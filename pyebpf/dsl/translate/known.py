"""Values known at compile time: those that no program can hold, and errors of the author's own objects."""

from __future__ import annotations

import sys
from math import prod
from typing import TYPE_CHECKING

from pyebpf.builder.values.own_methods import check_own
from pyebpf.dsl.limits import BITS, MAX_BITS, size
from pyebpf.dsl.steps import MAX_ELEMENTS
from pyebpf.dsl.translate.tuples import TupleValue, is_run_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.dsl.translate.frame import Frame

#: Elements of a tuple of tuples, one that stands in it twice counted twice.
_MAX_NESTED = 1 << 16
#: The same of a tuple with run-time values, each of which is a variable.
_MAX_VALUES = 1024


def checked(f: Frame, value: object) -> object:
    """A value as it is; what no program can hold, or would compute otherwise than Python, is refused."""
    kind = type(value)
    if type(value) is int:
        if value.bit_length() > MAX_BITS:
            f.fail(f"this number has {value.bit_length():,} bits: {BITS}")
    elif type(value) is str:
        if not value.isascii():
            _encodable(f, value)
    elif type(value) is tuple or type(value) is list or type(value) is TupleValue:
        _counted(f, value)
    elif kind is not bool and issubclass(kind, int):
        check_own(f.p, (value,))
    return value


def _encodable(f: Frame, text: str) -> None:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        f.fail(f"{text!a} is not valid UTF-8: {text[error.start : error.start + 1]!a} is half of a surrogate pair")


def _counted(f: Frame, value: TupleValue | tuple[object, ...] | list[object]) -> None:
    """Refuse a tuple whose elements, those of the tuples in it counted each time, are too many."""
    elements = value.elements if isinstance(value, TupleValue) else value
    if not any(isinstance(each, (tuple, list, TupleValue)) for each in elements):
        return
    known: dict[int, int] = {}
    distinct = 0

    def count(each: object) -> int:
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
    if total > _MAX_VALUES and is_run_time(value):
        f.fail(f"{total:,} elements are too many in a tuple of values known only at run time, at most {_MAX_VALUES:,}")
    # A table of many rows is what it is; what grows by standing in itself twice is seen here.
    if total > _MAX_NESTED and total > 8 * distinct:
        f.fail(f"{total:,} elements are too many in a tuple that contains the same tuples repeatedly")


def _is_standard(module: str) -> bool:
    """Whether a module is Python's own; code that was given to `exec` may have none."""
    return module.partition(".")[0] in sys.stdlib_module_names


def raised(f: Frame, error: BaseException) -> None:
    """Make an error of the place of what an object of the author's raised; return if it was this package itself."""
    if isinstance(error, UnicodeEncodeError):
        f.fail(f"a string here is not valid UTF-8: {error.object[error.start : error.end]!a}")
    if isinstance(error, ValueError) and "integer string conversion" in str(error):
        f.fail(f"a number here is too large: {BITS}")
    if isinstance(error, TypeError) and "returned non-string" in str(error):
        f.fail(f"a value here has no text, as {error}: a probe is given plain numbers, texts, tuples and dictionaries")
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        name = trace.tb_frame.f_globals.get("__name__")
        module = name if type(name) is str else ""
        ours = code.co_filename == "<compile time>" or module.partition(".")[0] == "pyebpf"
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


def check_iterations(f: Frame, sequences: Sequence[object]) -> None:
    """Refuse a comprehension of more iterations than these sequences may give together."""
    total = prod(map(size, sequences))
    if total > MAX_ELEMENTS:
        f.fail(f"{total:,} iterations are too many to run at compile time, at most {MAX_ELEMENTS:,}")
