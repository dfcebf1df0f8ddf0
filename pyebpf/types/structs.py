"""`Struct`: a record declared as a class, laid out as C would."""

from __future__ import annotations

import sys
from copy import deepcopy
from functools import cached_property
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue, MalformedData, OnlyInProbe, check_argument, closest
from pyebpf.types.base import Type

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Self

    from construct import Construct

T = TypeVar("T")
MISSING: Any = object()
#: The attribute in which a Struct class keeps its fields' defaults, and the results of `field`.
_GIVEN = "__given__"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """The arguments of `field(...)`, until the class is made."""

    type: object
    default: object = MISSING
    kw_only: bool = False


@dataclass(frozen=True, slots=True)
class Factory:
    """The default of a field that `default_factory` gives: a function, called for each record that is made."""

    function: Callable[[], object]


def field(
    type: type[T],  # noqa: A002 - reads as the declaration it is
    *,
    default: T = MISSING,
    default_factory: Callable[[], T] | None = None,
    kw_only: bool = False,
) -> T:
    """Declare a member of a Struct: its BPF type, where that is not its annotation, and what it is if it isn't given.

    `default_factory` is called where a record is made, in a probe too: `field(u64, default_factory=now)` is the time of
    the event. A `kw_only` field is given by name. Raises InvalidValue for two defaults, and a factory that is none.
    """
    if isinstance(default_factory, FieldSpec):
        raise InvalidValue(
            "default_factory is a field of this class, which has the function's name: import that by another name, "
            "from pyebpf import pid as current_pid"
        )
    if default_factory is not None and not callable(default_factory):
        raise InvalidValue(f"default_factory is a function without arguments, not {default_factory!r}")
    if default_factory is not None and default is not MISSING:
        raise InvalidValue("field(…) takes a default or a default_factory, not both")
    given = default if default_factory is None else Factory(default_factory)
    return FieldSpec(type, given, kw_only)  # type: ignore[return-value]  # the class body holds it, instances hold a T


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a Struct: `offset` in bytes from its start."""

    name: str
    type: Type
    offset: int
    default: object = MISSING
    kw_only: bool = False

    @property
    def required(self) -> bool:
        """Whether a constructor must give it."""
        return self.default is MISSING


class StructType(Type):
    """The layout of one Struct class: fields in order at C's natural alignment, `padding` where C leaves holes."""

    def __init__(
        self,
        name: str,
        fields: Sequence[tuple[str, Type, object]],
        cls: type[Struct] | None = None,
        kw_only: Collection[str] = (),
    ) -> None:
        self.name = name
        self.c_name = f"struct {name}"
        self.cls = cls
        offset, align, pieces, placed = 0, 1, [], []
        holes: list[tuple[int, int]] = []
        for field_name, field_type, default in fields:
            start = -(-offset // field_type.align) * field_type.align
            if start > offset:
                pieces.append(f"{start - offset}x")
                holes.append((offset, start - offset))
            pieces.append(field_type.format)
            placed.append(Field(field_name, field_type, start, default, field_name in kw_only))
            offset, align = start + field_type.size, max(align, field_type.align)
        self.size = -(-offset // align) * align
        if self.size > offset:
            pieces.append(f"{self.size - offset}x")
            holes.append((offset, self.size - offset))
        self.align = align
        self.format = "".join(pieces)
        self.count = sum(f.type.count for f in placed)
        self.fields = tuple(placed)
        self.by_name = {f.name: f for f in placed}
        #: Those that a constructor takes by position, in order.
        self.positional = tuple(f for f in placed if not f.kw_only) if kw_only else self.fields
        #: Holes as (offset, size): the compiler writes zeros there.
        self.padding = tuple(holes)

    def as_key(self) -> Type:
        fields = [(f.name, f.type.as_key(), f.default) for f in self.fields]
        same = all(new is f.type for (_, new, _), f in zip(fields, self.fields, strict=True))
        return self if same else StructType(self.name, fields, self.cls, [f.name for f in self.fields if f.kw_only])

    def values(self, record: object) -> Sequence[object]:
        """The values of a record's fields, in order."""
        return [getattr(record, f.name) for f in self.fields]

    def make(self, values: Iterator[object]) -> object:
        """A record of these values."""
        if self.cls is None:
            return list(values)
        if self.positional is self.fields:
            return self.cls(*values)
        return self.cls(**{f.name: value for f, value in zip(self.fields, values, strict=True)})

    def assemble(self, plain: Iterator[object]) -> object:
        return self.make(f.type.assemble(plain) for f in self.fields)

    def scatter(self, value: object) -> list[object]:
        if self.cls is not None and not isinstance(value, self.cls):
            fields = ", ".join(f.name + "=…" for f in self.fields)
            msg = f"{value!r} is not of type {self.name}: give {self.name}({fields})"
            raise InvalidValue(msg)
        return [
            plain for f, each in zip(self.fields, self.values(value), strict=True) for plain in f.type.scatter(each)
        ]

    @cached_property
    def construct(self) -> Construct:
        import construct

        members, offset = [], 0
        for f in self.fields:
            if f.offset > offset:
                members.append(construct.Padding(f.offset - offset))
            members.append(f.name / f.type.construct)
            offset = f.offset + f.type.size
        if self.size > offset:
            members.append(construct.Padding(self.size - offset))
        return construct.Struct(*members)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StructType) and (self.name, self.cls, self.fields) == (
            other.name,
            other.cls,
            other.fields,
        )

    def __hash__(self) -> int:
        return hash((self.name, self.size))


class _StructClass(type):
    """Gives each Struct class slots for its fields: instances are made and filled faster, and take less memory."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _StructClass:
        # Python 3.14 makes annotations later; its classes go without slots.
        annotations = namespace.get("__annotations__")
        if annotations is not None and bases:
            namespace[_GIVEN] = {each: namespace.pop(each) for each in annotations if each in namespace}
            there = {slot for base in bases for each in base.__mro__ for slot in each.__dict__.get("__slots__", ())}
            namespace.setdefault("__slots__", tuple(each for each in annotations if each not in there))
        return super().__new__(cls, name, bases, namespace)


@dataclass_transform(kw_only_default=False, field_specifiers=(field,))
class Struct(metaclass=_StructClass):
    """Base of records: `class Drop(Struct): at: u64; limit: u32`.

    Each annotation is an integer type, `bool` or another Struct; anything else is given by `field(...)`. Instances have
    these attributes and no others: compared by value, made by position or by name. `Drop.layout` is its StructType,
    `Drop.to_bytes`/`from_bytes` its codec, `as_dict` gives plain Python values. A field hides the method of its name,
    which can still be called on the class: `Struct.as_dict(drop)`.
    """

    __slots__ = ()
    layout: ClassVar[StructType]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        declared = list(_declared(cls))
        kw_only = [name for name, _, _, kw_only in declared if kw_only]
        cls.layout = StructType(cls.__name__, [each[:3] for each in declared], cls, kw_only)
        cls.__match_args__ = tuple(f.name for f in cls.layout.positional)  # type: ignore[attr-defined,misc]  # what `match` reads
        if _GIVEN not in cls.__dict__:
            for f in cls.layout.fields:
                if f.name in cls.__dict__:
                    delattr(cls, f.name)

    def __init__(self, /, *args: object, **kwargs: object) -> None:
        fields, positional = self.layout.fields, self.layout.positional
        if len(args) > len(positional):
            raise InvalidValue(too_many(self.layout, len(args)))
        for f, value in zip(positional, args, strict=False):
            object.__setattr__(self, f.name, value)
        rest = fields[len(args) :] if positional is fields else [f for f in fields if f not in positional[: len(args)]]
        made = []
        for f in rest:
            if f.name in kwargs:
                object.__setattr__(self, f.name, kwargs.pop(f.name))
            elif isinstance(f.default, Factory):
                made.append((f.name, f.default))
            elif f.required:
                unknown = [name for name in kwargs if name not in self.layout.by_name]
                msg = f"{self.layout.name} needs a value for {f.name}"
                raise InvalidValue(f"{msg}, and has no field {', '.join(unknown)}" if unknown else msg)
            else:
                object.__setattr__(self, f.name, _own(f.default))
        for name in kwargs:
            twice = f"got two values for {name}"
            raise InvalidValue(
                f"{self.layout.name} "
                + (twice if name in self.layout.by_name else f"has no field {name}{closest(name, self.layout.by_name)}")
            )
        for name, default in made:
            try:
                object.__setattr__(self, name, default.function())
            except OnlyInProbe as error:
                raise OnlyInProbe(f"{self.layout.name} needs a value for {name} outside probes: {error}") from None

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decode exactly `layout.size` bytes. Raises MalformedData for more or less."""
        check_argument("data", data, (bytes, bytearray, memoryview), "bytes")
        if len(data) != cls.layout.size:
            raise MalformedData(f"{cls.layout.name} has {cls.layout.size} bytes, these are {len(data)}")
        found: Self = cls.layout.decode(data)
        return found

    def to_bytes(self) -> bytes:
        """Encode to `layout.size` bytes; InvalidValue if a field's value does not fit."""
        return self.layout.encode(self)

    def as_dict(self) -> dict[str, Any]:
        """The fields by name: records in them as dictionaries too, arrays as lists, `u8[N]` as bytes.

        For JSON, which has no bytes: `json.dumps(record.as_dict(), default=bytes.hex)`.
        """
        return {f.name: _plain(getattr(self, f.name)) for f in self.layout.fields}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return _content(self) == _content(other)

    def __hash__(self) -> int:
        return hash(_content(self))

    def __repr__(self) -> str:
        return f"{self.layout.name}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in self.layout.fields)})"


def too_many(layout: StructType, count: int) -> str:
    """The error of `count` values by position."""
    some = "" if layout.positional == layout.fields else " given by position"
    fields = f"{len(layout.positional)} field{'' if len(layout.positional) == 1 else 's'}"
    return f"{layout.name} has {fields}{some}, {count} values were given"


def _own(default: object) -> object:
    """A default for one record alone: what may be changed is copied."""
    if isinstance(default, list):
        return [_own(each) for each in default]
    return deepcopy(default) if isinstance(default, Struct) else default


def _content(record: Struct) -> tuple[object, ...]:
    """The values that two records are compared by: an array is the same as a list and as a tuple."""
    return tuple(_frozen(getattr(record, f.name)) for f in record.layout.fields)


def _frozen(value: object) -> object:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def _plain(value: object) -> object:
    if isinstance(value, Struct):
        # A class may have one of its own, or a field of that name.
        method = type(value).as_dict
        return method(value) if isinstance(method, FunctionType) else Struct.as_dict(value)
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def type_of(declared: object) -> Type | None:
    """Return the BPF type that an annotation or argument means, or None.

    That is a Type, a Struct class, Python's `bool`, or a tuple of such.
    """
    from pyebpf.types.integers import BOOL

    if isinstance(declared, Type):
        return declared
    if declared is bool:
        return BOOL
    if isinstance(declared, type) and issubclass(declared, Struct) and declared is not Struct:
        return declared.layout
    if isinstance(declared, tuple):
        elements = [found for found in map(type_of, declared) if found is not None]
        if not elements or len(elements) != len(declared):
            return None
        from pyebpf.types.tuples import TupleType

        return TupleType(elements)
    if any(base.__module__ == "construct.core" for base in type(declared).__mro__):
        from pyebpf.types.foreign import construct_type

        return construct_type(declared)
    return None


def _declared(cls: type[Struct]) -> Iterable[tuple[str, Type, object, bool]]:
    """The fields of a class and its bases, the base's first; one that is declared again keeps its place."""
    found: dict[str, tuple[str, Type, object, bool]] = {}
    for base in reversed(cls.__mro__):
        if base is Struct or not issubclass(base, Struct):
            continue
        for name, annotation in base.__annotations__.items():
            given = base.__dict__.get(_GIVEN, base.__dict__).get(name, MISSING)
            if isinstance(given, FieldSpec):
                declared, default, kw_only = given.type, given.default, given.kw_only
            else:
                declared, default, kw_only = _resolve(base, annotation), given, False
            type_ = type_of(declared)
            if type_ is None:
                msg = (
                    f"{cls.__name__}.{name}: {annotation} is not a BPF type; annotate with u8..u64, s8..s64, bool or "
                    f"a Struct, or write {name}: … = field(…)"
                )
                raise InvalidValue(msg)
            if name == "layout":
                msg = f"{cls.__name__}.layout: a Struct's layout has that name; call the field layout_"
                raise InvalidValue(msg)
            found[name] = (name, type_, default, kw_only)
    return found.values()


def _resolve(cls: type, annotation: object) -> object:
    """Evaluate a string annotation (`from __future__ import annotations`) where the class was written."""
    if not isinstance(annotation, str):
        return annotation
    names: dict[str, object] = dict(vars(sys.modules[cls.__module__])) if cls.__module__ in sys.modules else {}
    depth = 1
    # The class body's own scope may be a function: its locals are only in the frames above.
    while True:
        try:
            frame = sys._getframe(depth)
        except ValueError:
            break
        if (
            frame.f_code.co_name == cls.__qualname__.rsplit(".", 1)[-1]
            or frame.f_globals.get("__name__") == cls.__module__
        ):
            names = {
                **frame.f_globals,
                **frame.f_locals,
                **{k: v for k, v in names.items() if k not in frame.f_locals},
            }
        depth += 1
    try:
        return eval(annotation, names)  # noqa: S307 - the annotation is the program's own source
    except NameError as error:
        msg = f"{cls.__name__}: the annotation {annotation!r} names something unknown ({error})"
        raise InvalidValue(msg) from None
