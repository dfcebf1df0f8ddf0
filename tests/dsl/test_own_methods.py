"""Classes with special methods of their own: a program cannot call these, and says so where it would need to."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from tests.dsl.harness import build, message
from tests.dsl.test_meaning import results

OUTSIDE = """
import collections, collections.abc, enum, functools, operator, types, typing
from pyebpf import Struct

class Text(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
text = Text("zzz")

class Raw(bytes):
    def __ne__(self, other): return True
raw = Raw(b"z")

class Row(tuple):
    def __contains__(self, x): return True
    def __iter__(self): return iter((5,))
    def __getitem__(self, i): return 9
row = Row((1, 2, 3, 4))

class Alike(tuple):
    def __eq__(self, other): return True
    __hash__ = tuple.__hash__
alike = Alike((1, 2))

class List(list):
    def __contains__(self, x): return True
listed = List((1, 2, 3, 4))

class Table(dict):
    def __contains__(self, k): return True
    def get(self, k, d=None): return 99
contained = Table({5: 1})
view = types.MappingProxyType(contained)

class Walked(dict):
    def __iter__(self): return iter((7,))
    def items(self): return [(7, 7)]
walked = Walked({5: 1})

class Set(set):
    def __contains__(self, x): return True
chosen = Set({1})

class Chosen(frozenset):
    __contains__ = lambda self, x: True
frozen = Chosen({1})

class All(collections.abc.Set):
    def __contains__(self, x): return True
    def __iter__(self): return iter(())
    def __len__(self): return 0
everything = All()

class Own(int):
    def __eq__(self, other): return True
    def __hash__(self): return 1
own = (Own(7), 8)
by_own = {Own(7): 1}
of_own = (Own(7), Own(8))

class Borrowed(int):
    __add__ = int.__sub__
borrowed = (Borrowed(7),)

class Colour(str, enum.Enum):
    RED = "red"
    def __eq__(self, other): return True
    def __hash__(self): return 1

class Level(enum.IntEnum):
    LOW = 3
    def __eq__(self, other): return True
    def __hash__(self): return 1
levels = (Level.LOW,)

class Point(typing.NamedTuple):
    x: int
    y: int
    def __eq__(self, other): return True

class Turned(collections.namedtuple("Turned", "x y")):
    def __new__(cls, x, y): return super().__new__(cls, y, x)

class Hidden(collections.namedtuple("Hidden", "x y")):
    x = property(lambda self: 3)

class Simple(typing.NamedTuple):
    x: int
    y: int
    def total(self): return self.x + self.y

class Twice(Struct):
    x: s64 = 0
    def __init__(self, z): self.x = z * 2

class New(Struct):
    x: s64 = 0
    def __new__(cls, *a, **k): return super().__new__(cls)

class Stored(Struct):
    x: s64 = 0
    def __setattr__(self, name, value): object.__setattr__(self, name, value + 1)

class Read(Struct):
    x: s64 = 0
    def __getattribute__(self, name): return 42

class Shadowed(Pair):
    more: s64 = 0
    @property
    def low(self): return 42
    @low.setter
    def low(self, value): pass

class Ordinary(Struct):
    x: s64 = 0
    def __eq__(self, other): return True
    def __len__(self): return 4
    def __post_init__(self): self.x += 1
    def twice(self): return self.x * 2

class Named(str):
    def short(self): return self[:3]
    __slots__ = ()
class Fruit(str, enum.Enum):
    APPLE = "apple"
class Flags(enum.IntFlag):
    X = 1
    Y = 2
by_flags = {Flags.X: 5, Flags.Y: 6}
ordered = collections.OrderedDict([(5, 1)])
default = collections.defaultdict(lambda: 8, {5: 1})
counter = collections.Counter([5, 5])
"""

INSTEAD = "which a program cannot call: give the {0} itself, {1}(…), a name above the probe"
TEXT, TUPLE = INSTEAD.format("string", "str"), INSTEAD.format("tuple", "tuple")
NUMBER, DICT = INSTEAD.format("number", "int"), INSTEAD.format("dict", "dict")
ALONE = "which a program cannot call: "


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("results[0] = comm() == text", f"Text is a str with its own __eq__(), {TEXT}"),
        ("results[0] = text != comm()", f"Text is a str with its own __eq__(), {TEXT}"),
        ("results[0] = comm() in (text, 'a')", f"Text is a str with its own __eq__(), {TEXT}"),
        ("records[1] = Record(at=1, limit=2, name=text)", f"Text is a str with its own __eq__(), {TEXT}"),
        ("x = text if count else 'abc'\nresults[0] = x == 'abc'", f"Text is a str with its own __eq__(), {TEXT}"),
        ("x = 'abc'\nif count: x = text\nresults[0] = x == 'a'", f"Text is a str with its own __eq__(), {TEXT}"),
        ("opens[text] += 1", f"Text is a str with its own __eq__(), {TEXT}"),
        ("results[0] = ('a', text)[count & 1] == 'a'", f"Text is a str with its own __eq__(), {TEXT}"),
        ("results[0] = {1: text, 2: 'a'}.get(count, 'b') == 'a'", f"Text is a str with its own __eq__(), {TEXT}"),
        (
            "results[0] = comm() != raw",
            f"Raw is a bytes with its own __ne__(), {INSTEAD.format('bytes', 'bytes')}",
        ),
        ("results[0] = count in row", f"Row is a tuple with its own __contains__(), {TUPLE}"),
        ("results[0] = row[count & 1]", f"Row is a tuple with its own __iter__(), {TUPLE}"),
        ("results[0] = (count, 2) == alike", f"Alike is a tuple with its own __eq__(), {TUPLE}"),
        ("results[0] = (count, 2) in (alike,)", f"Alike is a tuple with its own __eq__(), {TUPLE}"),
        (
            "results[0] = count in listed",
            f"List is a list with its own __contains__(), {INSTEAD.format('list', 'list')}",
        ),
        ("results[0] = count in contained", f"Table is a dict with its own __contains__(), {DICT}"),
        ("results[0] = count in walked", f"Walked is a dict with its own __iter__(), {DICT}"),
        ("results[0] = view.get(count, 0)", f"Table is a dict with its own get(), {DICT}"),
        ("results[0] = count in chosen", f"Set is a set with its own __contains__(), {INSTEAD.format('set', 'set')}"),
        (
            "results[0] = count in frozen",
            f"Chosen is a frozenset with its own __contains__(), {INSTEAD.format('frozenset', 'frozenset')}",
        ),
        (
            "results[0] = count in everything",
            f"All has its own __contains__(), {ALONE}give a number, a string or a tuple",
        ),
        ("results[0] = count in own", f"Own is an int with its own __eq__(), {NUMBER}"),
        ("results[0] = max(*own, count)", f"Own is an int with its own __eq__(), {NUMBER}"),
        ("results[0] = by_own.get(count, 3)", f"Own is an int with its own __eq__(), {NUMBER}"),
        ("results[0] = of_own[count & 1]", f"Own is an int with its own __eq__(), {NUMBER}"),
        ("results[0] = sum(each + count for each in borrowed)", f"Borrowed is an int with its own __add__(), {NUMBER}"),
        ("results[0] = comm() == Colour.RED", f"Colour is a str with its own __eq__(), {TEXT}"),
        ("results[0] = count in levels", f"Level is an int with its own __eq__(), {NUMBER}"),
        ("results[0] = Point(count, 1) == (2, 3)", f"Point is a tuple with its own __eq__(), {TUPLE}"),
        ("results[0] = Turned(count, 1).x", f"Turned is a tuple with its own __new__(), {TUPLE}"),
        ("results[0] = Hidden(count, 1).x", f"Hidden is a tuple with its own x(), {TUPLE}"),
        (
            "results[0] = Twice(count).x",
            f"Twice has its own __init__(), {ALONE}leave it out, and write a function that returns Twice(x=…)",
        ),
        (
            "results[0] = Twice(4).x",
            f"Twice has its own __init__(), {ALONE}leave it out, and write a function that returns Twice(x=…)",
        ),
        (
            "results[0] = New(x=count).x",
            f"New has its own __new__(), {ALONE}leave it out, and write a function that returns New(x=…)",
        ),
        (
            "s = Stored(x=count)\ns.x = 5\nresults[0] = s.x",
            f"Stored has its own __setattr__(), {ALONE}a record's fields are plain",
        ),
        (
            "s = Stored(x=count)\ns.x += 5\nresults[0] = s.x",
            f"Stored has its own __setattr__(), {ALONE}a record's fields are plain",
        ),
        (
            "results[0] = Read(x=count).x",
            f"Read has its own __getattribute__(), {ALONE}a record's fields are plain",
        ),
        (
            "results[0] = Shadowed(low=count, high=1).low",
            "Shadowed.low is a field, and something else in the class body: rename one of them",
        ),
    ],
)
def test_own_methods_are_refused(body: str, expected: str) -> None:
    """The kernel would compute as the built-in type does, without a word."""
    with pytest.raises(CompileError) as caught:
        build(body, "count", OUTSIDE)
    assert message(caught.value)[0] == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("(text == 'a') + 2 * (7 in row) + len(row[0:2:1] * 0 if False else 'ab')", 5),
        ("contained.get(count, 0)", 99),
        ("sum(each * count for each in row)", 25),
        ("Simple(count, 2).x + Simple(1, 2).total()", 8),
        ("Ordinary(x=count).twice()", 10),
        ("1 if ('abc' if count else 'b') == Named('abc') or Fruit.APPLE == ('apples' if count else 'b') else 3", 1),
        ("by_flags.get(count - 4, 0) + (Flags.X in by_flags)", 6),
        ("ordered.get(count, 0) + default.get(count, 0) + counter.get(count, 0) + (count in counter)", 5),
        ("count in collections.OrderedDict([(5, 1)]).keys()", 1),
        ("view.get(3, 2)", 99),
    ],
)
def test_what_python_itself_computes_and_what_is_inherited_stays(source: str, expected: int) -> None:
    """A method that Python calls, or that is of Python's library, replaces nothing."""
    assert results(f"results[0] = {source}", outside=OUTSIDE)[0] == expected
