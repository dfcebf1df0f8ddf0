"""Write the tables of docs/asm.md from the instruction table; `--check` only compares."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pyebpf.asm import OPS, Form  # noqa: E402 - the path comes first

if TYPE_CHECKING:
    from pyebpf.asm import Op

PAGE = ROOT / "docs" / "asm.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"
GROUPS = {
    "Arithmetic": (Form.DST, Form.DST_IMM, Form.DST_SRC, Form.CAST),
    "Jumps": (Form.JUMP, Form.JUMP_LONG, Form.JUMP_IMM, Form.JUMP_REG),
    "Calls and exit": (Form.CALL, Form.CALL_LOCAL, Form.CALL_KFUNC, Form.CALL_REGISTER, Form.EXIT),
    "Memory": (Form.LOAD, Form.STORE, Form.STORE_IMM),
    "Two-slot loads": (Form.LDDW, Form.LDDW_MAP, Form.LDDW_KSYM, Form.LDDW_FUNCTION),
    "Packets (socket filters, tc)": (Form.LOAD_ABSOLUTE, Form.LOAD_INDIRECT),
}
WORDS = {
    "d": "D",
    "s": "S",
    "imm": "IMM",
    "wide": "IMM64",
    "high": "TO",
    "low": "FROM",
    "off": "+ OFF",
    "disp": "+OFF",
    "index": " + IMM",
    "place": "+ OFF32",
    "upper": "",
    "module": "",
    "to": "TARGET",
    "function": "FUNCTION",
    "map": "MAP",
    "ksym": "NAME",
    "kfunc": "NAME",
}


def fixed_fields(op: Op) -> str:
    """Fields that are no operands and not 0."""
    given = (("src", "s", op.src), ("offset", "o", op.offset), ("imm", "i", op.imm))
    return ", ".join(f"{name} {value:#x}" for name, letter, value in given if letter not in op.operands and value)


def row(op: Op) -> str:
    """One line of a table."""
    version = f"v{op.version}" + (f", {op.feature}" if op.feature else "")
    kernel, mnemonic = op.text.format(**WORDS), op.mnemonic.format(**WORDS)
    cells = (f"`{kernel}`", f"`{mnemonic}`", f"`{op.code:02x}`", fixed_fields(op), version)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def tables() -> str:
    """A table a group; every row of the instruction table is in one."""
    parts = []
    for title, forms in GROUPS.items():
        rows = "".join(row(op) for op in OPS if op.form in forms)
        heading = "| kernel | mnemonic | opcode | fields | version |\n|---|---|---|---|---|\n"
        parts.append(f"### {title}\n\n{heading}{rows}")
    assert sum(op.form in forms for op in OPS for forms in GROUPS.values()) == len(OPS)
    return "\n".join(parts)


def main() -> None:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if the page is not what would be written")
    options = parser.parse_args()
    before = PAGE.read_text(encoding="utf-8")
    head, _, rest = before.partition(BEGIN)
    after = f"{head}{BEGIN}\n{tables()}\n{END}{rest.partition(END)[2]}"
    if not options.check:
        PAGE.write_text(after, encoding="utf-8")
    elif after != before:
        sys.exit(f"{PAGE.relative_to(ROOT)} is old: run tools/{Path(__file__).name}")


if __name__ == "__main__":
    main()
