"""Struct classes as Python classes: slots, defaults, inheritance, copies."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from pyebpf import InvalidValue, MalformedData, SpinLock, Struct, array, bits, char, field, now, spin_lock, u8, u32, u64
from pyebpf.errors import OnlyInProbe


class Base(Struct):
    at: u64
    kind: u32 = 7


class Named(Base):
    name: str = field(char[8], default="none")

    @property
    def short(self) -> str:
        return self.name[:2]


class Plain(Named):
    def twice(self) -> int:
        return 2 * self.at


def test_records_have_their_fields_and_nothing_else():
    """A misspelt attribute is an error, not a new one."""
    record = Base(1)
    assert (record.at, record.kind) == (1, 7)
    record.kind = 9
    assert record == Base(1, 9)
    with pytest.raises(AttributeError):
        record.knd = 3


def test_fields_and_defaults_are_inherited():
    """In order, the base's first; a class without fields of its own has methods alone."""
    assert [f.name for f in Named.layout.fields] == ["at", "kind", "name"]
    assert Named(5) == Named(5, 7, "none")
    assert Plain(at=3, name="long").short == "lo"
    assert (Plain(3).twice(), Plain(3).kind) == (6, 7)
    assert Plain.from_bytes(Plain(3, 4, "x").to_bytes()) == Plain(3, 4, "x")


class Counted(Struct):
    number: u32 = field(u32, default_factory=iter(range(100)).__next__, kw_only=True)
    name: str = field(char[8])


class Sized(Counted):
    size: u64


def test_fields_that_are_made_or_given_by_name():
    """A factory is called for each record; what is given by name has no place among the positions, nor in `match`."""
    first, second = Sized("a", 1), Sized("b", 2)
    assert (first.number + 1, first.name, first.size) == (second.number, "a", 1)
    assert Sized.from_bytes(Sized("a", 1, number=9).to_bytes()) == Sized("a", 1, number=9)
    assert pickle.loads(pickle.dumps(second)) == second
    match second:
        case Sized(name, size):
            assert (name, size) == ("b", 2)
    with pytest.raises(InvalidValue, match="Sized has 2 fields given by position, 3 values were given"):
        Sized(1, "a", 1)
    with pytest.raises(InvalidValue, match="a default or a default_factory, not both"):
        field(u32, default=1, default_factory=int)
    with pytest.raises(InvalidValue, match="a function without arguments, not 7"):
        field(u32, default_factory=7)
    with pytest.raises(InvalidValue, match="default_factory is a field of this class, which has the function's name"):
        field(u32, default_factory=field(u32))


def test_a_field_that_is_declared_again_takes_the_place_of_the_first():
    """As in a dataclass: one field, with its new type and default."""

    class Again(Named):
        at: u32 = 5
        more: u8

    assert [(f.name, f.type) for f in Again.layout.fields] == [
        ("at", u32),
        ("kind", u32),
        ("name", Named.layout.by_name["name"].type),
        ("more", u8),
    ]
    assert (Again(more=3).at, Again(9, more=3).at, Again(more=3, at=4).at) == (5, 9, 4)


def test_a_default_belongs_to_one_record():
    """A list or a record that is a default is copied: who changes it changes one record."""

    class Holder(Struct):
        x: u32
        many: list[int] = field(array(u32, 3), default=[1, 2, 3])
        part: Base = field(Base, default=Base(7))

    changed = Holder(1)
    changed.many[1], changed.part.at = 88, 99
    assert Holder(1) == Holder(1, [1, 2, 3], Base(7))


def test_what_a_probe_would_make_is_to_be_given_in_python():
    """After all that is wrong anyway is told; the record and the field are named."""

    class Event(Struct):
        at: u64 = field(u64, default_factory=now, kw_only=True)
        kind: u32

    with pytest.raises(OnlyInProbe, match=r"Event needs a value for at outside probes: now\(\) has an answer only"):
        Event(1)
    with pytest.raises(InvalidValue, match="Event needs a value for kind"):
        Event()
    with pytest.raises(InvalidValue, match=r"Event has no field att \(did you mean at\?\)"):
        Event(1, att=5)
    with pytest.raises(InvalidValue, match="Event got two values for kind"):
        Event(1, kind=5, at=3)


def test_records_are_copied_and_pickled():
    """As any plain object."""
    record = Named(1, 2, "three")
    assert copy.copy(record) == copy.deepcopy(record) == pickle.loads(pickle.dumps(record)) == record


def test_beside_a_class_without_fields():
    """Which may bring methods."""

    class Loud:
        def shout(self) -> str:
            return str(self).upper()

    class Event(Struct, Loud):
        at: u64

    assert Event(1).shout() == "EVENT(AT=1)"


class Session(Struct):
    lock: SpinLock = field(spin_lock, default=None)
    flags: u8
    marked = bits("flags", 0)
    by: Named
    mac: bytes = field(array(u8, 6))
    counts: list[int] = field(array(u32, 2))
    names: list[Base] = field(array(Base.layout, 2))


def test_records_become_dictionaries():
    """Their fields in order: records inside as dictionaries, arrays as lists, bytes as they are, and nothing shared."""
    session = Session(None, 1, Named(2, 3, "four"), b"\0\1\2\3\4\5", [6, 7], [Base(8), Base(9)])
    found = session.as_dict()
    assert list(found) == ["lock", "flags", "by", "mac", "counts", "names"]
    assert found == {
        "lock": None,
        "flags": 1,
        "by": {"at": 2, "kind": 3, "name": "four"},
        "mac": b"\0\1\2\3\4\5",
        "counts": [6, 7],
        "names": [{"at": 8, "kind": 7}, {"at": 9, "kind": 7}],
    }
    found["counts"].append(10)
    found["names"][0]["at"] = 10
    assert (session.counts, session.names[0].at) == ([6, 7], 8)
    assert Named(**session.by.as_dict()) == session.by
    assert json.loads(json.dumps(session.as_dict(), default=bytes.hex))["mac"] == "000102030405"


def test_a_field_hides_the_method_of_its_name():
    """It is read as any other; the method is still the class's."""

    class Hiding(Struct):
        as_dict: u32
        to_bytes: u32

    record = Hiding(1, 2)
    assert (record.as_dict, record.to_bytes) == (1, 2)
    assert Struct.as_dict(record) == {"as_dict": 1, "to_bytes": 2}
    assert Struct.to_bytes(record) == b"\1\0\0\0\2\0\0\0"

    class Outer(Struct):
        inner: Hiding

    assert Outer(record).as_dict() == {"inner": {"as_dict": 1, "to_bytes": 2}}


def test_a_field_may_be_called_self():
    """By name, too; `from_bytes` reads it back."""

    class Own(Struct):
        self: u32
        from_bytes: u32

    record = Own(self=1, from_bytes=2)
    assert (record.self, record.from_bytes) == (1, 2)
    assert Own.layout.decode(Struct.to_bytes(record)) == record


def test_a_field_called_layout_is_refused():
    """It would take the place of what every Struct is read by."""
    with pytest.raises(InvalidValue, match=r"Bad\.layout: a Struct's layout has that name; call the field layout_"):

        class Bad(Struct):
            layout: u32


def test_what_is_given_and_what_there_is_do_not_fit():
    """Each fault is told: a field without a value, a name that is none, too few bytes."""
    with pytest.raises(InvalidValue, match="Small needs a value for b, and has no field bb"):
        Small(a=1, bb=2)
    with pytest.raises(InvalidValue, match="Small has no field c"):
        Small(1, 2, c=3)
    for data in (b"", bytes(7), bytes(9)):
        with pytest.raises(MalformedData, match=f"Small has 8 bytes, these are {len(data)}"):
            Small.from_bytes(data)


class Small(Struct):
    a: u32
    b: u32
