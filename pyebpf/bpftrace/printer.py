"""Actions of a script carried out: text, as bpftrace writes it."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from time import localtime, strftime
from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace.record_formats import Column, Placed, RecordFormat, columns_of, text_column, value_column
from pyebpf.bpftrace.value_types import Address, Number, String

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyebpf.bpftrace.events import Action, Events
    from pyebpf.bpftrace.tables import Gathered, Table
    from pyebpf.bpftrace.value_types import Names, Record, Tuple, ValueType


#: Records that are looked at together: what is printed first need not wait for all that came.
_AT_ONCE = 1 << 14
#: Actions that read maps, and characters of them that are written at once.
_READING, _PIECE = frozenset({"print_map", "print_entry"}), 1 << 20
#: The number of the action, as it is in memory, of a record.
_start = itemgetter(slice(8))


class Printer:
    """Carries out actions. `cat` and `system` are for those that read files and run commands; they return text.

    `complain` writes to standard error.
    """

    #: What is printed at a script's end before its maps.
    before_maps = "\n\n"
    #: What `print` puts before and behind a value.
    around_value = ("", "\n")
    #: Makes the line that is printed of a format's text; None where it is printed as it is.
    line_of_format: Callable[[str], str] | None = None

    def __init__(
        self,
        tables: Mapping[str, Table | Gathered],
        names: Names,
        cat: Callable[[str], str],
        system: Callable[[str], str],
        complain: Callable[[str], object],
    ) -> None:
        self._tables = tables
        self.names = names
        self._cat, self._system, self._complain = cat, system, complain
        #: Whether warnf() prints anything.
        self.warns = True
        #: Whether strings are to be escaped, as the names do.
        self.escapes = False
        #: Takes the watchpoint off an address.
        self.unwatch: Callable[[int], object] = lambda _: None
        #: The status that `exit()` gave; None before it.
        self.status: int | None = None
        #: Formats of what prints, by the starts of its records; None for actions that are carried out one by one.
        self._forms: dict[bytes, RecordFormat | None] = {}

    def taken_status(self) -> int | None:
        """The status that `exit()` gave since the last call; None without one. END may give another."""
        status, self.status = self.status, None
        return status

    def texts(self, events: Events, records: Sequence[bytes], *, until_exit: bool = True) -> Iterator[str]:
        """Carry out what records ask for, by default until one asks for the end; the text of many of them at once."""
        for first in range(0, len(records), _AT_ONCE):
            yield from self._texts(events, records[first : first + _AT_ONCE], until_exit=until_exit)
            if self.status is not None and until_exit:
                return

    def _texts(self, events: Events, records: Sequence[bytes], *, until_exit: bool) -> Iterator[str]:
        # The records of a script of one action need not be looked at.
        starts = set(map(_start, records)) if len(events.actions) > 1 else {_start(records[0])}
        for start in starts - self._forms.keys():
            self._forms[start] = self._record_format(events.of(start))
        form = self._forms[starts.pop()]
        if not starts and form is not None:
            yield form.together(records)
            return
        held: list[str] = []
        length = 0
        # What probes did was done before: a map that is read once has all of it, until something changes it here.
        read: dict[bytes, str] = {}
        for is_formatted, group in groupby(records, lambda each: self._forms[each[:8]] is not None):
            if is_formatted:
                held += self._in_order(list(group))
                continue
            for record in group:
                if record not in read:
                    action, values = events.action(record)
                    if action.kind not in _READING:
                        if text := "".join(held):  # commands come after what was printed
                            yield text
                        held, length = [self.text(action, values)], 0
                        read.clear()
                        if self.status is not None and until_exit:
                            return
                        continue
                    read[record] = self.text(action, values)
                held.append(read[record])
                length += len(read[record])
                if length > _PIECE:
                    yield "".join(held)
                    held, length = [], 0
        if text := "".join(held):
            yield text

    def _record_format(self, action: Action) -> RecordFormat | None:
        """The format of many records of an action; None for one that is carried out record by record."""
        fields = iter(action.layout.fields[1:])
        offsets = [None if behind else next(fields).offset for behind in action.behind]
        if action.kind == "print":
            pieces, columns = columns_of(action.types[0], offsets[0], self._around, self._column)
            before, behind = self.around_value
            pieces[0] = before + pieces[0]
            pieces[-1] += behind
            return RecordFormat(pieces, columns, action.layout.size)
        if action.kind == "printf":
            assert action.format is not None
            found = map(Placed, offsets, action.format.columns(action.types, self.names))
            return RecordFormat(action.format.pieces, list(found), action.layout.size, self.line_of_format)
        return None

    def _around(self, type_: Tuple | Record) -> list[str]:
        """The text before, between and behind the parts of a value."""
        return type_.around

    def _column(self, type_: ValueType) -> Column:
        """How a value that has no parts is printed."""
        if isinstance(type_, String):
            return text_column(type_, str, self.names)
        if isinstance(type_, Number) and not type_.names and not type_.enum:
            return Column("%d", type_.storage.format)
        if isinstance(type_, Address):
            return Column("%#x", type_.storage.format)
        return value_column(type_, lambda value: type_.text(value, self.names))

    def _in_order(self, records: Sequence[bytes]) -> list[str]:
        """The text that each record of several formats prints.

        Those of one format are formatted together, since different ones often alternate.
        """
        starts = list(map(_start, records))
        apart: dict[bytes, list[bytes]] = {each: [] for each in starts}
        for start, record in zip(starts, records, strict=True):
            apart[start].append(record)
        texts = {}
        for start, some in apart.items():
            form = self._forms[start]
            assert form is not None
            texts[start] = iter(form.each(some))
        return [next(texts[start]) for start in starts]

    def text(self, action: Action, values: tuple[object, ...]) -> str:
        """Carry out an action; the text that it prints."""
        handle: Callable[[Action, tuple[Any, ...]], str] = getattr(self, f"_do_{action.kind}")
        return handle(action, values)

    def maps(self) -> str:
        """All maps, as at a script's end."""
        return "".join(self._map(name) for name in sorted(self._tables))

    def _map(self, name: str, top: int = 0, divisor: int = 0, *, entries: Mapping[Any, Any] | None = None) -> str:
        table = self._tables[name]
        return "".join(f"{line}\n" for line in table.lines(self.names, top, divisor, entries=entries))

    def _formatted(self, action: Action, values: tuple[Any, ...]) -> str:
        assert action.format is not None
        return action.format.apply(values, action.types, self.names)

    def _do_complain(self, action: Action, values: tuple[Any, ...]) -> str:
        if self.warns or not action.text.endswith(": WARNING: "):
            text = f"{action.text}{self._formatted(action, values)}".rstrip("\n")
            self._complain(f"{text}{action.trace}")
        return ""

    def _do_warn(self, action: Action, values: tuple[Any, ...]) -> str:
        """A warning of bpftrace's own, not of the script's."""
        self._complain(f"{action.text}{self._formatted(action, values)}")
        return ""

    def _do_print_map(self, action: Action, values: tuple[Any, ...]) -> str:  # noqa: ARG002 - one signature
        found = self._map(action.map, *action.numbers)
        return found or self._map(action.map, entries=self._tables[action.map].nothing())

    def _do_print_entry(self, action: Action, values: tuple[Any, ...]) -> str:
        table = self._tables[action.map]
        return "".join(f"{line}\n" for line in table.entry_lines(values[0], self.names))

    def _do_clear(self, action: Action, values: tuple[Any, ...]) -> str:  # noqa: ARG002 - one signature
        self._tables[action.map].clear()
        return ""

    def _do_zero(self, action: Action, values: tuple[Any, ...]) -> str:  # noqa: ARG002 - one signature
        self._tables[action.map].zero()
        return ""

    def _do_exit(self, action: Action, values: tuple[Any, ...]) -> str:  # noqa: ARG002 - one signature
        self.status = values[0] & 0xFF
        return ""

    def _do_unwatch(self, action: Action, values: tuple[Any, ...]) -> str:  # noqa: ARG002 - one signature
        self.unwatch(values[0])
        return ""

    def _do_time(self, action: Action, values: tuple[Any, ...]) -> str:  # noqa: ARG002 - one signature
        return strftime(action.text, localtime())

    def _do_join(self, action: Action, values: tuple[Any, ...]) -> str:
        words = []
        for each in values:
            if not each:
                break
            words.append(each)
        return f"{action.text.join(words)}\n"

    def _do_cat(self, action: Action, values: tuple[Any, ...]) -> str:
        return self._cat(self._formatted(action, values))

    def _do_system(self, action: Action, values: tuple[Any, ...]) -> str:
        return self._system(self._formatted(action, values)) + "\n"
