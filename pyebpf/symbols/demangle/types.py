"""Types: built-in ones, declarators, substitutions, template parameters."""

from __future__ import annotations

from pyebpf.symbols.demangle.reader import (
    ARRAY,
    FUNCTION,
    POINTER,
    ArgumentPack,
    Declarator,
    NotMangled,
    Pack,
    Reader,
    Value,
    listed,
    spread,
    text,
)

BUILT_IN = {
    "a": "signed char",
    "b": "bool",
    "c": "char",
    "d": "double",
    "e": "long double",
    "f": "float",
    "g": "__float128",
    "h": "unsigned char",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "n": "__int128",
    "o": "unsigned __int128",
    "s": "short",
    "t": "unsigned short",
    "v": "void",
    "w": "wchar_t",
    "x": "long long",
    "y": "unsigned long long",
    "z": "...",
}

#: Behind a D.
BUILT_IN_D = {
    "a": "auto",
    "c": "decltype(auto)",
    "d": "decimal64",
    "e": "decimal128",
    "f": "decimal32",
    "h": "half",
    "i": "char32_t",
    "n": "decltype(nullptr)",
    "s": "char16_t",
    "u": "char8_t",
}

QUALIFIERS = {"r": " restrict", "V": " volatile", "K": " const"}

STD = {
    "t": "std",
    "a": "std::allocator",
    "b": "std::basic_string",
    "s": "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
    "i": "std::basic_istream<char, std::char_traits<char> >",
    "o": "std::basic_ostream<char, std::char_traits<char> >",
    "d": "std::basic_iostream<char, std::char_traits<char> >",
}
#: How they are shown where they are only part of a name, unless what follows is their constructor or destructor.
SHORT_STD = STD | {"s": "std::string", "i": "std::istream", "o": "std::ostream", "d": "std::iostream"}
STD_LAST_PARTS = {
    "a": "allocator",
    "b": "basic_string",
    "s": "basic_string",
    "i": "basic_istream",
    "o": "basic_ostream",
    "d": "basic_iostream",
}


def _qualified(value: Value, qualifiers: str) -> Value:
    if type(value) is str:
        # An argument may have the qualifier that its parameter has; it is said once.
        return value if value.endswith(qualifiers) else value + qualifiers
    if isinstance(value, Pack):
        return Pack([_qualified(each, qualifiers) for each in value])
    if isinstance(value, Declarator):
        if value.kind == FUNCTION:
            return Declarator(value.left, value.right + qualifiers, FUNCTION)
        return Declarator(value.left + qualifiers, value.right, value.kind)
    return text(value) + qualifiers


def _pointed(value: Value, mark: str) -> Value:
    """A pointer or reference; references to references collapse."""
    if type(value) is str:
        return _collapsed(value, mark)
    if isinstance(value, Pack):
        return Pack([_pointed(each, mark) for each in value])
    if isinstance(value, Declarator):
        left, right, kind = value
        if kind == POINTER:
            return Declarator(_collapsed(left, mark), right, POINTER)
        space = "" if left[-1:] == " " or (kind == FUNCTION and left[-1:] in "(*") else " "
        return Declarator(f"{left}{space}({mark}", ")" + right, POINTER)
    return text(value) + mark


def _collapsed(left: str, mark: str) -> str:
    if left[-1:] != "&" or mark[-1] != "&":
        return left + mark
    return left[:-1] if mark == "&" and left.endswith("&&") else left


def _member_pointer(of: Value, value: Value) -> Value:
    if isinstance(value, Declarator):
        return _pointed(value, f"{text(of)}::*")
    return f"{text(value)} {text(of)}::*"


def _array(element: Value, size: Value) -> Value:
    bounds = f"[{text(size)}]"
    if isinstance(element, Declarator):
        if element.kind == ARRAY:
            return Declarator(element.left, f" {bounds}{element.right[1:]}", ARRAY)
        return Declarator(element.left, f" {bounds}{element.right}", ARRAY)
    return Declarator(text(element), f" {bounds}", ARRAY)


def function(result: Value, parameters: str, qualifiers: str) -> Declarator:
    """A function type of a result, the text of its parameters, and what stands behind them."""
    if isinstance(result, Declarator):
        return Declarator(result.left, f"({parameters}){qualifiers}{result.right}", FUNCTION)
    return Declarator(text(result) + " ", f"({parameters}){qualifiers}", FUNCTION)


class Types(Reader):
    """The part of the grammar about types."""

    def type(self) -> Value:
        s, start = self.s, self.i + 1
        c = s[start - 1]
        if found := BUILT_IN.get(c):
            self.i = start
            return found
        self.enter()
        value: Value
        if "0" <= c <= "9" or c in "NZ":
            value = self.name()
        elif c == "S":
            following = s[start]
            if following == "_" or "0" <= following <= "9" or "A" <= following <= "Z":
                value = self.substitution()
                # Behind a conversion operator's type its own arguments may follow.
                if s[self.i] != "I" or (self.in_conversion and text(value).endswith(">")):
                    self.depth -= 1
                    return value
                value = self.with_arguments(value, self.template_arguments())
            else:
                value = self.name()
                if self.i == start + 1:  # one of std's own substitutions
                    self.depth -= 1
                    return value
        else:
            self.i = start
            parse = _TYPES.get(c)
            if parse is None:
                raise NotMangled
            value = parse(self)
            if c == "D" and s[start] in _BUILT_IN_AFTER_D:
                self.depth -= 1
                return value
        self.depth -= 1
        self.spend_for(value)
        self.substitutions.append(value)
        return value

    def _qualified_type(self) -> Value:
        self.i -= 1
        qualifiers = self.cv_qualifiers()
        if self.s[self.i] == "F":
            self.i += 1
            return self._function_type(qualifiers)
        if self.s[self.i] == "D" and self.s[self.i + 1] in "oOwx":
            self.i += 1
            return self._function_or_other(qualifiers)
        return _qualified(self.type(), qualifiers)

    def cv_qualifiers(self) -> str:
        found = ""
        while (c := self.s[self.i]) in "rVK":
            found = QUALIFIERS[c] + found
            self.i += 1
        return found

    def _pointer(self) -> Value:
        return _pointed(self.type(), "*")

    def _reference(self) -> Value:
        return _pointed(self.type(), "&")

    def _rvalue_reference(self) -> Value:
        return _pointed(self.type(), "&&")

    def _complex(self) -> Value:
        return _qualified(self.type(), " _Complex")

    def _imaginary(self) -> Value:
        return _qualified(self.type(), " _Imaginary")

    def _plain_function(self) -> Value:
        return self._function_type("")

    def _function_type(self, qualifiers: str) -> Value:
        """A function type behind its F."""
        self.take("Y")  # of language linkage "C", which is not shown
        result = self.type()
        parameters = self.parameters()
        if self.take("R"):
            qualifiers += " &"
        elif self.take("O"):
            qualifiers += " &&"
        self.expect("E")
        if isinstance(result, Pack) or isinstance(parameters, Pack):
            return spread(lambda first, rest: function(first, rest, qualifiers), result, parameters)
        return function(result, text(parameters), qualifiers)

    def parameters(self) -> Value:
        s = self.s
        if s[self.i] == "v" and s[self.i + 1] in "E\0.@ROQ":
            self.i += 1
            return ""
        values = []
        while (c := s[self.i]) not in "E\0.@" and not (c in "RO" and s[self.i + 1] == "E") and c != "Q":
            values.append(self.type())
        if not values:
            raise NotMangled
        if any(isinstance(each, Pack) for each in values):
            return spread(lambda *each: listed(list(each)), *values)
        return listed(values)

    def _array_type(self) -> Value:
        size: Value = ""
        if "0" <= self.s[self.i] <= "9":
            size = self.digits()
        elif self.s[self.i] != "_":
            size = self.expression()
        self.expect("_")
        return spread(_array, self.type(), size)

    def _member_pointer_type(self) -> Value:
        of = self.type()
        return spread(_member_pointer, of, self.type())

    def _vendor_qualified(self) -> Value:
        if self.s[self.i] in "tl":  # an unnamed type or a lambda, as in a name
            self.i -= 1
            return self.name()
        qualifier = self.templated_name()
        return spread(lambda of, what: _qualified(of, f" {text(what)}"), self.type(), qualifier)

    def _elaborated_or_parameter(self) -> Value:
        """Behind a T: `struct`, `union` or `enum` before a name, or a template parameter."""
        if self.s[self.i] in "sue" and self.s[self.i + 1] in "0123456789NSZ":
            self.i += 1
            return self.name()
        self.i -= 1
        value = self.template_parameter()
        if self.s[self.i] == "I" and not self.in_conversion:
            self.substitutions.append(value)
            value = self.with_arguments(value, self.template_arguments())
        return value

    def template_parameter(self) -> Value:
        self.expect("T")
        level = self.number_of_level() if self.take("L") else 0
        index = self.ordinal()
        if self.region:
            self.region.is_dependent = True
        if self.lambda_parameters is not None and not level:
            declared = self.lambda_parameters
            return declared[index] if index < len(declared) else f"auto:{index + 1}"
        if index >= len(self.arguments):
            if self.may_lack_arguments or level:
                return "auto"
            raise NotMangled
        value = self.arguments[index]
        return Pack(value) if isinstance(value, ArgumentPack) else value

    def number_of_level(self) -> int:
        """The level of a template parameter, `L0_`, behind its L."""
        level = self.number() + 1
        self.expect("_")
        return level

    def decltype(self) -> Value:
        self.i += 2
        value = self.expression()
        self.expect("E")
        return spread(lambda each: f"decltype ({text(each)})", value)

    def _expansion(self) -> Value:
        value = self.type()
        if isinstance(value, Pack):
            return listed(value)
        return f"({text(value)})..."

    def _behind_d(self) -> Value:
        return self._function_or_other("")

    def _function_or_other(self, qualifiers: str) -> Value:
        """Behind a D: exception specifications of functions, and types of all sorts."""
        c = self.s[self.i]
        self.i += 1
        if found := BUILT_IN_D.get(c):
            return found
        match c:
            case "p":
                return self._expansion()
            case "t" | "T":
                self.i -= 2
                return self.decltype()
            case "v":
                return self._vector()
            case "F":
                bits = self.digits()
                mark = self.s[self.i]
                self.i += 1
                if mark == "b" and bits == "16":
                    return "std::bfloat16_t"
                if mark not in "_x" or not bits or len(bits) > 4:  # bits of a float
                    raise NotMangled
                return f"_Float{bits}" + ("x" if mark == "x" else "")
            case "B" | "U":
                size = self.digits() or text(self.expression())
                self.expect("_")
                return f"{'' if c == 'B' else 'unsigned '}_BitInt({size})"
            case "k" | "K":
                return f"{text(self.name())} {'auto' if c == 'k' else 'decltype(auto)'}"
            case "o":
                specification = " noexcept"
            case "O":
                specification = f" noexcept({text(self.expression())})"
                self.expect("E")
            case "w":
                specification = f" throw({text(self.parameters())})"
                self.expect("E")
            case "x":
                specification = " transaction_safe"
            case _:
                raise NotMangled
        self.take("Dx")
        self.expect("F")
        return self._function_type(specification + qualifiers)

    def _vector(self) -> Value:
        size = self.digits() if "0" <= self.s[self.i] <= "9" else "" if self.take("_") else text(self.expression())
        self.expect("_")
        return spread(lambda each: _qualified(each, f" __vector({size})"), self.type())

    def substitution(self) -> Value:
        self.i += 1
        c = self.s[self.i]
        if c == "_" or "0" <= c <= "9" or "A" <= c <= "Z":
            index = self.sequence_number()
            if index >= len(self.substitutions):
                raise NotMangled
            if self.regions:
                return self._bound(index)
            return self.substitutions[index]
        self.i += 1
        if c not in STD:
            raise NotMangled
        if c == "t":
            return "std"
        found = SHORT_STD[c] if self.short_std and self.s[self.i] not in "CD" else STD[c]
        self.last_parts[found] = STD_LAST_PARTS[c]
        return found

    def _bound(self, index: int) -> Value:
        """A substitution, with the template arguments that are in force here."""
        for place in range(len(self.regions) - 1, -1, -1):
            region = self.regions[place]
            if not region.first <= index < region.end:
                continue
            if not region.is_dependent:
                break
            if self.region:
                self.region.is_dependent = True
            if region.lambda_parameters is self.lambda_parameters and (
                self.lambda_parameters is not None or region.arguments is self.arguments
            ):
                break
            return self._reread(place, index)
        return self.substitutions[index]

    def _reread(self, place: int, index: int) -> Value:
        """A substitution of an earlier region, with the template arguments that are in force here."""
        region = self.regions[place]
        kept = self.substitutions, self.regions, self.region, self.may_lack_arguments, self.in_conversion
        here = self.i
        self.enter()
        self.i, self.regions, self.region = region.position, self.regions[:place], None
        self.may_lack_arguments, self.in_conversion = True, False
        self.substitutions = self.substitutions[: region.first]
        while len(self.substitutions) <= index:
            self.type()
        value = self.substitutions[index]
        self.depth -= 1
        self.i = here
        self.substitutions, self.regions, self.region, self.may_lack_arguments, self.in_conversion = kept
        return value


#: Types of D and these letters are no candidates for substitution.
_BUILT_IN_AFTER_D = frozenset([*BUILT_IN_D, "F", "B", "U"])


_TYPES = {
    "P": Types._pointer,
    "R": Types._reference,
    "O": Types._rvalue_reference,
    "r": Types._qualified_type,
    "V": Types._qualified_type,
    "K": Types._qualified_type,
    "C": Types._complex,
    "G": Types._imaginary,
    "F": Types._plain_function,
    "A": Types._array_type,
    "M": Types._member_pointer_type,
    "T": Types._elaborated_or_parameter,
    "U": Types._vendor_qualified,
    "u": Types.templated_name,
    "D": Types._behind_d,
}
