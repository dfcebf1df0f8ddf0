"""A mangled name while it is read: position, substitutions, template arguments, and what the work may cost.

A type is text, `int const&`, unless a declarator's name stands in its middle: `void (*` and `)(int)`.
A template parameter that stands for a pack gives a Pack, and whatever contains one becomes a Pack with an element for
each of its: `RKT_` is (`int const&`, `long const&`). So substitutions hold packs, too, and `Dp` has only to join one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

#: Characters of all parts that are made on the way, and STEP for each of them.
FUEL = 120_000
STEP = 50
#: Types, expressions and functions inside each other. Each takes up to four calls of Python's.
MAX_DEPTH = 100


class NotMangled(Exception):
    """Text outside the grammar, or one that costs too much."""


class Declarator(NamedTuple):
    """A type around its declarator's name, or around nothing."""

    left: str
    right: str
    kind: int


#: Kinds of declarators: a function, an array, and whatever points or refers to them.
FUNCTION, ARRAY, POINTER = range(3)


class Pack(list["Value"]):
    """One value for each element of the pack that a template parameter stands for."""


class ArgumentPack(list["Value"]):
    """A pack in a list of template arguments, `J…E`."""


Value = str | Declarator | Pack | ArgumentPack


class Region:
    """Types that were read one after the other, of a function's parameters or of a lambda's.

    A substitution may stand for `T_` as such: used inside another function or lambda than where it was read,
    it is that one's parameter. Then the types are read again.
    """

    __slots__ = ("arguments", "end", "first", "is_dependent", "lambda_parameters", "outer", "position")

    def __init__(self, reader: Reader) -> None:
        self.first = len(reader.substitutions)
        self.end = 1 << 30
        self.position = reader.i
        self.arguments = reader.arguments
        self.lambda_parameters = reader.lambda_parameters
        self.is_dependent = False
        self.outer = reader.region


def text(value: Value) -> str:
    """A value as it is shown. A pack that nothing expands is shown by its first element, as by c++filt."""
    if type(value) is str:
        return value
    if isinstance(value, Declarator):
        return value.left + value.right
    if isinstance(value, ArgumentPack):
        return listed(value)
    return text(value[0]) if value else ""


def listed(values: list[Value]) -> str:
    """Values between commas, without those of empty packs."""
    if len(values) == 1:
        return text(values[0])
    return ", ".join([each for each in map(text, values) if each])


def spread(function: Callable[..., Value], *values: Value) -> Value:
    """The function's value, or a Pack of its values where there are Packs among the arguments."""
    lengths = [len(each) for each in values if isinstance(each, Pack)]
    if not lengths:
        return function(*values)
    return Pack(
        [
            function(*[each[index] if isinstance(each, Pack) else each for each in values])
            for index in range(min(lengths))
        ]
    )


class Reader:
    """State that the parts of the grammar share, and the parts that call each other."""

    def __init__(self, mangled: str, position: int, *, short_std: bool) -> None:
        self.s = mangled
        self.i = position
        #: Whether std's own classes have their short names: `std::string`.
        self.short_std = short_std
        self.fuel = FUEL
        self.depth = 0
        self.substitutions: list[Value] = []
        #: Template arguments that T_ refers to: the last ones of the name of the function that is read.
        self.arguments: list[Value] = []
        self.regions: list[Region] = []
        #: The one that is read.
        self.region: Region | None = None
        #: Whether T_ may have no argument: types that are read again may name parameters that this function lacks, and
        #: the arguments of a conversion operator follow its type.
        self.may_lack_arguments = False
        #: By the name of a class or namespace its last part, without template arguments: what constructors are called.
        self.last_parts: dict[Value, str] = {}
        #: Inside a lambda's parameters T_ is `auto`, or one of the template parameters that the lambda declares.
        self.lambda_parameters: list[str] | None = None
        #: Inside a conversion operator's type the template arguments that follow may be the operator's own.
        self.in_conversion = False
        #: Of the name that was read last: whether it ends with template arguments, whether functions of that name have
        #: no return type, and the qualifiers of such functions.
        self.is_template = False
        self.without_return = False
        self.qualifiers = ""
        #: Whether the expression that was read last needs no parentheses as an operand.
        self.is_primary = False
        #: The function or variable that was read last: its name, whether it has parameters, and whether it is neither a
        #: template nor has qualifiers.
        self.encoded = ("", False, False)

    def begin_region(self) -> Region:
        """Types begin here."""
        region = Region(self)
        self.regions.append(region)
        self.region = region
        return region

    def end_region(self, region: Region) -> None:
        """They are read."""
        region.end = len(self.substitutions)
        self.region = region.outer
        if not region.is_dependent:
            self.regions.remove(region)

    def spend(self, length: int) -> None:
        """Pay for a part of this length."""
        self.fuel -= length + STEP
        if self.fuel < 0:
            raise NotMangled

    def spend_for(self, value: Value) -> None:
        """Pay for a value that was made; for a pack, for each of its elements."""
        if type(value) is str:
            self.spend(len(value))
        elif isinstance(value, Declarator):
            self.spend(len(value.left) + len(value.right))
        else:
            self.spend(sum(len(text(each)) + STEP // 2 for each in value))

    def enter(self) -> None:
        """Begin a part that may contain others of its kind. `depth` goes down at its end; after errors nobody asks."""
        self.depth += 1
        self.fuel -= STEP
        if self.depth > MAX_DEPTH or self.fuel < 0:
            raise NotMangled

    def take(self, wanted: str) -> bool:
        """Whether the text continues so; it is then behind."""
        if self.s.startswith(wanted, self.i):
            self.i += len(wanted)
            return True
        return False

    def expect(self, wanted: str) -> None:
        """Go behind this text, which the grammar has here."""
        if not self.s.startswith(wanted, self.i):
            raise NotMangled
        self.i += len(wanted)

    def digits(self) -> str:
        """Decimal digits from here on, if there are any."""
        s, start = self.s, self.i
        i = start
        while "0" <= s[i] <= "9":
            i += 1
        self.i = i
        return s[start:i]

    def number(self) -> int:
        """A decimal number, as what counts something in a name has it."""
        found = self.digits()
        if not 0 < len(found) < 9:  # digits
            raise NotMangled
        return int(found)

    def ordinal(self) -> int:
        """A number from 0 up as it follows unnamed things: nothing for the first, 0 for the second."""
        found = 0 if self.s[self.i] == "_" else self.number() + 1
        self.expect("_")
        return found

    def source_name(self) -> str:
        """A length and as many characters."""
        s, start = self.s, self.i
        i = start
        while "0" <= s[i] <= "9":
            i += 1
        if not 0 < i - start < 6:  # digits: no name is that long
            raise NotMangled
        length = int(s[start:i])
        self.i = end = i + length
        found = s[i:end]
        # The reader's text ends with NUL.
        if end >= len(s) or not length or "\0" in found:
            raise NotMangled
        # What GCC and Clang call the namespace without a name.
        if found.startswith("_GLOBAL_") and found[8:10] in {"_N", ".N", "$N"}:
            return "(anonymous namespace)"
        self.fuel -= length + STEP
        return found

    def sequence_number(self) -> int:
        """The index of `S_`, `S0_`, `SA_`, ...: digits of base 36."""
        s, i = self.s, self.i
        if s[i] == "_":
            self.i = i + 1
            return 0
        end = s.find("_", i, i + 6)
        found = s[i:end]
        if end < 0 or not (found.isascii() and found.isalnum() and found.upper() == found):
            raise NotMangled
        self.i = end + 1
        return int(found, 36) + 1

    # The parts of the grammar. Each is defined by one of the classes that Demangler inherits from.

    def name(self, *, of_function: bool = False) -> Value:
        """A name; `of_function`: its template arguments are what T_ refers to from then on."""
        raise NotImplementedError

    def unqualified_name(self, scope: Value) -> str:
        """A name's part without its scope."""
        raise NotImplementedError

    def _template_argument(self, c: str) -> Value:
        """A template argument that begins with this character."""
        raise NotImplementedError

    def template_arguments(self) -> list[Value]:
        """A list of template arguments, from its I to its E."""
        raise NotImplementedError

    def with_arguments(self, name: Value, arguments: list[Value]) -> Value:
        """A template's name with its arguments."""
        raise NotImplementedError

    def templated_name(self) -> Value:
        """A source name, with template arguments if it has some."""
        name: Value = self.source_name()
        if self.s[self.i] == "I":
            name = self.with_arguments(name, self.template_arguments())
        return name

    def operator_name(self) -> str:
        """An operator's function, as in `operator+`."""
        raise NotImplementedError

    def type(self) -> Value:
        """A type."""
        raise NotImplementedError

    def cv_qualifiers(self) -> str:
        """Qualifiers, shown in the order of C++: the mangled ones stand inside out."""
        raise NotImplementedError

    def parameters(self) -> Value:
        """Parameters up to the end of a function type or of the whole: text, or a Pack of texts."""
        raise NotImplementedError

    def substitution(self) -> Value:
        """A name or type that was read before, or one of std."""
        raise NotImplementedError

    def template_parameter(self) -> Value:
        """A template parameter, as what it stands for."""
        raise NotImplementedError

    def decltype(self) -> Value:
        """A type that an expression has."""
        raise NotImplementedError

    def expression(self) -> Value:
        """An expression."""
        raise NotImplementedError

    def literal(self) -> Value:
        """A literal, from its L to its E."""
        raise NotImplementedError

    def encoding(self, *, parameters: bool, result: bool = True) -> str:
        """A function with or without its parameters and result, a variable, or something special."""
        raise NotImplementedError

    def function_in_expression(self) -> str:
        """A function or variable as a literal, behind `L_Z`, and its E."""
        raise NotImplementedError
