"""Random programs whose locals are given strings by turns; the same text run by CPython is the model.

Every name has room for all strings from the beginning, since a comparison with a literal that can't fit is an error.
"""

from __future__ import annotations

from random import Random

from pyebpf.types import Struct, char, field, u32

__all__ = ["MAPS", "Noted", "generate", "pick"]

#: Keys of each map, at most as long as its type has room for.
MAPS = {"table": ("xx", "ab", "seven77"), "other": ("a", "b", "nine99999", "")}
_WORDS = ("", "a", "ab", "abc", "b", "key", "longer", "abcdefgh")
_NAMES = "abc"
_MODULUS = 1_000_003


class Noted(Struct):
    """A record with a string."""

    number: u32
    text: str = field(char[12])


def pick(one, two):
    """A function that is inlined, with names of its own."""
    kept = one
    for _ in range(2):
        if len(kept) < 3:
            kept = two
    return one


class _Writer:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []
        self.keys: list[str] = []
        self.fresh = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self) -> str:
        return self.random.choice(_NAMES)

    def new(self) -> str:
        self.fresh += 1
        return f"n{self.fresh}"

    def value(self) -> str:
        if self.keys and self.random.random() < 0.4:
            return self.random.choice(self.keys)
        literal = repr(self.random.choice(_WORDS))
        choices = [literal, literal, self.name(), self.name(), "noted.text", f"pick({self.name()}, {literal})"]
        return self.random.choice(choices)

    def note(self, depth: int, term: str) -> None:
        self.line(depth, f"found = (found * 31 + {term}) % {_MODULUS}")

    def condition(self) -> str:
        one, two = self.name(), self.name()
        return self.random.choice([f"found % {self.random.randrange(2, 6)} == 0", f"{one} == {two}", f"len({one}) > 2"])

    def block(self, depth: int, inside: int) -> None:
        """`inside` counts the loops over maps around."""
        self.line(depth, "found += 1")
        for _ in range(self.random.randrange(1, 4)):
            self.statement(depth, inside)

    def statement(self, depth: int, inside: int) -> None:
        one, two, kind = self.name(), self.name(), self.random.randrange(12)
        if kind < 3:
            self.line(depth, f"{one} = {self.value()}")
        elif kind == 3:
            self.line(depth, f"{one}, {two} = {two}, {one}")
        elif kind == 4:
            self.line(depth, f"noted.text = {self.value()}")
        elif kind == 5:
            self.note(depth, f"len({one}) * 7 + ({one} == {two}) * 3 + (not {two})")
        elif kind in (6, 7):
            kept = self.new()
            self.line(depth, f"{kept} = {one}" if kind == 6 else f"{kept}, _ = ({one}, 1)")
            self.line(depth, f"{one} = {self.value()}")
            self.note(depth, f"len({kept}) + ({kept} == {one})")
        elif depth < 4:
            self.compound(depth, inside)

    def compound(self, depth: int, inside: int) -> None:
        kind = self.random.randrange(3 if inside < 2 else 2)
        if kind == 0:
            self.line(depth, f"if {self.condition()}:")
            self.block(depth + 1, inside)
            if self.random.random() < 0.5:
                self.line(depth, "else:")
                self.block(depth + 1, inside)
            return
        target = self.new()
        over = f"range({self.random.randrange(1, 5)})" if kind == 1 else self.random.choice(list(MAPS))
        self.line(depth, f"for {target} in {over}:")
        before = list(self.keys)
        if kind == 2:
            self.keys.append(target)
        self.block(depth + 1, inside + kind - 1)
        self.keys = before
        leave = self.random.choice(["break", "continue", "return found", ""])
        if leave:
            self.line(depth + 1, f"if found % 5 == 1: {leave}")
        self.line(depth + 1, "found += 2")


def generate(seed: int) -> str:
    """A program `program` that returns a number, for a seed."""
    writer = _Writer(Random(seed))
    writer.line(0, "def program():")
    writer.line(1, "found, noted = 1, Noted(number=1, text='text')")
    for name in _NAMES:
        writer.line(1, f"{name} = {'the longest one'!r}")
    writer.line(1, "for _ in range(1):")
    for name in _NAMES:
        writer.line(2, f"{name} = {writer.random.choice(_WORDS)!r}")
    for _ in range(3):
        writer.block(1, 0)
    for name in (*_NAMES, "noted.text"):
        writer.note(1, f"len({name}) + (a == {name}) * 11")
    writer.line(1, "return found")
    return "\n".join(writer.lines) + "\n"
