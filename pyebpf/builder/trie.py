"""The longest-prefix-match trie in a probe: a whole address as key, which finds the longest prefix of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.maps import MapEntity
from pyebpf.builder.values.entity import describe
from pyebpf.builder.values.references import Reference
from pyebpf.types import BE16, BE32, BE64, U8, U32, BytesType

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

__all__ = ["TrieEntity"]

_NUMBERS = {1: U8, 2: BE16, 4: BE32, 8: BE64}


class TrieEntity(MapEntity):
    """A trie: `routes.get(address)`. An address of 1, 2, 4 or 8 bytes is a number, another one `u8[N]`."""

    def _store_key(self, p: ProgramBuilder, address: ir.Value, key: Any) -> None:
        size = self.key.size - U32.size
        p.b.store(address, 0, p.b.const(8 * size), U32.size)
        type_ = _NUMBERS.get(size, BytesType(size))
        if isinstance(type_, BytesType) and not (isinstance(key, bytes | Reference)):
            p.fail(f"the keys of {self.describe()} are addresses of {size} bytes, u8[{size}], not {describe(key)}")
        p.store_value(address, U32.size, type_, key)
