"""A script as a tree of frozen nodes. Each knows the characters of the script that it was read from.

Two nodes are equal if they mean the same; where they stand is not compared. `Program.source` turns a node's place into
a `Location`. Names of variables and maps are without their `$` and `@`. Blocks and `if` are expressions, since they may
be anywhere that an expression may be; a statement that is one is an `ExpressionStatement`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from pyebpf.dataclass import dataclass, field

if TYPE_CHECKING:
    from pyebpf.bpftrace.source import Source

AggregateKeyword: TypeAlias = 'Literal["struct", "union"]'
TypeKeyword: TypeAlias = 'Literal["", "struct", "union", "enum"]'


@dataclass(frozen=True, slots=True, guarded=False)
class Node:
    """A part of a script: its characters `start` to before `end`, counted from the script's begin."""

    start: int = field(compare=False, repr=False)
    end: int = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, guarded=False)
class Expression(Node):
    """A part with a value, or in the place of one."""


@dataclass(frozen=True, slots=True, guarded=False)
class Statement(Node):
    """A part of a block."""


@dataclass(frozen=True, slots=True, guarded=False)
class Type(Node):
    """A type as it is written: not yet looked up."""


# Literals and names


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
    """A scratch variable, `$name`."""

    name: str


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
    """A call of a function or a macro. An argument may be a `TypeOf`."""

    name: str
    arguments: tuple[Expression, ...]


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


# Blocks and statements


@dataclass(frozen=True, slots=True, guarded=False)
class Block(Expression):
    """`{ … }`. `value` is a last expression that no semicolon follows: the value of a block that is an expression."""

    statements: tuple[Statement, ...]
    value: Expression | None = None

    @property
    def all_statements(self) -> tuple[Statement, ...]:
        """The statements, the last expression among them: the block where nobody wants its value."""
        if self.value is None:
            return self.statements
        return (*self.statements, ExpressionStatement(self.value.start, self.value.end, self.value))


@dataclass(frozen=True, slots=True, guarded=False)
class If(Expression):
    """`if (test) { … } else …`."""

    test: Expression
    then: Block
    otherwise: Block | If | None = None


@dataclass(frozen=True, slots=True, guarded=False)
class ExpressionStatement(Statement):
    """An expression for its effect: a call, an increment, an `if`, a block."""

    value: Expression


@dataclass(frozen=True, slots=True, guarded=False)
class Assignment(Statement):
    """`target = value`, or one of the operators that combine: `+=`, `<<=` and so on."""

    operator: str
    target: Variable | Map | MapAccess
    value: Expression


@dataclass(frozen=True, slots=True, guarded=False)
class Discard(Statement):
    """`_ = value;`."""

    value: Expression


@dataclass(frozen=True, slots=True, guarded=False)
class Let(Statement):
    """`let $name: type = value;`, where type and value may be missing."""

    variable: Variable
    type: Type | TypeOf | None = None
    value: Expression | None = None


@dataclass(frozen=True, slots=True, guarded=False)
class Range(Node):
    """`first..stop`, without `stop` itself."""

    first: Expression
    stop: Expression


@dataclass(frozen=True, slots=True, guarded=False)
class For(Statement):
    """`for ($variable : @map) { … }` or `for ($variable : 0..5) { … }`."""

    variable: Variable
    over: Map | Range
    body: Block


@dataclass(frozen=True, slots=True, guarded=False)
class While(Statement):
    """`while (test) { … }`."""

    test: Expression
    body: Block


@dataclass(frozen=True, slots=True, guarded=False)
class Unroll(Statement):
    """`unroll(count) { … }`."""

    count: Expression
    body: Block


@dataclass(frozen=True, slots=True, guarded=False)
class Break(Statement):
    """`break;`."""


@dataclass(frozen=True, slots=True, guarded=False)
class Continue(Statement):
    """`continue;`."""


@dataclass(frozen=True, slots=True, guarded=False)
class Return(Statement):
    """`return;` or `return value;`."""

    value: Expression | None = None


@dataclass(frozen=True, slots=True, guarded=False)
class Import(Statement):
    """`import "path";`, before the probes or in a block."""

    path: str


# C's definitions


@dataclass(frozen=True, slots=True, guarded=False)
class Include(Node):
    """`#include <path>`, or with quotes if not `angled`."""

    path: str
    angled: bool = True


@dataclass(frozen=True, slots=True, guarded=False)
class Define(Node):
    """`#define name text`. `parameters` is None for a name without parentheses."""

    name: str
    text: str
    parameters: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, guarded=False)
class Directive(Node):
    """Another line of C's preprocessor, such as `#ifdef`: its word, and the rest of the line."""

    word: str
    text: str


@dataclass(frozen=True, slots=True, guarded=False)
class Member(Node):
    """A member of a struct or union. One that has no name is a nested struct, or unused bits."""

    name: str
    type: Type | Struct | Enum
    bits: Expression | None = None


@dataclass(frozen=True, slots=True, guarded=False)
class Struct(Node):
    """A struct or a union with its members. A nested one may have no name."""

    keyword: AggregateKeyword
    name: str
    members: tuple[Member, ...]
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, guarded=False)
class Enumerator(Node):
    """A constant of an enum, with the value that it is given."""

    name: str
    value: Expression | None = None


@dataclass(frozen=True, slots=True, guarded=False)
class Enum(Node):
    """An enum with its constants. It may have no name."""

    name: str
    enumerators: tuple[Enumerator, ...]
    attributes: tuple[str, ...] = ()


Definition: TypeAlias = "Include | Define | Directive | Struct | Enum"


# What a script is made of


@dataclass(frozen=True, slots=True, guarded=False)
class Setting(Node):
    """One setting of the config block."""

    name: str
    value: int | bool | str


@dataclass(frozen=True, slots=True, guarded=False)
class Config(Node):
    """`config = { … }`."""

    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True, guarded=False)
class MapDeclaration(Node):
    """`let @name = kind(size);`."""

    map: Map
    kind: str
    size: int


@dataclass(frozen=True, slots=True, guarded=False)
class Macro(Node):
    """`macro name(…) { … }`. A parameter says what it takes: a variable, a map, or any expression."""

    name: str
    parameters: tuple[Variable | Map | Identifier, ...]
    body: Block


@dataclass(frozen=True, slots=True, guarded=False)
class Parameter(Node):
    """A parameter of a function."""

    variable: Variable
    type: Type | TypeOf


@dataclass(frozen=True, slots=True, guarded=False)
class Function(Node):
    """`fn name($parameter: type) : type { … }`."""

    name: str
    parameters: tuple[Parameter, ...]
    result: Type | TypeOf
    body: Block


@dataclass(frozen=True, slots=True, guarded=False)
class AttachPoint(Node):
    """A place to attach to, as it is written: wildcards and files are not resolved.

    `parts` has all that colons separate, after the provider, without quotes. The other fields name them as far as the
    provider has them:

    - `target`: module, file, category of a tracepoint, event of `software` and `hardware`, unit of time.
    - `function`: function, tracepoint, USDT probe, iterator, signal, name of a test.
    - `namespace`: provider of a USDT probe, language of a uprobe's function, program id of `fentry:bpf`.
    """

    text: str
    provider: str
    """The long name of the kind of probe, such as `kprobe`; it may be a pattern."""
    parts: tuple[str, ...]
    name: str = ""
    """What the script calls it: `name=kprobe:f`."""
    target: str = ""
    function: str = ""
    namespace: str = ""
    offset: int = 0
    """`kprobe:f+0x10`."""
    address: int | None = None
    """`kprobe:0xffffffff81000000`, `watchpoint:0x10000000:8:rw`."""
    count: int | None = None
    """Rate or period of `profile` and `interval`, in units of `target`; events until `software` or `hardware` fires."""
    length: int = 0
    """Bytes that a watchpoint watches."""
    mode: str = ""
    """`r`, `w` and `x` of a watchpoint."""
    source_file: str = ""
    """`uprobe:/bin/x@file.c:12:3`: file, line and column."""
    source_line: int = 0
    source_column: int = 0
    pin: str = ""
    """File that an iterator is pinned to."""


@dataclass(frozen=True, slots=True, guarded=False)
class Probe(Node):
    """Attach points, a predicate if there is one, and what happens there."""

    attach_points: tuple[AttachPoint, ...]
    predicate: Expression | None
    body: Block


Item: TypeAlias = "Probe | Macro | Function | MapDeclaration"


@dataclass(frozen=True, slots=True, guarded=False)
class Program(Node):
    """A whole script."""

    source: Source = field(compare=False, repr=False)
    shebang: str
    """The first line if it begins with `#!`, as it is written."""
    definitions: tuple[Definition, ...]
    config: Config | None
    imports: tuple[Import, ...]
    items: tuple[Item, ...]

    @property
    def probes(self) -> tuple[Probe, ...]:
        """The probes, in the order that they are written in."""
        return tuple([each for each in self.items if isinstance(each, Probe)])
