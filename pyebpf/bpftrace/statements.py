"""Statements and blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.cursor import is_name
from pyebpf.bpftrace.expressions import Expressions

if TYPE_CHECKING:
    from collections.abc import Callable

_ASSIGNMENTS = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="))
#: Statements of other languages, with what is written instead.
_ELSEWHERE = {
    "foreach": "a loop is `for ($entry : @map)`, or over numbers `for ($i : 0..3)`",
    "do": "write `while (…) { … }`, with the block behind its condition",
    "switch": "write `if (…) { … } else if (…) { … }`",
}


class Statements(Expressions):
    """The part of the parser that reads blocks."""

    def block(self) -> ast.Block:
        """Read a block. A last expression without a semicolon is its value."""
        first = self.index
        self.expect("{", "where a block begins")
        self.enter("put the inner blocks into a function, `fn`")
        tokens = self.tokens
        statements: list[ast.Statement] = []
        value: ast.Expression | None = None
        height = 0
        while (word := tokens[self.index]) != "}":
            if word == ";":
                self.index += 1
                continue
            self.height = 0
            read = _STATEMENTS.get(word)
            if read is not None:
                found = read(self)
            elif word == "_" and tokens[self.index + 1] == "=":
                found = self._discard()
            elif word in _ELSEWHERE and tokens[self.index + 1] in ("(", "{") and not self._names(word):
                self.fail(f"there is no `{word}`: {_ELSEWHERE[word]}")
            else:
                found = self._expression_or_assignment()
            height = max(height, self.height)
            if isinstance(found, ast.Statement):
                statements.append(found)
            elif tokens[self.index] == "}":
                value = found
            else:
                statements.append(ast.ExpressionStatement(found.start, found.end, found))
        self.index += 1
        self.depth -= 1
        self.height = 0
        self.rise(height)
        return ast.Block(self.starts[first], self.ends[self.index - 1], tuple(statements), value)

    def _names(self, word: str) -> bool:
        """Whether the script may have a macro or a function of a name."""
        return f"macro {word}" in self.source.text or f"fn {word}" in self.source.text

    def body(self) -> ast.Block:
        """Read a block whose value nobody takes."""
        block = self.block()
        return block if block.value is None else ast.Block(block.start, block.end, block.all_statements)

    def _end_statement(self) -> None:
        """Step over a semicolon; before the end of a block there need be none."""
        word = self.tokens[self.index]
        if word == ";":
            self.index += 1
        elif word != "}":
            self.unexpected("`;`", "after a statement")

    def _expression_or_assignment(self) -> ast.Statement | ast.Expression:
        """Read an assignment, or an expression with its semicolon; without one it is the block's value."""
        tokens, start = self.tokens, self.starts[self.index]
        target = self.expression()
        end = self.ends[self.index - 1]
        operator = tokens[self.index]
        if operator in _ASSIGNMENTS:
            if not isinstance(target, ast.Variable | ast.Map | ast.MapAccess):
                raise self.source.error_at(_why_not_assigned(target), start, end)
            self.index += 1
            height = self.height
            value = self.expression()
            self.rise(height)
            end = self.ends[self.index - 1]
            self._end_statement()
            return ast.Assignment(start, end, operator, target, value)
        if operator == ";":
            self.index += 1
            return ast.ExpressionStatement(start, end, target)
        if operator != "}":
            self._check_other_languages(target)
            self.unexpected("`;`", "after a statement")
        return target

    def _check_other_languages(self, target: ast.Expression) -> None:
        """Complain about statements of C's and Python's that begin as an expression: `int x = 3`, `elif`."""
        word, index = self.tokens[self.index], self.index - 1
        if isinstance(target, ast.Call | ast.Identifier) and target.name == "elif":
            raise self.source.error("`elif` is written `else if (…) { … }`", target)
        if isinstance(target, ast.Identifier) and (is_name(word) or word[:1] == "$") and target.name in _DECLARED:
            name = word.removeprefix("$")
            self.fail(f"a variable is declared by its name alone: write `${name} = …`, or `let ${name}`", index)

    def _discard(self) -> ast.Discard:
        start = self.starts[self.index]
        self.index += 2
        value = self.expression()
        self.rise(self.height)
        end = self.ends[self.index - 1]
        self._end_statement()
        return ast.Discard(start, end, value)

    def _let(self) -> ast.Let:
        start = self.starts[self.index]
        self.index += 1
        word = self.tokens[self.index]
        if word[:1] == "@":
            self.fail("a map is declared outside the probes: move this line before them, or leave `let` out")
        variable = self.variable("after `let`")
        of_type = value = None
        if self.accept(":"):
            of_type = self.annotation()
        height = self.height
        if self.accept("="):
            value = self.expression()
        self.rise(height)
        end = self.ends[self.index - 1]
        self._end_statement()
        return ast.Let(start, end, variable, of_type, value)

    def variable(self, where: str) -> ast.Variable:
        """Read the name of a variable."""
        if self.tokens[self.index][:1] == "$":
            found = self.unary()
            if isinstance(found, ast.Variable):
                return found
            self.index -= 1
        self.unexpected("a variable, `$name`,", where)

    def _for(self) -> ast.For:
        start = self.starts[self.index]
        self.index += 1
        enclosed = self.accept("(")
        variable = self.variable("after `for`, as in `for ($i : 0..5)`")
        if self.tokens[self.index] in ("=", "in"):
            map_ = self.tokens[self.index + 1]
            if map_[:1] == "@" and self.tokens[self.index] == "in":
                self.fail(f"`for` has a colon: write `for (${variable.name} : {map_})`, not `in`")
            self.fail(
                f"there is no `for` of this kind: write `for (${variable.name} : 0..3)`, which goes over 0, 1 and 2"
            )
        self.expect(":", "after the variable of `for`")
        begin = self.starts[self.index]
        first = self.unary()
        height = self.height
        over: ast.Map | ast.Range
        if self.accept(".."):
            stop = self.unary()
            self.rise(height)
            over = ast.Range(begin, self.ends[self.index - 1], first, stop)
        elif isinstance(first, ast.Map):
            over = first
        else:
            raise self.source.error_at(
                "`for` goes over a map, `for ($entry : @map)`, or over numbers, `for ($i : 0..5)`",
                first.start,
                first.end,
            )
        height = self.height
        if enclosed:
            self.expect(")", "after what `for` goes over")
        body = self.body()
        self.rise(height)
        return ast.For(start, body.end, variable, over, body)

    def _while(self) -> ast.While:
        start = self.starts[self.index]
        self.index += 1
        test = self.condition("while")
        height = self.height
        body = self.body()
        self.rise(height)
        return ast.While(start, body.end, test, body)

    def _unroll(self) -> ast.Unroll:
        start = self.starts[self.index]
        self.index += 1
        count = self.condition("unroll")
        height = self.height
        body = self.body()
        self.rise(height)
        return ast.Unroll(start, body.end, count, body)

    def _break(self) -> ast.Break:
        index = self.index
        self.index += 1
        self._end_statement()
        return ast.Break(self.starts[index], self.ends[index])

    def _continue(self) -> ast.Continue:
        index = self.index
        self.index += 1
        self._end_statement()
        return ast.Continue(self.starts[index], self.ends[index])

    def _return(self) -> ast.Return:
        start = self.starts[self.index]
        self.index += 1
        value = None if self.tokens[self.index] in (";", "}") else self.expression()
        self.rise(self.height)
        end = self.ends[self.index - 1]
        self._end_statement()
        return ast.Return(start, end, value)

    def import_(self) -> ast.Import:
        """Read an import."""
        start = self.starts[self.index]
        self.index += 1
        path = self.string()
        self.expect(";", "after an import")
        return ast.Import(start, path.end, path.value.decode(errors="surrogateescape"))

    def _else(self) -> ast.Statement:
        self.fail("this `else` has no `if`: it stands right behind the block of one")


#: Words that begin declarations in C and in JavaScript.
_DECLARED = frozenset(("int", "long", "short", "char", "unsigned", "var", "const", "string", "bool", "auto", "float"))
_DECLARED |= {f"{sign}int{bits}{end}" for sign in ("", "u") for bits in (8, 16, 32, 64) for end in ("", "_t")}


def _why_not_assigned(target: ast.Expression) -> str:
    if isinstance(target, ast.FieldAccess | ast.TupleAccess | ast.Index):
        return "only a variable or a map can be assigned, not a part of what it holds: assign a new value as a whole"
    if isinstance(target, ast.PositionalParameter | ast.PositionalParameterCount):
        return "an argument of the command line can't be assigned: use a variable, `$name`"
    if isinstance(target, ast.Identifier):
        return f"only a variable or a map can be assigned: write `${target.name}` or `@{target.name}`"
    return "only a variable or a map can be assigned"


_STATEMENTS: dict[str, Callable[[Statements], ast.Statement | ast.Expression]] = {
    "if": Statements.if_,
    "{": Statements.block,
    "let": Statements._let,
    "for": Statements._for,
    "while": Statements._while,
    "unroll": Statements._unroll,
    "break": Statements._break,
    "continue": Statements._continue,
    "return": Statements._return,
    "import": Statements.import_,
    "else": Statements._else,
}
