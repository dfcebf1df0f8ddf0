"""Texts: compared, sliced, searched, kept and counted by. Their model is Python's `str`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.differential.bounds import Bounds
from tests.differential.core import Generator

if TYPE_CHECKING:
    from tests.differential.program import Scope

__all__ = ["TEXT", "TEXTS", "WORDS", "Strings"]

#: The room of each, with its NUL; entries of the map of texts; what the inputs hold.
TEXT = 16
TEXTS = 4
WORDS = ("", "a", "b", "ab", "ba", "abc", "eth0", "eth1", "lo", "kworker/0:1", "python3", "abcabcabcabcabc", "bash")
_LETTERS = "abehk013/"


class Strings(Bounds, Generator):
    """Every operation that texts have."""

    def text(self, scope: Scope) -> str:
        """A text that only each run knows."""
        ways = ["map", "map"] + ["name"] * 4 * bool(scope.texts) + ["context"] * 2 * self.called
        match self.pick(*ways):
            case "name":
                return self.random.choice(scope.texts)
            case "context":
                return "ctx.name"
            case _:
                return f"texts[{self.bounded(scope, TEXTS - 1, 1)}].name"

    def word(self, most: int = TEXT - 1) -> str:
        """A literal of no more than so many characters."""
        word = self.random.choice(WORDS)
        start = self.random.randint(0, max(0, len(word) - 1)) if self.chance(0.3) else 0
        return repr(word[start : start + most])

    def words(self, most: int = TEXT - 1) -> str:
        return f"({', '.join(dict.fromkeys(self.word(most) for _ in range(self.random.randint(2, 4))))},)"

    def text_condition(self, scope: Scope) -> str:
        """Something asked of a text."""
        text = self.text(scope)
        match self.random.randrange(13):
            case 0:
                return f"{text} {self.pick('==', '!=')} {self.word()}"
            case 1:
                return f"{text} {self.pick('==', '!=')} {self.text(scope)}"
            case 2:
                return f"{text} {self.pick('in', 'not in')} {self.words()}"
            case 3:
                return f"{text}.{self.pick('startswith', 'endswith')}({self.pick(self.word(), self.words())})"
            case 4:
                piece = self.pick(self.word(), repr(self.pick(*_LETTERS)))
                return f"{piece} {self.pick('in', 'not in')} {text}"
            case 5 | 6:
                start, stop = sorted((self.random.randint(0, 8), self.random.randint(0, TEXT - 1)))
                if start == stop:
                    stop += 1
                ends = self.random.choice((f":{stop}", f"{start}:{stop}"))
                most = stop if ends[0] == ":" else stop - start
                return f"{text}[{ends}] {self.pick('==', '!=')} {self.word(most)}"
            case 7:
                start = self.random.randint(1, 8)
                return f"{text}[{start}:] {self.pick('==', '!=')} {self.word(TEXT - 1 - start)}"
            case 8:
                return f"len({text}) {self.pick('<', '==', '>')} {self.random.randint(0, 12)}"
            case 9:
                return self.pick(f"not {text}", f"bool({text})")
            case 10:
                return f"{text}[{self.bounded(scope, TEXT - 2)}] {self.pick('==', '!=')} {self.pick(*_LETTERS)!r}"
            case 11:
                one, other = self.word(), self.word()
                number = self.expression(scope, "s", 1)
                return self.pick(
                    f"({text}, s64({number})) {self.pick('==', '!=')} ({one}, 3)",
                    f"({text}, s64({number}) & 1) {self.pick('in', 'not in')} (({one}, 1), ({other}, 0))",
                )
            case _:
                return f"({self.word()} if {self.condition(scope, 1)} else {self.word()}) == {text}"

    def text_expression(self, scope: Scope) -> str:
        """A number, an s64, that a text gives."""
        if self.chance(0.5):
            return f"s64(len({self.text(scope)}))"
        return f"s64({self.text_condition(scope)})"

    def owner(self, scope: Scope) -> str:
        """A record with a text: the context, or an entry."""
        return "ctx" if self.called and self.chance(0.5) else f"texts[{self.bounded(scope, TEXTS - 1, 1)}]"

    def place(self, scope: Scope) -> str:
        """A text that can be assigned to."""
        return f"{self.owner(scope)}.name"

    def _written_between(self, scope: Scope, indent: int) -> None:
        """A text is read, a call writes to texts, and only then what was read is used."""
        swaps, counts = self.name("c"), self.name("c")
        self.outside += [f"def {swaps}(n, t):", "    kept = n.name", "    n.name = t", "    return kept", ""]
        self.outside += [f"def {counts}(n, t):", "    n.name = t", "    return s64(len(n.name))", ""]
        given = f"({self.owner(scope)}, {self.word()})"
        name = self.number_name("s")
        text, literal = self.text(scope), self.word()
        match self.random.randrange(4):
            case 0:
                found = f"s64({text} == {swaps}{given})"
            case 1:
                found = f"s64(({text}, {counts}{given}) == ({literal}, {self.random.randint(0, 5)}))"
            case 2:
                found = f"s64({literal} == {text} != {swaps}{given})"
            case _:
                self.emit(indent, f"seen[{text}] += s64({counts}{given} & 7)" if self.chance(0.5) else "pass")
                found = f"s64(({text}, {swaps}{given})[0] == {literal})"
        self.emit(indent, f"{name} = {found}")
        scope.names[name] = "s"

    def texts_(self, scope: Scope, indent: int) -> None:
        """A text in a name, in an entry, as a key."""
        match self.random.randrange(10):
            case 7:
                self.emit(indent, f"{self.place(scope)} = {self.pick(self.text(scope), self.word())}")
            case 8:
                one, two = self.place(scope), self.place(scope)
                self.emit(indent, f"{one}, {two} = {two}, {one}")
            case 9:
                self._written_between(scope, indent)
            case 0 | 1:
                name = self.name("z")
                one = self.text(scope)
                self.emit(indent, f"{name} = {one}")
                if self.chance(0.5):
                    self.emit(indent, f"if {self.condition(scope, 1)}:")
                    self.emit(indent + 1, f"{name} = {self.pick(self.word(), self.text(scope))}")
                scope.texts.append(name)
            case 2:
                other = self.pick(self.text(scope), self.word())
                name = self.name("z")
                self.emit(indent, f"{name} = {self.text(scope)} if {self.condition(scope, 1)} else {other}")
                scope.texts.append(name)
            case 3:
                text = self.pick(self.text(scope), self.text(scope), self.word())
                self.emit(indent, f"texts[{self.bounded(scope, TEXTS - 1)}].name = {text}")
            case 4:
                table = self.table(tuple(self.random.sample(WORDS, 4)))
                text = f"{table}[{self.bounded(scope, 3)}]"
                self.emit(indent, f"seen[{text}] += 1")
            case 5:
                text = self.pick(self.text(scope), f"{self.text(scope)}[:{self.random.randint(1, 8)}]")
                self.emit(indent, f"seen[{text}] += {self.expression(scope, 'u', 1)}")
            case _:
                table = self.table({word: self.random.randrange(99) for word in self.random.sample(WORDS, 4)})
                name = self.number_name("s")
                self.emit(indent, f"{name} = s64({table}.get({self.text(scope)}, 5))")
                scope.names[name] = "s"
