"""What may be None is checked before use, and what a map gave is not used once it may be gone."""

from __future__ import annotations

from typing import Any

import pytest

from pyebpf.builder.values.comparisons import compare
from pyebpf.builder.values.operations import binary, is_none, truth
from pyebpf.builder.values.records import Record, StructConstructor
from pyebpf.errors import CompileError
from pyebpf.maps.keyed import KeyedMap
from pyebpf.types import U32, U64, CharArray, Struct, field, u32, u64
from pyebpf.uapi.bpf import MapType
from tests.builder.harness import Probe


class Start(Struct):
    at: u64
    size: u32
    name: str = field(CharArray(16))
    cells: list[int] = field(U32[3])


def look_up(p: Probe, owner: KeyedMap, key: Any = 1) -> Any:
    return owner.attribute(p, "get").call(p, (key,), {})


def starts() -> KeyedMap:
    return KeyedMap("starts", MapType.HASH, U32, Start.layout, 10)


def counts() -> KeyedMap:
    return KeyedMap("counts", MapType.HASH, U32, U64, 10)


@pytest.mark.parametrize(
    "use",
    [
        lambda p, entry: entry.attribute(p, "at"),
        lambda p, entry: entry.set_attribute(p, "at", 1),
        lambda p, entry: entry.augment_attribute(p, "at", "+", 1),
        lambda p, entry: starts().set_item(p, 2, entry),
        lambda p, entry: (
            StructConstructor(Start).call(p, (), {"at": 1, "size": 2, "name": entry, "cells": entry}).local(p)
        ),
    ],
)
def test_an_entry_is_used_only_once_it_is_known_to_be_there(use: Any) -> None:
    p = Probe()
    entry = look_up(p, starts())
    with pytest.raises(
        CompileError, match=r"the record Start \(an entry of starts\) may be None: test it with `is None` f"
    ):
        use(p, entry)


def test_an_entry_is_used_freely_after_the_check() -> None:
    """Its strings and arrays with it."""
    p = Probe()
    entry = look_up(p, starts())
    with p.b.if_(is_none(p, entry)):
        p.ret(0)
    compare(p, "==", entry.attribute(p, "name"), "x")
    entry.attribute(p, "cells").item(p, 2)
    entry.set_attribute(p, "size", 7)
    p.ret(0)
    assert p.finish().functions


@pytest.mark.parametrize("use", [lambda p, n: binary(p, "+", n, 1), lambda p, n: compare(p, "<", 1, n)])
def test_a_number_looked_up_is_used_only_once_it_is_known_to_be_there(use: Any) -> None:
    p = Probe()
    number = look_up(p, counts())
    message = r"counts.get\(…\) may be None: test it with `is None` first, or give get\(\) a default"
    with pytest.raises(CompileError, match=message):
        use(p, number)
    with p.b.if_(is_none(p, number)):
        p.ret(0)
    use(p, number)


def test_the_check_counts_on_the_path_where_it_was_made() -> None:
    p = Probe()
    number = look_up(p, counts())
    with p.b.if_(is_none(p, number)), pytest.raises(CompileError, match="may be None"):
        binary(p, "+", number, 1)
    with p.b.else_():
        binary(p, "+", number, 1)
    with pytest.raises(CompileError, match="may be None"):
        binary(p, "+", number, 1)


@pytest.mark.parametrize("owner", [starts, counts])
def test_truth_of_what_may_be_none_is_refused(owner: Any) -> None:
    p = Probe()
    with pytest.raises(CompileError, match="write `is None` or `is not None`"):
        truth(p, look_up(p, owner()))


def test_a_record_of_ones_own_is_never_none() -> None:
    p = Probe()
    record = StructConstructor(Start).call(p, (1, 2, "x", [1, 2, 3]), {}).local(p)
    with pytest.raises(CompileError, match="the record Start is never None"):
        is_none(p, record)
    with pytest.raises(CompileError, match="the record Start is neither true nor false: compare one of its fields"):
        truth(p, record)


def present(p: Probe, owner: KeyedMap, key: Any = 1) -> Record:
    entry = look_up(p, owner, key)
    with p.b.if_(is_none(p, entry)):
        p.ret(0)
    assert isinstance(entry, Record)
    return entry


@pytest.mark.parametrize("word", ["del", "pop"])
def test_a_reference_is_gone_after_its_map_lost_an_entry(word: str) -> None:
    """Whatever the key: it may be the same."""
    p = Probe()
    owner = starts()
    entry = present(p, owner)
    if word == "del":
        owner.delete_item(p, 2)
    else:
        owner.attribute(p, "pop").call(p, (2,), {})
    message = rf"the record Start \(an entry of starts\) is used after `{word}` on starts: copy what you need first"
    with pytest.raises(CompileError, match=message):
        entry.attribute(p, "at")


def test_a_reference_is_gone_if_one_path_removed_an_entry() -> None:
    p = Probe()
    owner = starts()
    entry = present(p, owner)
    with p.b.if_(compare(p, "==", p.number(0), 1)):
        owner.delete_item(p, 1)
    with pytest.raises(CompileError, match="is used after `del` on starts"):
        entry.attribute(p, "at")


def test_a_reference_stays_if_the_path_that_removed_an_entry_left() -> None:
    p = Probe()
    owner = starts()
    entry = present(p, owner)
    with p.b.if_(compare(p, "==", p.number(0), 1)):
        owner.delete_item(p, 1)
        p.ret(0)
    entry.attribute(p, "at")


def test_references_of_other_maps_and_later_ones_stay() -> None:
    p = Probe()
    owner, other = starts(), KeyedMap("others", MapType.HASH, U32, Start.layout, 10)
    entry = present(p, other)
    owner.delete_item(p, 1)
    entry.attribute(p, "at")
    present(p, owner).attribute(p, "at")


def test_a_name_that_two_paths_gave_a_reference_is_gone_too() -> None:
    p = Probe()
    owner = starts()
    name = p.b.variable(p.context.type)
    with p.b.if_(compare(p, "==", p.number(0), 1)):
        first = present(p, owner, 1)
        p.b.write(name, first.ssa_values[0])
    with p.b.else_():
        p.b.write(name, present(p, owner, 2).ssa_values[0])
    found = p.b.read(name)
    assert found is not None
    both = first.with_ssa_values((found,))
    both.attribute(p, "at")
    owner.delete_item(p, 3)
    with pytest.raises(CompileError, match="is used after `del` on starts"):
        both.attribute(p, "at")


def test_a_reference_that_a_round_removes_is_not_used_in_the_next() -> None:
    p = Probe()
    owner = starts()
    entry = present(p, owner)

    def build() -> None:
        with p.b.loop() as loop:
            with p.b.if_(compare(p, "==", p.number(0), 1)):
                p.b.break_(loop)
            entry.attribute(p, "at")
            owner.delete_item(p, 1)

    with pytest.raises(CompileError, match="is used after `del` on starts in an earlier iteration"):
        build()


def test_a_reference_that_each_round_looks_up_anew_may_be_removed_in_each() -> None:
    p = Probe()
    owner = starts()
    with p.b.loop() as loop:
        entry = look_up(p, owner)
        with p.b.if_(is_none(p, entry)):
            p.b.break_(loop)
        entry.attribute(p, "at")
        owner.delete_item(p, 1)
    p.ret(0)
    assert p.finish().functions


def test_what_was_popped_stays() -> None:
    """It is a copy."""
    p = Probe()
    owner = starts()
    popped = owner.attribute(p, "pop").call(p, (1,), {})
    with pytest.raises(CompileError, match=r"the record Start \(starts.pop\(…\)\) may be None"):
        popped.attribute(p, "at")
    with p.b.if_(is_none(p, popped)):
        p.ret(0)
    owner.delete_item(p, 2)
    popped.attribute(p, "at")


def test_two_records_of_ones_own_have_two_shapes() -> None:
    """So that a name that may stand for either is refused where paths meet."""
    p = Probe()
    make = StructConstructor(Start)
    first, second = (make.call(p, (1, 2, "x", [1, 2, 3]), {}).local(p) for _ in range(2))
    assert first.static_shape != second.static_shape
    assert first.static_shape == first.with_ssa_values(first.ssa_values).static_shape
