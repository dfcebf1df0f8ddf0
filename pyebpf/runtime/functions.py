"""Names of functions by their addresses, for what `function_ip()` returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyebpf.link.host import Host
    from pyebpf.symbols.search import SymbolText


class FunctionNames:
    """A function's name by the address of its first byte.

    Looked for in what ftrace lists, if attaching has read that, else in /proc/kallsyms: as text, since a few hundred
    names do not pay for a table of 200,000.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._found: dict[int, str] = {}
        self._symbols: SymbolText | None = None

    def __getitem__(self, address: int) -> str:
        """The name; the address in hexadecimal where none is known."""
        name = self._found.get(address)
        if name is None:
            name = self._found[address] = self._host.listed_name(address) or self._symbol(address) or f"{address:#x}"
        return name

    def names(self, address: int) -> tuple[str, ...]:
        """All names of a function; none where none is known."""
        found = self._text().names_at(address) if address else ()
        return found or ((self[address],) if self._host.listed_name(address) else ())

    def _symbol(self, address: int) -> str:
        return self._text().name_at(address) if address else ""

    def _text(self) -> SymbolText:
        if self._symbols is None:
            from pyebpf.symbols.search import SymbolText

            self._symbols = SymbolText()
        return self._symbols
