"""Arguments of declarations, checked by their annotations: a wrong one is told at its line, not when it is used."""

from __future__ import annotations

from functools import wraps
from itertools import repeat
from os import PathLike
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyebpf.errors import InvalidValue, closest_or_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., object]")

_HAS_VARARGS, _HAS_KEYWORDS = 0x04, 0x08  # inspect.CO_VARARGS, CO_VARKEYWORDS
_U64, _S64 = 1 << 64, 1 << 63

#: Annotations that are checked, with the words for each; all others are left to the function.
_KINDS: dict[str, tuple[type, str]] = {
    "str": (str, "a text"),
    "int": (int, "an integer"),
    "None": (type(None), "None"),
    "os.PathLike[str]": (PathLike, "a path"),
    "PathLike[str]": (PathLike, "a path"),
}
#: What messages write for an argument of an annotation.
_EXAMPLES = {"int": "1024", "str": '"..."'}


def checked(function: FunctionType, shown: str) -> Any:
    """The function or method, refusing arguments that are not what its annotations of texts and integers say.

    A text has no NUL, which would end it in the kernel; an integer has 64 bits at most. InvalidValue says which
    argument of `shown` (such as "@bpf.kprobe") is wrong.
    """

    @wraps(function)
    def declaration(*given: object, **options: object) -> object:
        for name, kind, value in _annotated(function, given, options):
            wrong = _wrong(kind, value)
            if wrong:
                raise InvalidValue(f"{shown}({f'{name}=' if name else ''}{value!r}): {wrong}")
        _check_count(function, shown, given)
        _check_names(function, shown, given, options)
        return function(*given, **options)

    return declaration


def _check_count(function: FunctionType, shown: str, given: Sequence[object]) -> None:
    """Refuse arguments by position that are more than the function takes: others have names."""
    code = function.__code__
    if len(given) > code.co_argcount and not code.co_flags & _HAS_VARARGS:
        named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        remedy = f": write {named[0]}={given[code.co_argcount]!r}" if named else ""
        raise InvalidValue(f"{shown}({given[code.co_argcount]!r}): one argument too many without a name{remedy}")


def _check_names(function: FunctionType, shown: str, given: Sequence[object], options: dict[str, object]) -> None:
    """Refuse options that there are not, or that were given by position, and arguments that are missing."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional = names[: code.co_argcount]
    called = f"{shown}({', '.join([*map(_said, given[_is_method(positional) :]), *options])})"
    for name in options:
        if name not in names and not code.co_flags & _HAS_KEYWORDS:
            known = [each for each in names if each != "self"]
            raise InvalidValue(f"{called}: there is no argument {name}{closest_or_all(name, known)}")
        if name in positional[: len(given)]:
            raise InvalidValue(f"{called}: {name} is given twice, by its position and by its name")
    optional = {*positional[code.co_argcount - len(function.__defaults__ or ()) :], *(function.__kwdefaults__ or ())}
    missing = [name for name in names if name not in {*positional[: len(given)], *options, *optional}]
    if missing:
        arguments = [
            *map(_said, given[_is_method(positional) :]),
            *(f"{name}={_said(options[name])}" for name in options),
        ]
        arguments += [f"{name}={_example(name, function.__annotations__.get(name, ''))}" for name in missing]
        are = "is" if len(missing) == 1 else "are"
        raise InvalidValue(f"{shown}(): {' and '.join(missing)} {are} missing: write {shown}({', '.join(arguments)})")


def _is_method(positional: Sequence[str]) -> bool:
    return positional[:1] == ("self",)


def _said(value: object) -> str:
    """An argument as its author wrote it, as far as that can be told."""
    if isinstance(value, type):
        return value.__name__
    written = repr(value)
    return "..." if written.startswith("<") else written


def _example(name: str, annotation: object) -> str:
    """A value to write for an argument."""
    if name == "record":
        return "Event"  # a Struct class of the author's
    text = str(annotation)
    return "u64" if text.startswith(("Of[", "type[")) else _EXAMPLES.get(text, "...")


def checked_methods(cls: type[T]) -> type[T]:
    """A class decorator: each public method of a module is `checked`."""
    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(cls, name, checked(method, f"bpf.{name}"))
    return cls


def _annotated(
    function: FunctionType, given: Sequence[object], options: dict[str, object]
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
        def declare(*arguments: object, **keywords: object) -> object:
            return module.declare(made(*arguments, **keywords))

        return declare  # type: ignore[return-value]  # of the same signature
