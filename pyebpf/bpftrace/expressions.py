"""Expressions, by precedence: a table has the power with which each operator binds what stands beside it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.cursor import MAX_LEVELS, is_name, shown
from pyebpf.bpftrace.literals import LiteralError, integer, string
from pyebpf.bpftrace.types import KEYWORDS, Types, is_builtin

if TYPE_CHECKING:
    from collections.abc import Callable

_POWERS = {
    "||": 1,
    "&&": 2,
    "|": 3,
    "^": 4,
    "&": 5,
    **dict.fromkeys(("==", "!="), 6),
    **dict.fromkeys(("<", ">", "<=", ">="), 7),
    **dict.fromkeys(("<<", ">>"), 8),
    **dict.fromkeys(("+", "-"), 9),
    **dict.fromkeys(("*", "/", "%"), 10),
}
_PREFIXES = frozenset(("-", "!", "~", "*", "++", "--", "&"))
_POSTFIXES = frozenset((".", "->", "[", "++", "--"))
#: Words that begin statements, or stand in them.
STATEMENT_WORDS = frozenset(
    ("break", "continue", "else", "for", "import", "let", "return", "unroll", "while"),
)
_MAX_POSITIONAL = (1 << 63) - 1
#: What is said of an `if` with too many branches, each of which is a level below the one before.
_TOO_MANY_BRANCHES = (
    f"more than {MAX_LEVELS} `else if` follow an `if`: split it into several, or look the value up in a map, "
    "which BEGIN fills"
)


class Expressions(Types):
    """The part of the parser that reads expressions."""

    @abstractmethod
    def block(self) -> ast.Block:
        """Read a block."""

    def expression(self) -> ast.Expression:
        """Read an expression, with `?` and `:` if it has them."""
        self.enter()
        start = self.starts[self.index]
        value = self._binary(0)
        if self.tokens[self.index] == "?":
            value = self._conditional(start, value)
        self.depth -= 1
        return value

    def _conditional(self, start: int, test: ast.Expression) -> ast.Conditional:
        self.index += 1
        height = self.height
        then = None
        if self.tokens[self.index] != ":":
            then = self.expression()
            height = max(height, self.height)
        self.expect(":", "between the two values after `?`")
        otherwise = self.expression()
        self.rise(height)
        return ast.Conditional(start, self.ends[self.index - 1], test, then, otherwise)

    def _binary(self, floor: int) -> ast.Expression:
        """Read values and the operators between them that bind more than `floor`."""
        tokens, start = self.tokens, self.starts[self.index]
        left = self.unary()
        while True:
            operator = tokens[self.index]
            power = _POWERS.get(operator, 0)
            if power <= floor or (operator == "/" and tokens[self.index + 1] == "{"):  # the end of a predicate
                return left
            self.index += 1
            height = self.height
            right = self._binary(power)
            self.rise(height)
            left = ast.Binary(start, self.ends[self.index - 1], operator, left, right)

    def unary(self) -> ast.Expression:
        """Read a value with the operators before and behind it that take just one."""
        word = self.tokens[self.index]
        read = _PRIMARY.get(word[:1])
        if read is None:
            return self._prefixed()
        self.height = 0
        start = self.starts[self.index]
        value = read(self)
        if self.tokens[self.index] in _POSTFIXES:
            value = self._postfixed(start, value)
        return value

    def _prefixed(self) -> ast.Expression:
        first = self.index
        while self.tokens[self.index] in _PREFIXES:
            self.index += 1
        operators = range(self.index - 1, first - 1, -1)
        if self.tokens[self.index][:1] not in _PRIMARY:
            self.unexpected("a value", f"after `{self.tokens[self.index - 1]}`" if operators else "here")
        value = self.unary()
        for index in operators:
            value = self._apply(index, value)
        return value

    def _apply(self, index: int, value: ast.Expression) -> ast.Expression:
        """A prefix operator and its value."""
        operator, start, end = self.tokens[index], self.starts[index], self.ends[self.index - 1]
        self.rise(self.height)
        if operator in ("++", "--"):
            return ast.Increment(start, end, operator, self._variable_or_map(index, value), prefix=True)
        if operator == "&":
            if not isinstance(value, ast.Variable | ast.Map):
                self.fail("`&` takes the address of a variable or of a map as a whole, of nothing else", index)
            return ast.AddressOf(start, end, value)
        return ast.Unary(start, end, operator, value)

    def _variable_or_map(self, index: int, value: ast.Expression) -> ast.Variable | ast.Map | ast.MapAccess:
        if not isinstance(value, ast.Variable | ast.Map | ast.MapAccess):
            operator = self.tokens[index]
            self.fail(f"`{operator}` changes a variable or a map, nothing else: write `{operator[0]} 1`", index)
        return value

    def _postfixed(self, start: int, value: ast.Expression) -> ast.Expression:
        """Read the fields, indices and increments behind a value."""
        tokens = self.tokens
        while (operator := tokens[self.index]) in _POSTFIXES:
            index = self.index
            self.index += 1
            height = self.height
            if operator == "[":
                inner = self.expression()
                self.expect("]", "after an index")
                self.rise(height)
                value = ast.Index(start, self.ends[self.index - 1], value, inner)
                continue
            self.rise(height)
            if operator in ("++", "--"):
                target = self._variable_or_map(index, value)
                value = ast.Increment(start, self.ends[index], operator, target, prefix=False)
            elif operator == "." and tokens[self.index][:1].isdecimal():
                if isinstance(value, ast.Integer):
                    self.fail("there are no floating-point numbers")
                value = ast.TupleAccess(start, self.ends[self.index], value, self._number())
            else:
                name = self.expect_name("the name of a field", f"after `{operator}`")
                value = ast.FieldAccess(start, self.ends[self.index - 1], value, name, operator == "->")
        return value

    # Values, by the first character of their first token

    def _variable(self) -> ast.Expression:
        word, start, end = self.tokens[self.index], self.starts[self.index], self.ends[self.index]
        self.index += 1
        name = word[1:]
        if name == "#":
            return ast.PositionalParameterCount(start, end)
        if not name:
            self.fail(
                "a name is expected after `$`: $x is a variable, $1 a parameter, $# the number of them", self.index - 1
            )
        if not name.isdecimal():
            return ast.Variable(start, end, name)
        number = int(name) if len(name) < 20 else 0
        if not 1 <= number <= _MAX_POSITIONAL:
            self.fail("there is no such parameter: the first one is $1", self.index - 1)
        return ast.PositionalParameter(start, end, number)

    def _map(self) -> ast.Map | ast.MapAccess:
        found = self.map()
        if not self.accept("["):
            return found
        first = self.starts[self.index]
        keys, _ = self._list("]", "after a map's key")
        end = self.ends[self.index - 1]
        if len(keys) == 1:
            key = keys[0]
        else:
            self.rise(self.height)
            key = ast.Tuple(first, self.ends[self.index - 2], tuple(keys))
        self.rise(self.height)
        return ast.MapAccess(found.start, end, found, key)

    def map(self) -> ast.Map:
        """Read a map, without a key."""
        word = self.tokens[self.index]
        if word[:1] != "@":
            self.unexpected("a map, `@name`,", "here")
        self.index += 1
        return ast.Map(self.starts[self.index - 1], self.ends[self.index - 1], word[1:])

    def _integer(self) -> ast.Integer:
        start, end = self.starts[self.index], self.ends[self.index]
        return ast.Integer(start, end, self._number())

    def _number(self) -> int:
        index = self.index
        self.index += 1
        try:
            return integer(self.tokens[index])
        except LiteralError as error:
            self.fail(error.message, index)

    def string(self) -> ast.String:
        """Read a string."""
        index = self.index
        word, start = self.tokens[index], self.starts[index]
        if len(word) < 2 or word[0] != '"':
            self.unexpected("a string", "here")
        self.index += 1
        try:
            value = string(word)
        except LiteralError as error:
            end = self.ends[index] if error.end is None else start + error.end
            raise self.source.error_at(error.message, start + error.start, end) from None
        return ast.String(start, self.ends[index], value)

    def _list(self, closer: str, where: str) -> tuple[list[ast.Expression], bool]:
        """Read values with commas between them, up to and with `closer`; say whether a comma stands before that.

        `height` is then that of the highest.
        """
        found = [self.expression()]
        height = self.height
        while self.accept(","):
            if closer == ")" and self.tokens[self.index] == ")":
                self.index += 1
                self.height = height
                return found, True
            found.append(self.expression())
            height = max(height, self.height)
        self.expect(closer, where)
        self.height = height
        return found, False

    def _parenthesis(self) -> ast.Expression:
        """Read a tuple, a record, a cast, or an expression in parentheses."""
        start = self.starts[self.index]
        self.index += 1
        tokens, index = self.tokens, self.index
        if self.accept(")"):
            return ast.Tuple(start, self.ends[index], ())
        word = tokens[index]
        if is_name(word):
            if tokens[index + 1] == "=" and not is_builtin(word):
                return self._record(start)
            if word == "typeof" or self.cast_ahead():
                return self._cast(start)
        elements, is_tuple = self._list(")", "after an expression in parentheses")
        if len(elements) == 1 and not is_tuple:
            return elements[0]
        self.rise(self.height)
        return ast.Tuple(start, self.ends[self.index - 1], tuple(elements))

    def _cast(self, start: int) -> ast.Expression:
        to = self.annotation()
        self.expect(")", "after the type of a cast")
        height = self.height
        self.enter()
        value = self.unary()
        self.depth -= 1
        self.rise(height)
        return ast.Cast(start, self.ends[self.index - 1], to, value)

    def _record(self, start: int) -> ast.Record:
        fields: list[ast.NamedValue] = []
        names: set[str] = set()
        height = 0
        while True:
            index = self.index
            name = self.expect_name("the name of a field", "in a record")
            if name in names:
                self.fail(f"this record has a field `{name}` already", index)
            names.add(name)
            self.expect("=", "after the name of a field")
            value = self.expression()
            height = max(height, self.height)
            fields.append(ast.NamedValue(self.starts[index], self.ends[self.index - 1], name, value))
            if not self.accept(","):
                break
        self.expect(")", "after the fields of a record")
        self.rise(height)
        return ast.Record(start, self.ends[self.index - 1], tuple(fields))

    def _word(self) -> ast.Expression:
        """Read a name, or what a word begins: a call, `sizeof`, `if`."""
        index = self.index
        name = self.tokens[index]
        special = _WORDS.get(name)
        if special is not None:
            return special(self)
        if name in STATEMENT_WORDS:
            self.fail(f"{shown(name)} is no value: it belongs into a statement of its own")
        self.index += 1
        if name in KEYWORDS:
            self.unexpected("a name", f"after `{name}`")
        if self.tokens[self.index] != "(":
            return ast.Identifier(self.starts[index], self.ends[index], name)
        self.index += 1
        if self.accept(")"):
            return ast.Call(self.starts[index], self.ends[self.index - 1], name, ())
        arguments, _ = self._list(")", "after an argument")
        self.rise(self.height)
        return ast.Call(self.starts[index], self.ends[self.index - 1], name, tuple(arguments))

    def _boolean(self) -> ast.Boolean:
        index = self.index
        self.index += 1
        return ast.Boolean(self.starts[index], self.ends[index], self.tokens[index] == "true")

    def _asked(self) -> tuple[int, ast.Type | ast.Expression]:
        """Read the word and the operand of `sizeof` and the like, but not what closes it."""
        index = self.index
        self.index += 1
        self.expect("(", f"after `{self.tokens[index]}`")
        return self.starts[index], self.operand()

    def _size_of(self) -> ast.SizeOf:
        start, operand = self._asked()
        self.expect(")", "after the operand of `sizeof`")
        self.rise(self.height)
        return ast.SizeOf(start, self.ends[self.index - 1], operand)

    def _offset_of(self) -> ast.OffsetOf:
        start, operand = self._asked()
        self.expect(",", "after the type, before the name of a field")
        path = [self.expect_name("the name of a field", "here")]
        while self.accept("."):
            path.append(self.expect_name("the name of a field", "after `.`"))
        self.expect(")", "after the field of `offsetof`")
        self.rise(self.height)
        return ast.OffsetOf(start, self.ends[self.index - 1], operand, tuple(path))

    def _type_info(self) -> ast.TypeInfo:
        start, operand = self._asked()
        self.expect(")", "after the operand of `typeinfo`")
        self.rise(self.height)
        return ast.TypeInfo(start, self.ends[self.index - 1], operand)

    def _comptime(self) -> ast.Comptime:
        start = self.starts[self.index]
        self.index += 1
        self.enter()
        value = self.unary()
        self.depth -= 1
        self.rise(self.height)
        return ast.Comptime(start, self.ends[self.index - 1], value)

    def if_(self) -> ast.If:
        """Read `if` and all its `else if`, in a loop: there may be many."""
        branches: list[tuple[int, ast.Expression, ast.Block, int]] = []
        otherwise: ast.Block | None = None
        height = 0
        while True:
            start = self.starts[self.index]
            self.index += 1
            test = self.condition("if")
            height = max(height, self.height)
            branches.append((start, test, self.block(), self.height))
            if not self.accept("else"):
                break
            if self.tokens[self.index] != "if":
                otherwise = self.block()
                height = max(height, self.height)
                break
        end = self.ends[self.index - 1]
        self.height = height
        start, test, then, height = branches.pop()
        self.rise(height)
        found = ast.If(start, end, test, then, otherwise)
        for start, test, then, height in reversed(branches):
            self.rise(height, _TOO_MANY_BRANCHES)
            found = ast.If(start, end, test, then, found)
        return found

    def condition(self, word: str) -> ast.Expression:
        """Read what stands between a word and its block: an expression in parentheses, or a value without them."""
        if not self.accept("("):
            value = None if self.tokens[self.index] == ":" else self.unary()
            if value is None or self.tokens[self.index] == ":":
                self.fail(f"a block in braces follows the condition of `{word}`, and no colon: `{word} (…) {{ … }}`")
            if self.tokens[self.index] != "{":
                self.fail(f"a condition stands in parentheses: `{word} (…) {{ … }}`")
            return value
        value = self.expression()
        self.expect(")", f"after the condition of `{word}`")
        return value


_PRIMARY: dict[str, Callable[[Expressions], ast.Expression]] = {
    "$": Expressions._variable,
    "@": Expressions._map,
    '"': Expressions.string,
    "(": Expressions._parenthesis,
    "{": lambda parser: parser.block(),
    **dict.fromkeys("0123456789", Expressions._integer),
    **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_", Expressions._word),
}
_WORDS: dict[str, Callable[[Expressions], ast.Expression]] = {
    "true": Expressions._boolean,
    "false": Expressions._boolean,
    "sizeof": Expressions._size_of,
    "offsetof": Expressions._offset_of,
    "typeinfo": Expressions._type_info,
    "typeof": Expressions.type_of,
    "comptime": Expressions._comptime,
    "if": Expressions.if_,
}
