"""The property of both assembly texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pyebpf.asm import OPS, Label, assemble, decode, encode, listing, parse
from pyebpf.errors import AssemblyError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["check", "seeds"]

# What the listings of the rows do not have: comments of all kinds, numbered labels, capitals, other tools' listings.
_SPELLINGS = {
    "kernel": (
        "1: R1 = 5 /* a\nb */; c\nif r1 == 5 goto 1f\n.globl f\ngoto 1b\n1: EXIT\n",
        "  12:\t85 10 00 00 04 00 00 00\tcall 0x4\n  13:\tff 00 00 00 00 00 00 01\t<unknown>\n",
        " 3: 0123456789 (b7) r1 = 5 ; R1=5\n$: goto -1\n",
    ),
    "mnemonic": ("L1:MOV %R0, 0b11 // x\njeq %r0, 5, 2f\nja 1 # y\n1: lddw r2, code_addr(+1)\n2: exit\n",),
}


def check(text: str, syntax: Literal["kernel", "mnemonic"]) -> None:
    """Parse, print and parse again; link, encode and decode again."""
    try:
        items = parse(text)
    except AssemblyError as error:
        str(error)
        return
    try:
        again = parse(listing(items, syntax=syntax, source=False))
    except AssemblyError:
        # Two labels of one name are for the linker to refuse, not for the parser.
        raise AssertionError(f"the listing of {items} does not read back") from None
    assert _shape(again) == _shape(items)
    try:
        linked = assemble(text)
    except AssemblyError as error:
        str(error)
        return
    try:
        data = encode(linked)
    except AssemblyError:
        assert any(getattr(item, "symbol", None) is not None for item in linked), "linked, but cannot be encoded"
        return
    assert encode(decode(data, raw=True)) == data


def _shape(items: object) -> list[object]:
    """Instructions alone: the listing may name places that the text gave as distances."""
    assert isinstance(items, tuple)
    return [(type(item), getattr(item, "op", None)) for item in items if not isinstance(item, Label)]


def seeds(syntax: Literal["kernel", "mnemonic"]) -> Iterator[bytes]:
    """The text of each row of the table, sixteen a seed, and spellings that no listing has."""
    from tests.fuzz.samples import instruction_of

    for start in range(0, len(OPS), 16):
        rows = [instruction_of(op, index) for index, op in enumerate(OPS[start : start + 16])]
        yield listing(rows, syntax=syntax).encode()
    for text in _SPELLINGS[syntax]:
        yield text.encode()
