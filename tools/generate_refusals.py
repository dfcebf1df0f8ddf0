"""Write the table of known refusals in docs/verifier.md from pyebpf/verifier/messages.py; `--check` only compares.

A pattern is shown as one message that it finds: its first alternatives, N for numbers, … for names.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from re import (
    _constants as sre,  # type: ignore[attr-defined]  # the parser behind `re`: it has no public name
    _parser,  # type: ignore[attr-defined]  # as above
)
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pyebpf.verifier.messages import VERIFIER_MESSAGES  # noqa: E402 - the path comes first

PAGE = ROOT / "docs" / "verifier.md"
BEGIN, END = "<!-- refusals: begin -->\n", "<!-- refusals: end -->\n"
NAMED = {"register": "R1", "instruction": "N", "descriptor": "N", "opcode": "ef"}


def example(pattern: str) -> str:
    """One message that `pattern` finds, for a reader."""
    parsed = _parser.parse(pattern)
    names = {number: name for name, number in parsed.state.groupdict.items()}
    return re.sub("…+", "…", "".join(_pieces(parsed, names))).strip()


def _pieces(parsed: Any, names: dict[int, str]) -> list[str]:
    out: list[str] = []
    for code, argument in parsed:
        match code:
            case sre.LITERAL:
                out.append(chr(argument))
            case sre.SUBPATTERN:
                group, *_, inside = argument
                out.append(NAMED.get(names.get(group, "")) or "".join(_pieces(inside, names)))
            case sre.BRANCH:
                out += _pieces(argument[1][0], names)
            case sre.MAX_REPEAT | sre.MIN_REPEAT:
                least, most, inside = argument
                if most == 1 and least == 0:
                    continue
                out.append("".join(_pieces(inside, names)))
            case sre.IN:
                out.append("N" if any(each == (sre.CATEGORY, sre.CATEGORY_DIGIT) for each in argument) else "…")
            case sre.ANY | sre.NOT_LITERAL:
                out.append("…")
    return out


def table() -> str:
    """The table in Markdown."""
    lines = ["| the verifier | what it means, and what to write instead |", "|---|---|"]
    for row in VERIFIER_MESSAGES:
        message = example(row.pattern).replace("|", "\\|")
        lines.append(f"| `{message}` | {row.cause} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write or compare; 1 if the page is not what the data gives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    options = parser.parse_args()
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    if page == wanted:
        return 0
    if options.check:
        sys.stderr.write(f"{PAGE.name} is not what the data gives: run tools/{Path(__file__).name}\n")
        return 1
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
