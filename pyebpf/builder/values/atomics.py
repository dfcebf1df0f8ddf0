"""`lvalue op= value` where other programs may write at the same time: one atomic instruction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.values.operations import fits, to_int
from pyebpf.compiler.ir import Op
from pyebpf.types import IntType

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.lvalue import Lvalue
    from pyebpf.compiler import ir
    from pyebpf.types import Type

#: Operators and the atomic operations that do them; a subtraction adds the negated number.
OPERATIONS = {"+": "add", "-": "add", "&": "and", "|": "or", "^": "xor"}

_SIZES = (4, 8)


def check(p: ProgramBuilder, type_: Type, operator: str, what: str) -> IntType:
    """Refuse what no atomic operation does."""
    if operator not in OPERATIONS:
        p.fail(
            f"{what} is shared with other processors, and {operator}= has no atomic form: use + - & | ^, or read it, "
            "compute, and assign"
        )
    if not isinstance(type_, IntType) or type_.size not in _SIZES or type_.big_endian:
        p.fail(f"{operator}= on {what} needs a number of 4 or 8 bytes in the machine's order, not {type_.name}")
    if operator not in "+-" and not p.target.has("isa:atomic"):
        p.fail(
            f"{what} is shared with other processors, and this kernel has no atomic {operator}= (since Linux 5.12): "
            "use + or -, or read it, compute, and assign"
        )
    return type_


def operand(p: ProgramBuilder, type_: IntType, operator: str, value: object) -> ir.Value:
    """Return the number that the atomic operation takes."""
    if isinstance(value, int):
        # What is added wraps, so a negative number is one that the field need not be able to hold.
        if operator not in "+-" or not -type_.maximum <= value < 0:
            fits(p, type_, value)
        return p.b.const(-value if operator == "-" else int(value))
    number = to_int(p, value).value
    return p.b.emit(Op.NEG, number) if operator == "-" else number


def augment(p: ProgramBuilder, lvalue: Lvalue, type_: Type, operator: str, value: object, what: str) -> None:
    """`lvalue operator= value`."""
    checked = check(p, type_, operator, what)
    number = operand(p, checked, operator, value)
    address, offset = lvalue.address(p)
    p.b.emit(Op.ATOMIC, address, number, imm=offset, size=checked.size, symbol=OPERATIONS[operator])
