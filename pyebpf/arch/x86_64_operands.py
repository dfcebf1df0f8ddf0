"""x86-64: operands of instructions as GNU as writes them, which USDT notes have. `pyebpf.arch.operands` reads them."""

from __future__ import annotations

__all__ = ["FORMS", "NAMES"]

_LEGACY = {"ax": "al", "bx": "bl", "cx": "cl", "dx": "dl", "si": "sil", "di": "dil", "bp": "bpl", "sp": "spl"}
#: Registers and their parts: the name in `struct pt_regs`, and bytes.
NAMES: dict[str, tuple[str, int]] = {
    "rip": ("ip", 8),
    **{f"r{name}": (name, 8) for name in _LEGACY},
    **{f"e{name}": (name, 4) for name in _LEGACY},
    **{name: (name, 2) for name in _LEGACY},
    **{low: (name, 1) for name, low in _LEGACY.items()},
    **{f"r{n}{part}": (f"r{n}", size) for n in range(8, 16) for part, size in {"": 8, "d": 4, "w": 2, "b": 1}.items()},
}
#: A register, a constant, displacement(base, index, scale) of which every part may be missing, a symbol.
FORMS = (
    r"%(?P<register>\w+)",
    r"\$(?P<constant>.+)",
    r"(?P<displacement>[^()]*)\((?:%(?P<base>\w+))?(?:,(?:%(?P<index>\w+))?(?:,(?P<scale>[1248]))?)?\)",
    r"(?P<displacement>[^$%].*)",
)
