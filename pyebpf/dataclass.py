"""`dataclass` with the standard library's spelling, at an eighth of its cost when a class is made.

`dataclasses.dataclass` writes and compiles up to eight functions for each class, 0.4 ms; for the seventy classes of a
compilation that is a fifth of a tool's start. Here each class gets an `__init__` of its own, which is what runs often,
made for its first instance from code that classes of its shape share, and all classes share the other functions. What
nobody here uses is left out: `order`, `InitVar`, `asdict`.
"""

from __future__ import annotations

import functools
from operator import attrgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Metadata = Mapping[str, Any]

T = TypeVar("T")
D = TypeVar("D")

_FIELDS = "__pyebpf_fields__"
_NO_METADATA: Mapping[str, Any] = {}
MISSING: Any = object()
"""The default of a field without default, and the default factory of one without."""


class Field:
    """One field: its name, its annotation as text, and the arguments of `field`."""

    __slots__ = ("compare", "default", "default_factory", "init", "metadata", "name", "repr", "type")

    def __init__(
        self,
        default: object = MISSING,
        default_factory: Callable[[], object] = MISSING,
        *,
        init: bool = True,
        compare: bool = True,
        shown: bool = True,
        metadata: Mapping[str, Any] = _NO_METADATA,
    ) -> None:
        self.name = self.type = ""
        self.default = default
        self.default_factory = default_factory
        self.init = init
        self.compare = compare
        self.repr = shown
        self.metadata = metadata


@overload
def field(*, default: D, init: bool = ..., compare: bool = ..., repr: bool = ..., metadata: Metadata = ...) -> D: ...
@overload
def field(
    *,
    default_factory: Callable[[], D],
    init: bool = ...,
    compare: bool = ...,
    repr: bool = ...,
    metadata: Metadata = ...,
) -> D: ...
@overload
def field(*, init: bool = ..., compare: bool = ..., repr: bool = ..., metadata: Metadata = ...) -> Any: ...
def field(
    *,
    default: object = MISSING,
    default_factory: Callable[[], object] = MISSING,
    init: bool = True,
    compare: bool = True,
    repr: bool = True,  # noqa: A002 - the standard library's word
    metadata: Metadata = _NO_METADATA,
) -> Any:
    """Give a field's default, whether `__init__`, comparisons with `hash`, and `repr` know it, and what others say."""
    return Field(default, default_factory, init=init, compare=compare, shown=repr, metadata=metadata)


@dataclass_transform(field_specifiers=(field,))
def dataclass(
    *,
    init: bool = True,
    eq: bool = True,
    frozen: bool = False,
    slots: bool = False,
    kw_only: bool = False,
    guarded: bool = True,
) -> Callable[[type[T]], type[T]]:
    """As `dataclasses.dataclass` with these parameters. `kw_only` holds for inherited fields, too.

    A frozen class that is not `guarded` is frozen for the type checker alone: without a `__setattr__` that refuses, an
    instance takes a third of the time to make.
    """

    def make(cls: type[T]) -> type[T]:
        namespace = cls.__dict__
        annotations = {name: _text(each) for name, each in namespace.get("__annotations__", {}).items()}
        own = {
            name: default if isinstance(default := namespace.get(name, MISSING), Field) else Field(default)
            for name, annotation in annotations.items()
            if not annotation.startswith(("ClassVar", "typing.ClassVar"))
        }
        for name, each in own.items():
            each.name, each.type = name, annotations[name]
        fields: dict[str, Field] = {}
        for base in reversed(cls.__mro__[1:]):  # as the standard library's: with two bases the second one's come first
            fields.update(base.__dict__.get(_FIELDS, {}))
        fields.update(own)
        added = {
            _FIELDS: fields,
            "__match_args__": () if kw_only else tuple([name for name, each in fields.items() if each.init]),
            "__repr__": _repr,
        }
        if init:
            added["__init__"] = _late_init(fields, frozen=frozen and guarded, kw_only=kw_only)
        if frozen and guarded:
            added |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete, "__setstate__": _set_state}
            added["__getstate__"] = _get_state
        if eq:
            names = [name for name, each in fields.items() if each.compare]
            compared = attrgetter(*names) if names else _nothing
            added["__eq__"] = _make_eq(compared)
            added["__hash__"] = _make_hash(compared) if frozen else None
        for name in added.keys() & namespace.keys():
            # What the class says itself stands; a body with __eq__ has a __hash__ of None that it never wrote.
            if name != "__hash__" or namespace[name] is not None:
                del added[name]
        if not slots:
            for name, value in added.items():
                setattr(cls, name, value)
            for name, each in own.items():
                if isinstance(namespace.get(name), Field):
                    delattr(cls, name) if each.default is MISSING else setattr(cls, name, each.default)
            return cls
        kept = {name: value for name, value in namespace.items() if name not in (*own, "__dict__", "__weakref__")}
        metaclass: Any = type(cls)
        made: type[T] = metaclass(cls.__name__, cls.__bases__, {**kept, **added, "__slots__": tuple(own)})
        return made

    return make


def _text(annotation: object) -> str:
    """An annotation as it is written, and as `from __future__ import annotations` leaves it."""
    if isinstance(annotation, str):
        return annotation
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def replace(instance: T, **changes: object) -> T:
    """Return a copy of a dataclass's instance with some fields changed."""
    cls = type(instance)
    kept = {name: getattr(instance, name) for name, each in _fields(cls).items() if each.init}
    return cls(**kept | changes)


def fields(dataclass: object) -> tuple[Field, ...]:
    """The fields of a dataclass or of an instance, inherited ones first."""
    return tuple(_fields(dataclass if isinstance(dataclass, type) else type(dataclass)).values())


def _fields(cls: type) -> Mapping[str, Field]:
    found: Mapping[str, Field] = getattr(cls, _FIELDS)
    return found


def _late_init(fields: Mapping[str, Field], *, frozen: bool, kw_only: bool) -> Callable[..., None]:
    """An `__init__` that gives way to the compiled one: half of a start's classes never have an instance."""
    compiled: Any = None

    def __init__(self: object, *arguments: object, **keywords: object) -> None:  # noqa: N807 - becomes a class's
        nonlocal compiled
        for cls in type(self).__mro__:
            if cls.__dict__.get("__init__") is __init__:
                # In this order: another thread that no longer finds itself there finds `compiled`.
                compiled = _make_init(cls, fields, frozen=frozen, kw_only=kw_only)
                cls.__init__ = compiled  # type: ignore[misc]  # what a class decorator is for
        compiled(self, *arguments, **keywords)

    return __init__


def _make_init(cls: type, fields: Mapping[str, Field], *, frozen: bool, kw_only: bool) -> object:
    parameters, body, renamed, defaults = ["self"], [], {}, {}
    names: dict[str, object] = {"_set": object.__setattr__, "_missing": MISSING}
    if kw_only:
        parameters.append("*")
    for number, (name, each) in enumerate(fields.items()):
        place = value = f"v{number}"
        renamed[place] = name
        if each.default_factory is not MISSING:
            names[f"_new_{number}"] = each.default_factory
            value = f"_new_{number}() if {place} is _missing else {place}" if each.init else f"_new_{number}()"
        elif not each.init:
            continue
        if each.init:
            parameters.append(place)
            if each.default_factory is not MISSING or each.default is not MISSING:
                defaults[name] = each.default  # MISSING where there is a factory
            elif defaults and not kw_only:
                raise TypeError(f"{cls.__qualname__}: {name!r} has no default but follows {next(reversed(defaults))!r}")
        body.append(f"_set(self, {place!r}, {value})" if frozen else f"self.{place} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    code = _renamed(_compiled(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"])), renamed)
    made = FunctionType(code, names)
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__module__ = cls.__module__
    if kw_only:
        made.__kwdefaults__ = defaults
    else:
        made.__defaults__ = tuple(defaults.values())
    return made


@functools.cache
def _compiled(text: str) -> CodeType:
    """Code of the function that the text defines. Classes of one shape share it: compiling is what takes long."""
    names: dict[str, Any] = {}
    exec(text, names)  # noqa: S102 - it has none but the names made up here
    code: CodeType = names["__init__"].__code__
    return code


def _renamed(code: CodeType, names: Mapping[str, str]) -> CodeType:
    def new(each: object) -> Any:
        return names.get(each, each) if isinstance(each, str) else each

    return code.replace(
        co_varnames=tuple(map(new, code.co_varnames)),
        co_names=tuple(map(new, code.co_names)),
        co_consts=tuple(map(new, code.co_consts)),
    )


def _make_eq(compared: Callable[[Any], object]) -> Callable[[Any, object], object]:
    def equal(self: object, other: object) -> object:
        if type(other) is not type(self):
            return NotImplemented
        return compared(self) == compared(other)

    return equal


def _make_hash(compared: Callable[[Any], object]) -> Callable[[Any], int]:
    def hashed(self: object) -> int:
        return hash(compared(self))

    return hashed


def _nothing(_: object) -> tuple[()]:
    return ()


def _repr(self: object) -> str:
    shown = (f"{name}={getattr(self, name)!r}" for name, each in _fields(type(self)).items() if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: object, name: str, value: object) -> None:  # noqa: ARG001 - the protocol's signature
    raise AttributeError(f"{type(self).__name__} is frozen: {name!r} can't be set")


def _refuse_to_delete(self: object, name: str) -> None:
    raise AttributeError(f"{type(self).__name__} is frozen: {name!r} can't be deleted")


def _get_state(self: object) -> list[object]:
    return [getattr(self, name) for name in _fields(type(self))]


def _set_state(self: object, state: list[object]) -> None:
    for name, value in zip(_fields(type(self)), state, strict=True):
        object.__setattr__(self, name, value)
