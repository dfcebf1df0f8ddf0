"""Actions of a script carried out: text, as bpftrace writes it."""

from __future__ import annotations

import re
from itertools import groupby
from time import localtime, strftime
from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace.formats import texts_of_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyebpf.bpftrace.events import Action, Events
    from pyebpf.bpftrace.tables import Gathered, Table
    from pyebpf.bpftrace.value_types import Names


def _start(record: bytes) -> bytes:
    """The number of the action, as it is in memory."""
    return record[:8]


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
        #: Functions that format many records of an action; None for actions that are carried out one by one.
        self._formats: dict[int, Callable[[Iterable[bytes]], list[str]] | None] = {}

    def taken_status(self) -> int | None:
        """The status that `exit()` gave since the last call; None without one. END may give another."""
        status, self.status = self.status, None
        return status

    def texts(self, events: Events, records: Sequence[bytes]) -> Iterator[str]:
        """Carry out what records ask for, until one asks for the end; the text of many of them at once."""
        if not records:
            return
        held: list[str] = []
        # Most scripts print by one printf, whose number need not be looked at.
        groups = groupby(records, _start) if len(events.actions) > 1 else [(b"", records)]
        for start, group in groups:
            number = int.from_bytes(start, "little")
            action = events.actions[number]
            if number not in self._formats:
                self._formats[number] = self._formatter(action)
            texts = self._formats[number]
            if texts is not None:
                held += texts(group)
                continue
            for record in group:
                if action.kind not in ("printf", "print") and held:  # commands and maps come after what was printed
                    yield "".join(held)
                    held = []
                held.append(self.text(action, action.values(record)))
                if self.status is not None:
                    break
            if self.status is not None:
                break
        if text := "".join(held):
            yield text

    def _formatter(self, action: Action) -> Callable[[Iterable[bytes]], list[str]] | None:
        """A function that formats many records of an action; None for one that is carried out record by record."""
        if action.kind != "printf" or action.format is None:
            return None
        shown = self.names.shown if self.escapes else None
        trailer = self.names.trailer
        return texts_of_records(action.format, action.types, action.layout, shown, trailer, action.behind)

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
