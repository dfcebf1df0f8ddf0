"""Types as casts, declarations and members of structs write them."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.cursor import Cursor, is_name

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

KEYWORDS = ("struct", "union", "enum")
#: Words of C of which several make one type.
_WORDS = frozenset(("unsigned", "signed", "char", "short", "int", "long", "float", "double"))
#: The order in which they are written where any will do.
_ORDER = ("signed", "unsigned", "char", "short", "long", "int", "float", "double")
_QUALIFIERS = frozenset(("const", "volatile", "__user", "__kernel", "__rcu", "__percpu"))
#: What may stand between the first and the last word of a type.
_AMID = _WORDS | _QUALIFIERS
#: Types by a bare name. Another bare name may be a typedef, or a value.
_NAMES = _WORDS | {
    "void",
    "bool",
    "string",
    *[f"{prefix}int{bits}" for prefix in ("", "u") for bits in (8, 16, 32, 64)],
    *[f"{prefix}int{bits}_t" for prefix in ("", "u") for bits in (8, 16, 32, 64)],
}
# Names of values: `(cpu) - 1` is no cast. Those that are not `_BUILTINS` a script may give another meaning.
_BUILTINS = frozenset(("args", "ctx", "kstack", "nsecs", "pid", "tid", "ustack"))
_VALUES = _BUILTINS | {
    *("cgroup", "comm", "cpid", "cpu", "curtask", "elapsed", "func", "gid", "jiffies", "ncpus", "numaid"),
    *("probe", "rand", "retval", "uid", "usermode", "username"),
}
# What may follow the type of a cast, by first characters, but for these operators.
_VALUE_STARTS = frozenset('0123456789$@"(-!~*&_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz')
_NO_VALUE_STARTS = frozenset(("->", "-=", "*=", "&=", "&&", "!="))


def is_builtin(name: str) -> bool:
    """Whether a bare name is a value of the language's own, which no parameter and no field hides."""
    return (
        name in _BUILTINS
        or name.startswith("__builtin_")
        or (name.startswith(("arg", "sarg")) and name.partition("arg")[2].isdecimal())
    )


def is_value(name: str) -> bool:
    """Whether a bare name is a value of the language's, which no `#define` hides."""
    return name in _VALUES or is_builtin(name)


def _canonical(words: Sequence[str]) -> str:
    """The usual name of a type of C, whose words may stand in any order: `unsigned long` of `long unsigned int`."""
    given = sorted(words, key=_ORDER.index)
    short, sign = [each for each in given if each not in ("int", "signed")], "signed" in given
    if "int" in given and "char" in short:
        return " ".join(given)
    if short == ["char"]:
        return "signed char" if sign else "char"
    if (sign and "unsigned" in short) or given.count("int") > 1 or given.count("signed") > 1:
        return " ".join(given)
    return " ".join(short) if short not in ([], ["unsigned"]) else " ".join([*short, "int"])


class Types(Cursor):
    """The part of the parser that reads types."""

    @abstractmethod
    def expression(self) -> ast.Expression:
        """Read an expression."""

    def type(self) -> ast.Type:
        """Read a type: its name, stars, and sizes in brackets."""
        return self.declarator(self.type_name())

    def type_name(self) -> ast.TypeName:
        """Read the name that a type begins with."""
        self.skip_qualifiers()
        tokens, first = self.tokens, self.index
        word = tokens[first]
        self.height = 0
        if word in KEYWORDS:
            self.index += 1
            name = self.expect_name("a name", f"after `{word}`")
            keyword: ast.TypeKeyword = "struct" if word == "struct" else "union" if word == "union" else "enum"
        else:
            name, keyword = self.expect_name("a type", "here"), ""
            if word in _WORDS:
                while tokens[self.index] in _AMID:
                    self.index += 1
                name = _canonical([each for each in tokens[first : self.index] if each in _WORDS])
        end = self.ends[self.index - 1]
        self.skip_qualifiers()
        return ast.TypeName(self.starts[first], end, name, keyword)

    def pointers(self, target: ast.Type) -> ast.Type:
        """Read the stars behind a type."""
        while self.accept("*"):
            self.rise(self.height)
            target = ast.PointerType(target.start, self.ends[self.index - 1], target)
            self.skip_qualifiers()
        return target

    def declarator(self, made: ast.Type) -> ast.Type:
        """Read stars and sizes behind a type without a name between them."""
        while True:
            made = self.pointers(made)
            if self.tokens[self.index] != "[":
                return made
            made = self.arrays(made)

    def arrays(self, element: ast.Type) -> ast.Type:
        """Read sizes in brackets. `int a[2][3]` is an array of two arrays."""
        sizes: list[ast.Expression | None] = []
        height = self.height
        while self.accept("["):
            sizes.append(None if self.tokens[self.index] == "]" else self.expression())
            self.expect("]", "after the size of an array")
            height = max(height, self.height)
        end = self.ends[self.index - 1]
        for size in reversed(sizes):
            self.rise(height)
            element = ast.ArrayType(element.start, end, element, size)
            height = self.height
        return element

    def skip_qualifiers(self) -> None:
        """Step over `const`, `volatile` and others that change nothing here."""
        while self.tokens[self.index] in _QUALIFIERS:
            self.index += 1

    def ends_type(self, closers: Container[str]) -> bool:
        """Whether the tokens from here to one of `closers` are a type, or a name that may be one."""
        tokens, index = self.tokens, self.index
        while tokens[index] in _QUALIFIERS:
            index += 1
        word = tokens[index]
        if word in KEYWORDS:
            return is_name(tokens[index + 1])
        if not is_name(word) or word in _VALUES or is_builtin(word):
            return False
        index += 1
        if word in _WORDS:
            while tokens[index] in _AMID:
                index += 1
        while True:
            sign = tokens[index]
            if sign == "*" or sign in _QUALIFIERS:
                index += 1
            elif sign == "[" and tokens[index + 1] == "]":
                index += 2
            elif sign == "[" and tokens[index + 1] and tokens[index + 2] == "]":
                index += 3
            else:
                return sign in closers

    def cast_ahead(self) -> bool:
        """Whether a type in parentheses and a value come next, the parenthesis being read."""
        if not self.ends_type((")",)):
            return False
        tokens, index = self.tokens, self.index
        if tokens[index] in KEYWORDS:
            return True
        index = tokens.index(")", index)
        after = tokens[index + 1]
        return after[:1] in _VALUE_STARTS and after not in _NO_VALUE_STARTS

    def annotation(self) -> ast.Type | ast.TypeOf:
        """Read the type of a declaration, which may be a `typeof(…)`."""
        return self.type_of() if self.tokens[self.index] == "typeof" else self.type()

    def type_of(self) -> ast.TypeOf:
        """Read `typeof(…)`."""
        start = self.starts[self.index]
        self.index += 1
        self.expect("(", "after `typeof`")
        operand = self.operand()
        self.expect(")", "after the operand of `typeof`")
        self.rise(self.height)
        return ast.TypeOf(start, self.ends[self.index - 1], operand)

    def operand(self) -> ast.Type | ast.Expression:
        """Read what `sizeof` and the like are asked about: a type or an expression."""
        tokens, index = self.tokens, self.index
        if self.ends_type((")", ",")):
            word = tokens[index]
            if word in _NAMES or not (tokens[index + 1] in (")", ",") and is_name(word)):
                return self.type()
        return self.expression()
