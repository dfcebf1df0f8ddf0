"""The text of a tracepoint's `format` file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.mutation import words
from pyebpf.errors import FormatError, NotFound
from pyebpf.types.tracepoint import parse_format

if TYPE_CHECKING:
    from collections.abc import Iterable

COVERS = ("pyebpf/types",)
TEXT = True
DICTIONARY = words(
    r"""
    name: ID: format: field: ; offset: size: signed: print fmt: __data_loc __rel_loc char[] [16] [ ] [2][3] unsigned
    const struct * ( ) common_type 0 1 8 -1 65535 99999 1000000000 (*f)(int) long u64 __u8 enum union , .
    """
)
_FORMATS = Path(__file__).resolve().parents[2] / "tests" / "types" / "formats"


def target(data: bytes) -> None:
    """Any text is a format or a FormatError; each field lies inside the record and can be found by its name."""
    try:
        parsed = parse_format(data.decode("utf-8", "replace"))
    except FormatError:
        return
    assert parsed.name
    assert parsed.id >= 0
    for field in (*parsed.common, *parsed.fields):
        assert 0 <= field.offset <= field.offset + field.size <= parsed.size
        assert field.element is None or field.element[0] >= 0
        assert field.length is None or field.length >= 0
        assert isinstance(field.pointer, bool)
    for field in parsed.fields:
        assert parsed.field(field.name) == field
    try:
        parsed.field("no such")
    except NotFound:
        return
    raise AssertionError("found what cannot be named")


def seeds() -> Iterable[bytes]:
    """Real formats."""
    for path in sorted(_FORMATS.iterdir()):
        yield path.read_bytes()
