"""`pyebpf map`: a loaded map as JSON, in the spirit of `bpftool map dump -j`: valid whatever bytes it holds."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from pyebpf.cli.bytecode import Parser
from pyebpf.errors import InvalidValue
from pyebpf.objects import Map
from pyebpf.output.sink import Sink
from pyebpf.runtime.open_map import open_map
from pyebpf.types import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.objects import KernelMap

__all__ = ["dump", "run_map"]

DESCRIPTION = """\
Prints the entries of a map as JSON, with the names that its BTF has for keys
and values; without BTF they are bytes, in hexadecimal.

  $ pyebpf map /sys/fs/bpf/flows    the map that is pinned there
  $ pyebpf map id 23                the map with id 23 (needs root)"""


def run_map(arguments: Sequence[str]) -> int:
    """Dump. Raises NotFound, NotPermitted, InvalidValue for a kind whose items cannot be listed."""
    parser = Parser("map", DESCRIPTION)
    parser.add_argument("path", metavar="PATH", help="where the map is pinned; or `id`")
    parser.add_argument("number", metavar="NUMBER", nargs="?", type=int, help="after `id`: the map's id")
    options = parser.parse_args(arguments)
    if (options.path == "id") != (options.number is not None):
        parser.error("give the path of a pin, or `id` and a number")
    with open_map(options.path if options.number is None else options.number) as table:
        Sink.of(sys.stdout).line(json.dumps(dump(table)))
    return 0


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
