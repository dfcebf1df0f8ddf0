"""A map as JSON, in the spirit of `bpftool map dump -j`: valid whatever bytes it holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue
from pyebpf.objects.opening import Map
from pyebpf.types import Struct

if TYPE_CHECKING:
    from pyebpf.objects.map import KernelMap

__all__ = ["dump", "dump_json"]


def dump(table: KernelMap) -> list[dict[str, Any]]:
    """One object an entry, of plain values: `key` and `value`; a per-CPU map's `values` has a `cpu` and a `value` each.

    Bytes are hexadecimal text, records are objects, characters that are no UTF-8 are replaced. A kind whose items
    can't be listed raises InvalidValue.
    """
    if not isinstance(table, Map):
        raise InvalidValue(f"map {table.name} ({table.spec.type.name}) has no items to dump")
    key, value = table.key_type, table.value_type
    assert key is not None
    assert value is not None
    entries: list[dict[str, Any]] = []
    for raw_key, raw_value in table.raw_items():
        entry = {"key": plain(key.decode(raw_key))}
        slots = table.decode_slots(raw_value)
        if table.spec.traits.per_cpu:
            entry["values"] = [{"cpu": cpu, "value": plain(each)} for cpu, each in enumerate(slots)]
        else:
            entry["value"] = plain(slots[0])
        entries.append(entry)
    return entries


def dump_json(table: KernelMap) -> str:
    """`dump` as JSON text: ASCII, one line."""
    return json.dumps(dump(table))


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Struct):
        return plain(Struct.as_dict(value))
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, str):
        # A lone surrogate stands for a byte that is no UTF-8, which JSON's readers need not take.
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)
