"""Records: what dataclasses promise, kept."""

from __future__ import annotations

import copy
import pickle

import pytest

from pyebpf.btf import Array, Const, Ptr
from pyebpf.btf.record import Record


class Point(Record):
    """Two fields, one with a default."""

    x: int
    y: int = 7

    def total(self):
        return self.x + self.y


class Solid(Point):
    """A third one."""

    z: int = 9


def test_fields_are_taken_in_order_by_name_and_by_default():
    assert Solid(1) == Solid(1, 7, 9) == Solid(x=1, z=9) != Solid(1, 8)
    assert (Solid(1, z=3).total(), Solid(1, z=3).z) == (8, 3)


def test_records_of_different_classes_differ():
    assert Ptr(1, "", 2) != Const(1, "", 2)
    assert Point(1) != Solid(1)
    assert Point(1) != (1, 7)
    assert len({Ptr(1, "", 2), Const(1, "", 2), Ptr(1, "", 2)}) == 2


def test_records_are_frozen_and_have_no_room_for_more():
    point = Point(1)
    for change in (lambda: setattr(point, "x", 2), lambda: setattr(point, "w", 2), lambda: delattr(point, "x")):
        with pytest.raises(AttributeError, match="is frozen"):
            change()
    assert not hasattr(point, "__dict__")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Point, "Point lacks 'x'"),
        (lambda: Point(1, 2, 3), "Point has 2 fields, not 3"),
        (lambda: Point(1, w=2), "Point has no field 'w'"),
        (lambda: Point(1, x=2), "Point has no field 'x', or has it twice"),
    ],
)
def test_wrong_fields_are_refused(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_records_copy_pickle_and_match():
    node = Array(3, "", 1, 2, 17)
    assert copy.copy(node) == copy.deepcopy(node) == pickle.loads(pickle.dumps(node)) == node
    match node:
        case Array(3, "", element, _, length):
            assert (element, length) == (1, 17)
        case _:
            pytest.fail("an Array matches by position")


def test_the_representation_leaves_defaults_out():
    assert repr(Solid(1, z=3)) == "Solid(x=1, z=3)"
