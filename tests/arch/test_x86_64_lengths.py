"""Lengths of x86-64 instructions, by hand and of any bytes; tests/symbols/test_instruction_starts.py has objdump's."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyebpf.arch.x86_64_lengths import LONGEST, around, length


@pytest.mark.parametrize(
    "code",
    [
        "90", "c3", "55", "4889e5", "50", "4154", "e800000000", "ebfe", "0f8400000000", "c9", "cc",
        "488b0500000000", "8b0425d2040000", "8b442410", "678b00", "c74424fc01000000", "66c745fc0100",
        "48b8efcdab8967452301", "b801000000", "66b80100", "a1efcdab8967452301", "67a101000000",
        "f6c101", "f7c101000000", "66f7c10100", "f7d8", "48f7f1", "c8100001", "c20800", "6a01", "6801000000",
        "f30f1efa", "0f1f840000000000", "662e0f1f840000000000", "0fba e003", "0fa4c203", "660f3a0fc108", "660f3800c1",
        "0f20c0", "660f7300 08", "c5f877", "c5fd6f07", "c4e2790f07", "c4e37d3900 01", "62f17c4828c1",
        "62f3fd4827c901", "8fe978c2 c0", "f20f1045f8", "f0480fb10a", "d9c0", "0f0b", "66666648e800000000",
    ],
)  # fmt: skip
def test_by_hand(code: str) -> None:
    """Prefixes, operands in memory, displacements, immediate operands of each size, vectors."""
    data = bytes.fromhex(code)
    assert length(data, 0) == len(data)
    assert length(b"\x90" + data + b"\xcc", 1) == len(data)
    for end in range(1, len(data)):  # cut off
        assert length(data[:end], 0) < len(data)


def test_what_is_no_instruction() -> None:
    """It has no length, and nothing is said of places behind it."""
    for code in ("06", "82c001", "d5", "0f04", "0f0f", "66" * LONGEST):
        assert length(bytes.fromhex(code), 0) == 0
    assert around(bytes.fromhex("0690909090"), 3) is None


@given(st.binary(max_size=40), st.integers(0, 40))
def test_any_bytes(code: bytes, at: int) -> None:
    """A length is within the bytes, and within what the processor takes."""
    assert 0 <= length(code, at) <= min(LONGEST, max(len(code) - at, 0))
    start = around(code, at)
    assert start is None or start < at < start + length(code, start)
