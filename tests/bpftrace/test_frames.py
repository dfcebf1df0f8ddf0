"""Stacks as bpftrace prints them: modes, limits, lines and inlined calls, readable names."""

from __future__ import annotations

import pytest

from pyebpf.bpftrace.frames import places_text, stack_text, symbol_text
from pyebpf.symbols.demangle import demangled
from pyebpf.symbols.frame import Frame

FRAMES = (
    Frame("hash", 0, "/bin/sorter", 0x1010, "/src/sorter.c", 4, inlined=True),
    Frame("_Z7compareiRK4Item", 16, "/bin/sorter", 0x1010, "/src/sorter.c", 6),
    Frame("main", 3, "/bin/sorter", 0x1203),
    Frame("", 0, "", 0x7F00),
)


def readable(name):
    return demangled(name, parameters=True)


@pytest.mark.parametrize(
    ("mode", "lines"),
    [
        (
            "bpftrace",
            [
                "        [inlined] hash@/src/sorter.c:4",
                "        compare(int, Item const&)+16@/src/sorter.c:6",
                "        main+3",
                "        0x7f00",
            ],
        ),
        (
            "perf",
            [
                "\t1010 hash (inlined)",
                "\t1010 compare(int, Item const&)+16 (/bin/sorter)",
                "\t1203 main+3 (/bin/sorter)",
                "\t7f00 0x7f00 ([unknown])",
            ],
        ),
    ],
)
def test_modes(mode, lines):
    """Each has a line for a frame, and one for each call that was inlined there."""
    assert stack_text(FRAMES, 127, mode, readable).splitlines() == ["", *lines]


def test_limits():
    """A limit counts addresses: calls that were inlined come on top of it."""
    assert len(stack_text(FRAMES, 1, "bpftrace", readable).splitlines()) == 1 + 2
    assert stack_text(FRAMES, 0, "bpftrace", readable) == "\n"
    assert stack_text(FRAMES[1:3], 2, "raw", readable) == "\n1010\n1203\n"


def test_the_kernel_and_symbols():
    """Functions of the kernel are shown without a module; a symbol has its offset but at its start."""
    frames = (Frame("vfs_read", 1, "", 0xFF), Frame("ext4_read", 2, "ext4", 0xFE))
    assert stack_text(frames, 9, "perf", str, kernel=True) == "\n\tff vfs_read+1\n\tfe ext4_read+2\n"
    assert [symbol_text(each, readable) for each in FRAMES[1:]] == ["compare(int, Item const&)", "main", "0x7f00"]
    assert symbol_text(Frame("main", 0, "", 1), str) == "main"
    assert symbol_text(Frame("", 0, "", 0), str) == "0"


def test_places():
    """A build id is 20 bytes, as the kernel fills it up; code without a file has its address."""
    places = [("ab" * 20, 0x1234), ("0102030405060708", 3), ("cd" * 32, 0), ("", 0x7F00)]
    assert places_text(places).splitlines() == [
        "",
        "ab" * 20 + " 0x1234",
        "0102030405060708" + "00" * 12 + " 0x03",
        "cd" * 20 + " 0x00",
        "7f00",
    ]
