"""Struct classes as Python classes: slots, defaults, inheritance, copies."""

from __future__ import annotations

import copy
import pickle

import pytest

from pyebpf import Struct, char, field, u32, u64


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
