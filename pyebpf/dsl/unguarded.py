"""Code that Python itself calls at compile time, properties and operators of classes, which runs as it is.

Nobody sees what such code gives to a call or an operator. So its loops are counted line by line, and it is refused
before it runs if it has an operation that nothing bounds, or is given what has no end.
"""

from __future__ import annotations

import functools
import io
import itertools
import math
import operator
import re
from contextlib import suppress
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MemberDescriptorType, ModuleType
from typing import TYPE_CHECKING

from pyebpf.dsl import limits
from pyebpf.dsl.backtracking import may_backtrack
from pyebpf.dsl.steps import ABOVE, MAX_ELEMENTS, TooMuch
from pyebpf.dsl.text_of import text_of, words

if TYPE_CHECKING:
    import dis
    from collections.abc import Mapping

#: Functions whose results may be large, or take for ever, with a few small arguments.
_UNBOUNDED: tuple[object, ...] = (
    *(getattr(math, name) for name in ("factorial", "comb", "perm", "lcm", "prod")),
    *(getattr(itertools, name) for name in ("count", "cycle", "repeat", "product", "permutations", "combinations")),
    itertools.combinations_with_replacement,
    *(getattr(operator, name) for name in ("mul", "imul", "pow", "ipow", "lshift", "ilshift")),
    *(getattr(re, name) for name in ("match", "search", "fullmatch", "findall", "finditer", "sub", "subn", "split")),
    pow,
    functools.reduce,
)
_UNBOUNDED_METHODS = words("ljust rjust center zfill expandtabs to_bytes format power decompress")
#: Special methods that do as operators do, which have no name here.
_UNBOUNDED_SPECIAL = words(
    "__mul__ __rmul__ __imul__ __pow__ __rpow__ __ipow__ __lshift__ __rlshift__ __ilshift__ __format__ __mod__ __rmod__"
)
#: Functions that take a format, and a bit of FORMAT_VALUE.
_FORMATTING = words("format pack pack_into calcsize Struct")
_HAS_SPEC = 4
#: The largest literal that multiplies, that is an exponent, that shifts.
_LITERALS = {"*": MAX_ELEMENTS, "**": 64, "<<": limits.MAX_BITS}
#: Instructions that make a value of others, beside sums.
_MAKING = (
    "BUILD_STRING",
    "CALL",
    "LIST_EXTEND",
    "SET_UPDATE",
    "DICT_UPDATE",
    "DICT_MERGE",
    "BINARY_SLICE",
    "STORE_SLICE",
)
#: Instructions that keep a value.
_KEEPING = ("STORE_", "CALL", "LIST_APPEND", "SET_ADD", "MAP_ADD")
#: How many elements and attributes of a value are looked at, of how many values, how deep.
_FEW, _MANY, _LEVELS = 16, 256, 4
_WITHOUT_VALUES = frozenset([int, str, bytes, bytearray, bool, float, range, type(None), BuiltinFunctionType])
#: Py_TPFLAGS_HEAPTYPE: of the classes that Python code makes, and of some of C's.
_MADE_BY_CLASS = 1 << 9
#: Bytes of code of a loop that does nothing.
_SHORTEST_LOOP = 4
#: About how long a text is that a regular expression of such code is for.
_TEXT = 64


@functools.lru_cache(maxsize=1024)
def _instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    import dis  # a millisecond that most starts save

    return tuple(each for each in dis.get_instructions(code) if each.opname not in ("CACHE", "EXTENDED_ARG", "PRECALL"))


@functools.lru_cache(maxsize=1024)
def loops(code: CodeType) -> bool:
    """Whether code has a loop."""
    return any("BACKWARD" in each.opname for each in _instructions(code))


@functools.lru_cache(maxsize=1024)
def spins(code: CodeType) -> bool:
    """Whether code has a loop without a body, `while True: pass`, which has no lines to count."""
    found = [each for each in _instructions(code) if "BACKWARD" in each.opname]
    return any(each.offset - each.argval <= _SHORTEST_LOOP for each in found)


@functools.lru_cache(maxsize=1024)
def grows(code: CodeType) -> bool:
    """Whether code makes values of others and keeps them, so that what it keeps may double with each line."""
    found = _instructions(code)
    sums = any(each.opname == "BINARY_OP" and each.argrepr[0] == "+" for each in found)
    makes = sums or (loops(code) and any(each.opname.startswith(_MAKING) for each in found))
    return makes and any(each.opname.startswith(_KEEPING) for each in found)


def check_grown(frame: FrameType) -> int:
    """Refuse what a function has made too large: its locals, globals that it names, and what is in these.

    Returns how many values that are. Raises TooMuch.
    """
    names = frame.f_globals
    level = [*frame.f_locals.values(), *[names[name] for name in frame.f_code.co_names if name in names]]
    looked_at = 0
    for _ in range(_LEVELS):
        inside: list[object] = []
        for each in level:
            check_size(each)
            if type(each) not in _WITHOUT_VALUES and len(inside) < _MANY:
                inside += _newest(each)
        looked_at += len(level)
        level = inside
    return looked_at


def check_size(value: object) -> None:
    """Refuse a value that is too large to keep, be it of a class made from one of Python's, or a file in memory."""
    kind: type = type(value)
    if kind in _WITHOUT_VALUES or kind in limits.SIZED:
        limits.check_kept(value)
    elif isinstance(value, (io.BytesIO, io.StringIO)):
        file = io.BytesIO if isinstance(value, io.BytesIO) else io.StringIO
        with suppress(ValueError):  # it is closed
            if (at := file.tell(value)) > MAX_ELEMENTS:
                limits.too_long(at)
    elif kind.__flags__ & _MADE_BY_CLASS:
        # The base's own methods: the class's may be the author's.
        if isinstance(value, int):
            limits.check_kept(int.__int__(value))
        for base in limits.SIZED:
            if isinstance(value, base) and base.__len__(value) > MAX_ELEMENTS:
                limits.too_long(base.__len__(value))


def _newest(value: object) -> list[object]:
    """The last elements of a container, or attributes of an object or a class of the author's; runs no code of his."""
    kind: type = type(value)
    if isinstance(value, dict):
        return [*itertools.islice(reversed(dict.values(value)), _FEW)]
    found: list[object] = []
    if isinstance(value, list):
        found += list.__getitem__(value, slice(-_FEW, None))
    elif isinstance(value, tuple):
        found += tuple.__getitem__(value, slice(-_FEW, None))
    if not (kind.__flags__ & _MADE_BY_CLASS or kind in (type, FunctionType)):
        return found
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        attributes = {}
    found += itertools.islice(attributes.values(), _FEW)
    for each in _slots(kind):
        try:
            found.append(each.__get__(value))
        except AttributeError:  # it has none yet
            continue
    return found


@functools.lru_cache(maxsize=1024)
def _slots(kind: type) -> tuple[MemberDescriptorType, ...]:
    """Attributes that `__slots__` gave a class of the author's."""
    found = [each for base in kind.__mro__ if base.__flags__ & _MADE_BY_CLASS for each in vars(base).values()]
    return tuple([each for each in found if isinstance(each, MemberDescriptorType)])


def refused_code(code: CodeType, names: Mapping[str, object], given: Mapping[str, object]) -> TooMuch | None:
    """The error about a function that Python itself calls, if its source or what it is given makes it unbounded."""
    sign = _unbounded_operator(code)
    if sign:
        name = f"{code.co_qualname}(), which Python itself calls here,"
        return TooMuch(f"the operands of `{sign}` in {name} are not bounded: {ABOVE}")
    if _swallows(code):
        return TooMuch(
            f"{code.co_qualname}(), which Python itself calls here, has a loop and catches every exception, so that "
            f"nothing ends it: {ABOVE}"
        )
    name = _unbounded_format(code) or _unbounded_name(code, names)
    if not name and _calls(code):
        name = next((f"a {type(each).__name__}" for each in _held(given) if _is_endless(each)), "")
    return _about(name, code) if name else None


@functools.lru_cache(maxsize=1024)
def _unbounded_format(code: CodeType) -> str:
    """A special method whose result nothing bounds, or a large width or length, that code has; empty if none."""
    name = next((each for each in code.co_names if each in _UNBOUNDED_SPECIAL), "")
    if name:
        return f"{name}()"
    made = next((each for each in ("bytes", "bytearray") if each in code.co_names), "")
    if made and any(type(each) is int and each > MAX_ELEMENTS for each in code.co_consts):
        return f"{made}()"
    found = _instructions(code)
    formats = not _FORMATTING.isdisjoint(code.co_names)
    formats |= any((each.opname, each.argrepr.rstrip("=")) == ("BINARY_OP", "%") for each in found)
    for before, each in itertools.pairwise(found):
        if each.opname == "FORMAT_WITH_SPEC" or (each.opname == "FORMAT_VALUE" and (each.arg or 0) & _HAS_SPEC):
            formats = True
            if "CONST" not in before.opname:
                return "a width that is computed"
    large = (each for each in code.co_consts if formats and limits.is_wide(each))
    return next((f"the format {each!r}" for each in large), "")


def refused_call(function: object, code: CodeType) -> TooMuch | None:
    """The error about a function of C's that such code calls."""
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    pattern = getattr(owner, "pattern", None)
    is_method = name == "decompress" or (name in _UNBOUNDED_METHODS and not isinstance(owner, (ModuleType, dict)))
    if is_method or _is_one_of(function):
        return _about(f"{name}()", code)
    if isinstance(pattern, (str, bytes)) and may_backtrack(pattern, _TEXT):
        return _about(f"the regular expression {pattern!r}", code)
    return None


def _about(name: str, code: CodeType) -> TooMuch:
    return TooMuch(f"{name} in {code.co_qualname}(), which Python itself calls here, is not bounded: {ABOVE}")


@functools.lru_cache(maxsize=1024)
def _unbounded_operator(code: CodeType) -> str:
    """An operator in code that makes a large result of small numbers; empty if none does."""
    before: list[dis.Instruction] = []
    for each in _instructions(code):
        sign = each.argrepr.rstrip("=") if each.opname == "BINARY_OP" else ""
        if sign in _LITERALS and not _is_small(before, sign):
            return sign
        before.append(each)
    return ""


def _is_small(before: list[dis.Instruction], sign: str) -> bool:
    """Whether the right operand is a small literal."""
    last = before[-1] if before else None
    if last is None or not ("CONST" in last.opname or "SMALL_INT" in last.opname):
        return False
    return not isinstance(last.argval, int) or abs(last.argval) <= _LITERALS[sign]


@functools.lru_cache(maxsize=1024)
def _calls(code: CodeType) -> bool:
    return any(each.opname.startswith(("CALL", "CONTAINS_OP", "LIST_EXTEND", "UNPACK")) for each in _instructions(code))


@functools.lru_cache(maxsize=1024)
def _swallows(code: CodeType) -> bool:
    """Whether code that loops has an `except:` for whatever is raised, as by a refusal."""
    if not loops(code):
        return False
    found = _instructions(code)
    bare = any(one.opname == "PUSH_EXC_INFO" and other.opname == "POP_TOP" for one, other in itertools.pairwise(found))
    return bare or any(name in code.co_names for name in ("BaseException", "Exception"))


def _unbounded_name(code: CodeType, names: Mapping[str, object]) -> str:
    """A function that code names, or an attribute of a module that it names, and whose result nothing bounds."""
    found = _instructions(code)
    for at, each in enumerate(found):
        if each.opname not in ("LOAD_GLOBAL", "LOAD_NAME"):
            continue
        value = names.get(each.argval)
        if isinstance(value, ModuleType) and at + 1 < len(found):
            value = getattr(value, str(found[at + 1].argval), None)
        if each.argval == "range" and value in (None, range):
            if not _is_iterated(found[at + 1 :]):
                return "range()"
        elif value is not None and not isinstance(value, BuiltinFunctionType) and _is_one_of(value):
            return f"{text_of(value)}()"
    return ""


def _is_one_of(value: object) -> bool:
    return any(value is each for each in _UNBOUNDED)


def _is_iterated(after: tuple[dis.Instruction, ...]) -> bool:
    """Whether a call of `range` is small, is kept in an attribute, or is what a loop goes over, which is counted."""
    literals = True
    for each in after:
        if each.opname.startswith("CALL"):
            rest = after[after.index(each) + 1 :]
            return literals or any(each.opname in ("GET_ITER", "STORE_ATTR") for each in rest[:2])
        if "CONST" in each.opname or "SMALL_INT" in each.opname:
            literals &= isinstance(each.argval, int) and abs(each.argval) <= MAX_ELEMENTS
        else:
            literals = False
    return False


def _held(given: Mapping[str, object]) -> list[object]:
    """The values that a function is given, and the attributes of these."""
    found = list(given.values())
    for each in given.values():
        found += getattr(each, "__dict__", {}).values() if not isinstance(each, (type, ModuleType)) else ()
    return found


def _is_endless(value: object) -> bool:
    if type(value) is range:
        return limits.size(value) > MAX_ELEMENTS
    return type(value).__module__ == "itertools"
