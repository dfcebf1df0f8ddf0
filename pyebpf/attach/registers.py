"""`struct pt_regs`: the registers that a probe on a function finds, in the kernel or in a process.

The context of a kprobe and of a uprobe is that structure, which the verifier lets programs read in units of 8 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.arch import architecture
from pyebpf.builder.context import KernelObject
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.memory import Space, probe_read_value
from pyebpf.builder.values.pointers import Pointer
from pyebpf.compiler.ir import Op
from pyebpf.errors import closest
from pyebpf.types import BOOL, S64, U64, IntType, PointerType

if TYPE_CHECKING:
    from pyebpf.arch import Architecture
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir


def machine(p: ProgramBuilder) -> Architecture:
    """The architecture that the program is compiled for."""
    return architecture(p.target.arch)


def register(p: ProgramBuilder, name: str) -> ir.Value:
    """A register of the context, by the architecture's name for it ("di", "x0")."""
    return p.b.load(p.context, machine(p).register_offset(name), 8)


def named_register(p: ProgramBuilder, name: str) -> Int:
    """`ctx.name`: a register as a u64. Any other name is an error with the closest ones."""
    arch = machine(p)
    if name not in arch.registers:
        p.fail(
            f"{arch.name} has no register {name}{closest(name, arch.registers)}: arguments are parameters of the "
            "probe; the context's attributes are registers, such as ctx."
            f"{arch.instruction}"
        )
    return Int(register(p, name), U64)


def argument(p: ProgramBuilder, position: int, space: Space) -> ir.Value:
    """Argument `position` (from 0) at a function's entry: all 64 bits of its register, or of its place on the stack.

    `space` is whose stack that is. Only integers and pointers are passed so.
    """
    arch = machine(p)
    if position < len(arch.arguments):
        return register(p, arch.arguments[position])
    offset = arch.stack_arguments + 8 * (position - len(arch.arguments))
    return probe_read_value(p, space, register(p, arch.stack), offset, 8)


def result(p: ProgramBuilder) -> ir.Value:
    """Return the result of a function, at its return: 64 bits of a register; a narrow type has the low ones."""
    return register(p, machine(p).result)


def saved_call_argument(p: ProgramBuilder, registers: ir.Value, position: int) -> ir.Value:
    """Argument `position` (from 0) of a system call, from the registers that its entry saved at address `registers`."""
    arch = machine(p)
    if position >= len(arch.call_arguments):
        p.fail(f"a system call has at most {len(arch.call_arguments)} arguments")
    offset = arch.register_offset(arch.call_arguments[position])
    return probe_read_value(p, Space.KERNEL, registers, offset, 8)


def typed(p: ProgramBuilder, value: ir.Value, annotation: object, name: str, space: Space) -> object:
    """A 64-bit register as the type that the author wrote, where nothing else knows one; `space` is a pointer's.

    An integer narrower than the register is extended from its own width: the upper bits are junk.
    """
    if isinstance(annotation, PointerType):
        return Pointer(value, annotation.target, space)
    if annotation is bool:
        annotation = BOOL
    if isinstance(annotation, IntType) and not annotation.big_endian:
        if annotation.is_bool:
            low = p.b.emit(Op.ZEXT, value, size=1)
            p.b.assume_bounds(low, 0, 1)
            return Int(low, S64, annotation)
        if annotation.size == U64.size:
            return Int(value, S64 if annotation.signed else U64)
        low = p.b.emit(Op.SEXT if annotation.signed else Op.ZEXT, value, size=annotation.size)
        p.b.assume_bounds(low, annotation.minimum, annotation.maximum)
        return Int(low, S64, annotation)
    if annotation is None:
        p.fail(f"{name}: its type is not known: annotate it, {name}: u32 or {name}: ptr[char]")
    if annotation is KernelObject:
        p.fail(f'{name}: its struct is not known: annotate {name}: u64, and cast("struct …", {name})')
    if annotation is int:
        p.fail(f"{name}: int does not give its width: annotate u32, s32, u64 or s64")
    p.fail(f"{name}: an argument in a register is an integer, a bool or a pointer: u8 to s64, bool, ptr[…]")
