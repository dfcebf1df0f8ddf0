"""The kernel's symbols: variables read as BTF or the author says, and addresses."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pyebpf.builder.values.entity import describe
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.kernel_objects import KernelReference, value_at
from pyebpf.builder.values.memory import Space
from pyebpf.builder.values.pointers import Pointer
from pyebpf.compiler.ir import Op, ValueType
from pyebpf.errors import NotFound
from pyebpf.types import U64, IntType
from pyebpf.uapi.helper_ids import THIS_CPU_PTR

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.entity import Entity
    from pyebpf.compiler import ir


class SymbolAddress(Int):
    """The address of a symbol of which BTF has no type."""

    __slots__ = ("symbol",)

    def __init__(self, address: ir.Value, symbol: str) -> None:
        super().__init__(address, U64)
        self.symbol = symbol

    def attribute(self, p: ProgramBuilder, name: str) -> Entity:
        if name in {"bit_length", "bit_count"}:
            return super().attribute(p, name)
        p.fail(f"this kernel's BTF has no variable {self.symbol}: ksym() gives its address, which has no {name}")


def kernel_symbol(p: ProgramBuilder, name: object, type: object = None) -> Entity:  # noqa: A002 - the author's keyword
    """`ksym("name")`: what the kernel has under a name, read as BTF or the author says; else its address."""
    if not isinstance(name, str):
        p.fail("ksym() takes a name known at compile time, as a string")
    variable = None
    with suppress(NotFound):
        variable = p.target.variable(name)
    address = p.b.emit(Op.KSYM, symbol=name)
    if variable is not None and variable.per_cpu:
        address = p.b.call(THIS_CPU_PTR, address, result=ValueType.SCALAR, comment="bpf_this_cpu_ptr")
    if isinstance(type, IntType):
        return Pointer(address, type, Space.KERNEL).item(p, 0)
    if type is None and variable is None:
        return SymbolAddress(address, name)
    if not isinstance(type, str | None):
        p.fail(f"ksym(…, {describe(type)}): give an integer type, or the name of a C type as a string")
    try:
        found = p.target.type_named(type) if type is not None else variable.type if variable is not None else None
    except NotFound as error:
        p.fail(str(error))
    assert found is not None
    if found.composite:
        return KernelReference(address, found)  # its name is its address: it is compared with what points there
    return value_at(p, address, 0, found, trusted=False, space=Space.KERNEL)
