"""Recordings of tools, whose blocks are made whole again: with the lengths and checksums that the garbled ones need."""

from __future__ import annotations

import contextlib
import io
import json
import struct
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from pyebpf.cli.report import guarded
from pyebpf.cli.show import run_show
from pyebpf.errors import MalformedData
from pyebpf.recording.blocks import MAGIC
from pyebpf.recording.recording import open_recording

if TYPE_CHECKING:
    from collections.abc import Iterable

COVERS = ("pyebpf/recording",)
TEXT = True
DICTIONARY = (
    *(b'["event",', b'["interval",', b'["row",', b'["histogram",', b'["stacks",', b'["stack",', b'["frame",'),
    *(b'["dropped",', b'["zone",', b'["footer",', b'["end",', b'{"list":[', b'{"map":[[', b'{"float":"nan"}'),
    *(b"null", b"-1", b"18446744073709551616", b"9" * 50, b"1e999", b"\n", b"\x00", b"[[[[[[", b"true", b"\\ud800"),
)
#: The words with which the command tells an error that is nobody else's.
_INTERNAL = "internal error"
_FORMS = (
    *("--text", "--json", "--csv", "--folded", "--info", "--heatmap -", "--heatmap - --scale linear", "--scatter -"),
    *("--bars -", "--subsecond -", "--svg -", "--speedscope -", "--firefox -"),
)


def whole(lines: bytes) -> bytes:
    """A recording whose blocks are the lines: the first is the header, each other one holds entries."""
    blocks = [MAGIC]
    for index, line in enumerate(lines.split(b"\n")):
        head = struct.pack("<4sBBHII", b"PBLK", 2 if index else 1, 0, 0, len(line), len(line))
        blocks += [head, struct.pack("<I", zlib.crc32(line, zlib.crc32(head))), line]
    return b"".join(blocks)


def target(data: bytes) -> None:
    """Any bytes, as a file and as the blocks of one, are printed in every form or named as damage: no traceback."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        for content in (data, whole(data)):
            path.write_bytes(content)
            for form in _FORMS:
                _show(str(path), form)
            with contextlib.suppress(MalformedData):
                for _ in open_recording(str(path)).rows():
                    pass


def _show(path: str, form: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    with mock.patch("sys.stdout", out), mock.patch("sys.stderr", err):
        status = guarded(run_show, [path, *form.split()])
    told = err.getvalue()
    if _INTERNAL in told or "Traceback" in told or (status and not told):
        raise AssertionError(told)
    if form == "--json":
        for line in out.getvalue().splitlines():
            json.loads(line)
    if not all(character.isprintable() or character in "\n\t" for character in out.getvalue()):
        raise AssertionError("output that a terminal may act on")


def seeds() -> Iterable[bytes]:
    """A recording of each kind of tool, as lines."""
    from tests.recording.samples import KINDS, entries, header

    for kind in KINDS:
        made = list(entries(kind))
        middle = len(made) // 2
        lines = [{**header(kind), "part": 0}, made[:middle], made[middle:]]
        yield b"\n".join(json.dumps(line, separators=(",", ":")).encode() for line in lines)
