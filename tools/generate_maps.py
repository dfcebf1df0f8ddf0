"""Write the table of map kinds in docs/maps.md from pyebpf/specs/map_traits.py; `--check` only compares."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pyebpf.specs.map_traits import MAP_TRAITS, MapOperation  # noqa: E402 - the path comes first

PAGE = ROOT / "docs" / "maps.md"
BEGIN, END = "<!-- kinds: begin -->\n", "<!-- kinds: end -->\n"
OPERATIONS = (
    (MapOperation.LOOKUP, "look up"), (MapOperation.UPDATE, "update"), (MapOperation.DELETE, "delete"),
    (MapOperation.PUSH, "push"),
    (MapOperation.ITERATE, "list"), (MapOperation.TAKE, "take"), (MapOperation.MMAP, "mmap"),
)  # fmt: skip
BATCHES = (
    (MapOperation.BATCH_LOOKUP, "look up"), (MapOperation.BATCH_UPDATE, "update"),
    (MapOperation.BATCH_DELETE, "delete"), (MapOperation.BATCH_TAKE, "take"),
)  # fmt: skip


def table() -> str:
    """One row a kind, in the order of their numbers."""
    lines = [
        "| kind | since | for | keys | values | size | commands | batches | BTF |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, traits in MAP_TRAITS.items():
        commands = ", ".join(word for bit, word in OPERATIONS if traits.operations & bit)
        batches = ", ".join(word for bit, word in BATCHES if traits.operations & bit)
        value = traits.value.value + (", one a processor" if traits.per_cpu else "")
        btf = "required" if traits.needs_btf else "if `typed`" if traits.operations & MapOperation.TYPED else ""
        cells = (
            f"`{kind.name}`",
            traits.since,
            traits.text,
            traits.key.value,
            value,
            traits.entries.value,
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
