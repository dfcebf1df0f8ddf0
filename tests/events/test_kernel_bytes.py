"""Ring-buffer memory as the kernel writes it, byte by byte: what the model in the other tests takes from the code."""

from __future__ import annotations

import pytest

from pyebpf.events.records import HEADER_SIZE, Run, next_run


def memory(*headers: tuple[int, str]) -> tuple[memoryview, memoryview]:
    """64 bytes of data, mapped twice, with these bytes in hex at these places."""
    content = bytearray(64)
    for at, text in headers:
        raw = bytes.fromhex(text)
        content[at : at + len(raw)] = raw
    data = memoryview(content + content)
    return data, data.cast("I")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("05000000", Run(0, 1, 5, 16)),
        ("05000040", Run(0, 0, 5, 16)),  # BPF_RINGBUF_DISCARD_BIT, bit 30
        ("05000080", Run(0, 0, 0, 0)),  # BPF_RINGBUF_BUSY_BIT, bit 31
        ("08000000", Run(0, 1, 8, 16)),
        ("09000000", Run(0, 1, 9, 24)),
    ],
)
def test_one_header(header: str, expected: Run) -> None:
    """Length, bit 30 for given up, bit 31 for not yet finished; the record is padded to 8 bytes."""
    assert next_run(*memory((0, header)), 0, expected.position or 16, 100) == expected
    assert HEADER_SIZE == 8
