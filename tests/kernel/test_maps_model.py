"""Maps as state machines: against a dictionary, a list, a search over prefixes; and a reader beside a writer."""

from __future__ import annotations

import ipaddress
import threading
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pyebpf.errors import InvalidValue, KernelError
from pyebpf.objects import make_map
from pyebpf.specs import MapSpec
from pyebpf.specs.map_traits import MAP_TRAITS
from pyebpf.types import S32, U32, U64
from pyebpf.types.prefix import ipv4_prefix
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_NO_PREALLOC

FEW = settings(max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))
KEYS = st.integers(0, 40)
VALUES = st.integers(-(1 << 31), (1 << 31) - 1)
ENTRIES = st.dictionaries(KEYS, VALUES, max_size=40)


class Keyed(RuleBasedStateMachine):
    """A hash of 31 entries (or an LRU one that never fills) against a dictionary."""

    KIND: ClassVar[MapType] = MapType.HASH
    SIZE: ClassVar[int] = 31
    FLAGS: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.map = make_map(MapSpec("model", self.KIND, U32, S32, self.SIZE, self.FLAGS))
        self.model: dict[int, int] = {}

    def teardown(self) -> None:
        self.map.close()

    def fits(self, keys) -> bool:
        return len(self.model.keys() | set(keys)) <= self.SIZE

    @rule(key=KEYS, value=VALUES)
    def store(self, key: int, value: int) -> None:
        if self.fits([key]):
            self.map[key] = value
            self.model[key] = value
        else:
            with pytest.raises(KernelError, match="31 entries"):
                self.map[key] = value

    @rule(entries=ENTRIES)
    def store_many(self, entries: dict[int, int]) -> None:
        if self.fits(entries):
            self.map.update(entries)
            self.model.update(entries)

    @rule(key=KEYS, value=VALUES)
    def add(self, key: int, value: int) -> None:
        if self.fits([key]):
            assert self.map.add(key, value) == (key not in self.model)
            self.model.setdefault(key, value)

    @rule(key=KEYS)
    def pop(self, key: int) -> None:
        assert self.map.pop(key, None) == self.model.pop(key, None)

    @rule(keys=st.lists(KEYS, max_size=40))
    def remove(self, keys: list[int]) -> None:
        wanted = set(keys) & self.model.keys()
        assert self.map.remove(keys) == len(wanted)
        for key in wanted:
            del self.model[key]

    @rule()
    def drain(self) -> None:
        assert self.map.drain() == self.model
        self.model.clear()

    @rule(key=KEYS)
    def look(self, key: int) -> None:
        assert self.map.get(key) == self.model.get(key)
        assert (key in self.map) == (key in self.model)

    @invariant()
    def same(self) -> None:
        assert dict(self.map.items()) == self.model
        assert len(self.map) == len(self.model)


class Lru(Keyed):
    """Far from full, nothing is given up."""

    KIND = MapType.LRU_HASH
    SIZE = 4096


class NotPreallocated(Keyed):
    """Elements allocated one by one."""

    FLAGS = BPF_F_NO_PREALLOC


class Array(RuleBasedStateMachine):
    """An array of 41 against a list."""

    def __init__(self) -> None:
        super().__init__()
        self.map = make_map(MapSpec("model", MapType.ARRAY, None, S32, 41))
        self.model = [0] * 41

    def teardown(self) -> None:
        self.map.close()

    @rule(index=st.integers(0, 45), value=VALUES)
    def store(self, index: int, value: int) -> None:
        if index < 41:
            self.map[index] = self.model[index] = value
        else:
            with pytest.raises(InvalidValue, match="0 to 40"):
                self.map[index] = value

    @rule(entries=ENTRIES)
    def store_many(self, entries: dict[int, int]) -> None:
        self.map.update(entries)
        for index, value in entries.items():
            self.model[index] = value

    @rule()
    def clear(self) -> None:
        self.map.clear()
        self.model = [0] * 41

    @invariant()
    def same(self) -> None:
        assert list(self.map.values()) == self.model


class Line(RuleBasedStateMachine):
    """A queue of 7 against a list; a stack is the same from the other end."""

    KIND: ClassVar[MapType] = MapType.QUEUE
    NEXT: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.map = make_map(MapSpec("model", self.KIND, None, S32, 7))
        self.model: list[int] = []

    def teardown(self) -> None:
        self.map.close()

    @rule(value=VALUES, make_room=st.booleans())
    def push(self, value: int, make_room: bool) -> None:
        if len(self.model) == 7 and not make_room:
            with pytest.raises(KernelError, match="7 entries"):
                self.map.push(value)
            return
        self.map.push(value, make_room=make_room)
        self.model = [*self.model, value][-7:]

    @rule()
    def pop(self) -> None:
        assert self.map.pop(None) == (self.model.pop(self.NEXT) if self.model else None)

    @rule()
    def drain(self) -> None:
        assert self.map.drain() == (self.model if self.NEXT == 0 else self.model[::-1])
        self.model = []

    @invariant()
    def same(self) -> None:
        assert self.map.peek(None) == (self.model[self.NEXT] if self.model else None)


class Stack(Line):
    """Last in, first out."""

    KIND = MapType.STACK
    NEXT = -1


NETWORKS = st.tuples(st.integers(0, 15).map(lambda n: n << 28 | 0x00FF_00FF), st.integers(0, 32)).map(
    lambda pair: ipaddress.ip_network(pair, strict=False)
)


class Trie(RuleBasedStateMachine):
    """A trie against a search through all prefixes."""

    def __init__(self) -> None:
        super().__init__()
        self.map = make_map(MapSpec("model", MapType.LPM_TRIE, ipv4_prefix, U32, 1009, BPF_F_NO_PREALLOC))
        self.model: dict[ipaddress.IPv4Network, int] = {}

    def teardown(self) -> None:
        self.map.close()

    @rule(network=NETWORKS, value=st.integers(0, 9))
    def store(self, network: ipaddress.IPv4Network, value: int) -> None:
        self.map[network] = self.model[network] = value

    @rule(networks=st.lists(NETWORKS, max_size=9))
    def remove(self, networks: list[ipaddress.IPv4Network]) -> None:
        wanted = set(networks) & self.model.keys()
        assert self.map.remove(networks) == len(wanted)
        for network in wanted:
            del self.model[network]

    @rule(address=st.integers(0, (1 << 32) - 1).map(ipaddress.IPv4Address))
    def look(self, address: ipaddress.IPv4Address) -> None:
        matching = [network for network in self.model if address in network]
        best = max(matching, key=lambda network: network.prefixlen, default=None)
        assert self.map.get(address) == (None if best is None else self.model[best])

    @invariant()
    def same(self) -> None:
        assert dict(self.map.items()) == self.model


for machine in (Keyed, Lru, NotPreallocated, Array, Line, Stack, Trie):
    machine.TestCase.settings = FEW
    globals()[f"Test{machine.__name__}"] = machine.TestCase
del machine


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (MapType.HASH, U64), (MapType.LRU_HASH, U64), (MapType.PERCPU_HASH, U64), (MapType.LPM_TRIE, ipv4_prefix),
    ],
    ids=lambda value: getattr(value, "name", None),
)  # fmt: skip
def test_iteration_is_safe_beside_a_writer(kind, key):
    """Entries that stay are seen in every walk, exactly once, whatever another thread adds and removes."""

    def named(number: int):
        return number if key is U64 else ipaddress.ip_network((0x0A00_0000 + (number << 4), 28))

    with make_map(MapSpec("busy", kind, key, U32, 8192, MAP_TRAITS[kind].required)) as busy:
        staying = {named(number): number for number in range(1009)}
        busy.update(staying)
        stop = threading.Event()

        def churn() -> None:
            number = 0
            while not stop.is_set():
                busy[named(2000 + number % 997)] = 7
                busy.remove([named(2000 + (number - 300) % 997)])
                number += 1

        writer = threading.Thread(target=churn)
        writer.start()
        try:
            for _ in range(11):
                seen = [bytes(raw) for raw, _ in busy.raw_items()]
                there = [raw for raw in seen if busy.key_type.decode(raw) in staying]
                assert len(there) == len(set(there)) == 1009
        finally:
            stop.set()
            writer.join()
