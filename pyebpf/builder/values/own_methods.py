"""Classes whose special methods are the author's: a program computes as the built-in type does, and refuses them."""

from __future__ import annotations

import sys
from functools import lru_cache
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.types import StructType


def _special(names: str) -> frozenset[str]:
    return frozenset(f"__{name}__" for name in names.split())


#: Methods by which a comparison for equality, or a look-up, decides.
EQUALITY = _special("eq ne hash")
_ORDER = _special("lt le gt ge")
_BINARY = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and or xor"
_ARITHMETIC = _special(_BINARY) | _special(" ".join(f"r{name}" for name in _BINARY.split()))
_ARITHMETIC |= _special("neg pos invert abs index int")
_ELEMENTS = _special("iter len")
#: What comparisons call; what `in` does, which compares what it finds; what `x[i]` does.
COMPARING = EQUALITY | _ORDER | _ELEMENTS
CONTAINING = _ELEMENTS | _special("contains")
INDEXING = _ELEMENTS | _special("getitem")
#: All that a program does by itself with a value that was known at compile time.
ANY = COMPARING | CONTAINING | INDEXING | _ARITHMETIC | _special("bool reversed getattribute")
ANY |= frozenset(["bit_length", "bit_count", "startswith", "endswith", "get"])
_KINDS: tuple[type, ...] = (int, str, bytes, bytearray, tuple, list, dict, set, frozenset)


@lru_cache(maxsize=1024)
def own_method(kind: type, names: frozenset[str] = ANY) -> str:
    """Name of one of these methods that a class has of the author's; empty for those of Python's library."""
    for each in kind.__mro__:
        if _is_pythons(each):
            continue
        for name, method in vars(each).items():
            if name in names and not _is_inherited(kind, name, method):
                return str(name)
    return ""


def check_own(p: ProgramBuilder, values: Iterable[object], names: frozenset[str] = ANY) -> None:
    """Refuse values known at compile time that are computed with at run time, if their class has such a method."""
    for value in values:
        kind: type = type(value)
        if kind in _PLAIN:
            continue
        own = own_method(kind, names)
        if own and not _is_entity(value):
            p.fail(refusal(kind, own))


def refusal(kind: type, own: str) -> str:
    """Words for a value of a class with such a method."""
    name: str = type.__dict__["__name__"].__get__(kind)
    base = next((each.__name__ for each in _KINDS if issubclass(kind, each)), "")
    if not base:
        return f"{name} has its own {own}(), which a program cannot call: give a number, a string or a tuple"
    thing = {"int": "number", "str": "string"}.get(base, base)
    article = "an" if base[0] in "aeiou" else "a"
    return (
        f"{name} is {article} {base} with its own {own}(), which a program cannot call: give the {thing} itself, "
        f"{base}(…), a name above the probe"
    )


def check_constructor(p: ProgramBuilder, type_: StructType) -> None:
    """Refuse to make a record whose class does it in its own way."""
    cls = type_.cls
    metaclass: type = type(cls)
    own = "" if cls is None else own_method(cls, _MAKES) or own_method(metaclass, _CALLS)
    if own:
        p.fail(
            f"{type_.name} has its own {own}(), which a program cannot call: leave it out, and write a function that "
            f"returns {type_.name}({', '.join(f'{each.name}=…' for each in type_.fields)})"
        )


def check_field(p: ProgramBuilder, type_: StructType, name: str, *, written: bool = False) -> None:
    """Refuse a field of a record whose class has code for it."""
    cls = type_.cls
    if cls is None:
        return
    own = own_method(cls, _WRITES if written else _READS)
    if own:
        p.fail(f"{type_.name} has its own {own}(), which a program cannot call: a record's fields are plain")
    if _is_hidden(cls, name):
        p.fail(f"{type_.name}.{name} is a field, and something else in the class body: rename one of them")


_MAKES, _CALLS = _special("init new"), _special("call")
_READS = _special("getattribute")
_WRITES = _READS | _special("setattr")


@lru_cache(maxsize=1024)
def _is_hidden(cls: type, name: str) -> bool:
    """Whether a property or the like of its class hides a field of a record."""
    found = next((vars(each)[name] for each in cls.__mro__ if name in vars(each)), None)
    return hasattr(type(found), "__set__") and not isinstance(found, MemberDescriptorType)


#: Types of nearly all values, whose methods are Python's.
_PLAIN = frozenset([int, bool, str, bytes, tuple, list, dict, set, frozenset, range, float, type(None)])


def _is_entity(value: object) -> bool:
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.builder.values.entity import Entity

    return isinstance(value, (Entity, Test))


def _is_standard(module: object) -> bool:
    """Whether a module is Python's own, or this package; code that was given to `exec` may have none."""
    root = module.partition(".")[0] if isinstance(module, str) else ""
    return root in sys.stdlib_module_names or root == "pyebpf" or root.startswith("namedtuple_")


def _is_pythons(kind: type) -> bool:
    """Whether a class is Python's or this package's; to one made by `exec` the module may be that of `object`."""
    return _is_standard(kind.__module__) and (kind.__module__ != "builtins" or not kind.__flags__ & _MADE_BY_CODE)


#: Py_TPFLAGS_HEAPTYPE.
_MADE_BY_CODE = 1 << 9


def _is_inherited(kind: type, name: str, method: object) -> bool:
    """Whether a class was given a method of Python's library, as `enum` and `namedtuple` do."""
    method = getattr(method, "__func__", method)
    if isinstance(method, FunctionType):
        return _is_standard(method.__module__)
    if type(method).__module__ in ("collections", "_collections"):  # a namedtuple's element
        return True
    return any(method is vars(each).get(name) for each in kind.__mro__ if _is_pythons(each))
