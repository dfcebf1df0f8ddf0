"""Operands written to memory as values of a type, every byte of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.ssa.conditions import Test
from pyebpf.builder.values.entity import Entity, describe
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.kernel_numbers import AddressNumber, check_width
from pyebpf.builder.values.lvalue import write_bytes, zero
from pyebpf.builder.values.operations import fits, rvalue, to_int, truth
from pyebpf.builder.values.own_methods import check_own
from pyebpf.builder.values.tuples import write_elements
from pyebpf.compiler.ir import Op
from pyebpf.errors import InvalidValue
from pyebpf.types import U64, ArrayType, BytesType, CharArray, IntType, PointerType, Struct, StructType, TupleType
from pyebpf.types.special import SpecialType

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.types import Type


def write(p: ProgramBuilder, address: ir.Value, offset: int, type_: Type, value: object) -> None:
    """Write `value` at address + offset as a `type_`."""
    if not isinstance(value, Struct):  # whose fields Python reads
        check_own(p, (value,))
    if isinstance(type_, (IntType, PointerType)):
        held = type_ if isinstance(type_, IntType) else U64
        p.b.store(address, offset, integer(p, held, value), held.size)
        return
    value = rvalue(p, value)
    if isinstance(type_, SpecialType) and value is None:
        zero(p, address, offset, type_.size)  # the kernel keeps its own
    elif isinstance(value, Entity):
        write_entity = getattr(value, "write_to", None)
        if write_entity is None:
            is_number = isinstance(type_, CharArray) and isinstance(value, Int)
            instead = "a number needs an integer type, such as u64" if is_number else value.REMEDIES.get("fit")
            remedy = f": {instead}" if instead else ""
            p.fail(f"{describe(value)} does not fit {type_.name}{remedy}")
        write_entity(p, address, offset, type_)
    elif isinstance(type_, TupleType):
        if not isinstance(value, (tuple, list)):
            p.fail(f"{value!r} does not fit {type_.name}: give a tuple of {len(type_.fields)}")
        write_elements(p, address, offset, type_, value)
    elif isinstance(type_, (StructType, CharArray)) or isinstance(value, bytes):
        write_bytes(p, address, offset, _encoded(p, type_, value))
    elif isinstance(type_, (ArrayType, BytesType)) and isinstance(value, (list, tuple)):
        if len(value) != type_.length:
            p.fail(f"{len(value)} values do not fit {type_.name}: give {type_.length}")
        for i, element in enumerate(value):
            write(p, address, offset + i * type_.element.size, type_.element, element)
    else:
        p.fail(f"{describe(value)} does not fit {type_.name}")


def _is_string(value: Entity) -> bool:
    """Whether a value is a string, or the kernel's array of characters."""
    from pyebpf.builder.values.kernel_objects import KernelArray
    from pyebpf.builder.values.strings import String, StringSource

    if isinstance(value, KernelArray):
        return value.element.character
    return isinstance(value, (String, StringSource))


def integer(p: ProgramBuilder, type_: IntType, value: object) -> ir.Value:
    """Return the 64-bit value whose low bytes stand in memory for `value` as a `type_`."""
    if isinstance(value, int):
        fits(p, type_, value)
        if type_.big_endian:
            value = int.from_bytes(value.to_bytes(type_.size, "big"), "little")
        return p.b.const(int(value))
    if isinstance(value, Test):
        number = to_int(p, value).value
    elif type_.is_bool:
        low, high = p.b.bounds(to_int(p, value).value)
        number = to_int(p, value).value if (low, high) == (0, 1) else p.b.truth_value(truth(p, rvalue(p, value)))
    else:
        if not isinstance(value, Entity):
            p.fail(f"{value!r} does not fit {type_.name}: give an integer")
        if _is_string(value):
            p.fail(f"{describe(value)} is a string, which does not fit {type_.name}: it needs a type such as char[16]")
        found = to_int(p, value)
        if isinstance(found, AddressNumber) and type_.size == U64.size and not type_.big_endian:
            return found.pointer
        number = found.value
        check_width(p, rvalue(p, value), type_)
    return p.b.emit(Op.SWAP, number, size=type_.size) if type_.big_endian else number


def _encoded(p: ProgramBuilder, type_: Type, value: object) -> bytes:
    """Bytes of a value known at compile time."""
    if isinstance(type_, StructType) and not isinstance(value, Struct):
        p.fail(f"{describe(value)} is not of type {type_.name}: write {type_.name}(…)")
    try:
        return type_.encode(value)
    except InvalidValue as error:
        p.fail(str(error))
