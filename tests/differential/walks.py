"""Random programs with loops over maps, and the same text run by CPython over dictionaries.

Numbers are kept below 2**16, so that plain integers are the model. An entry is removed only by the loop that goes over
its map, and only the current one: what else a walk then finds is left open, by the language and by Python.
"""

from __future__ import annotations

import itertools
import linecache
from random import Random
from typing import TYPE_CHECKING, Any

from pyebpf.dsl.unroll import unroll
from pyebpf.types import Struct, s64, u32

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["OUTPUTS", "Contents", "Pair", "contents", "declare", "generate", "run_text"]

NUMBERS = itertools.count()
OUTPUTS = 4
_MASK = 0xFFFF


class Pair(Struct):
    """The value of the map of records."""

    low: s64
    high: s64


class Table(dict[Any, Any]):
    """A dictionary that may change while a loop goes over it, as a map may."""

    def __iter__(self) -> Iterator[Any]:
        return iter(list(dict.keys(self)))

    def items(self) -> Any:
        """Entries as they were when the loop began."""
        return list(dict.items(self))

    def keys(self) -> Any:
        """Keys, likewise."""
        return list(dict.keys(self))

    def values(self) -> Any:
        """Values, likewise."""
        return list(dict.values(self))


Contents = dict[str, dict[int, Any]]

FIND = """
def find(wanted):
    for key, value in second.items():
        if value > wanted:
            return key
        if value == wanted:
            break
    return 3
"""


def contents(random: Random) -> Contents:
    """What the maps hold at first."""
    return {
        "first": {random.randrange(64): random.randrange(64) for _ in range(random.randrange(8))},
        "second": {random.randrange(64): random.randrange(64) for _ in range(random.randrange(8))},
        "pairs": {
            random.randrange(64): Pair(low=random.randrange(64), high=random.randrange(64))
            for _ in range(random.randrange(6))
        },
        "out": dict.fromkeys(range(OUTPUTS), 0),
    }


def declare(bpf: Any) -> dict[str, Any]:
    """The maps that programs use."""
    return {
        "first": bpf.hash(key=u32, value=s64, size=64, name="first"),
        "second": bpf.hash(key=u32, value=s64, size=64, name="second"),
        "pairs": bpf.hash(key=u32, value=Pair, size=64, name="pairs"),
        "out": bpf.array(value=s64, size=OUTPUTS, name="out"),
    }


def run_text(text: str, names: dict[str, Any], entry: str = "program") -> Any:
    """The function `entry` of a text, decorated by `bpf` of the names."""
    file = f"<walk {next(NUMBERS)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names |= {"Pair": Pair, "unroll": unroll}
    exec(compile(text, file, "exec", dont_inherit=True), names)
    return names[entry]


class _Writer:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []
        #: Names of numbers in scope, besides the locals that are always assigned; records; maps gone over.
        self.numbers: list[str] = []
        self.records: list[str] = []
        self.walked: list[str] = []
        self.loops = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def number(self) -> str:
        kinds = [*"abc", "r.low", "r.high", str(self.random.randrange(1, 9))]
        kinds += self.numbers + self.numbers + [f"{record}.low" for record in self.records]
        return self.random.choice(kinds)

    def expression(self) -> str:
        if self.random.random() < 0.12:
            return f"find({self.number()})"
        operator = self.random.choice(["+", "-", "*", "^", "|", "+"])
        return f"({self.number()} {operator} {self.number()}) & {_MASK}"

    def condition(self) -> str:
        test = f"{self.number()} {self.random.choice(['<', '>', '==', '!=', '<='])} {self.number()}"
        if self.random.random() < 0.2:
            return f"{test} {self.random.choice(['and', 'or'])} {self.number()} > {self.number()}"
        return f"{self.number()} in {self.random.choice(['first', 'second'])}" if self.random.random() < 0.1 else test

    def block(self, depth: int, inside: int) -> None:
        for _ in range(self.random.randrange(1, 4)):
            self.statement(depth, inside)

    def statement(self, depth: int, inside: int) -> None:
        """`inside` counts the loops around."""
        kind = self.random.randrange(12)
        if kind < 3:
            self.line(depth, f"{self.random.choice('abc')} = {self.expression()}")
        elif kind == 3:
            self.line(depth, f"r.{self.random.choice(['low', 'high'])} = {self.expression()}")
        elif kind == 4:
            self.line(depth, f"out[{self.random.randrange(OUTPUTS)}] = {self.expression()}")
        elif kind == 5 and self.records:
            record = self.random.choice(self.records)
            self.line(depth, f"{record}.high = {self.expression()}")
        elif kind < 8 and depth < 6:
            self.line(depth, f"if {self.condition()}:")
            self.block(depth + 1, inside)
            if inside and self.random.random() < 0.4:
                leave = self.random.choice(["break", "continue", f"return {self.expression()}"])
                self.line(depth + 1, leave)
            elif self.random.random() < 0.4:
                self.line(depth, "else:")
                self.block(depth + 1, inside)
        elif inside < 2 and depth < 6:
            self.loop(depth, inside)
        else:
            self.line(depth, f"a, b = b, {self.expression()}")

    def loop(self, depth: int, inside: int) -> None:
        self.loops += 1
        key, value = f"k{self.loops}", f"v{self.loops}"
        numbers, records = list(self.numbers), list(self.records)
        kind = self.random.randrange(8)
        if kind == 0:
            over = self.random.choice(["range(3)", "unroll(range(1, 3))", "range(c & 3)"])
            self.line(depth, f"for {key} in {over}:")
            self.numbers.append(key)
            self.block(depth + 1, inside + 1)
        elif kind == 1:
            self.line(depth, f"for {key}, {value} in pairs.items():")
            self.numbers.append(key)
            self.records.append(value)
            self.block(depth + 1, inside + 1)
        else:
            table = self.random.choice(["first", "second"])
            view, target, named = self.random.choice(
                [("", key, [key]), (".keys()", key, [key]), (".values()", value, [value])]
                + [(".items()", f"{key}, {value}", [key, value])] * 3
            )
            self.line(depth, f"for {target} in {table}{view}:")
            self.numbers += named
            fresh = table not in self.walked
            self.walked.append(table)
            self.block(depth + 1, inside + 1)
            self.walked.pop()
            if fresh and key in named and self.random.random() < 0.3:
                self.line(depth + 1, f"if {self.condition()}:")
                self.line(depth + 2, f"del {table}[{key}]")
        self.numbers, self.records = numbers, records


def generate(seed: int) -> str:
    """A program; the same for the same seed."""
    random = Random(seed)
    writer = _Writer(random)
    writer.line(1, "a, b, c = 1, 2, 3")
    writer.line(1, "r = Pair(low=4, high=5)")
    writer.loop(1, 0)
    for _ in range(2):
        writer.block(1, 0)
    for index, number in enumerate(("a", "b", "c + r.low", "r.high")):
        writer.line(1, f"out[{index}] = {number}")
    writer.line(1, "return a ^ b")
    return FIND + "\n@bpf.syscall()\ndef program():\n" + "\n".join(writer.lines) + "\n"


def by_cpython(text: str, given: Contents) -> tuple[int, Contents]:
    """What CPython returns, and what it leaves in the maps."""

    class Decorators:
        @staticmethod
        def syscall() -> Any:
            return lambda function: function

    tables = {name: Table(entries) for name, entries in given.items()}
    tables["pairs"] = Table((key, Pair(low=pair.low, high=pair.high)) for key, pair in given["pairs"].items())
    value = run_text(text, {"bpf": Decorators, **tables})()
    return value, {name: dict(dict.items(table)) for name, table in tables.items()}
