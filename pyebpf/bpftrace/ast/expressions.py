"""Expressions, and the types in them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pyebpf.bpftrace.ast.base import Expression, Node, Type
from pyebpf.dataclass import dataclass, field

TypeKeyword: TypeAlias = 'Literal["", "struct", "union", "enum"]'


#: Between the name of a variable and a number: of the macro's call, or of the block, that it belongs to.
OWN = "."


@dataclass(frozen=True, slots=True, guarded=False)
class Integer(Expression):
    """A number. Exponents and durations (in nanoseconds) are worked out; C's suffixes mean nothing."""

    value: int


@dataclass(frozen=True, slots=True, guarded=False)
class String(Expression):
    """Text in quotes, with its escape sequences replaced."""

    value: bytes


@dataclass(frozen=True, slots=True, guarded=False)
class Boolean(Expression):
    """`true` or `false`."""

    value: bool


@dataclass(frozen=True, slots=True, guarded=False)
class Identifier(Expression):
    """A bare name: of a builtin, an enumerator, a `#define`, a macro or its parameter, or of a type in `sizeof`."""

    name: str


@dataclass(frozen=True, slots=True, guarded=False)
class PositionalParameter(Expression):
    """`$1`: the argument of that number, from 1, of the command line."""

    number: int


@dataclass(frozen=True, slots=True, guarded=False)
class PositionalParameterCount(Expression):
    """`$#`: how many arguments the command line has."""


@dataclass(frozen=True, slots=True, guarded=False)
class Variable(Expression):
    """A scratch variable, `$name`. What stands behind `OWN` tells it from others of that name in the script."""

    name: str

    @property
    def written(self) -> str:
        """The name in the script."""
        return self.name.partition(OWN)[0]


@dataclass(frozen=True, slots=True, guarded=False)
class Map(Expression):
    """A map without a key, `@name`. The map `@` has an empty name."""

    name: str


@dataclass(frozen=True, slots=True, guarded=False)
class MapAccess(Expression):
    """An entry of a map, `@name[key]`. The key of `@name[a, b]` is a `Tuple`, as that of `@name[(a, b)]` is."""

    map: Map
    key: Expression


# Operators


@dataclass(frozen=True, slots=True, guarded=False)
class Unary(Expression):
    """A prefix operator: `-`, `!`, `~` or `*`."""

    operator: str
    value: Expression


@dataclass(frozen=True, slots=True, guarded=False)
class Increment(Expression):
    """`++` or `--`, before its target if `prefix`."""

    operator: str
    target: Variable | Map | MapAccess
    prefix: bool


@dataclass(frozen=True, slots=True, guarded=False)
class AddressOf(Expression):
    """`&$variable` or `&@map`."""

    target: Variable | Map


@dataclass(frozen=True, slots=True, guarded=False)
class Binary(Expression):
    """Two values and the operator between them: arithmetic, shifts, comparisons, `&&`, `||`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, guarded=False)
class Conditional(Expression):
    """`test ? then : otherwise`. Without `then` (`test ?: otherwise`) it is the value of the test."""

    test: Expression
    then: Expression | None
    otherwise: Expression


# Composite values, and parts of them


@dataclass(frozen=True, slots=True, guarded=False)
class Tuple(Expression):
    """`(a, b)`, `(a,)` or `()`."""

    elements: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, guarded=False)
class NamedValue(Node):
    """A field of a record with its value."""

    name: str
    value: Expression


@dataclass(frozen=True, slots=True, guarded=False)
class Record(Expression):
    """`(a=1, b=2)`."""

    fields: tuple[NamedValue, ...]


@dataclass(frozen=True, slots=True, guarded=False)
class FieldAccess(Expression):
    """`value.name`, or `value->name` if `arrow`; the language takes either for pointers, structs and records."""

    value: Expression
    name: str
    arrow: bool = False


@dataclass(frozen=True, slots=True, guarded=False)
class TupleAccess(Expression):
    """`value.0`."""

    value: Expression
    index: int


@dataclass(frozen=True, slots=True, guarded=False)
class Index(Expression):
    """`value[index]` of anything but a map."""

    value: Expression
    index: Expression


@dataclass(frozen=True, slots=True, guarded=False)
class Call(Expression):
    """A call of a function or a macro. An argument may be a `TypeOf`.

    `places` are the calls of macros by which it came where it is, the innermost first.
    """

    name: str
    arguments: tuple[Expression, ...]
    places: tuple[Expression, ...] = field(compare=False, repr=False, default=())


# Types, and expressions with types


@dataclass(frozen=True, slots=True, guarded=False)
class TypeName(Type):
    """A type by its name. C's words for one type are one name: `unsigned int`. Qualifiers are dropped."""

    name: str
    keyword: TypeKeyword = ""


@dataclass(frozen=True, slots=True, guarded=False)
class PointerType(Type):
    """A pointer to the type."""

    target: Type


@dataclass(frozen=True, slots=True, guarded=False)
class ArrayType(Type):
    """An array; without a size its length is unknown."""

    element: Type
    size: Expression | None


@dataclass(frozen=True, slots=True, guarded=False)
class FunctionType(Type):
    """A function that returns the type, below a pointer: a member such as `int (*f)(void)`."""

    result: Type


@dataclass(frozen=True, slots=True, guarded=False)
class TypeOf(Expression):
    """`typeof(…)`: the type of an expression, or a type where an argument must be an expression.

    It is the type of a cast or a declaration, too. A bare name that is no type of C's or bpftrace's is an `Identifier`.
    """

    operand: Type | Expression


@dataclass(frozen=True, slots=True, guarded=False)
class Cast(Expression):
    """`(type)value`."""

    type: Type | TypeOf
    value: Expression


@dataclass(frozen=True, slots=True, guarded=False)
class SizeOf(Expression):
    """`sizeof(…)`."""

    operand: Type | Expression


@dataclass(frozen=True, slots=True, guarded=False)
class OffsetOf(Expression):
    """`offsetof(operand, a.b)`; `path` has the names of the fields."""

    operand: Type | Expression
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True, guarded=False)
class TypeInfo(Expression):
    """`typeinfo(…)`."""

    operand: Type | Expression


@dataclass(frozen=True, slots=True, guarded=False)
class Comptime(Expression):
    """`comptime value`: the value must be known when the script is compiled."""

    value: Expression
