"""x86-64: System V ABI section 3.2.3; `struct pt_regs` of arch/x86/include/asm/ptrace.h."""

from __future__ import annotations

from pyebpf.arch.architecture import Architecture

_SAVED = "r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss"  # each 8 bytes, from offset 0
_PARTS = {"": 8, "d": 4, "w": 2, "b": 1}
_LEGACY = {"ax": "al", "bx": "bl", "cx": "cl", "dx": "dl", "si": "sil", "di": "dil", "bp": "bpl", "sp": "spl"}

X86_64 = Architecture(
    name="x86_64",
    registers={name: 8 * index for index, name in enumerate(_SAVED.split())},
    registers_size=168,
    arguments=("di", "si", "dx", "cx", "r8", "r9"),
    stack_arguments=8,
    result="ax",
    stack="sp",
    frame="bp",
    instruction="ip",
    instruction_size=1,
    trap_size=1,
    return_address=None,
    call_number="orig_ax",
    call_arguments=("di", "si", "dx", "r10", "r8", "r9"),
    call_prefix="__x64_sys_",
    operand_names={
        "rip": ("ip", 8),
        **{f"r{name}": (name, 8) for name in _LEGACY},
        **{f"e{name}": (name, 4) for name in _LEGACY},
        **{name: (name, 2) for name in _LEGACY},
        **{low: (name, 1) for name, low in _LEGACY.items()},
        **{f"r{n}{part}": (f"r{n}", size) for n in range(8, 16) for part, size in _PARTS.items()},
    },
    high_bytes={f"{letter}h": f"{letter}x" for letter in "abcd"},
    # A register, a constant, displacement(base, index, scale) of which every part may be missing, a symbol.
    operand_forms=(
        r"%(?P<register>\w+)",
        r"\$(?P<constant>.+)",
        r"(?P<displacement>[^()]*)\((?:%(?P<base>\w+))?(?:,(?:%(?P<index>\w+))?(?:,(?P<scale>[1248]))?)?\)",
        r"(?P<displacement>[^$%].*)",
    ),
)
