"""arm64: AAPCS64 section 6; `struct user_pt_regs` and what follows it, arch/arm64/include/asm/ptrace.h.

`orig_x0` keeps a system call's first argument, which x0 loses to the result.
"""

from __future__ import annotations

from pyebpf.arch.architecture import Architecture

AARCH64 = Architecture(
    name="aarch64",
    registers={f"x{n}": 8 * n for n in range(31)} | {"sp": 248, "pc": 256, "pstate": 264, "orig_x0": 272},
    registers_size=272,
    arguments=("x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"),
    stack_arguments=0,
    result="x0",
    stack="sp",
    frame="x29",
    instruction="pc",
    instruction_size=4,
    trap_size=0,
    return_address="x30",
    call_number="x8",
    call_arguments=("orig_x0", "x1", "x2", "x3", "x4", "x5"),
    call_prefix="__arm64_sys_",
    operand_names={
        "sp": ("sp", 8),
        "fp": ("x29", 8),
        "lr": ("x30", 8),
        **{f"{letter}{n}": (f"x{n}", size) for n in range(31) for letter, size in {"x": 8, "w": 4}.items()},
    },
    high_bytes={},
    # A constant, a register, [base], [base, displacement], [base, index], [base, index, lsl shift].
    # GCC writes numbers bare, clang behind a `#`.
    operand_forms=(
        r"#?(?P<constant>[-+]?\d\w*)",
        r"(?P<register>[a-z]\w*)",
        r"\[(?P<base>\w+)(?:, *#?(?P<displacement>[-+]?\d\w*))?\]",
        r"\[(?P<base>\w+), *(?P<index>[a-z]\w*)(?:, *lsl +#?(?P<shift>[0-3]))?\]",
    ),
)
