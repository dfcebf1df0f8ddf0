"""Reading memory that the verifier does not know: user space, and the kernel by address."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from pyebpf.compiler.ir import Op, ValueType
from pyebpf.uapi.helper_ids import PROBE_READ_KERNEL, PROBE_READ_KERNEL_STR, PROBE_READ_USER, PROBE_READ_USER_STR

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir


class Space(StrEnum):
    """Whose addresses they are: the author's word, since nothing in a number tells."""

    USER = "user"
    KERNEL = "kernel"


_READ = {Space.USER: PROBE_READ_USER, Space.KERNEL: PROBE_READ_KERNEL}
_READ_STRING = {Space.USER: PROBE_READ_USER_STR, Space.KERNEL: PROBE_READ_KERNEL_STR}


def at_offset(p: ProgramBuilder, address: ir.Value, offset: int) -> ir.Value:
    """Return `address` + `offset` as a number for a helper; the address itself where the offset is 0."""
    if offset == 0:
        return address
    return p.b.emit(Op.OFFSET if address.type is ValueType.POINTER else Op.ADD, address, p.b.const(offset))


def probe_read(p: ProgramBuilder, space: Space, destination: ir.Value, size: int | ir.Value, address: ir.Value) -> None:
    """Copy `size` bytes to the stack (or another place that a helper may write). A bad address gives zeros.

    A size that is known at run time only needs bounds that the verifier sees.
    """
    if space is Space.USER:
        p.program_context.check_user_read(p)
    p.b.call(_READ[space], destination, p.b.const(size) if isinstance(size, int) else size, address)


def probe_read_value(
    p: ProgramBuilder, space: Space, address: ir.Value, offset: int, size: int, *, signed: bool = False
) -> ir.Value:
    """Read an integer of 1, 2, 4 or 8 bytes at address + offset. A bad address gives 0."""
    copied = p.b.slot_address(p.b.shared_slot("read"))
    probe_read(p, space, copied, size, at_offset(p, address, offset))
    return p.b.load(copied, 0, size, signed=signed)


def probe_read_string(p: ProgramBuilder, space: Space, destination: ir.Value, size: int, address: ir.Value) -> ir.Value:
    """Copy a C string to `destination`, `size` bytes; return how many there are with the NUL.

    Cut to size - 1 bytes. Of a bad address zeros, and a negative number. What is behind the NUL stays as it was.
    """
    if space is Space.USER:
        p.program_context.check_user_read(p)
    return p.b.call(_READ_STRING[space], destination, p.b.const(size), address)
