"""Scripts in bpftrace's language to trees: the parts of a script, each read by the parser of its kind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.attach_points import attach_points
from pyebpf.bpftrace.conditionals import WORDS, Conditionals
from pyebpf.bpftrace.cursor import is_name, room
from pyebpf.bpftrace.defines import Defines, tokens_of
from pyebpf.bpftrace.definitions import Definitions, behind_attributes, directive
from pyebpf.bpftrace.lexer import Tokens, end_of_block, end_of_statement, skip_layout
from pyebpf.bpftrace.literals import LiteralError, integer
from pyebpf.bpftrace.source import Source
from pyebpf.bpftrace.types import KEYWORDS, is_builtin
from pyebpf.errors import CompileError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.bpftrace.includes import Files

_find_word = re.compile(r"\w*", re.ASCII).match


def parse(
    script: str | bytes, file: str = "<script>", parameters: Sequence[str] = (), files: Files | None = None
) -> ast.Program:
    """The tree of a script; `parameters` stand in for `$1` and so on in attach points.

    `files` has the texts of `#include "file"`, which are read in its place; without it these are kept as they are.
    CompileError, with its place, for what is not in the language.
    """
    source = Source(script, file)
    with room():
        return _Parser(source, parameters, files).program()


def parse_expression(text: str, file: str = "<expression>") -> ast.Expression:
    """The tree of an expression alone, such as the text of a `#define`."""
    source = Source(text, file)
    with room():
        parser = _Parser(source, (), None)
        end_of_statement(source, 0, "")  # no string and no comment is left open
        parser.load(0, len(source.text))
        value = parser.expression()
        if parser.tokens[parser.index]:
            parser.unexpected("the end", "after an expression")
        return value


def parse_define(source: Source, node: ast.Define) -> ast.Expression:
    """The tree of the value that a `#define` gives a name. CompileError for a text that is no expression."""
    with room():
        parser = _Parser(source, (), None)
        parser.tokens, parser.starts, parser.ends = tokens_of(source, node)
        try:
            value = parser.expression()
            if parser.tokens[parser.index]:
                parser.unexpected("the end", "after its value")
        except CompileError as error:
            advice = ""
            if parser.tokens[0] in KEYWORDS:
                advice = "; write the type where it is used"
            elif not {";", "=", "{"}.isdisjoint(parser.tokens):
                advice = f"; write macro {node.name}() {{ … }} for statements"
            message = f"#define {node.name} gives no value: {error.message}{advice}"
            raise CompileError(message, error.location) from None
        return value


class _Parser(Definitions):
    def __init__(self, source: Source, parameters: Sequence[str], files: Files | None) -> None:
        super().__init__(source)
        self._parameters = parameters
        self._files = files
        self._position = 0
        self._definitions: list[ast.Definition] = []
        self._defines = Defines(source)
        self._conditionals = Conditionals(source, self._defines, parse_expression)
        self._config: ast.Config | None = None
        self._imports: list[ast.Import] = []
        self._items: list[ast.Item] = []

    def program(self) -> ast.Program:
        """Read the whole script."""
        source, text = self.source, self.source.text
        shebang = ""
        if text.startswith("#!"):
            shebang = text.partition("\n")[0]
            self._position = len(shebang)
        while (position := skip_layout(source, self._position)) < len(text):
            self._position = position
            if text[position] == "#":
                self._no_items("a line of C's preprocessor")
                found, self._position = directive(source, position)
                if isinstance(found, ast.Include) and self._files is not None and self._files.include(source, found):
                    text, self._position = source.text, position
                else:
                    self._definitions.append(found)
                    self._defines.take(found)
                    if isinstance(found, ast.Directive) and found.word in WORDS:
                        self._position = self._conditionals.behind(found)
            elif text[position] == ";":
                self._position += 1
            else:
                word = _find_word(text, position)
                read = _PARTS.get(word[0] if word else "")
                if read is not None:
                    read(self)
                else:
                    self._items.append(self._probe())
        self._conditionals.finish()
        return ast.Program(
            0,
            len(text),
            source,
            shebang,
            tuple(self._definitions),
            self._config,
            tuple(self._imports),
            tuple(self._items),
        )

    def _no_items(self, what: str) -> None:
        """Complain about what should have come before the probes."""
        if self._items:
            word = _find_word(self.source.text, self._position)
            end = self._position if word is None else word.end()
            raise self.source.error_at(f"{what} stands before all probes, macros and functions", self._position, end)

    def _load_block(self) -> None:
        """Load the tokens from here to the end of the next block."""
        end = end_of_block(self.source, self._position)
        self.load(self._position, end)
        self._position = end

    def _load_statement(self, closer: str) -> None:
        """Load the tokens from here to the next of `closer`."""
        end = end_of_statement(self.source, self._position, closer)
        self.load(self._position, end)
        self._position = end

    def _finish(self, where: str) -> None:
        if self.tokens[self.index]:
            self.unexpected("the end", where)

    def _read_definition(self) -> None:
        self._no_items("a definition of C's")
        end = behind_attributes(self.source.text, end_of_block(self.source, self._position), self._defines)
        self.load(self._position, end)
        given = Tokens(self.tokens, self.starts, self.ends)
        self.tokens, self.starts, self.ends = self._defines.put_into(given)
        self._definitions.append(self.definition())
        self._position = end

    def _read_typedef(self) -> None:
        end = self._position + len("typedef")
        raise self.source.error_at(
            "`typedef` is not in the language: write `struct name { … }`, and `struct name` where it is used",
            self._position,
            end,
        )

    def _read_config(self) -> None:
        self._no_items("the config block")
        if self._config is not None:
            raise self.source.error_at(
                "there is a config block already: put this one's settings there", self._position, self._position + 6
            )
        self._load_block()
        self.index += 1
        self.expect("=", "after `config`")
        self.expect("{", "after `config =`")
        settings: list[ast.Setting] = []
        while not self.accept("}"):
            start = self.starts[self.index]
            name = self.expect_name("the name of a setting", "in a config block")
            self.expect("=", "after the name of a setting")
            value = self._setting()
            settings.append(ast.Setting(start, self.ends[self.index - 1], name, value))
            if not self.accept(";") and self.tokens[self.index] != "}":
                self.unexpected("`;`", "after a setting")
        self._config = ast.Config(self.starts[0], self.ends[self.index - 1], tuple(settings))
        self._finish("after the config block")

    def _setting(self) -> int | bool | str:
        """Read the value of a setting."""
        word = self.tokens[self.index]
        if is_name(word):
            self.index += 1
            return word == "true" if word in ("true", "false") else word
        value = self.unary()
        if isinstance(value, ast.Integer):
            return value.value
        if isinstance(value, ast.String):
            return value.value.decode(errors="surrogateescape")
        raise self.source.error("a setting is a number, a string, a name, true or false", value)

    def _read_import(self) -> None:
        self._no_items("an import")
        self._load_statement(";")
        self._imports.append(self.import_())

    def _read_map(self) -> None:
        """Read `let @name = kind(size);`, whose semicolon may be missing."""
        self._load_statement(")")
        self.index += 1
        if self.tokens[self.index][:1] == "$":
            self.fail("outside a probe `let` declares a map: `let @name = hash(100);`")
        declared = self.map()
        self.expect("=", "after the name of a map")
        kind = self.expect_name("a kind of map", "after `=`, as in `let @name = hash(100);`,")
        self.expect("(", "after the kind of a map")
        index = self.index
        word = self.tokens[index]
        if not word[:1].isdecimal():
            self.unexpected("a number of entries", "in the declaration of a map")
        self.index += 1
        try:
            size = integer(word)
        except LiteralError as error:
            self.fail(error.message, index)
        self.expect(")", "after the number of a map's entries")
        self._items.append(ast.MapDeclaration(self.starts[0], self.ends[self.index - 1], declared, kind, size))

    def _read_macro(self) -> None:
        self._load_block()
        self.index += 1
        name = self.expect_name("a name", "after `macro`")
        parameters: list[ast.Variable | ast.Map | ast.Identifier] = []
        if self.accept("(") and not self.accept(")"):
            parameters.append(self._macro_parameter())
            while self.accept(","):
                parameters.append(self._macro_parameter())
            self.expect(")", "after the parameters of a macro")
        body = self.block()
        self._items.append(ast.Macro(self.starts[0], body.end, name, tuple(parameters), body))
        self._finish("after a macro")

    def _macro_parameter(self) -> ast.Variable | ast.Map | ast.Identifier:
        index = self.index
        word = self.tokens[index]
        if word[:1] == "@":
            return self.map()
        if word[:1] == "$":
            return self.variable("in a macro's parameters")
        name = self.expect_name("a parameter ($variable, @map or name)", "in a macro")
        if is_builtin(name):
            self.fail(f"`{name}` is a value of the language's own: a parameter needs another name", index)
        return ast.Identifier(self.starts[index], self.ends[index], name)

    def _read_function(self) -> None:
        self._load_block()
        self.index += 1
        name = self.expect_name("a name", "after `fn`")
        self.expect("(", "after the name of a function")
        parameters: list[ast.Parameter] = []
        while not self.accept(")"):
            variable = self.variable("in a function's parameters")
            self.expect(":", "after a parameter, before its type")
            of_type = self.annotation()
            parameters.append(ast.Parameter(variable.start, of_type.end, variable, of_type))
            if not self.accept(","):
                self.expect(")", "after the parameters of a function")
                break
        self.expect(":", "after the parameters of a function, before its result's type")
        result = self.annotation()
        body = self.body()
        self._items.append(ast.Function(self.starts[0], body.end, name, tuple(parameters), result, body))
        self._finish("after a function")

    def _probe(self) -> ast.Probe:
        source, start = self.source, self._position
        points, position = attach_points(source, start, self._parameters)
        has_predicate = source.text[position] == "/"
        end = end_of_block(source, position, predicate=has_predicate)
        self.load(position, end)
        self._position = end
        predicate = None
        if self.accept("/"):
            predicate = self.expression()
            self.expect("/", "after a predicate")
        body = self.body()
        self._finish("after a probe")
        return ast.Probe(start, body.end, tuple(points), predicate, body)


_PARTS: dict[str, Callable[[_Parser], None]] = {
    "struct": _Parser._read_definition,
    "union": _Parser._read_definition,
    "enum": _Parser._read_definition,
    "typedef": _Parser._read_typedef,
    "config": _Parser._read_config,
    "import": _Parser._read_import,
    "let": _Parser._read_map,
    "macro": _Parser._read_macro,
    "fn": _Parser._read_function,
}
