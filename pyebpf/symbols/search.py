"""/proc/kallsyms searched as text: for a few names, a table of 200,000 symbols takes far longer than it saves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.symbols.kernel import FUNCTIONS, KernelSymbol, read_kallsyms

if TYPE_CHECKING:
    from collections.abc import Container

_FUNCTION = re.compile(rb"^([0-9a-f]+) [tTwW] ([^\t\n]+)", re.MULTILINE)
_PADDING = (b"__pfx_", b"__cfi_")
#: Letters that a misspelt name has in common with the one meant, at its beginning or its end.
_COMMON = 4


class SymbolText:
    """The file as it was when this was made; `text` is its content, for tests."""

    def __init__(self, text: bytes | None = None) -> None:
        # As in ffffffff81000000 T _stext, with a tab and [module] behind the name of a module's.
        self._text = b"\n" + (read_kallsyms() if text is None else text)

    def find(self, name: str, module: str = "") -> tuple[KernelSymbol, ...]:
        """All symbols of a name, of any module or of one."""
        return self._search(re.escape(name), module)

    def variants(self, name: str) -> tuple[str, ...]:
        """Find the compiler's variants of a function: name.isra.0, name.constprop.0 and the like."""
        return tuple(dict.fromkeys(each.name for each in self._search(re.escape(name) + r"\.[a-z][\w.]*", "")))

    def _search(self, name: str, module: str) -> tuple[KernelSymbol, ...]:
        # Beginning with what stands before the name, which there are few of, not with the address of each line.
        pattern = re.compile(rf" (.) ({name})(?:\t\[([^\]\n]*)\])?\n".encode())
        found = []
        for match in pattern.finditer(self._text):
            address = self._text[self._text.rfind(b"\n", 0, match.start()) + 1 : match.start()]
            kind, symbol, home = match.groups()
            if module in {"", (home or b"").decode()}:
                found.append(KernelSymbol(symbol.decode(), int(address, 16), kind.decode(), (home or b"").decode()))
        return tuple(found)

    def matching(self, glob: bytes, module: str = "") -> tuple[KernelSymbol, ...]:
        """Functions whose names match a regular expression, of any module or of one."""
        return tuple(each for each in self._search(f"(?:{glob.decode()})", module) if each.is_function)

    def at_addresses(self, addresses: Container[int]) -> dict[int, list[str]]:
        """Names of the functions that begin at each of some addresses, in the kernel's order."""
        found: dict[int, list[str]] = {}
        for address, name in _FUNCTION.findall(self._text):
            number = int(address, 16)
            if number in addresses:
                found.setdefault(number, []).append(name.decode(errors="replace"))
        return found

    def names_at(self, address: int) -> tuple[str, ...]:
        """All names of the function at an address, without those of padding; none if no function begins there."""
        found = re.findall(rb"\n%016x [tTwW] ([^\t\n]+)" % address, self._text)
        return tuple(name.decode(errors="replace") for name in found if not name.startswith(_PADDING))

    def has_module(self, name: str) -> bool:
        """Whether a module has symbols, so is loaded."""
        return f"\t[{name}]\n".encode() in self._text

    def similar(self, name: str, *, data: bool = False) -> tuple[str, ...]:
        """Functions, with `data` variables too, whose names begin or end as this one: where the closest are sought."""
        start, end = re.escape(name[:_COMMON]), re.escape(name[-_COMMON:])
        length = rf"{{{max(len(name) - 6, 1)},{len(name) + 6}}}"
        kinds = "." if data else "[tTwW]"
        pattern = re.compile(rf" {kinds} (?=[^\t\n]{length}[\t\n])({start}[^\t\n]*|[^\t\n]*{end})(?=[\t\n])".encode())
        return tuple(dict.fromkeys(found.decode(errors="replace") for found in pattern.findall(self._text)))

    def name_at(self, address: int) -> str:
        """The function at an address; empty if none begins there."""
        # Data may have the address of a section's first function.
        for kind in FUNCTIONS:
            start = b"\n%016x %c " % (address, kind)
            at = self._text.find(start)
            if at >= 0:
                end = self._text.find(b"\n", at + 1)
                return self._text[at + len(start) : end].partition(b"\t")[0].decode(errors="replace")
        return ""
