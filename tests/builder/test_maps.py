"""Maps in probes: what is refused, with the words that say what to write."""

from __future__ import annotations

from typing import Any

import pytest

from pyebpf.builder.values.comparisons import compare
from pyebpf.builder.values.operations import to_int
from pyebpf.builder.values.records import StructConstructor
from pyebpf.errors import CompileError
from pyebpf.maps.keyed import KeyedMap
from pyebpf.maps.ringbuf import RingBufferEntity
from pyebpf.types import BE32, S64, U16, U32, U64, CharArray, Struct, u16, u32, u64
from pyebpf.uapi.bpf import MapType
from tests.builder.harness import Probe


class Key(Struct):
    device: u32
    port: u16


class Value(Struct):
    at: u64
    count: u16


def hashed(key: Any = U32, value: Any = U64) -> KeyedMap:
    return KeyedMap("opens", MapType.HASH, key, value, 10)


def array(value: Any = U64, entries: int = 4) -> KeyedMap:
    return KeyedMap("sizes", MapType.ARRAY, U32, value, entries)


def method(p: Probe, owner: Any, name: str, *arguments: Any) -> Any:
    return owner.attribute(p, name).call(p, arguments, {})


REFUSALS = {
    "an entry that may be missing": (
        lambda p: hashed().item(p, 1),
        r"opens\[k\] may be missing: write opens.get\(k\) and test it with `is None`, or opens.get\(k, 0\)",
    ),
    "an index that may be outside": (
        lambda p: array().item(p, p.number(0)),
        "this index of the map sizes may lie outside 0 to 3: test it first, or write sizes.get",
    ),
    "a constant index outside": (
        lambda p: array().item(p, 4),
        "index 4 is outside the map sizes, which has 4 entries",
    ),
    "a negative index": (lambda p: array().set_item(p, -1, 0), "index -1 is outside the map sizes"),
    "an index that is not a number": (
        lambda p: array().item(p, "a"),
        "'a' is not an index of the map sizes: give a number",
    ),
    "del of an array": (
        lambda p: array().delete_item(p, 1),
        "the entries of the map sizes always exist, del removes none: assign 0 to one",
    ),
    "pop of an array": (lambda p: method(p, array(), "pop", 1), "always exist, pop removes none"),
    "add to an array": (
        lambda p: method(p, array(), "add", 1, 2),
        "the entries of the map sizes always exist: assign to",
    ),
    "user space's methods": (
        lambda p: hashed().attribute(p, "clear"),
        r"opens.clear is for user space: a probe looks entries up one at a time, by .get\(k\)",
    ),
    "a misspelt method": (
        lambda p: hashed().attribute(p, "gett"),
        r"the map opens has no attribute gett \(did you mean get\?\)",
    ),
    "too many arguments": (
        lambda p: method(p, hashed(), "get", 1, 2, 3),
        r"get\(\) of the map opens: too many positional arguments",
    ),
    "a tuple as a key": (
        lambda p: hashed(Key.layout).augment_item(p, (1, 2), "+", 1),
        r"the keys of the map opens are Key: write Key\(…\)",
    ),
    "a key that does not fit": (
        lambda p: hashed().augment_item(p, 1 << 32, "+", 1),
        "4294967296 does not fit u32, which holds 0 to 4294967295",
    ),
    "a text that does not fit": (
        lambda p: hashed(CharArray(4)).augment_item(p, "four", "+", 1),
        r"'four' does not fit char\[4\]: at most 3 bytes",
    ),
    "a text as a number": (
        lambda p: hashed().augment_item(p, "one", "+", 1),
        "'one' does not fit u32: give an integer",
    ),
    "a number as a text": (
        lambda p: hashed(CharArray(4)).augment_item(p, p.number(0), "+", 1),
        r"an s64 does not fit char\[4\]",
    ),
    "another record as a key": (
        lambda p: hashed(Key.layout).augment_item(p, StructConstructor(Value).call(p, (1, 2), {}), "+", 1),
        "the new record Value does not fit Key",
    ),
    "a default for records": (
        lambda p: method(p, hashed(value=Value.layout), "get", 1, 0),
        r"get\(k, default\) is for maps of integers: write opens.get\(k\) and test it with `is None`",
    ),
    "a default that does not fit": (lambda p: method(p, hashed(), "get", 1, -1), "-1 does not fit u64, which holds 0"),
    "a default of the other sign": (
        lambda p: method(p, hashed(), "get", 1, p.number(0, S64)),
        r"the map opens holds u64 and the default is an s64: write u64\(…\)",
    ),
    "an operator without an atomic form": (
        lambda p: hashed().augment_item(p, 1, "*", 2),
        r"opens\[k\] is shared with other processors, and \*= has no atomic form: use \+ - & \| \^, or read it",
    ),
    "a width without an atomic form": (
        lambda p: hashed(value=U16).augment_item(p, 1, "+", 2),
        r"\+= on opens\[k\] needs a number of 4 or 8 bytes in the machine's order, not u16",
    ),
    "an order without an atomic form": (lambda p: hashed(value=BE32).augment_item(p, 1, "+", 2), "not be32"),
    "a record that is counted up": (
        lambda p: hashed(value=Value.layout).augment_item(p, 1, "+", 2),
        "needs a number of 4 or 8 bytes in the machine's order, not Value",
    ),
    "a field of a shared record without an atomic form": (
        lambda p: array(Value.layout, 1).item(p, 0).augment_attribute(p, "count", "+", 1),
        r"\+= on Value.count needs a number of 4 or 8 bytes",
    ),
    "a number in a ring buffer of records": (
        lambda p: RingBufferEntity("events", Value.layout, 4096).emit(p, 3),
        "the ring buffer events takes Value records, not 3",
    ),
    "another record in a ring buffer": (
        lambda p: RingBufferEntity("events", Value.layout, 4096).emit(p, StructConstructor(Key).call(p, (1, 2), {})),
        "the ring buffer events takes Value records, not the new record Key",
    ),
    "the truth of a map": (lambda p: hashed().truth(p), "the map opens is neither true nor false"),
    "a map as an operand": (lambda p: compare(p, "<", hashed(), 3), "the map opens cannot be compared with 3 by <"),
    "a map as a number": (lambda p: to_int(p, hashed()), "the map opens is not a number"),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_refused_with_the_remedy(what: str) -> None:
    build, message = REFUSALS[what]
    p = Probe()
    with pytest.raises(CompileError, match=message) as caught:
        build(p)
    assert caught.value.location is not None


def test_a_map_tells_its_spec_when_its_name_is_known() -> None:
    """The name may come later than the map."""
    owner = KeyedMap("", MapType.LRU_HASH, U32, U64, 10, 2)
    owner.name = "late"
    p = Probe()
    owner.augment_item(p, 1, "+", 1)
    assert list(p.maps) == ["late", ".drops"]
    assert p.maps["late"] == owner.spec
    assert (owner.spec.type, owner.spec.max_entries, owner.spec.flags) == (MapType.LRU_HASH, 10, 2)


def test_keys_of_one_program_share_their_stack() -> None:
    """Twenty look-ups with keys of 16 bytes take 24 bytes of stack: a key, and the zeros that are inserted."""
    p = Probe()
    owner = hashed(CharArray(16))
    for i in range(20):
        owner.augment_item(p, f"name{i}", "+", 1)
    p.ret(0)
    assert sum(slot.size for slot in p.finish().main.slots) == 24
