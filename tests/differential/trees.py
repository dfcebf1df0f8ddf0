"""Deep trees: long chains of conditions and operators, nested ones, calls inside calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.differential.core import Generator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.differential.program import Scope

__all__ = ["Trees"]

#: Python's parser takes 200 parentheses inside each other.
_PARENTHESES = 150


class Trees(Generator):
    """Statements whose syntax tree is deep."""

    def size(self, most: int) -> int:
        """Mostly moderate, now and then all of it."""
        if self.chance(0.1 if self.small else 0.4):
            return most
        return self.random.randint(3, max(4, most // 12))

    def deep(self, scope: Scope, indent: int) -> None:
        """One of them."""
        if self.inlined or scope.loops:
            return self.new_local(scope, indent)
        kind = self.pick("u", "s")
        shape = self.random.choice(self._SHAPES)
        text = shape(self, scope, kind)
        if not text:
            return self.chain(scope, indent)
        name = self.number_name(kind)
        self.emit(indent, f"{name} = {text}")
        scope.names[name] = kind
        return None

    def chain(self, scope: Scope, indent: int) -> None:
        """A chain of `elif`, or a `match` with as many cases."""
        count, name, tested = self.size(300), self.number_name("s"), self.number_name("s")
        self.emit(indent, f"{tested} = s64({self.expression(scope, 's', 1)}) % {count + 2}")
        self.emit(indent, f"{name} = s64({self.atom(scope, 's')})")
        matched = self.chance(0.3)
        if matched:
            self.emit(indent, f"match {tested}:")
        for number in range(count):
            if matched:
                self.emit(indent + 1, f"case {number}:")
            else:
                self.emit(indent, f"{'elif' if number else 'if'} {tested} {self.pick('==', '==', '<')} {number}:")
            self.emit(
                indent + 1 + matched, f"{name} {self.pick('=', '=', '+=', '^=')} s64({self.random.randrange(1000)})"
            )
        if self.chance(0.5):
            self.emit(indent + matched, "case _:" if matched else "else:")
            self.emit(indent + 1 + matched, f"{name} -= 1")
        scope.names[name] = scope.names[tested] = "s"

    def _terms(self, scope: Scope, kind: str, count: int) -> list[str]:
        atoms = [self.atom(scope, kind) for _ in range(min(count, 6))]
        return [self.pick(self.random.choice(atoms), str(self.random.randrange(1, 100))) for _ in range(count)] + atoms[
            :1
        ]

    def _long_sum(self, scope: Scope, kind: str) -> str:
        terms = self._terms(scope, kind, self.size(300))
        first = self.atom(scope, kind)
        return first + "".join(f" {self.pick('+', '-', '^', '|', '+')} {term}" for term in terms)

    def _nested_sum(self, scope: Scope, kind: str) -> str:
        text = self.atom(scope, kind)
        for term in self._terms(scope, kind, self.size(_PARENTHESES - 10))[:_PARENTHESES]:
            operator = self.pick("+", "-", "*", "^")
            text = f"({text} {operator} {term})" if self.chance(0.6) else f"({term} {operator} {text})"
        return text

    def _unary(self, scope: Scope, kind: str) -> str:
        atom = self.atom(scope, kind)
        if kind == "u":
            return "~" * self.size(900) + atom
        if self.chance(0.3):
            return f"s64({'not ' * self.size(900)}{atom})"
        return "".join(self.pick("-", "~") for _ in range(self.size(900))) + atom

    def _conditional(self, scope: Scope, kind: str) -> str:
        """A conditional expression in the `else` of another, or in its condition's parentheses."""
        text = self.atom(scope, kind)
        for _ in range(self.size(120)):
            test = f"s64({self.atom(scope, 's')}) {self.pick('<', '==', '>')} s64({self.random.randrange(1 << 16)})"
            if self.chance(0.8):
                text = f"{self.atom(scope, kind)} if {test} else {text}"
            else:
                text = f"({text}) if {test} else {self.atom(scope, kind)}"
            if text.count("((") > _PARENTHESES // 2:
                break
        return f"({text})"

    def _calls(self, scope: Scope, kind: str) -> str:
        text = self.atom(scope, kind)
        for _ in range(self.size(60)):
            word = self.pick("min", "max", "abs" if kind == "s" else "min", "u64" if kind == "u" else "s64")
            other = f", {self.atom(scope, kind)}" if word in ("min", "max") else ""
            text = f"{word}({text}{other})"
        return text

    def _inlined(self, scope: Scope, kind: str) -> str:
        """Functions in the arguments of functions."""
        name = self.name("h")
        type_ = "u64" if kind == "u" else "s64"
        self.outside += [
            f"def {name}(x: {type_}) -> {type_}:",
            f"    return {self.pick('x * 3 + 1', 'x ^ x >> 7')}",
            "",
        ]
        count = self.size(60)
        return f"{name}(" * count + self.atom(scope, kind) + ")" * count

    def _compared(self, scope: Scope, kind: str) -> str:
        """A comparison of many, or many comparisons."""
        count = self.size(60)
        if self.chance(0.5):
            middle = "".join(f" {self.pick('<', '<=', '!=')} {self.atom(scope, kind)}" for _ in range(count))
            return f"{'u64' if kind == 'u' else 's64'}({self.atom(scope, kind)}{middle})"
        tests = [
            f"s64({self.atom(scope, kind)}) {self.pick('<', '>', '!=')} {self.random.getrandbits(40)}"
            for _ in range(count)
        ]
        joined = tests[0]
        for test in tests[1:]:
            joined = f"{joined} {self.pick('and', 'or')} {test}"
        return f"{'u64' if kind == 'u' else 's64'}({joined})"

    def _long_either(self, scope: Scope, kind: str) -> str:
        """`and` and `or` of numbers, which give the number that decides."""
        word = self.pick("and", "or")
        numbers = [self.atom(scope, kind) for _ in range(self.size(80))]
        return f"({f' {word} '.join(numbers)})"

    def _none(self, scope: Scope, kind: str) -> str:  # noqa: ARG002 - a chain of statements instead
        return ""

    _SHAPES: Sequence[Callable[[Trees, Scope, str], str]] = (
        *(_long_sum, _nested_sum, _unary, _conditional, _calls, _inlined, _compared, _long_either, _none, _none),
    )
