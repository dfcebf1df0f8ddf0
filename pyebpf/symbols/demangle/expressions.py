"""Expressions, as template arguments and in decltype, in the form that c++filt gives them."""

from __future__ import annotations

from pyebpf.symbols.demangle.operators import OPERATORS
from pyebpf.symbols.demangle.reader import ArgumentPack, NotMangled, Pack, Reader, Value, listed, spread, text

#: What stands behind a literal of these types; literals of others have their type before them.
LITERAL_SUFFIXES = {
    "int": "",
    "unsigned int": "u",
    "long": "l",
    "unsigned long": "ul",
    "long long": "ll",
    "unsigned long long": "ull",
}

_UNARY = frozenset({"ad", "aw", "co", "da", "de", "dl", "mm", "ng", "nt", "pp", "ps"})
_BINARY = frozenset(OPERATORS) - _UNARY - {"cl", "ix", "na", "nw", "pt", "qu"}
_CASTS = {"cc": "const_cast", "dc": "dynamic_cast", "rc": "reinterpret_cast", "sc": "static_cast"}
_OF_TYPE = {"at": "alignof ", "st": "sizeof ", "ti": "typeid "}
_OF_EXPRESSION = {"az": "alignof ", "sz": "sizeof ", "nx": "noexcept ", "te": "typeid ", "tw": "throw "}


def _glued(*parts: Value) -> Value:
    return spread(lambda *each: "".join(map(text, each)), *parts)


class Expressions(Reader):
    """The part of the grammar about expressions."""

    def expression(self) -> Value:
        self.enter()
        self.is_primary = False
        s, i = self.s, self.i
        code = s[i : i + 2]
        c = code[0]
        if c == "L":
            value = self.literal()
        elif c == "T":
            value = self.template_parameter()
            self.is_primary = False
        elif c == "f":
            value = self._fold() if code[1] in "lrLR" and not "0" <= s[i + 2] <= "9" else self._parameter()
        elif "0" <= c <= "9" or code in {"on", "dn"}:
            value = self._simple_name()
        elif c == "u":
            value = self._vendor()
        else:
            self.i += 2
            value = self._operation(code)
        self.depth -= 1
        self.spend_for(value)
        return value

    def _operand(self) -> Value:
        value = self.expression()
        return value if self.is_primary else _glued("(", value, ")")

    def _operation(self, code: str) -> Value:
        """An operation whose code, of two letters, was read."""
        if code in _BINARY:
            value = _glued(self._operand(), OPERATORS[code], self._operand())
            if code == "gt":
                value = _glued("(", value, ")")
        elif code in _UNARY:
            value = self._unary(code)
        elif code in _CASTS:
            value = _glued(_CASTS[code], "<", self.type(), ">(", self.expression(), ")")
        elif code in _OF_TYPE:
            value = _glued(_OF_TYPE[code], "(", self.type(), ")")
        elif code in _OF_EXPRESSION:
            value = _glued(_OF_EXPRESSION[code], self._operand())
        else:
            parse = _OPERATIONS.get(code)
            if parse is None:
                raise NotMangled
            value = parse(self)
            self.is_primary = code in {"il", "tl"} or (code in {"gs", "sr"} and self.is_primary)
            return value
        self.is_primary = False
        return value

    def _unary(self, code: str) -> Value:
        if code in {"pp", "mm"} and not self.take("_"):
            return _glued(self._operand(), OPERATORS[code])
        if code == "ad" and self.take("L_Z"):
            shown = self.function_in_expression()
            name, is_function, is_plain = self.encoded
            if is_plain and "::" in name:
                return f"&{name}"
            return f"&({shown})" if is_function or not is_plain else f"&{shown}"
        space = " " if OPERATORS[code][-1] in "et]w" else ""
        return _glued(OPERATORS[code], space, self._operand())

    def _arguments(self) -> Value:
        """Expressions up to an E, between commas."""
        values = []
        while not self.take("E"):
            values.append(self.expression())
        return spread(lambda *each: listed(list(each)), *values)

    def _call(self) -> Value:
        function: Value
        if self.take("L_Z"):
            self.function_in_expression()
            name, _, is_plain = self.encoded
            function = name if is_plain else f"({name})"
        else:
            function = self._operand()
        return _glued(function, "(", self._arguments(), ")")

    def _conversion(self) -> Value:
        to = self.type()
        if self.take("_"):
            return _glued("(", to, ")(", self._arguments(), ")")
        return _glued("(", to, ")", self._operand())

    def _index(self) -> Value:
        of = self._operand()
        return _glued(of, "[", self.expression(), "]")

    def _member(self) -> Value:
        return _glued(self._operand(), ".", self._member_name())

    def _pointed_member(self) -> Value:
        return _glued(self._operand(), "->", self._member_name())

    def _member_name(self) -> Value:
        if "0" <= self.s[self.i] <= "9" or self.s.startswith(("on", "dn", "sr", "gs"), self.i):
            return self._operand()
        return self.name()

    def _global(self) -> Value:
        value = self.expression()
        return _glued("::", value)

    def _conditional(self) -> Value:
        return _glued(self._operand(), "?", self._operand(), " : ", self._operand())

    def _new(self) -> Value:
        return self._allocation("new ")

    def _new_array(self) -> Value:
        return self._allocation("new[] ")

    def _allocation(self, operator: str) -> Value:
        placement = []
        while not self.take("_"):
            placement.append(self.expression())
        if placement:
            operator += f"({listed(placement)}) "
        of = self.type()
        if self.take("pi"):
            return _glued(operator, of, "(", self._arguments(), ")")
        if self.take("il"):
            return _glued(operator, of, "{", self._arguments(), "}")
        self.expect("E")
        return _glued(operator, of)

    def _initializer_list(self) -> Value:
        return _glued("{", self._arguments(), "}")

    def _typed_initializer_list(self) -> Value:
        return _glued(self.type(), "{", self._arguments(), "}")

    def _designated(self) -> Value:
        return _glued(".", self.source_name(), "=", self.expression())

    def _designated_element(self) -> Value:
        return _glued("[", self.expression(), "]=", self.expression())

    def _designated_range(self) -> Value:
        return _glued("[", self.expression(), " ... ", self.expression(), "]=", self.expression())

    def _expansion(self) -> Value:
        value = self.expression()
        if isinstance(value, Pack):
            return listed(value)
        return f"{text(value)}..." if self.is_primary else f"({text(value)})..."

    def _length(self) -> Value:
        """The length of a pack."""
        if self.s[self.i] == "T":
            value = self.template_parameter()
            return str(len(value)) if isinstance(value, Pack) else f"sizeof...({text(value)})"
        return f"sizeof...({text(self._parameter())})"

    def _captured_length(self) -> Value:
        """The length of a pack that is known in part."""
        length = 0
        while not self.take("E"):
            value = self._template_argument(self.s[self.i])
            length += len(value) if isinstance(value, Pack | ArgumentPack) else 1
        return str(length)

    def _vendor(self) -> Value:
        """A compiler's own function, with its arguments."""
        self.i += 1
        name = self.source_name()
        arguments = []
        while not self.take("E"):
            arguments.append(self._template_argument(self.s[self.i]))
        return _glued(name, "(", spread(lambda *each: listed(list(each)), *arguments), ")")

    def _throw(self) -> Value:
        return "throw"

    def _subobject(self) -> Value:
        """A part of an object that a pointer or reference has as its value; its type and place are not shown."""
        self.type()
        value = self.expression()
        self.take("n")
        self.digits()
        while self.take("_"):
            self.digits()
        self.take("p")
        self.expect("E")
        return value

    def _requirements_with_parameters(self) -> Value:
        while not self.take("_"):
            self.type()
        return self._requirements()

    def _requirements(self) -> Value:
        """A requires-expression; its requirements are read, and only its word is shown."""
        while not self.take("E"):
            c = self.s[self.i]
            self.i += 1
            if c == "X":
                self.expression()
                self.take("N")
                if self.take("R"):
                    self.name()
            elif c == "T":
                self.type()
            elif c == "Q":
                self.expression()
            else:
                raise NotMangled
        return "requires{...}"

    def _scoped_name(self) -> Value:
        """A name in a scope that depends on template arguments."""
        if "0" <= self.s[self.i] <= "9":
            return self._name_behind_levels()
        value = _glued(self.type(), "::", self._simple_name())
        self.is_primary = True
        return value

    def _name_behind_levels(self) -> Value:
        """`1A1BE1c` is A::B::c. So is `1A1c` A::c, as GCC once had it, with a type as the scope."""
        scope = self.templated_name()
        while not self.take("E"):
            place = len(self.substitutions)
            level = self.templated_name()
            if not "0" <= self.s[self.i] <= "9" and not (
                self.s[self.i] == "E" and ("0" <= self.s[self.i + 1] <= "9" or self.s[self.i + 1] in "od")
            ):
                self.substitutions.insert(place, scope)
                self.is_primary = True
                return _glued(scope, "::", level)
            scope = _glued(scope, "::", level)
        value = _glued(scope, "::", self._simple_name())
        self.is_primary = self.s[self.i - 1] != "E"
        return value

    def _simple_name(self) -> Value:
        """A name without a scope, or an operator or destructor."""
        name: Value
        self.is_primary = True
        if self.take("on"):
            name = self.operator_name()
            self.is_primary = False
        elif self.take("dn"):
            name = _glued("~", self.source_name() if "0" <= self.s[self.i] <= "9" else self.type())
        elif "0" <= self.s[self.i] <= "9":
            name = self.source_name()
        else:
            name = self.operator_name()
        if self.s[self.i] == "I":
            name = self.with_arguments(name, self.template_arguments())
            self.is_primary = False
        return name

    def _parameter(self) -> Value:
        """A parameter of the function whose type is read."""
        self.is_primary = True
        self.expect("f")
        if self.take("L"):
            self.number()
        self.expect("p")
        if self.take("T"):
            return "this"
        while self.s[self.i] in "rVK":
            self.i += 1
        return f"{{parm#{self.ordinal() + 1}}}"

    def _fold(self) -> Value:
        kind = self.s[self.i + 1]
        operator = OPERATORS.get(self.s[self.i + 2 : self.i + 4])
        if operator is None:
            raise NotMangled
        self.i += 4
        first = text(self._operand())
        if kind == "l":
            value = f"(...{operator}{first})"
        elif kind == "r":
            value = f"({first}{operator}...)"
        else:
            value = f"({first}{operator}...{operator}{text(self._operand())})"
        self.is_primary = False
        return value

    def literal(self) -> Value:
        self.expect("L")
        if self.take("_Z"):
            shown = self.function_in_expression()
            self.is_primary = self.encoded[2] and not self.encoded[1]
            return shown
        of = self.type()
        sign = "-" if self.take("n") else ""
        end = self.s.find("E", self.i, self.i + 300)
        if end < 0:
            raise NotMangled
        number = self.s[self.i : end]
        self.i = end + 1
        self.is_primary = False
        if not number:
            return of
        if not number.isalnum() and not number.replace("_", "").isalnum():
            raise NotMangled
        return spread(lambda each: _literal(text(each), sign, number), of)


def _literal(of: str, sign: str, number: str) -> str:
    suffix = LITERAL_SUFFIXES.get(of)
    if suffix is not None:
        return f"{sign}{number}{suffix}"
    if of == "bool" and not sign and number in {"0", "1"}:
        return "true" if number == "1" else "false"
    if of in {"float", "double", "long double", "__float128"}:
        return f"({of}){sign}[{number}]"
    return f"({of}){sign}{number}"


_OPERATIONS = {
    "cl": Expressions._call,
    "cv": Expressions._conversion,
    "di": Expressions._designated,
    "dt": Expressions._member,
    "dx": Expressions._designated_element,
    "dX": Expressions._designated_range,
    "gs": Expressions._global,
    "il": Expressions._initializer_list,
    "ix": Expressions._index,
    "na": Expressions._new_array,
    "nw": Expressions._new,
    "pt": Expressions._pointed_member,
    "qu": Expressions._conditional,
    "rq": Expressions._requirements,
    "rQ": Expressions._requirements_with_parameters,
    "sP": Expressions._captured_length,
    "so": Expressions._subobject,
    "sp": Expressions._expansion,
    "sr": Expressions._scoped_name,
    "sZ": Expressions._length,
    "tl": Expressions._typed_initializer_list,
    "tr": Expressions._throw,
}
