"""Bytes as instructions, in both byte orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pyebpf.asm import OPS, decode, encode, kernel_text, listing, mnemonic_text, parse_line
from pyebpf.errors import AssemblyError

if TYPE_CHECKING:
    from collections.abc import Iterable

COVERS = ("pyebpf/asm",)
TEXT = False
DICTIONARY = (*sorted({bytes([op.code]) for op in OPS}), b"\x85\x10\0\0", b"\x95\0\0\0\0\0\0\0", b"\xff\xff")
ORDERS: tuple[Literal["little", "big"], ...] = ("little", "big")


def target(data: bytes) -> None:
    """Whole slots decode with `raw=True` and encode to the same bytes; both texts read back as the instruction.

    Without `raw`, decoding gives the same or an AssemblyError; bytes that are no whole slots give an AssemblyError.
    """
    for order in ORDERS:
        try:
            items = decode(data, order, raw=True)
        except AssemblyError:
            assert len(data) % 8, "whole slots were refused"
            continue
        assert not len(data) % 8, "part of a slot was accepted"
        assert encode(items, order) == data
        for item in items:
            assert parse_line(kernel_text(item)) == item, kernel_text(item)
            assert parse_line(mnemonic_text(item)) == item, mnemonic_text(item)
        listing(items)
        try:
            plain = decode(data, order)
        except AssemblyError:
            continue
        assert plain == items


def seeds() -> Iterable[bytes]:
    """Each row of the table once, sixteen rows a seed."""
    from tests.fuzz.samples import instruction_of

    for start in range(0, len(OPS), 16):
        for order in ORDERS:
            yield encode([instruction_of(op, index) for index, op in enumerate(OPS[start : start + 16])], order)
