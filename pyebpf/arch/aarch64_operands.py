"""arm64: operands of instructions as GNU as writes them, which USDT notes have. `pyebpf.arch.operands` reads them.

GCC writes numbers bare, clang behind a `#`.
"""

from __future__ import annotations

__all__ = ["FORMS", "NAMES"]

#: Registers and their parts: the name in `struct pt_regs`, and bytes.
NAMES: dict[str, tuple[str, int]] = {
    "sp": ("sp", 8),
    "fp": ("x29", 8),
    "lr": ("x30", 8),
    **{f"{letter}{n}": (f"x{n}", size) for n in range(31) for letter, size in {"x": 8, "w": 4}.items()},
}
#: A constant, a register, [base], [base, displacement], [base, index], [base, index, lsl shift].
FORMS = (
    r"#?(?P<constant>[-+]?\d\w*)",
    r"(?P<register>[a-z]\w*)",
    r"\[(?P<base>\w+)(?:, *#?(?P<displacement>[-+]?\d\w*))?\]",
    r"\[(?P<base>\w+), *(?P<index>[a-z]\w*)(?:, *lsl +#?(?P<shift>[0-3]))?\]",
)
