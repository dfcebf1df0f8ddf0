"""Names that ftrace does not list: of functions whose code is the same, or that have several names, it lists one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.kernel.functions import glob
from pyebpf.symbols.search import SymbolText

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyebpf.kernel.functions import Traceable


def other_names(
    reached: Traceable, listed: Collection[str], name: str, module: str, symbols: SymbolText | None = None
) -> Iterator[tuple[str, str, int]]:
    """Functions that match a pattern and are listed by another name: as `Traceable.matching` has them, without address.

    `listed` are the names that match and are listed. An address has one name: the listed one if that matches, else the
    first that does. Nothing is found where the kernel hides addresses.
    """
    symbols = symbols or SymbolText()
    # A tab ends a name there.
    pattern = glob(name).replace(rb"[^ \n", rb"[^ \t\n")
    others = [each for each in symbols.matching(pattern, module) if each.address and each.name not in listed]
    if not others:
        return
    names_at = symbols.at_addresses({each.address for each in others})
    several = {address: names for address, names in names_at.items() if len(names) > 1}
    every = reached.names() if several else frozenset()
    taken: set[int] = set()
    for each in others:
        names = several.get(each.address, ())
        if each.address in taken or any(name in listed for name in names):
            continue
        if any(name.encode() in every for name in names if name != each.name):
            taken.add(each.address)
            yield each.name, each.module, 0
