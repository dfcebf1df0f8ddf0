"""Actions of a script carried out as JSON: an object a line, with the shapes that bpftrace gives them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace.histograms import divided
from pyebpf.bpftrace.printer import Printer
from pyebpf.bpftrace.record_formats import Column, text_column, value_column
from pyebpf.bpftrace.series import series_json
from pyebpf.bpftrace.tables import in_parts, quotient
from pyebpf.bpftrace.value_types import (
    Address,
    Aggregate,
    Array,
    Boolean,
    Buffer,
    KernelStack,
    Number,
    Record,
    String,
    Tuple,
    Unread,
    UserStack,
    delimited,
    interleaved,
)
from pyebpf.output.escape import json_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.bpftrace.events import Action
    from pyebpf.bpftrace.value_types import Names, ValueType
    from pyebpf.output.histogram import Histogram


#: Types of parts of keys that have no text of somebody's own: their commas stand where the type has them.
_WITHOUT_COMMAS = (Number, Boolean, Address, Array, Record, KernelStack, UserStack)


def message(kind: str, data: str) -> str:
    """A line of output; `data` is JSON."""
    return f'{{"type": "{kind}", "data": {data}}}\n'


def counted(kind: str, noun: str, number: int) -> str:
    """A line that counts something: it has the number twice, as `count` and by its noun."""
    return f'{{"type": "{kind}", "count": {number}, "data": {{"{noun}": {number}}}}}\n'


#: One encoder for all texts: json.dumps() makes one for each.
_encoded = json.JSONEncoder(ensure_ascii=False).encode
#: Texts that `json_text` writes otherwise, and those that such a one would look like.
_BYTES = re.compile(r"[\ud800-\udfff]|\\x[89a-f][0-9a-f]")


def quoted(text: str) -> str:
    r"""Text as JSON. A byte that is no UTF-8, which JSON cannot have, becomes the four characters `\xNN`.

    There, and where such characters stand already, a backslash becomes two, so that different keys stay different.
    """
    return _encoded(json_text(text) if _BYTES.search(text) else text)


def number(value: int) -> str:
    """A number as JSON; a text where a reader that knows doubles only would read another."""
    return str(value) if int(float(value)) == value else f'"{value}"'


def plain(type_: ValueType, value: Any, names: Names) -> str:
    """A value as JSON: numbers without their names, tuples, arrays and bytes as arrays, all else as text."""
    if isinstance(type_, Boolean):
        return "true" if value else "false"
    if isinstance(type_, Number | Address):
        return number(value)
    if isinstance(type_, Tuple | Record):
        parts = zip(type_.parts, value, strict=True)
        return interleaved(_around(type_), [plain(part, each, names) for part, each in parts])
    if isinstance(type_, Array):
        return f"[{','.join(plain(type_.element, each, names) for each in value)}]"
    if isinstance(type_, Buffer):
        length, data = value
        return f"[{','.join(map(str, bytes(data)[:length]))}]"
    if isinstance(type_, Unread):
        return "null"
    return quoted(type_.text(value, names))


def _around(type_: Tuple | Record) -> list[str]:
    """The text before, between and behind the parts of a value."""
    if isinstance(type_, Record):
        return delimited("{", [f"{quoted(name)}: " for name in type_.names], ", ", "}")
    return delimited("[", [""] * len(type_.parts), ",", "]")


def _key(type_: ValueType, value: Any, names: Names) -> str:
    """A key as text, as bpftrace has it: no spaces between the parts of a tuple or record, none before frames."""
    if isinstance(type_, KernelStack | UserStack):
        return type_.text(value, names).replace("\n        ", "\n")
    if isinstance(type_, Tuple):
        return ",".join([_part(part, each, names) for part, each in zip(type_.parts, value, strict=True)])
    if isinstance(type_, Record):
        parts = zip(type_.names, type_.parts, value, strict=True)
        return f"{{{','.join([f'.{name}={_part(part, each, names)}' for name, part, each in parts])}}}"
    return type_.text(value, names)


def _part(type_: ValueType, value: Any, names: Names) -> str:
    found = _key(type_, value, names)
    if isinstance(type_, Tuple):
        return f"({found})"
    return found if isinstance(type_, _WITHOUT_COMMAS) else _set_apart(found)


def _set_apart(text: str) -> str:
    r"""A part that has a comma, with `\,` for it and `\\` for a backslash, so that no key looks like another.

    So is one that ends in a backslash, which would make that of the comma behind it.
    """
    return text.replace("\\", r"\\").replace(",", r"\,") if "," in text or text.endswith("\\") else text


def _histogram(histogram: Histogram, divisor: int) -> str:
    buckets = []
    for each in histogram.rows():
        parts = {"min": each.low, "max": each.high, "count": divided(each.count, divisor)}
        buckets.append(json.dumps({name: part for name, part in parts.items() if part is not None}))
    return f"[{','.join(buckets)}]"


def _entry(type_: ValueType, value: Any, names: Names, divisor: int) -> str:
    """The value of an entry of a map."""
    if not isinstance(type_, Aggregate):
        return plain(type_, in_parts(type_, value, divisor), names)
    if type_.kind in ("hist", "lhist"):
        return _histogram(value, divisor)
    if type_.kind == "tseries":
        return series_json(value, number)
    if type_.kind == "stats":
        average = number(quotient(value.average, divisor))
        return f'{{"count": {number(value.count)}, "average": {average}, "total": {number(value.total)}}}'
    return number(quotient(value.average if type_.kind == "avg" else value, divisor))


_KINDS = {"hist": "hist", "lhist": "hist", "stats": "stats", "avg": "stats", "tseries": "tseries"}


def _printf_line(text: str) -> str:
    return message("printf", quoted(text))


class JsonPrinter(Printer):
    """Carries out actions, and says what they print as JSON."""

    before_maps = ""
    around_value = ('{"type": "value", "data": ', "}\n")
    line_of_format = staticmethod(_printf_line)

    def _map(self, name: str, top: int = 0, divisor: int = 0, *, entries: Mapping[Any, Any] | None = None) -> str:
        table = self._tables[name]
        type_, items = table.value_type, table.shown_items(top, entries=entries)
        if not items:
            return ""
        values = [_entry(type_, value, self.names, divisor or 1) for _, value in items]
        data = values[0]
        if table.key_type is not None:
            keys = [quoted(_key(table.key_type, key, self.names)) for key, _ in items]
            data = f"{{{', '.join(f'{key}: {value}' for key, value in zip(keys, values, strict=True))}}}"
        kind = _KINDS.get(type_.kind, "map") if isinstance(type_, Aggregate) else "map"
        return message(kind, f"{{{quoted(name)}: {data}}}")

    def _do_print_entry(self, action: Action, values: tuple[Any, ...]) -> str:
        table = self._tables[action.map]
        value = dict(table.shown_items()).get(values[0], table.absent())
        return "" if value is None else message("value", _entry(table.value_type, value, self.names, 1))

    def _around(self, type_: Tuple | Record) -> list[str]:
        return _around(type_)

    def _column(self, type_: ValueType) -> Column:
        if isinstance(type_, String):
            return text_column(type_, quoted, self.names)
        if isinstance(type_, Number | Address):
            return Column("%s", type_.storage.format, number)
        return value_column(type_, lambda value: plain(type_, value, self.names))

    def _do_complain(self, action: Action, values: tuple[Any, ...]) -> str:
        """A message with its place, which the action's text is."""
        word = action.text.rsplit(": ", 2)[1]
        if word == "WARNING" and not self.warns:
            return ""
        return self._placed({"ERROR": "errorf", "WARNING": "warnf"}[word], action, self._formatted(action, values))

    def _do_warn(self, action: Action, values: tuple[Any, ...]) -> str:
        """A warning of bpftrace's own: its first line, the others show the place."""
        return self._placed("runtime_error", action, self._formatted(action, values).partition("\n")[0])

    def _placed(self, kind: str, action: Action, text: str) -> str:
        file, line, columns = action.text.rsplit(": ", 2)[0].rsplit(":", 2)
        at = f'"filename": {quoted(file)}, "line": {line}, "col": {columns.partition("-")[0]}'
        return f'{{"type": "{kind}", "msg": {quoted(text)}, {at}}}\n'

    def _do_time(self, action: Action, values: tuple[Any, ...]) -> str:
        return message("time", quoted(super()._do_time(action, values)))

    def _do_join(self, action: Action, values: tuple[Any, ...]) -> str:
        return message("join", quoted(super()._do_join(action, values).removesuffix("\n")))

    def _do_cat(self, action: Action, values: tuple[Any, ...]) -> str:
        found = self._cat(self._formatted(action, values))
        return message("cat", quoted(found)) if found else ""

    def _do_system(self, action: Action, values: tuple[Any, ...]) -> str:
        return message("syscall", quoted(self._system(self._formatted(action, values))))
