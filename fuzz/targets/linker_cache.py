"""/etc/ld.so.cache, as ldconfig writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import MalformedData
from pyebpf.symbols.libraries import CachedLibrary, parse_cache

if TYPE_CHECKING:
    from collections.abc import Iterable

COVERS = ("pyebpf/symbols/libraries.py",)
TEXT = False
DICTIONARY = (
    *(b"ld.so-1.7.0\0", b"glibc-ld.so.cache1.1", b"\xff\xff\xff\xff", b"\x01\0\0\0", b"\x03\x03\0\0"),
    *(b"libc.so.6\0", b"/lib/libc.so.6\0", b"\0"),
)


def target(data: bytes) -> None:
    """Any bytes are a list of libraries, each text without NUL, no more than there is room for; or MalformedData."""
    try:
        found = parse_cache(data)
    except MalformedData:
        return
    assert len(found) * 12 <= len(data)
    for library in found:
        assert "\0" not in library.name + library.path
        assert library.name.encode(errors="surrogateescape") in data


def seeds() -> Iterable[bytes]:
    """Small caches in each format."""
    from tests.symbols.test_libraries import both_formats, new_format, old_format

    for count in (0, 1, 3):
        libraries = [CachedLibrary(f"libx{n}.so.{n}", f"/lib/libx{n}.so.{n}", 0x0303) for n in range(count)]
        yield b"".join(old_format(libraries))
        yield new_format(libraries)
        yield new_format(libraries, byte_order=">")
        yield both_formats(libraries)
