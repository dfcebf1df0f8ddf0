"""Files of stacks for other profilers, read back by what their formats say: each holds exactly what went in."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from typing import NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from pyebpf.output.stack_files import STACK_FILES, Recording
from pyebpf.output.stacks import Function, Stack, StackPart, entries, merged
from tests.support.folded import unescaped
from tests.support.json_schema import faults
from tests.support.needs import needs


class Frame(NamedTuple):
    """As symbols give it."""

    label: str
    module: str = "/usr/bin/app"


LIBC = "/usr/lib/libc.so.6"
BUSY = Stack(41, "app", 7, (Frame("leaf"), Frame("[jit] f", "[jit]"), Frame("main")), ())
READ = Stack(11, "app", 7, (Frame("read", LIBC), Frame("main")), (Frame("vfs_read", "kernel"), Frame("sys", "kernel")))
IDLE = Stack(3, "caf\udce9", None, None, ())
WOKEN = Stack(
    5, "app", 8, (Frame("main"),), (Frame("schedule", "kernel"),), (StackPart("waker", "disk", 2, (Frame("loop"),)),)
)
STACKS = [BUSY, READ, IDLE, WOKEN]
PLAIN = Recording(name="tool", title="A title", unit="samples")
names = st.text(st.characters(codec="utf-8", exclude_characters=":"), min_size=1, max_size=6)
frames = st.lists(st.builds(Frame, names, st.sampled_from(["", "kernel", "[jit]", "/bin/a", LIBC])), max_size=4).map(
    tuple
)
parts = st.builds(StackPart, st.just("waker"), names, st.none(), frames, frames)
any_stacks = st.lists(
    st.builds(
        Stack, st.integers(1, 1 << 50), names, st.one_of(st.none(), st.integers(1, 1 << 22)), frames, frames,
        st.lists(parts, max_size=2).map(tuple),
    ),
    max_size=8,
)  # fmt: skip


def contents(stacks):
    """The stacks as the formats show them: process, names from the outside in, and the sum of what is equal."""
    found = {}
    for stack in merged(stacks):
        key = stack.comm, stack.pid or 0, tuple(entry.name for entry in entries(stack))
        found[key] = found.get(key, 0) + stack.count
    return found


# ---- protocol buffers, as the encoding's specification has them


def varint(data, at):
    """A number in groups of seven bits, the least significant first, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def message(data):
    """The fields of a message by number: numbers, and bytes of what has a length, in order."""
    fields, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        assert tag & 7 in {0, 2}
        value, at = varint(data, at)
        if tag & 7 == 2:
            assert at + value <= len(data)
            value, at = bytes(data[at : at + value]), at + value
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def numbers(packed):
    """The numbers of a packed field."""
    found, at = [], 0
    while at < len(packed):
        value, at = varint(packed, at)
        found.append(value)
    return found


class Profile:
    """A profile with its references followed. Each id is there once, and each that is referred to is there."""

    def __init__(self, file):
        top = message(gzip.decompress(file))
        self.strings = [text.decode() for text in top[6]]
        assert self.strings[0] == ""
        assert len(set(self.strings)) == len(self.strings)
        self.types = [self.value_type(each) for each in top[1]]
        self.period_type = [self.value_type(each) for each in top.get(11, [])]
        self.period, self.start, self.duration = top.get(12), top[9], top[10]
        self.comments = [self.strings[each] for each in top[13]]
        self.mappings = self.by_id(top.get(3, []))
        self.functions = self.by_id(top.get(5, []))
        self.locations = self.by_id(top.get(4, []))
        self.samples = [self.sample(message(each)) for each in top.get(2, [])]

    def value_type(self, data):
        fields = message(data)
        return self.strings[fields[1][0]], self.strings[fields[2][0]]

    def by_id(self, rows):
        found = {}
        for row in map(message, rows):
            (number,) = row[1]
            assert number
            assert number not in found
            found[number] = row
        return found

    def name(self, location):
        (line,) = self.locations[location][4]
        function = self.functions[message(line)[1][0]]
        assert function[2] == function[3]
        return unescaped(self.strings[function[2][0]])

    def file(self, location):
        mapping = self.locations[location].get(2)
        return self.strings[self.mappings[mapping[0]][5][0]] if mapping else ""

    def sample(self, fields):
        labels = {}
        for label in map(message, fields.get(3, [])):
            labels[self.strings[label[1][0]]] = unescaped(self.strings[label[2][0]]) if 2 in label else label[3][0]
        return numbers(fields[1][0]), numbers(fields[2][0]), labels


@settings(max_examples=25)
@given(any_stacks)
def test_a_pprof_profile_has_the_stacks(stacks):
    """Read by the wire format and profile.proto's numbers alone: names, counts, processes; the innermost is first."""
    profile = Profile(STACK_FILES["pprof"].write(stacks, PLAIN))
    assert profile.types == [("samples", "count")]
    found = {}
    for locations, values, labels in profile.samples:
        key = labels["comm"], labels.get("pid", 0), tuple(map(profile.name, reversed(locations)))
        found[key] = found.get(key, 0) + values[0]
        assert len(values) == 1
    assert found == contents(stacks)


def test_the_facts_of_a_pprof_profile():
    """Files of functions, the sampling period as processor's time, start and duration; equal input, equal bytes."""
    recording = Recording(name="tool", title="A title", unit="samples", period=10_101_010, start=1 << 60, duration=77)
    file = STACK_FILES["pprof"].write(STACKS, recording)
    assert file == STACK_FILES["pprof"].write(STACKS, recording)
    profile = Profile(file)
    assert profile.types == [("samples", "count"), ("cpu", "nanoseconds")]
    assert (profile.period_type, profile.period) == ([("cpu", "nanoseconds")], [10_101_010])
    assert (profile.start, profile.duration, profile.comments) == ([1 << 60], [77], ["A title"])
    assert [values for _, values, _ in profile.samples] == [[n, n * 10_101_010] for n in (41, 11, 5, 3)]
    files = {profile.name(number): profile.file(number) for number in profile.locations}
    assert files == {
        "leaf": "/usr/bin/app", "main": "/usr/bin/app", "loop": "/usr/bin/app", "[jit] f": "[jit]", "read": LIBC,
        "vfs_read": "[kernel.kallsyms]", "sys": "[kernel.kallsyms]", "schedule": "[kernel.kallsyms]",
        "--": "", "disk": "", "caf\udce9": "",
    }  # fmt: skip
    assert profile.mappings[1][5] == [profile.strings.index("/usr/bin/app")]
    times = Profile(STACK_FILES["pprof"].write(STACKS, Recording(name="t", title="t", unit="us")))
    assert times.types == [("time", "microseconds")]
    assert times.period is None


def test_go_reads_a_pprof_profile(tmp_path):
    """`go tool pprof` takes it, checks its references, and adds up what functions had by themselves and in all."""
    needs("command:go")
    file = tmp_path / "out.pb.gz"
    file.write_bytes(STACK_FILES["pprof"].write(STACKS, Recording(name="tool", title="A title", unit="us")))
    told = []
    for report in ("-top", "-tags"):
        command = ["go", "tool", "pprof", report, "-unit=us", "-nodefraction=0", str(file)]
        environment = {**os.environ, "PPROF_TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
        told.append(
            subprocess.run(command, text=True, capture_output=True, check=True, timeout=60, env=environment).stdout
        )
    rows = {
        line.split()[-1]: line.split() for line in told[0].splitlines() if line.endswith(("leaf", "main", "vfs_read"))
    }
    assert "Type: time\n" in told[0]
    assert {name: (row[0], row[3]) for name, row in rows.items()} == {
        "leaf": ("41us", "41us"), "main": ("0", "57us"), "vfs_read": ("11us", "11us"),
    }  # fmt: skip
    assert "57.0us (95.00%): app" in told[1]


# ---- the Firefox Profiler's processed format


def columns(table):
    """The rows of a table of columns that are all as long as it says."""
    length = table["length"]
    rows = {name: column for name, column in table.items() if isinstance(column, list)}
    assert {len(column) for column in rows.values()} <= {length}
    return [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]


def read_firefox(document):
    """The stacks of a file, all indices followed, and the categories that frames have."""
    found, categories = {}, {}
    for thread in document["threads"]:
        text, functions = thread["stringArray"], columns(thread["funcTable"])
        table, nodes = columns(thread["frameTable"]), columns(thread["stackTable"])
        resources = columns(thread["resourceTable"])
        for sample in columns(thread["samples"]):
            node, path = sample["stack"], []
            while node is not None:
                row = nodes[node]
                assert row["prefix"] is None or row["prefix"] < node
                frame = table[row["frame"]]
                function = functions[frame["func"]]
                name = unescaped(text[function["name"]])
                file = "" if function["resource"] < 0 else text[resources[function["resource"]]["name"]]
                assert frame["category"] == row["category"]
                categories.setdefault(name, set()).add((document["meta"]["categories"][row["category"]]["name"], file))
                path.append(name)
                node = row["prefix"]
            key = unescaped(thread["name"]), int(thread["pid"]), tuple(reversed(path))
            found[key] = found.get(key, 0) + sample["weight"]
    return found, categories


@settings(max_examples=25)
@given(any_stacks)
def test_a_firefox_profile_has_the_stacks(stacks):
    """A thread for each process and name, samples by weight, stacks as a tree."""
    document = json.loads(STACK_FILES["firefox"].write(stacks, PLAIN))
    assert read_firefox(document)[0] == contents(stacks)
    identities = [(thread["pid"], thread["name"]) for thread in document["threads"]]
    assert len(set(identities)) == len(identities)
    mains = [thread["pid"] for thread in document["threads"] if thread["isMainThread"]]
    assert sorted(mains) == sorted({pid for pid, _ in identities})


def test_the_facts_of_a_firefox_profile():
    """The version whose tables these are, categories, files, and weights in milliseconds where time was added up."""
    recording = Recording(name="tool", title="A title", unit="us", start=1_500_000_000_000_000_000)
    document = json.loads(STACK_FILES["firefox"].write(STACKS, recording))
    meta = document["meta"]
    assert (meta["preprocessedProfileVersion"], meta["version"], meta["symbolicated"]) == (48, 27, True)
    assert (meta["product"], meta["startTime"], meta["interval"]) == ("A title", 1_500_000_000_000, 1)
    assert "grey" in {category["color"] for category in meta["categories"]}
    samples = document["threads"][0]["samples"]
    assert (samples["weightType"], samples["weight"]) == ("tracing-ms", [0.041, 0.011])
    _, categories = read_firefox(document)
    assert categories["vfs_read"] == {("Kernel", "kernel")}
    assert categories["read"] == {("User", "libc.so.6")}
    assert categories["[jit] f"] == {("JIT", "[jit]")}
    assert categories["--"] == {("Other", "")}
    sampled = json.loads(STACK_FILES["firefox"].write(STACKS, Recording("t", "t", "samples", period=20_000_000)))
    assert (sampled["meta"]["interval"], sampled["threads"][0]["samples"]["time"]) == (20, [0, 20])
    assert json.loads(STACK_FILES["firefox"].write([], PLAIN))["threads"] == []


# ---- speedscope

INTEGERS = {"type": "array", "items": {"type": "integer", "minimum": 0}}
#: What https://www.speedscope.app/file-format-schema.json asks of a file with sampled profiles.
SPEEDSCOPE = {
    "type": "object",
    "required": ["$schema", "profiles", "shared"],
    "properties": {
        "shared": {
            "type": "object",
            "required": ["frames"],
            "properties": {
                "frames": {
                    "type": "array",
                    "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
                }
            },
        },
        "profiles": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "name", "unit", "startValue", "endValue", "samples", "weights"],
                "properties": {
                    "type": {"type": "string"},
                    "name": {"type": "string"},
                    "unit": {"type": "string"},
                    "startValue": {"type": "number"},
                    "endValue": {"type": "number"},
                    "samples": {"type": "array", "items": INTEGERS},
                    "weights": {"type": "array", "items": {"type": "number"}},
                },
            },
        },
        "name": {"type": "string"},
        "activeProfileIndex": {"type": "number"},
        "exporter": {"type": "string"},
    },
}


@pytest.mark.parametrize(
    ("unit", "told"),
    [("samples", "none"), ("us", "microseconds"), ("bytes", "bytes"), ("nanoseconds", "nanoseconds")],
)
def test_a_speedscope_file_is_by_its_schema(unit, told):
    """With one of the units that the format has."""
    document = json.loads(STACK_FILES["speedscope"].write(STACKS, Recording(name="t", title="t", unit=unit)))
    assert faults(SPEEDSCOPE, document) == []
    (profile,) = document["profiles"]
    assert (profile["type"], profile["unit"], profile["endValue"]) == ("sampled", told, 60)


def test_a_sample_without_frames_is_not_lost():
    """It has the process's name in their place."""
    assert [entry.name for entry in entries(IDLE)] == ["caf\udce9"]
    assert [entry.kind for entry in entries(WOKEN)] == ["user", "kernel", "mark", "user", "mark"]


SOURCES = Stack(
    7,
    "a:b:1",
    7,
    (
        Frame("hash:sort.c:4 (inlined)"),
        Frame("weigh (inlined)"),
        Frame("py::serve:/srv/app.py:30", "[python]"),
        Frame("app::less:a.cc:9"),
        Frame("app::less:a.cc:12"),
        Frame("operator:"),
    ),
)
FUNCTIONS = [
    Function("a:b:1"),
    Function("operator:"),
    Function("app::less", "a.cc", 12),
    Function("app::less", "a.cc", 9),
    Function("py::serve", "/srv/app.py", 30),
    Function("weigh"),
    Function("hash", "sort.c", 4),
]


def test_lines_stand_apart_from_functions():
    """The names that `--source` and `--python` give have a file and a line, and the mark of what was inlined."""
    assert [entry.function for entry in entries(SOURCES)] == FUNCTIONS[1:]
    # A mark is a process's name, whatever it looks like.
    assert [entry.function for entry in entries(Stack(1, "a:b:1", 7))] == FUNCTIONS[:1]


def test_each_format_has_lines():
    """The profiles of pprof and Firefox have one function for two of its lines."""
    profile = Profile(STACK_FILES["pprof"].write([SOURCES], PLAIN))
    found = []
    for locations, _, _ in profile.samples:
        for number in reversed(locations):
            line = message(profile.locations[number][4][0])
            function = profile.functions[line[1][0]]
            texts = [profile.strings[function[field][0]] if field in function else "" for field in (2, 4)]
            found.append(Function(*texts, line.get(2, [0])[0]))
    assert found == FUNCTIONS[1:]
    assert len(profile.functions) == len(FUNCTIONS) - 2
    (thread,) = json.loads(STACK_FILES["firefox"].write([SOURCES], PLAIN))["threads"]
    text, functions = thread["stringArray"], columns(thread["funcTable"])
    assert [
        Function(text[each["name"]], text[each["fileName"]] if each["fileName"] is not None else "", line or 0)
        for each, line in ((functions[frame["func"]], frame["line"]) for frame in columns(thread["frameTable"]))
    ] == FUNCTIONS[1:]
    shared = json.loads(STACK_FILES["speedscope"].write([SOURCES], PLAIN))["shared"]
    assert [Function(**each) for each in shared["frames"]][1:] == FUNCTIONS[1:]
