"""Reading memory that the verifier does not know: user space, and the kernel by address."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from pyebpf.compiler.ir import Op, ValueType
from pyebpf.uapi.helper_ids import (
    PROBE_READ,
    PROBE_READ_KERNEL,
    PROBE_READ_KERNEL_STR,
    PROBE_READ_STR,
    PROBE_READ_USER,
    PROBE_READ_USER_STR,
)

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir


class Space(StrEnum):
    """Whose addresses they are.

    `EITHER` is decided where the program runs: below TASK_SIZE an address is the process's, above it the kernel's. The
    kernel's helpers for that are there where the two never overlap, on x86-64 and arm64 for instance: Linux commit
    0ebeea8ca8a4 ("bpf: Restrict bpf_probe_read{, str}() only to archs where they work") (v5.7).
    """

    USER = "user"
    KERNEL = "kernel"
    EITHER = "either"


_READ = {Space.USER: PROBE_READ_USER, Space.KERNEL: PROBE_READ_KERNEL, Space.EITHER: PROBE_READ}
_READ_STRING = {Space.USER: PROBE_READ_USER_STR, Space.KERNEL: PROBE_READ_KERNEL_STR, Space.EITHER: PROBE_READ_STR}


def at_offset(p: ProgramBuilder, address: ir.Value, offset: int) -> ir.Value:
    """Return `address` + `offset` as a number for a helper; the address itself where the offset is 0."""
    if offset == 0:
        return address
    return p.b.emit(Op.OFFSET if address.type is ValueType.POINTER else Op.ADD, address, p.b.const(offset))


def probe_read(p: ProgramBuilder, space: Space, destination: ir.Value, size: int | ir.Value, address: ir.Value) -> None:
    """Copy `size` bytes to the stack (or another place that a helper may write). A bad address gives zeros.

    A size that is known at run time only needs bounds that the verifier sees.
    """
    if space is not Space.KERNEL:
        p.program_context.check_user_read(p)
    p.b.call(_READ[space], destination, p.b.const(size) if isinstance(size, int) else size, address)


def probe_read_value(
    p: ProgramBuilder, space: Space, address: ir.Value, offset: int, size: int, *, signed: bool = False
) -> ir.Value:
    """Read an integer of 1, 2, 4 or 8 bytes at address + offset. A bad address gives 0."""
    copied = p.b.slot_address(p.b.shared_slot("read"))
    probe_read(p, space, copied, size, at_offset(p, address, offset))
    return p.b.load(copied, 0, size, signed=signed)


def probe_read_string(
    p: ProgramBuilder, space: Space, destination: ir.Value, size: int | ir.Value, address: ir.Value
) -> ir.Value:
    """Copy a C string to `destination`, `size` bytes; return how many there are with the NUL.

    Cut to size - 1 bytes. Of a bad address zeros, and a negative number. What is behind the NUL stays as it was.
    """
    if space is not Space.KERNEL:
        p.program_context.check_user_read(p)
    return p.b.call(_READ_STRING[space], destination, p.b.const(size) if isinstance(size, int) else size, address)
