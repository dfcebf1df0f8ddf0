"""x86-64: System V ABI section 3.2.3; `struct pt_regs` of arch/x86/include/asm/ptrace.h."""

from __future__ import annotations

from pyebpf.arch.architecture import Architecture

__all__ = ["X86_64"]

_SAVED = "r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss"  # each 8 bytes, from offset 0

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
)
