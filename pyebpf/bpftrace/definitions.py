"""C's definitions in a script: structs, unions, enums, and the lines of the preprocessor."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.conditionals import WORDS as CONDITIONALS
from pyebpf.bpftrace.cursor import is_name
from pyebpf.bpftrace.statements import Statements
from pyebpf.bpftrace.types import KEYWORDS
from pyebpf.errors import closest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.bpftrace.defines import Defines
    from pyebpf.bpftrace.source import Source

#: Words that lines of the preprocessor begin with. What some of them say is nothing to a script.
_KNOWN = (*sorted(CONDITIONALS), "include", "define", "undef", "error", "warning", "pragma", "line")
# Few scripts have these, so that they are compiled where they are first used.
_DIRECTIVE = r"#[ \t]*(\w*)[ \t]*(.*)"
_DEFINE = r"([A-Za-z_]\w*)(?:\(([^()]*)\))?(?:\s+(.*))?"
_INCLUDE = r'<([^<>]+)>\s*|"([^"]+)"\s*'
_PIECE = r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*[\s\S]*?\*/|/\*|\\[\s\S]|\n'
_SPACE = r"(?>\s+|/\*[\s\S]*?\*/)*+"
_ATTRIBUTES, _ALIGNED = ("__attribute__", "__attribute"), "_Alignas"


def directive(source: Source, start: int) -> tuple[ast.Include | ast.Define | ast.Directive, int]:
    """A line of the preprocessor, with those that a backslash joins to it, and where it ends."""
    line, end = _line(source, start)
    parts = re.fullmatch(_DIRECTIVE, line, re.ASCII | re.DOTALL)
    word, rest = ("", "") if parts is None else parts.groups()
    if word == "include":
        found = re.fullmatch(_INCLUDE, rest, re.ASCII)
        if found is None:
            raise source.error_at('`#include` takes a file: <linux/fs.h> or "file.h"', start, start + len(line))
        return ast.Include(start, end, found[1] or found[2], angled=found[1] is not None), end
    if word == "define":
        found = re.fullmatch(_DEFINE, rest, re.ASCII | re.DOTALL)
        if found is None:
            raise source.error_at("`#define` takes a name and what it stands for", start, start + len(line))
        name, parameters, text = found.groups()
        names = None if parameters is None else tuple([each.strip() for each in parameters.split(",") if each.strip()])
        return ast.Define(start, end, name, text or "", names), end
    if not word:
        raise source.error_at(
            "`#` begins a line of C's preprocessor, such as `#include <linux/fs.h>`", start, start + 1
        )
    if word == "error":
        raise source.error_at(f"#error {rest}".rstrip(), start, start + len(line))
    if word not in _KNOWN:
        msg = f"C's preprocessor has no `#{word}`{closest(word, _KNOWN)}"
        raise source.error_at(msg, start, start + len(line))
    return ast.Directive(start, end, word, rest), end


def _line(source: Source, start: int) -> tuple[str, int]:
    """A line with those that a backslash or a comment joins to it, without comments, and where it ends."""
    text, pieces, position = source.text, [], start
    for match in re.compile(_PIECE, re.ASCII).finditer(text, start):
        piece = match[0]
        if piece == "/*":
            raise source.error_at("this comment has no end: write `*/`", match.start(), match.end())
        if piece == "\n" or piece[0] == "/" or piece == "\\\n":
            pieces.append(text[position : match.start()])
            position = match.end()
            if piece == "\n":
                return " ".join(pieces).rstrip(), match.start()
    rest = text[position:]
    if (len(rest) - len(rest.rstrip("\\"))) % 2:  # a backslash at the very end joins nothing, as before an empty line
        rest = rest[:-1]
    return " ".join([*pieces, rest]).rstrip(), len(text)


def behind_attributes(text: str, position: int, defines: Defines) -> int:
    """The place behind a struct's attributes and its semicolon, the brace being at `position`."""
    beginning = re.compile(rf"{_SPACE}(?:__attribute(?:__)?{_SPACE}(?=\()|(?P<name>[A-Za-z_]\w*))", re.ASCII)
    while (match := beginning.match(text, position)) is not None:
        if match["name"]:
            if not defines.is_attribute(match["name"]):
                break
            position = match.end()
            continue
        depth = 0
        for parenthesis in re.compile("[()]").finditer(text, match.end()):
            depth += 1 if parenthesis[0] == "(" else -1
            if not depth:
                break
        else:
            return match.start()
        position = parenthesis.end()
    match = re.compile(rf"{_SPACE};", re.ASCII).match(text, position)
    return position if match is None else match.end()


class Definitions(Statements):
    """The part of the parser that reads definitions of C's types."""

    def definition(self) -> ast.Struct | ast.Enum:
        """Read a definition with a name, its attributes and its semicolon."""
        found = self._body()
        if not found.name and isinstance(found, ast.Struct):  # an enum's constants need no name of their own
            self.fail("a definition outside others has a name: `struct name { … }`", 0)
        self.accept(";")
        if self.tokens[self.index]:
            self.unexpected("`;`", "after a definition")
        return found

    def _body(self) -> ast.Struct | ast.Enum:
        first = self.index
        keyword = self.tokens[first]
        self.index += 1
        attributes = self._attributes()
        name = ""
        if is_name(self.tokens[self.index]):
            name = self.tokens[self.index]
            self.index += 1
        attributes += self._attributes()
        if keyword == "enum":
            enumerators = self._enumerators()
            attributes += self._attributes()
            return ast.Enum(self.starts[first], self.ends[self.index - 1], name, enumerators, tuple(attributes))
        self.expect("{", f"after the name of a {keyword}")
        self.enter("declare the inner struct before this one")
        members: list[ast.Member] = []
        while not self.accept("}"):
            if not self.accept(";"):
                members += self._members()
        self.depth -= 1
        attributes += self._attributes()
        kind: ast.AggregateKeyword = "union" if keyword == "union" else "struct"
        return ast.Struct(self.starts[first], self.ends[self.index - 1], kind, name, tuple(members), tuple(attributes))

    def _attributes(self) -> list[ast.Attribute]:
        """Read `__attribute__((packed, aligned(8)))` and `_Alignas(8)`, as many as there are."""
        found: list[ast.Attribute] = []
        while True:
            first = self.index
            if (word := self.tokens[first]) in _ATTRIBUTES:
                self.index += 1
                self.expect("(", f"after `{word}`")
                self.expect("(", f"after `{word}(`")
                while not self.accept(")"):
                    if not self.accept(","):
                        found.append(self._attribute())
                self.expect(")", f"after `{word}((…)`")
            elif self.accept(_ALIGNED):
                self.expect("(", f"after `{_ALIGNED}`")
                operand = self.type() if self.ends_type((")",)) else self.expression()
                self.expect(")", f"after the operand of `{_ALIGNED}`")
                found.append(ast.Attribute(self.starts[first], self.ends[self.index - 1], "aligned", operand))
            else:
                return found

    def _attribute(self) -> ast.Attribute:
        """Read one attribute of a list. Its operands are nothing to a script, but for an alignment."""
        first, operand = self.index, None
        word = self.expect_name("an attribute", "here")
        name = word[2:-2] if word.startswith("__") and word.endswith("__") else word
        if self.accept("("):
            if name == "aligned":
                operand = self.expression()
                self.expect(")", f"after the operand of `{word}`")
            else:
                self._skip_parentheses(f"after `{word}(`")
        if self.tokens[self.index] not in (",", ")"):
            self.unexpected("`,`", "between attributes")
        return ast.Attribute(self.starts[first], self.ends[self.index - 1], name, operand)

    def _skip_parentheses(self, where: str) -> None:
        """Step behind the parenthesis that closes the open one."""
        opened = 1
        while opened:
            word = self.tokens[self.index]
            if not word or word in (";", "{", "}"):
                self.unexpected("`)`", where)
            opened += (word == "(") - (word == ")")
            self.index += 1

    def _enumerators(self) -> tuple[ast.Enumerator, ...]:
        self.expect("{", "after the name of an enum")
        found: list[ast.Enumerator] = []
        while not self.accept("}"):
            start = self.starts[self.index]
            name = self.expect_name("the name of a constant", "in an enum")
            self._attributes()
            value = self.expression() if self.accept("=") else None
            found.append(ast.Enumerator(start, self.ends[self.index - 1], name, value))
            if not self.accept(",") and self.tokens[self.index] != "}":
                self.unexpected("`,`", "between the constants of an enum")
        return tuple(found)

    def _members(self) -> list[ast.Member]:
        """Read a line of a struct: a type, and the names that have it."""
        start = self.starts[self.index]
        attributes = self._attributes()
        of_type = self._member_type()
        attributes += self._attributes()
        if self.accept(";"):
            if not isinstance(of_type, ast.Struct | ast.Enum):
                self.fail("a member has a name: `type name;`", self.index - 1)
            return [ast.Member(start, of_type.end, "", of_type, attributes=tuple(attributes))]
        found = [self._member(start, of_type, attributes)]
        while self.accept(","):
            found.append(self._member(self.starts[self.index], of_type, attributes))
        if self.tokens[self.index] != "}":  # behind the last one it may be left out
            self.expect(";", "after a member")
        return found

    def _member_type(self) -> ast.Type:
        """Read the type of members, which may be defined right there."""
        self.skip_qualifiers()
        if self.tokens[self.index] in KEYWORDS:
            first = self.index
            self.index += 1
            self._attributes()
            self.index += is_name(self.tokens[self.index])
            self._attributes()
            is_defined = self.tokens[self.index] == "{"
            self.index = first
            if is_defined:
                made = self._body()
                self.skip_qualifiers()
                return made
        return self.type_name()

    def _member(self, start: int, of_type: ast.Type, attributes: Sequence[ast.Attribute]) -> ast.Member:
        """Read one name, with its own stars, sizes and bits; `attributes` are those of its type."""
        own = [*attributes, *self._attributes()]
        self.height = 0
        made = self.pointers(of_type)
        own += self._attributes()
        if self.tokens[self.index] == "(":
            name, made = self._pointer_in_parentheses(made)
            own += self._attributes()
            return ast.Member(start, self.ends[self.index - 1], name, made, attributes=tuple(own))
        name = ""
        if self.tokens[self.index] != ":":
            name = self.expect_name("the name of a member", "after its type")
        made = self.arrays(made)
        bits = self.expression() if self.accept(":") else None
        own += self._attributes()
        return ast.Member(start, self.ends[self.index - 1], name, made, bits, tuple(own))

    def _pointer_in_parentheses(self, result: ast.Type) -> tuple[str, ast.Type]:
        """Read `(*name)[size]`, or `(*name)(parameters)`: all functions are the same to a script."""
        self.index += 1
        self.expect("*", "in the type of a pointer to a function or an array")
        name = self.expect_name("the name of a member", "after `*`")
        inner, end = self.index, self.ends[self.index - 1]
        self.arrays(result)
        self.expect(")", "after the name of a pointer to a function or an array")
        if self.tokens[self.index] == "[":
            target = self.arrays(result)
        else:
            target = ast.FunctionType(result.start, result.end, result)
            self.expect("(", "before the parameters of a function")
            self._skip_parentheses("after the parameters of a function")
        behind, self.index = self.index, inner
        made = self.arrays(ast.PointerType(result.start, end, target))
        self.index = behind
        return name, made
