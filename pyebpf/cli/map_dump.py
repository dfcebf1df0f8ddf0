"""`pyebpf map`: a loaded map as JSON, in the spirit of `bpftool map dump -j`: valid whatever bytes it holds."""

from __future__ import annotations

import json
import sys
from enum import Enum
from math import isfinite
from typing import TYPE_CHECKING, Any

from pyebpf.cli.bytecode import Parser
from pyebpf.errors import InvalidValue
from pyebpf.objects import Map
from pyebpf.output.escape import json_text
from pyebpf.output.sink import Sink
from pyebpf.runtime.open_map import open_map, section_variables
from pyebpf.types import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.objects import KernelMap

DESCRIPTION = """\
Prints the entries of a map as JSON, with the names that its BTF has for keys
and values; without BTF they are bytes, in hexadecimal.

  $ pyebpf map /sys/fs/bpf/flows    the map that is pinned there
  $ pyebpf map id 23                the map with id 23 (needs root)"""


def parser() -> Parser:
    """Declare the options."""
    made = Parser("map", DESCRIPTION)
    made.add_argument("path", metavar="PATH", help="where the map is pinned; or `id`")
    made.add_argument("number", metavar="NUMBER", nargs="?", type=int, help="after `id`: the map's id")
    return made


def run_map(arguments: Sequence[str]) -> int:
    """Dump. Raises NotFound, NotPermitted, InvalidValue for a kind whose items cannot be listed."""
    made = parser()
    options = made.parse_args(arguments)
    if (options.path == "id") != (options.number is not None):
        made.error("give the path of a pin, or `id` and a number")
    with open_map(options.path if options.number is None else options.number) as table:
        Sink.of(sys.stdout).line(json.dumps(dump(table)))
    return 0


def dump(table: KernelMap) -> list[dict[str, object]]:
    r"""One object an entry, of plain values: `key` and `value`; a per-CPU map's `values` has `cpu` and `value` of each.

    Bytes are hexadecimal text, records are objects, in text bytes that are no UTF-8 are `\xNN` and a backslash is
    two. A kind whose items can't be listed raises InvalidValue.
    """
    if not isinstance(table, Map):
        raise InvalidValue(f"map {table.name} ({table.spec.type.name}) has no items to dump")
    key, value = table.key_type, table.value_type
    assert key is not None
    assert value is not None
    variables = section_variables(table)

    def shown(each: Any) -> object:
        if not variables:
            return plain(each)
        return {name: plain(kind.decode(each[at : at + kind.size])) for name, at, kind in variables}

    entries: list[dict[str, Any]] = []
    for raw_key, raw_value in table.raw_items():
        entry = {"key": plain(key.decode(raw_key))}
        slots = table.decode_slots(raw_value)
        if table.spec.traits.per_cpu:
            entry["values"] = [{"cpu": cpu, "value": shown(each)} for cpu, each in enumerate(slots)]
        else:
            entry["value"] = shown(slots[0])
        entries.append(entry)
    return entries


def plain(value: object) -> object:
    """A value as JSON has it; an enumerator by its name."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Struct):
        return plain(Struct.as_dict(value))
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, str):
        return json_text(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)  # JSON has no such numbers
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)
