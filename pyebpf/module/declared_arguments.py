"""Arguments of declarations, checked by their annotations: a wrong one is told at its line, not when it is used."""

from __future__ import annotations

from functools import wraps
from itertools import repeat
from os import PathLike
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyebpf.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")

__all__ = ["LazyMethod", "checked", "checked_methods"]

_HAS_VARARGS = 0x04  # inspect.CO_VARARGS
_U64, _S64 = 1 << 64, 1 << 63

#: Annotations that are checked, with the words for each; all others are left to the function.
_KINDS: dict[str, tuple[type, str]] = {
    "str": (str, "a text"),
    "int": (int, "an integer"),
    "None": (type(None), "None"),
    "os.PathLike[str]": (PathLike, "a path"),
    "PathLike[str]": (PathLike, "a path"),
}


def checked(function: FunctionType, shown: str) -> Any:
    """The function or method, refusing arguments that are not what its annotations of texts and integers say.

    A text has no NUL, which would end it in the kernel; an integer has 64 bits at most. InvalidValue says which
    argument of `shown` (such as "@bpf.kprobe") is wrong.
    """

    @wraps(function)
    def declaration(*given: object, **options: object) -> Any:
        for name, kind, value in _annotated(function, given, options):
            wrong = _wrong(kind, value)
            if wrong:
                raise InvalidValue(f"{shown}({f'{name}=' if name else ''}{value!r}): {wrong}")
        _check_count(function, shown, given)
        return function(*given, **options)

    return declaration


def _check_count(function: FunctionType, shown: str, given: Sequence[Any]) -> None:
    """Refuse arguments by position that are more than the function takes: others have names."""
    code = function.__code__
    if len(given) > code.co_argcount and not code.co_flags & _HAS_VARARGS:
        named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        remedy = f": write {named[0]}={given[code.co_argcount]!r}" if named else ""
        raise InvalidValue(f"{shown}({given[code.co_argcount]!r}): one argument too many without a name{remedy}")


def checked_methods(cls: type[T]) -> type[T]:
    """A class decorator: each public method of a module is `checked`."""
    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(cls, name, checked(method, f"bpf.{name}"))
    return cls


def _annotated(
    function: FunctionType, given: Sequence[Any], options: dict[str, Any]
) -> Iterator[tuple[str, object, object]]:
    """Each argument with its name, "" for one by position, and its annotation."""
    code, annotations = function.__code__, function.__annotations__
    names = list(code.co_varnames[: code.co_argcount])
    if code.co_flags & _HAS_VARARGS:
        names.extend(repeat(code.co_varnames[code.co_argcount + code.co_kwonlyargcount], len(given)))
    for name, value in zip(names, given, strict=False):
        yield "", annotations.get(name, ""), value
    for name, value in options.items():
        yield name, annotations.get(name, ""), value


def _wrong(annotation: object, value: object) -> str:
    kinds = [_KINDS.get(each) for each in str(annotation).split(" | ")]
    if not all(kinds):
        return ""
    if not any(isinstance(value, kind[0]) for kind in kinds if kind):
        return f"give {' or '.join(kind[1] for kind in kinds if kind)}, not {type(value).__name__}"
    if isinstance(value, str) and "\0" in value:
        return "a name has no NUL"
    if isinstance(value, int) and not -_S64 <= value < _U64:
        return "the kernel's numbers have 64 bits at most"
    return ""


class LazyMethod(Generic[F]):
    """A method of Module that calls a factory, such as `aggregations.log2_hist`, and declares what that returns.

    `find` gives the factory, and imports it when the method is first used. To a type checker the method has the
    factory's own signature.
    """

    def __init__(self, find: Callable[[], F]) -> None:
        self._find = find

    def __get__(self, module: Any, owner: type | None = None) -> F:
        factory: Any = self._find()
        if module is None:
            return factory  # type: ignore[no-any-return]  # of the same signature
        made = checked(factory, f"bpf.{factory.__name__}") if isinstance(factory, FunctionType) else factory

        @wraps(factory)
        def declare(*arguments: Any, **keywords: Any) -> Any:
            return module.declare(made(*arguments, **keywords))

        return declare  # type: ignore[return-value]  # of the same signature
