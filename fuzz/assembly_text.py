"""The property of both assembly texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pyebpf.asm import OPS, Label, assemble, decode, encode, listing, parse
from pyebpf.errors import AssemblyError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["check", "seeds"]


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
    """The text of each row of the table, sixteen a seed."""
    from tests.fuzz.samples import instruction_of

    for start in range(0, len(OPS), 16):
        rows = [instruction_of(op, index) for index, op in enumerate(OPS[start : start + 16])]
        yield listing(rows, syntax=syntax).encode()
