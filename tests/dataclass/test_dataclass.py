"""`pyebpf.dataclass` does what the standard library's does, for every parameter that it has."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from pyebpf import dataclass as ours

BOTH = [
    pytest.param(SimpleNamespace(make=each.dataclass, field=each.field, replace=each.replace), id=each.__name__)
    for each in (dataclasses, ours)
]


def point(lib: Any, **parameters: bool) -> Any:
    """A class with a default, a factory, and fields that comparison, `repr` or `__init__` leave out."""

    @lib.make(**parameters)
    class Point:
        """A point."""

        NAMES: ClassVar[tuple[str, ...]] = ("x", "y")
        x: int
        y: int = 2
        tags: list[str] = lib.field(default_factory=list)
        note: str = lib.field(default="", compare=False, repr=False)

        def total(self) -> int:
            return self.x + self.y

    return Point


@pytest.mark.parametrize("lib", BOTH)
@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_fields_defaults_and_equality(lib: Any, slots: bool, frozen: bool) -> None:
    """Positional and named arguments, defaults, a new list for each, equality by the fields that count, `repr`."""
    cls = point(lib, slots=slots, frozen=frozen)
    one, other = cls(1), cls(1, y=2, note="left out")
    assert (one.x, one.y, one.tags, one.note, one.total()) == (1, 2, [], "", 3)
    assert one.tags is not other.tags
    assert one == other
    assert one != cls(1, 3)
    assert one != (1, 2, [], "")
    assert repr(other).endswith("Point(x=1, y=2, tags=[])")
    assert cls.__match_args__ == ("x", "y", "tags", "note")
    assert cls.NAMES == ("x", "y")
    assert hasattr(one, "__dict__") is not slots
    for wrong in ((), (1, 2, [], "", 5)):
        with pytest.raises(TypeError):
            cls(*wrong)
    with pytest.raises(TypeError):
        cls(1, z=3)


@pytest.mark.parametrize("lib", BOTH)
@pytest.mark.parametrize("slots", [False, True])
def test_frozen_ones_stay_as_they_are(lib: Any, slots: bool) -> None:
    """They can't be set or deleted, and hash as they compare; others can be set and have no hash."""
    frozen, open_ = point(lib, slots=slots, frozen=True)(1, tags=()), point(lib, slots=slots)(1)
    with pytest.raises(AttributeError):
        frozen.x = 2
    with pytest.raises(AttributeError):
        del frozen.x
    assert hash(frozen) == hash(lib.replace(frozen, note="left out"))
    open_.x = 2
    assert open_.x == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(open_)


@pytest.mark.parametrize("lib", BOTH)
def test_replace_changes_some_fields(lib: Any) -> None:
    """The others are those of the original, which stays; an unknown name is refused."""
    one = point(lib, frozen=True, slots=True)(1, 5, ["a"], "note")
    two = lib.replace(one, y=7)
    assert (two.x, two.y, two.tags, two.note) == (1, 7, ["a"], "note")
    assert one.y == 5
    with pytest.raises(TypeError):
        lib.replace(one, z=1)


@pytest.mark.parametrize("lib", BOTH)
def test_inheritance(lib: Any) -> None:
    """A base's fields come first; with kw_only none is positional, so that one without default may follow."""

    @lib.make(frozen=True, kw_only=True)
    class Base:
        name: str
        size: int = 8

    @lib.make(frozen=True, kw_only=True)
    class Derived(Base):
        kind: str

    made = Derived(kind="k", name="n")
    assert (made.name, made.size, made.kind) == ("n", 8, "k")
    assert Derived.__match_args__ == ()
    assert made != Base(name="n")
    with pytest.raises(TypeError):
        Derived("n", 8, "k")


@pytest.mark.parametrize("lib", BOTH)
def test_two_bases(lib: Any) -> None:
    """Both bases' fields are there, in the order of the standard library's, and the first base's default counts."""

    @lib.make(frozen=True)
    class Tasks:
        pid: int = 1
        version: int = 4

    @lib.make(frozen=True)
    class Sockets:
        port: int = 2
        version: int = 6

    @lib.make(frozen=True)
    class Both(Tasks, Sockets):
        wide: bool = False

    made = Both(wide=True, pid=3)
    assert Both.__match_args__ == ("port", "version", "pid", "wide")
    assert (made.port, made.version, made.pid, made.wide) == (2, 4, 3, True)


@pytest.mark.parametrize("lib", BOTH)
def test_what_a_class_says_itself_stands(lib: Any) -> None:
    """`__eq__`, `__hash__` and `__repr__` of the body are kept; `__post_init__` runs; eq=False compares by identity."""

    @lib.make(frozen=True, slots=True)
    class Own:
        x: int

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError(self.x)

        def __repr__(self) -> str:
            return "own"

        def __hash__(self) -> int:
            return 97

    @lib.make(slots=True, eq=False)
    class Identity:
        x: int
        later: int = lib.field(init=False)

    assert (repr(Own(1)), hash(Own(1))) == ("own", 97)
    with pytest.raises(ValueError, match="-1"):
        Own(-1)
    one = Identity(1)
    assert one != Identity(1)
    assert hash(one) == hash(one)
    assert not hasattr(one, "later")


@ours.dataclass(frozen=True, slots=True)
class Pair:
    """At module level, where pickle finds it."""

    x: int
    y: tuple[int, ...] = ()


def test_copies_and_pickles() -> None:
    """Frozen ones with slots survive both."""
    made = Pair(1, (2, 3))
    assert copy.deepcopy(made) == made
    assert pickle.loads(pickle.dumps(made)) == made


def test_a_subclass_may_be_the_first_to_be_made():
    """Its `super().__init__` reaches the base's initializer before the base has an instance."""

    @ours.dataclass(frozen=True, slots=True)
    class Base:
        a: int
        b: int = 2

    class Derived(Base):
        def __init__(self, a):
            super().__init__(a)

    assert (Derived(1).a, Derived(5).b) == (1, 2)
    assert Base(7, b=8) == Base(7, 8)
    assert type(Base(1)) is Base


def test_first_instances_may_be_made_by_many_threads_at_once():
    """Whichever compiles the initializer, all get theirs."""
    for _ in range(20):

        @ours.dataclass()
        class Late:
            a: int
            b: list[int] = ours.field(default_factory=list)

        start = Barrier(8)

        def make(number, start=start, late=Late):
            start.wait()
            return late(number)

        with ThreadPoolExecutor(8) as pool:
            assert [each.a for each in pool.map(make, range(8))] == list(range(8))


@pytest.mark.parametrize("lib", BOTH)
@pytest.mark.parametrize("frozen", [False, True])
def test_classes_of_one_shape_keep_their_own_names_and_defaults(lib: Any, frozen: bool) -> None:
    """Whatever the fields are called, the other one's place among them."""

    @lib.make(frozen=frozen)
    class One:
        v1: int
        v0: int = 5
        made: list[int] = lib.field(default_factory=lambda: [1])
        late: list[int] = lib.field(default_factory=lambda: [2], init=False)

    @lib.make(frozen=frozen)
    class Other:
        a: int
        self_: int = 7
        made: dict[str, int] = lib.field(default_factory=dict)
        late: tuple[int, ...] = lib.field(default_factory=tuple, init=False)

    one, other = One(1), Other(a=2)
    assert (one.v1, one.v0, one.made, one.late) == (1, 5, [1], [2])
    assert (other.a, other.self_, other.made, other.late) == (2, 7, {}, ())
    assert (One(v0=3, v1=4).v0, Other(1, 2, {"x": 3}).made) == (3, {"x": 3})
    with pytest.raises(TypeError, match=r"Other.__init__\(\) missing 1 required positional argument: 'a'"):
        Other()
    with pytest.raises(TypeError, match="v2"):
        One(1, v2=3)


def test_a_field_without_default_after_one_that_has_it() -> None:
    """It is refused with both names, when the first instance is made."""

    @ours.dataclass()
    class Wrong:
        size: int = 8
        name: str

    with pytest.raises(TypeError, match="'name' has no default but follows 'size'"):
        Wrong(1, "n")


def test_fields_are_known_by_name_annotation_and_metadata() -> None:
    """Those of the base first; annotations as text, whether the module has them evaluated or not."""

    @ours.dataclass(frozen=True)
    class Base:
        size: int = ours.field(default=8, metadata={"unit": "bytes"})

    scope: dict[str, Any] = {"Base": Base, "ours": ours, "ClassVar": ClassVar}
    exec(  # its annotations are evaluated: it has no future import
        "@ours.dataclass(frozen=True)\n"
        "class Derived(Base):\n KINDS: ClassVar[int] = 3\n name: str | None = None\n ids: tuple[int, ...] = ()\n"
        " flag: bool = ours.field()\n",
        scope,
    )
    size, name, ids, flag = ours.fields(scope["Derived"])
    assert [each.name for each in (size, name, ids, flag)] == ["size", "name", "ids", "flag"]
    assert [each.type for each in (size, name, ids, flag)] == ["int", "str | None", "tuple[int, ...]", "bool"]
    assert (size.default, name.default, flag.default) == (8, None, ours.MISSING)
    assert (dict(size.metadata), dict(name.metadata)) == ({"unit": "bytes"}, {})
    assert ours.fields(Base(3)) == (size,)
