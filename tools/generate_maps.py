"""Write the table of map kinds in docs/maps.md from pyebpf/specs/map_kinds.py; `--check` only compares."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pyebpf.specs.map_kinds import RULES, Can  # noqa: E402 - the path comes first

PAGE = ROOT / "docs" / "maps.md"
BEGIN, END = "<!-- kinds: begin -->\n", "<!-- kinds: end -->\n"
OPERATIONS = (
    (Can.LOOKUP, "look up"), (Can.UPDATE, "update"), (Can.DELETE, "delete"), (Can.PUSH, "push"),
    (Can.ITERATE, "list"), (Can.TAKE, "take"), (Can.MMAP, "mmap"),
)  # fmt: skip
BATCHES = (
    (Can.BATCH_LOOKUP, "look up"), (Can.BATCH_UPDATE, "update"), (Can.BATCH_DELETE, "delete"), (Can.BATCH_TAKE, "take"),
)  # fmt: skip


def table() -> str:
    """One row a kind, in the order of their numbers."""
    lines = [
        "| kind | since | for | keys | values | size | commands | batches | BTF |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, rules in RULES.items():
        commands = ", ".join(word for bit, word in OPERATIONS if rules.can & bit)
        batches = ", ".join(word for bit, word in BATCHES if rules.can & bit)
        value = rules.value.value + (", one a processor" if rules.per_cpu else "")
        btf = "required" if rules.needs_btf else "if `typed`" if rules.can & Can.TYPED else ""
        cells = (
            f"`{name}`",
            rules.since,
            rules.text,
            rules.key.value,
            value,
            rules.entries.value,
            commands,
            batches,
            btf,
        )
        lines.append(f"| {' | '.join(cells)} |".replace("  ", " "))
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page with the table as it should be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + END + after


def main() -> int:
    """Write the page, or with --check say whether it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    wanted = page()
    if parser.parse_args().check:
        return int(wanted != PAGE.read_text())
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
