"""The report that the verifier writes below its message since Linux 7.3: set apart from the log.

    Verification failed: Register Type Safety: Invalid dereference

    Reason:
      R0 may be NULL here (a nullable map value pointer).

    At:
      count @ file.py:82:8
      Instruction context:
          8 | (b7) r5 = 1
      >>> 9 | (db) lock *(u64 *)(r0 +0) += r5

Further sections follow in the same form, and then the log goes on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_TITLE = "Verification failed: "
_HEADING = re.compile(r"[A-Z][A-Za-z ]{0,40}:")
_SLOT = re.compile(r"\s*>>>\s+(\d{1,10}) \| \([0-9a-f]{2}\) ")
_LONGEST = 400  # characters of a reason


class Report(NamedTuple):
    """The kind of refusal with its reason, in a line, and the slot of the instruction that was refused, if it says."""

    text: str = ""
    instruction: int | None = None


def separate(lines: Sequence[str]) -> tuple[list[str], Report]:
    """The log's lines without the report, and the report; an empty one for a kernel that writes none."""
    kept: list[str] = []
    report = Report()
    sections: dict[str, list[str]] | None = None
    section: list[str] = []
    for line in lines:
        if line.startswith(_TITLE):
            sections = {}
            section = sections.setdefault("", [line.removeprefix(_TITLE)])
        elif sections is None:
            kept.append(line)
        elif _HEADING.fullmatch(line):
            section = sections.setdefault(line, [])
        elif not line.strip() or line[0].isspace():
            section.append(line)
        else:
            report = _read(sections)
            sections = None
            kept.append(line)
    return kept, _read(sections) if sections is not None else report


def _read(sections: dict[str, list[str]]) -> Report:
    reason = " ".join(line.strip() for line in sections.get("Reason:", ()) if line.strip())
    places = (_SLOT.match(line) for line in sections.get("At:", ()))
    place = next((found for found in places if found is not None), None)
    title = sections[""][0].strip()
    return Report(f"{title}: {reason}"[:_LONGEST] if reason else title, int(place[1]) if place else None)
