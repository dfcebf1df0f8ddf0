"""IFUNCs of a file (STT_GNU_IFUNC): functions that are chosen among several when a program starts.

The symbol's address is that of the function that chooses, the resolver, so a probe there counts starts of programs.
What is called has another name, or none.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pyebpf.elf.budget import MAX_SAME
from pyebpf.elf.symbols import IFUNC
from pyebpf.kernel.libraries import loaded_function

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyebpf.elf.symbols import ElfSymbols, Symbol

_WHY = "chosen among several when a program starts (IFUNC)"
_MAX_NAMED = 3


def split_ifuncs(elf: ElfSymbols, pattern: str) -> tuple[Iterator[Symbol], dict[int, str]]:
    """Separate functions of a file that match a pattern from IFUNCs: functions to probe, one name of each IFUNC.

    The names are known, by their addresses, once all functions have been taken. A resolver counts as its IFUNC, as do
    versions of an IFUNC's name that hardly any program calls.
    """
    resolved = []
    for symbol in elf.ifuncs():
        resolved.append(symbol)
        elf.budget.check(len(resolved), MAX_SAME, "IFUNCs")
    # Names that match first, then those that programs see, then short ones: strlen, not __GI_strlen.
    resolved.sort(key=lambda symbol: (not fnmatchcase(symbol.name, pattern), symbol.is_local, len(symbol.name)))
    names = {symbol.value: symbol.name for symbol in reversed(resolved)}
    # Of an older version, such as memcpy@GLIBC_2.2.5, the name is the IFUNC's.
    values = {symbol.name: symbol.value for symbol in resolved if symbol.default or not symbol.version}
    left_out: dict[int, str] = {}

    def functions() -> Iterator[Symbol]:
        for symbol in elf.matching(pattern):
            value = values.get(symbol.name, symbol.value)
            if value in names:
                left_out[value] = names[value]
            else:
                yield symbol

    return functions(), left_out


def instead_of(elf: ElfSymbols, symbol: Symbol, name: str, binary: str) -> str:
    """The message for an IFUNC that was asked for by its name: what it is, and what to probe."""
    used, variants = _variants(elf, symbol, name)
    if used:
        remedy = f"probe {used}, which this machine uses"
    elif variants:
        remedy = f"probe one of these: {', '.join(variants[:_MAX_NAMED])}"
    else:
        remedy = "they have no symbols in this file"
    return f"{name} of {binary} is {_WHY}: {remedy}"


def summary(elf: ElfSymbols, names: Sequence[str]) -> str:
    """IFUNCs in words, for a line on a pattern that matches them: how many they are, and what to probe."""
    named = []
    for name in names[:_MAX_NAMED]:
        symbol = next(each for each in elf.find(name) if each.kind == IFUNC)
        used, variants = _variants(elf, symbol, name)
        remedy = f"probe {used or variants[0]}" if used or variants else "its variants have no symbols"
        named.append(f"{name} ({remedy})")
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    what = "1 function that is" if len(names) == 1 else f"{len(names)} functions that are"
    return f"{what} {_WHY}: {', '.join(named)}{more}"


def _variants(elf: ElfSymbols, symbol: Symbol, name: str) -> tuple[str, list[str]]:
    """The variant of an IFUNC that this machine uses, empty if it cannot be told, and those that there are."""
    address = loaded_function(elf.path, name)
    variants, used = [], []
    for each in elf.matching("*"):
        if each.kind == IFUNC or each.value == symbol.value:
            continue
        if f"_{name}_" in each.name and not each.name.endswith("_chk"):  # which calls it, with a check before
            variants.append((each.value, each.name))
        if address is not None and each.offset == address:
            used.append((each.value, each.name))
    variants.sort()
    mine = [each for each in sorted(used) if each in variants] or sorted(used)
    return (mine[0][1] if mine else ""), [variant for _, variant in variants]
