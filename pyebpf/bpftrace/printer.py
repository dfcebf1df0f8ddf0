"""Actions of a script carried out: text, as bpftrace writes it."""

from __future__ import annotations

import re
from itertools import groupby
from operator import itemgetter
from time import localtime, strftime
from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace.formats import record_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyebpf.bpftrace.events import Action, Events
    from pyebpf.bpftrace.formats import RecordFormat
    from pyebpf.bpftrace.tables import Gathered, Table
    from pyebpf.bpftrace.value_types import Names


#: The number of the action, as it is in memory, of a record.
_start = itemgetter(slice(8))


def with_fraction(layout: str, nanoseconds: int) -> str:
    """A layout of strftime() with the parts of a second in it: micro- (%f), milli- (%l) and nanoseconds (%k)."""
    parts = {"%f": f"{nanoseconds // 1000:06}", "%l": f"{nanoseconds // 10**6:03}", "%k": f"{nanoseconds:09}"}
    return re.sub("%[%flk]", lambda found: parts.get(found[0], found[0]), layout)


class Printer:
    """Carries out actions. `cat` and `system` are for those that read files and run commands; they return text.

    `complain` writes to standard error.
    """

    #: What is printed at a script's end before its maps.
    before_maps = "\n\n"

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
        #: Formats of printfs, by the starts of their records; None for actions that are carried out one by one.
        self._forms: dict[bytes, RecordFormat | None] = {}

    def taken_status(self) -> int | None:
        """The status that `exit()` gave since the last call; None without one. END may give another."""
        status, self.status = self.status, None
        return status

    def texts(self, events: Events, records: Sequence[bytes]) -> Iterator[str]:
        """Carry out what records ask for, until one asks for the end; the text of many of them at once."""
        if not records:
            return
        # The records of a script of one action need not be looked at.
        starts = set(map(_start, records)) if len(events.actions) > 1 else {_start(records[0])}
        for start in starts - self._forms.keys():
            self._forms[start] = self._record_format(events.of(start))
        form = self._forms[starts.pop()]
        if not starts and form is not None:
            yield self._together(form, records)
            return
        held: list[str] = []
        for is_formatted, group in groupby(records, lambda each: self._forms[each[:8]] is not None):
            if is_formatted:
                held += self._in_order(list(group))
                continue
            for record in group:
                action, values = events.action(record)
                if action.kind not in ("printf", "print") and held:  # commands and maps come after what was printed
                    yield "".join(held)
                    held = []
                held.append(self.text(action, values))
                if self.status is not None:
                    break
            if self.status is not None:
                break
        if text := "".join(held):
            yield text

    def _record_format(self, action: Action) -> RecordFormat | None:
        """The format of many records of an action; None for one that is carried out record by record."""
        if action.kind != "printf" or action.format is None:
            return None
        shown = self.names.shown if self.escapes else None
        return record_format(action.format, action.types, action.layout, shown, self.names.trailer, action.behind)

    def _together(self, form: RecordFormat, records: Sequence[bytes]) -> str:
        """The text that records of one printf print."""
        return form.together(records)

    def _each(self, form: RecordFormat, records: Sequence[bytes]) -> list[str]:
        """The text that each record of one printf prints."""
        return form.each(records)

    def _in_order(self, records: Sequence[bytes]) -> list[str]:
        """The text that each record of several printfs prints.

        Those of one printf are formatted together, since different ones often alternate.
        """
        starts = list(map(_start, records))
        apart: dict[bytes, list[bytes]] = {each: [] for each in starts}
        for start, record in zip(starts, records, strict=True):
            apart[start].append(record)
        texts = {}
        for start, some in apart.items():
            form = self._forms[start]
            assert form is not None
            texts[start] = iter(self._each(form, some))
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

    def _do_printf(self, action: Action, values: tuple[Any, ...]) -> str:
        assert action.format is not None
        return action.format.apply(values, action.types, self.names)

    def _do_complain(self, action: Action, values: tuple[Any, ...]) -> str:
        if self.warns or not action.text.endswith(": WARNING: "):
            text = f"{action.text}{self._do_printf(action, values)}".rstrip("\n")
            self._complain(f"{text}{action.trace}")
        return ""

    def _do_warn(self, action: Action, values: tuple[Any, ...]) -> str:
        """A warning of bpftrace's own, not of the script's."""
        self._complain(f"{action.text}{self._do_printf(action, values)}")
        return ""

    def _do_print(self, action: Action, values: tuple[Any, ...]) -> str:
        return f"{action.types[0].text(values[0], self.names)}\n"

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
        return self._cat(self._do_printf(action, values))

    def _do_system(self, action: Action, values: tuple[Any, ...]) -> str:
        return self._system(self._do_printf(action, values))
