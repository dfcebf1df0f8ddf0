"""Labels that are numbers, as LLVM's assembler has them.

`1:` may stand at many places; `goto 1b` means the last one before, `goto 1f` the next one after. Only a text with
such a jump has them: in all others a number at the start of a line counts slots.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.asm.comments import COMMENT
from pyebpf.asm.instruction import Label, Raw
from pyebpf.dataclass import replace
from pyebpf.errors import AssemblyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.asm.instruction import Item

_USE = re.compile(r"(?:\b(?:goto|gotol|may_goto|ja|ja32|call|local)\s|,)\s*\d+[bf](?![\w.$])", re.ASCII | re.IGNORECASE)
_REFERENCE = re.compile(r"(\d+)([bf])", re.ASCII)


def has_numbered_labels(text: str) -> bool:
    """Whether some jump of the text goes to one."""
    for found in _USE.finditer(text):
        before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        if not any(comment[2] for comment in COMMENT.finditer(before)):
            return True
    return False


def name_numbered_labels(items: Sequence[Item | Raw]) -> list[Item | Raw]:
    """The items with a name of its own for each such label, and in each jump the name that it means."""
    places: dict[str, int] = {}
    for item in items:
        if isinstance(item, Label) and item.name.isdigit():
            places[item.name] = places.get(item.name, 0) + 1
    out: list[Item | Raw] = []
    seen = dict.fromkeys(places, 0)
    for item in items:
        if isinstance(item, Raw):
            out.append(item)
        elif isinstance(item, Label):
            if item.name in seen:
                seen[item.name] += 1
                out.append(Label(_name(item.name, seen[item.name]), item.where))
            else:
                out.append(item)
        elif item.symbol is not None and (found := _REFERENCE.fullmatch(item.symbol)):
            number, count = found[1], seen.get(found[1], 0) + (found[2] == "f")
            if not 0 < count <= places.get(number, 0):
                side = "after" if found[2] == "f" else "before"
                raise AssemblyError(f"there is no label `{number}:` {side} this", item.where)
            out.append(replace(item, symbol=_name(number, count)))
        else:
            out.append(item)
    return out


def _name(number: str, count: int) -> str:
    """No other label is called so, unless in quotes: names start with a letter."""
    return number if count == 1 else f"{number}.{count}"
