"""Facts of a processor architecture that programs and loaders need."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

from pyebpf.dataclass import dataclass
from pyebpf.errors import NotFound, closest

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Architecture:
    """One architecture. Registers go by their names in `struct pt_regs`, offsets and sizes are bytes.

    name                 as uname(2) gives it
    registers            8-byte registers that `struct pt_regs` holds, and their offsets
    registers_size       size of the part of `struct pt_regs` that user space may know
    arguments            registers of a function's integer arguments, in order; further ones lie on the stack
    stack_arguments      offset from the stack pointer, at a function's entry, of the first argument on the stack
    result               register of a function's result
    stack, frame, instruction   stack pointer, frame pointer, program counter
    instruction_size     instructions begin at multiples of so many bytes
    trap_size            how far the program counter is behind the address of a function at a kprobe on its entry
    return_address       register that has the return address at a function's entry; None: it lies at the stack pointer
    call_number          register of a system call's number, in the registers that its entry saved
    call_arguments       registers of a system call's arguments, likewise
    call_prefix          what stands before a system call's name in its function's (`__x64_sys_openat`), whose only
                         argument is a pointer to the saved registers
    operand_names        each name that instructions have for a register or its part: the name here, and bytes
    high_bytes           names of bits 8 to 15 of a register, likewise
    operand_forms        operands as the assembler spells them: regular expressions, each part of one a named group.
                         `register` and `constant`; `displacement`, `base`, `index`, with its `scale` (a factor) or
                         `shift`, of memory
    """

    name: str
    registers: Mapping[str, int]
    registers_size: int
    arguments: tuple[str, ...]
    stack_arguments: int
    result: str
    stack: str
    frame: str
    instruction: str
    instruction_size: int
    trap_size: int
    return_address: str | None
    call_number: str
    call_arguments: tuple[str, ...]
    call_prefix: str
    operand_names: Mapping[str, tuple[str, int]]
    high_bytes: Mapping[str, str]
    operand_forms: tuple[str, ...]

    def __hash__(self) -> int:
        return hash(self.name)

    def register_offset(self, name: str) -> int:
        """Offset of a register in `struct pt_regs`; NotFound names the closest ones."""
        try:
            return self.registers[name]
        except KeyError:
            raise NotFound(f"{self.name} has no register {name!r}{closest(name, self.registers)}") from None

    @property
    def system_calls(self) -> Mapping[str, int]:
        """Number of each system call of 64-bit programs, by name, up to Linux 6.18."""
        return _calls(self.name)

    @property
    def system_call_names(self) -> Mapping[int, str]:
        """Name of each system call of 64-bit programs, by number."""
        return _call_names(self.name)

    def system_call(self, name: str) -> int:
        """Number of a system call; NotFound names the closest ones."""
        calls = self.system_calls
        try:
            return calls[name]
        except KeyError:
            raise NotFound(f"{self.name} has no system call {name!r}{closest(name, calls)}") from None


@cache
def _calls(name: str) -> dict[str, int]:
    # The tables are large and few programs need them.
    return cast("dict[str, int]", import_module(f"pyebpf.arch.{name}_calls").SYSTEM_CALLS)


@cache
def _call_names(name: str) -> dict[int, str]:
    return {number: call for call, number in _calls(name).items()}
