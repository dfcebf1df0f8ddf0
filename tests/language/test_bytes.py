"""Every byte that leaves a probe was written: keys, values and events, padding as zeros, on a stack full of junk.

The evaluator's memory knows what was written, so a byte left out is an error there whatever happens to lie in it.
"""

from __future__ import annotations

import struct

import pytest

from pyebpf.compiler.evaluator import Pointer, Region, evaluate
from tests.language.harness import RESULTS, Case, context_of

LOOKUP, UPDATE, DELETE, COMM, RESERVE, SUBMIT = 1, 2, 3, 16, 131, 132
RECORD = struct.Struct("<B3xIQ16s")


KEY_SIZES = {"names": 16, "records": 4, "by_record": 32, "pairs": 4, "counts": 4}
VALUE_SIZES = {"names": 8, "records": 32, "by_record": 8, "pairs": 16, "counts": 8}


class Maps:
    """Hash maps and a ring buffer, as raw bytes."""

    def __init__(self):
        self.entries = {}
        self.events = []
        self.keys = []

    def bytes(self, pointer, size):
        return pointer.region.load(pointer.offset, size)

    def lookup(self, _, handle, key):
        raw = self.bytes(key, KEY_SIZES[handle.name])
        self.keys.append(raw)
        entry = self.entries.get((handle.name, raw))
        return Pointer(entry, 0) if entry is not None else 0

    def update(self, _, handle, key, value, flags):
        place = handle.name, self.bytes(key, KEY_SIZES[handle.name])
        data = self.bytes(value, VALUE_SIZES[handle.name])
        if flags != 1 or place not in self.entries:
            self.entries[place] = Region.of("entry", data)
        return 0

    def delete(self, _, handle, key):
        self.entries.pop((handle.name, self.bytes(key, KEY_SIZES[handle.name])), None)
        return 0

    def comm(self, _, address, size):
        address.region.store(address.offset, b"a name of 15 by\0"[: size - 1].ljust(size, b"\0"))
        return 0

    def reserve(self, _, _handle, size, _flags):
        return Pointer(Region.unwritten("event", size), 0)

    def submit(self, _, event, _flags):
        self.events.append(self.bytes(event, len(event.region.data)))
        return 0

    def run(self, body, parameters="", **given):
        helpers = {
            LOOKUP: self.lookup,
            UPDATE: self.update,
            DELETE: self.delete,
            COMM: self.comm,
            RESERVE: self.reserve,
            SUBMIT: self.submit,
        }
        context = Region.of("context", context_of(given))
        out = Region.of("out", bytes(8 * RESULTS))
        values = {"out": out, ".drops": Region.of("drops", bytes(8 * RESULTS))}
        evaluate(Case(body, parameters).module, [Pointer(context, 0)], helpers=helpers, values=values)
        return self

    def of(self, name):
        return {key: bytes(entry.data) for (owner, key), entry in self.entries.items() if owner == name}


WAYS = {
    "built in its place": "events.emit(Record(c, w, u, 'abc'))",
    "from a local": "r = Record(c, w, u, 'abc')\nevents.emit(r)",
    "after its fields changed": """
r = Record(0, 0, 0, 'longer text')
r.flag = c
r.count = w
r.at = u
r.name = 'abc'
events.emit(r)
""",
    "of a function": "events.emit(make(c, w, u))",
    "from an entry": "records[1] = Record(c, w, u, 'abc')\ne = records.get(1)\nif e is not None:\n    events.emit(e)",
    "in a loop": "for j in range(1):\n    r = Record(c, w, u, 'abc')\n    events.emit(r)",
}


@pytest.mark.parametrize("body", WAYS.values(), ids=WAYS)
def test_events_have_every_byte(body):
    maps = Maps()
    case = body.replace("make(c, w, u)", "Record(flag=c, at=u, name='abc', count=w)")
    assert maps.run(case, "c, w, u", c=200, w=7, u=1 << 63).events == [RECORD.pack(200, 7, 1 << 63, b"abc")]


def test_strings_are_zero_to_their_end_in_events():
    assert Maps().run("events.emit(Record(1, 2, 3, comm()))").events == [RECORD.pack(1, 2, 3, b"a name of 15 by")]
    assert Maps().run("events.emit(Record(1, 2, 3, ''))").events == [RECORD.pack(1, 2, 3, b"")]
    body = "r = Record(1, 2, 3, comm())\nr.name = 'z'\nevents.emit(r)"
    assert Maps().run(body).events == [RECORD.pack(1, 2, 3, b"z")]


def test_a_shorter_string_after_a_longer_one_leaves_nothing_of_it_in_a_key():
    maps = Maps().run(
        "names[comm()] += 1\nx = comm()\nnames[x] += 1\nnames['ab'] += 1\nr = Record(1, 2, 3, 'q')\nnames[r.name] = 5"
    )
    assert {key: value[0] for key, value in maps.of("names").items()} == {
        b"a name of 15 by\0": 2,
        b"ab".ljust(16, b"\0"): 1,
        b"q".ljust(16, b"\0"): 5,
    }


@pytest.mark.parametrize(
    "body",
    [
        "by_record[Record(c, w, u, 'ab')] += 1",
        "r = Record(c, w, u, 'ab')\nby_record[r] += 1",
        "by_record[Record(c, w, u, 'ab')] = 1",
    ],
)
def test_a_records_padding_is_zero_in_keys(body):
    maps = Maps().run(f"x = comm()\nout[0].r0 = x[0]\n{body}", "c, w, u", c=1, w=2, u=3)
    assert maps.of("by_record") == {RECORD.pack(1, 2, 3, b"ab"): (1).to_bytes(8, "little")}
    assert set(maps.keys) <= {RECORD.pack(1, 2, 3, b"ab")}


def test_a_records_padding_is_zero_in_values():
    maps = Maps().run(
        "records[w] = Record(c, w, u, 'ab')\nr = Record(c, 9, u, 'cd')\nrecords[9] = r", "c, w, u", c=1, w=2, u=3
    )
    assert list(maps.of("records").values()) == [RECORD.pack(1, 2, 3, b"ab"), RECORD.pack(1, 9, 3, b"cd")]


def test_numbers_are_stored_as_their_low_bytes():
    maps = Maps().run("events.emit(Record(flag=s, count=s, at=s, name='')) ", "s", s=-2)
    assert maps.events == [RECORD.pack(254, (1 << 32) - 2, (1 << 64) - 2, b"")]


def test_a_raw_tracepoint_returns_0_on_every_path():
    case = Case("if w > 3:\n    return\nout[0].r0 = 1", "w")
    for w in (1, 5):
        context = Region.of("context", context_of({"w": w}))
        out = Region.of("out", bytes(8 * RESULTS))
        assert evaluate(case.module, [Pointer(context, 0)], values={"out": out}) == 0


def test_a_tracepoint_returns_1_on_every_path():
    """0 would drop the event for every other user of perf."""
    from pyebpf.builder.drop_counters import DropCounters
    from pyebpf.module.program import build_program
    from tests.language.harness import Numbers

    case = Case("pass")
    probe = case.run_more("""
@bpf.tracepoint("syscalls:sys_enter_openat")
def traced(count):
    if count > 3:
        return
    out[0].r0 = count
""")["traced"]
    module = build_program(probe.body, probe.attachments[0], Numbers(), DropCounters(), "traced").module
    for count in (1, 5):
        context = Region.of("context", bytes(32) + count.to_bytes(8, "little") + bytes(32))
        out = Region.of("out", bytes(8 * RESULTS))
        assert evaluate(module, [Pointer(context, 0)], values={"out": out}) == 1
