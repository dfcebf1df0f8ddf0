"""Recordings that were cut short or garbled: read up to the damage, whose byte is named, with bounded memory."""

from __future__ import annotations

import contextlib
import io
import json
import os
import struct
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from fuzz.targets.recording import target, whole
from pyebpf.cli.report import guarded
from pyebpf.cli.show import run_show
from pyebpf.errors import MalformedData
from pyebpf.recording.blocks import MAGIC, MAX_BLOCK
from pyebpf.recording.recording import open_recording
from tests.recording.samples import KINDS, entries, header, recording

SAMPLES = {kind: recording(kind) for kind in KINDS}


def shown(path, data, *arguments):
    """Status, output and errors of `pyebpf show`."""
    path.write_bytes(data)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = guarded(run_show, [str(path), *arguments])
    return status, out.getvalue(), err.getvalue()


def block_offsets(data):
    """Where the blocks begin."""
    offset, found = len(MAGIC), []
    while offset < len(data):
        found.append(offset)
        offset += 20 + struct.unpack_from("<I", data, offset + 8)[0]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_any_end_of_a_file(tmp_path, kind):
    """All blocks before it are shown, and the byte is that of the block that is not whole."""
    data = SAMPLES[kind]
    offsets = block_offsets(data)
    _, complete, _ = shown(tmp_path / "a", data, "--json")
    for size in range(0, len(data), 7):
        status, out, err = shown(tmp_path / "a", data[:size], "--json")
        assert complete.startswith(out)
        if size not in offsets[1:]:
            cut = max((offset for offset in offsets if offset < size), default=0) if size > offsets[1] else 0
            assert status == 1
            assert f"(byte {cut})" in err or "there is no header" in err or "cut short within a block" in err


@given(kind=st.sampled_from(KINDS), place=st.integers(0, 10**6), bits=st.integers(1, 255), count=st.integers(1, 9))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_garbled_bytes(tmp_path, kind, place, bits, count):
    """They are never shown as something else: the output is the beginning of the whole one, and the damage is named."""
    data = bytearray(SAMPLES[kind])
    _, complete, _ = shown(tmp_path / "a", bytes(data), "--csv")
    begin = place % len(data)
    for index in range(begin, min(begin + count, len(data))):
        data[index] ^= bits
    status, out, err = shown(tmp_path / "a", bytes(data), "--csv")
    assert status == 1
    assert "byte " in err
    assert complete.startswith(out)


@st.composite
def garbled_lines(draw):
    """The JSON of a recording with values in the wrong places."""
    kind = draw(st.sampled_from(KINDS))
    leaf = (
        st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 200) | st.text(max_size=5) | st.floats(allow_nan=False)
    )
    value = st.recursive(leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner))

    def change(data, depth=0):
        if depth and draw(st.integers(0, 9)) == 0:
            return draw(value)
        if isinstance(data, list):
            return [change(item, depth + 1) for item in data]
        if isinstance(data, dict):
            return {key: change(item, depth + 1) for key, item in data.items() if draw(st.integers(0, 30))}
        return data

    made = list(entries(kind))
    head = {**header(kind), "part": 0}
    lines = [change(head) if draw(st.booleans()) else head, change(made)]
    return b"\n".join(json.dumps(line, allow_nan=True).encode() for line in lines)


@given(garbled_lines())
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_values_behind_a_good_checksum(lines):
    """As somebody may write them who wants `show` to fail: no form of it ends with a traceback."""
    target(lines)
    assert whole(lines).startswith(MAGIC)


def block(kind, raw, *, size=None, raw_size=None, is_compressed=1):
    """A block with a good checksum, whatever it declares."""
    data = zlib.compress(raw) if is_compressed else raw
    head = struct.pack(
        "<4sBBHII", b"PBLK", kind, is_compressed, 0, len(data) if size is None else size, raw_size or len(raw)
    )
    return head + struct.pack("<I", zlib.crc32(data, zlib.crc32(head))) + data


HEAD = MAGIC + block(1, json.dumps({**header("summary"), "part": 0}).encode())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (block(2, b"0", size=1 << 31), "a block of 2147483648 bytes is larger than any may be"),
        (block(2, b"0", raw_size=1 << 31), "a block of 2147483648 bytes is larger than any may be"),
        (block(2, b" " * (64 << 20), raw_size=MAX_BLOCK), "a block does not have the size that it declares"),
        (block(2, b"[" * 100_000 + b"]" * 100_000), "a block is no JSON"),
        (block(2, b"[[" + b"9" * 5000 + b"]]"), "a block is no JSON"),
        (block(2, b'[["interval",1,null,1000000000]]'), "a number out of its bounds"),
        (block(2, b'[["row",7]]'), "an entry of no known kind"),
        (b"PBLK\x02\x05", "the file was cut short within a block"),
        (b"x" * 30, "there is no block where one should begin"),
    ],
)
def test_sizes_that_nothing_may_have(tmp_path, data, message):
    """They are refused before as much memory is taken."""
    path = tmp_path / "a"
    path.write_bytes(HEAD + data)
    tracemalloc.start()
    recording = open_recording(str(path))
    list(recording.intervals())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert message in recording.damage
    assert f"(byte {len(HEAD)})" in recording.damage
    assert peak < 8 * MAX_BLOCK


def changed(path, kind, old, new):
    """A recording of a kind with other JSON among its entries, whose checksums are good."""
    raw = json.dumps(list(entries(kind)), separators=(",", ":"))
    assert old in raw
    head = json.dumps({**header(kind), "part": 0}).encode()
    path.write_bytes(MAGIC + block(1, head) + block(2, raw.replace(old, new, 1).encode()))
    return path.read_bytes()


@pytest.mark.parametrize("output", ["--heatmap -", "--heatmap - --scale linear", "--scatter -", "--json"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('"x"', "the field latency_ns is text, and its column declares an integer"),
        ("1.5", "the field latency_ns is a fraction, and its column declares an integer"),
        ("1e308", "the field latency_ns is a fraction"),
        ('{"float":"inf"}', "the field latency_ns is a fraction"),
        ("[7]", "the field latency_ns is a sequence"),
        (str(1 << 64), "the field latency_ns is a number out of its bounds"),
        ("-5", ""),
        ("null", ""),
    ],
)
def test_a_value_that_its_column_does_not_declare(tmp_path, output, value, message):
    """It is named as damage, in every output; less than no time is drawn as none."""
    data = changed(tmp_path / "a", "events", "3000", value)
    status, _, err = shown(tmp_path / "a", data, *output.split())
    assert (status, message in err) == (1 if message else 0, True), err
    assert "internal error" not in err


@pytest.mark.parametrize("output", ["--heatmap -", "--bars -", "--text"])
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[1,1,1]", "[1,0,1]", "a bucket of a histogram has no values that it may count"),
        ("[1,1,1]", "[null,null,1]", "a bucket of a histogram has no values that it may count"),
        ("[1,1,1]", "[9,9,1]", "the buckets of a histogram are not in rising order"),
        ("[1,1,1]", "[1,null,1]", "the buckets of a histogram are not in rising order"),
        ("[1,1,1]", '[1,"x",1]', "a number out of its bounds"),
    ],
)
def test_buckets_that_cannot_be(tmp_path, output, old, new, message):
    """They are named as damage."""
    data = changed(tmp_path / "a", "histograms", old, new)
    status, _, err = shown(tmp_path / "a", data, *output.split())
    assert (status, message in err) == (1, True), err


def test_a_slot_without_samples(tmp_path):
    """It is named as damage; the picture by the second counts samples."""
    status, _, err = shown(tmp_path / "a", changed(tmp_path / "a", "stacks", ",2,2]", ",2,0]"), "--subsecond", "-")
    assert (status, "a number out of its bounds" in err) == (1, True), err


def stacks_file(path, name, stacks):
    """A recording of stacks, each of which is a thousand times the same function."""
    frame, each = ["frame", name, "kernel"], [["stack", 1, f"a{n}", n, None, [0] * 1000, []] for n in range(stacks)]
    made = [["stacks", 1, stacks], frame, *each]
    head = json.dumps({**header("stacks"), "part": 0}).encode()
    path.write_bytes(MAGIC + block(1, head) + block(2, json.dumps(made).encode()))
    return path


@pytest.mark.parametrize(
    ("length", "stacks", "message"),
    [
        (30_000, 1, "the name of a function has more than 8192 characters"),
        (8192, 66, "the names of all functions of all stacks have more than 536870912 characters"),
    ],
)
def test_names_that_stacks_repeat(tmp_path, length, stacks, message):
    """A file of a few kilobytes cannot have them written out without end."""
    path = stacks_file(tmp_path / "a", "f" * length, stacks)
    assert path.stat().st_size < 4096
    status, out, err = shown(path, path.read_bytes(), "--svg", "-")
    assert status == 1
    assert "f" * 100 not in out
    assert message in err


@pytest.mark.parametrize("form", ["--text", "--json", "--csv", "--folded", "--svg"])
def test_memory_of_names_that_stacks_repeat(tmp_path, form):
    """What is written is not held as a whole: names are held once, and stacks one at a time."""
    path = stacks_file(tmp_path / "a", "f" * 8192, 20)
    with Path(os.devnull).open("w") as file, contextlib.redirect_stdout(file):
        tracemalloc.start()
        status = guarded(run_show, [str(path), form, *(["-"] if form == "--svg" else [])])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert status == 0
    assert peak < 256 << 20


def test_an_interval_without_end(tmp_path, monkeypatch):
    """A group of items has a limit, in bytes that are decompressed, whatever it says."""
    monkeypatch.setattr("pyebpf.recording.reader.MAX_GROUP", 1 << 20)
    row = ["row", *([None] * 2), "x" * 300]
    begin = block(2, b'[["interval",1,null,260000]]')
    rows = block(2, json.dumps([row] * 1300).encode())
    path = tmp_path / "a"
    path.write_bytes(HEAD + begin + rows * 30)
    recording = open_recording(str(path))
    assert list(recording.intervals()) == []
    assert "an interval is larger than any may be" in recording.damage


def test_another_file(tmp_path):
    """One line, and status 1; a newer format is called so."""
    status, out, err = shown(tmp_path / "a", b"#!/bin/sh\n")
    assert (status, out) == (1, "")
    assert "this is not a recording of pyebpf's" in err
    assert "format 9, and this version of pyebpf reads format 1" in shown(tmp_path / "a", MAGIC[:-1] + b"\x09")[2]
    with pytest.raises(MalformedData):
        open_recording(str(Path(__file__)))


def test_only_regular_files(tmp_path):
    """A FIFO would keep the command waiting, and nothing else can be read twice."""
    os.mkfifo(tmp_path / "fifo")
    for place in (tmp_path / "fifo", tmp_path, "/dev/null"):
        with pytest.raises(MalformedData, match="not a regular file: a recording is read more than once"):
            open_recording(str(place))
