"""Actions of a script carried out: text, as bpftrace writes it."""

from __future__ import annotations

from time import localtime, strftime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyebpf.bpftrace.events import Action
    from pyebpf.bpftrace.tables import Gathered, Table
    from pyebpf.bpftrace.value_types import Names


class Printer:
    """Carries out actions. `cat` and `system` are for those that read files and run commands; they return text."""

    #: What is printed at a script's end before its maps.
    before_maps = "\n\n"

    def __init__(
        self,
        tables: Mapping[str, Table | Gathered],
        names: Names,
        cat: Callable[[str], str],
        system: Callable[[str], str],
    ) -> None:
        self._tables = tables
        self.names = names
        self._cat, self._system = cat, system
        #: Says what errorf() and warnf() print; None: it is text as any other.
        self.note: Callable[[str], None] | None = None
        #: Whether warnf() prints anything.
        self.warns = True
        #: The status that `exit()` gave; None before it.
        self.status: int | None = None

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

    def _do_time(self, action: Action, values: tuple[Any, ...]) -> str:  # noqa: ARG002 - one signature
        return strftime(action.text, localtime())

    def _do_join(self, action: Action, values: tuple[Any, ...]) -> str:
        words = []
        for each in values:
            if not each:
                break
            words.append(each)
        return f"{action.text.join(words)}\n"

    def _do_errorf(self, action: Action, values: tuple[Any, ...]) -> str:
        text = f"{action.text}: ERROR: {Printer._do_printf(self, action, values)}"
        return self._noted(text.removesuffix("\n"))

    def _do_warnf(self, action: Action, values: tuple[Any, ...]) -> str:
        if not self.warns:
            return ""
        text = f"{action.text}: WARNING: {Printer._do_printf(self, action, values)}"
        return self._noted(text.removesuffix("\n"))

    def _noted(self, text: str) -> str:
        if self.note is None:
            return f"{text}\n"
        self.note(text)
        return ""

    def _do_cat(self, action: Action, values: tuple[Any, ...]) -> str:
        return self._cat(self._do_printf(action, values))

    def _do_system(self, action: Action, values: tuple[Any, ...]) -> str:
        return self._system(self._do_printf(action, values))
