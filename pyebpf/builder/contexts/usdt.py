"""USDT probes: arguments where each place has them, which is known only when the program is attached.

The place's cookie is the number of a slot in a hidden map (`pyebpf.specs.attach.usdt`), whose content says of each
argument: constant + base register + (scaled register << scale), and whether the value stands there in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.contexts.base import ProgramContext
from pyebpf.builder.contexts.registers import named_register, typed
from pyebpf.builder.contexts.user import COOKIE, cookie
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.memory import Space, probe_read_value
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.errors import closest
from pyebpf.specs.attach.usdt import (
    ARGUMENT,
    COUNT,
    FORM_SIZE,
    FORMS,
    IN_MEMORY,
    MOST_ARGUMENTS,
    NO_REGISTER,
    SIGNED,
    Usdt,
    forms_spec,
)
from pyebpf.uapi.helper_ids import PROBE_READ_USER

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

__all__ = ["UsdtProgramContext"]

# Where the fields of ARGUMENT stand.
_BASE, _SCALED, _FLAGS, _SCALE, _SIZE, _SHIFT = 8, 10, 12, 13, 14, 15


class UsdtProgramContext(ProgramContext[Usdt]):
    """Parameters are the place's arguments by position, or by the names that the decorator gave them."""

    def parameter(self, p: ProgramBuilder, name: str, annotation: Any, position: int) -> Any:
        names = self.attach.arguments
        if names:
            if name not in names:
                p.fail(f"the probe has no argument {name}{closest(name, names)}: args= names {', '.join(names)}")
            position = names.index(name)
        if position >= MOST_ARGUMENTS:
            p.fail(f"a USDT probe has at most {MOST_ARGUMENTS} arguments")
        return typed(p, _argument(p, position), annotation, name, Space.USER)

    def field(self, p: ProgramBuilder, name: str) -> Any:
        if name != COOKIE:
            return named_register(p, name)
        if self.attach.wanted:
            p.fail("ctx.cookie says here where the arguments are: a probe that takes none is told which place it is")
        return cookie(p)


def _form(p: ProgramBuilder) -> ir.Value:
    """Address of the slot that the cookie names, looked for once."""
    if p.usdt_form is None:
        b = p.b
        number = b.emit(Op.AND, cookie(p).value, b.const(FORMS - 1))
        forms = b.emit(Op.MAP_VALUE, symbol=p.use_map(forms_spec()))
        p.usdt_form = b.emit(Op.OFFSET, forms, b.emit(Op.MUL, number, b.const(FORM_SIZE)))
        b.assume_non_null(p.usdt_form)
    return p.usdt_form


def _argument(p: ProgramBuilder, position: int) -> ir.Value:
    b = p.b
    form = _form(p)
    start = COUNT.size + position * ARGUMENT.size
    value = b.variable(hint="argument")
    b.write(value, b.load(form, start, 8))
    _add_register(p, value, b.load(form, start + _BASE, 2), None)
    _add_register(p, value, b.load(form, start + _SCALED, 2), b.load(form, start + _SCALE, 1))
    flags = b.load(form, start + _FLAGS, 1)
    with b.if_(Compare(Relation.SET, flags, b.const(IN_MEMORY))):
        place = b.slot_address(b.shared_slot("argument"))
        b.store(place, 0, b.const(0), 8)
        # No more than there is: the next byte may be on a page that does not exist. The mask is for the verifier.
        size = b.emit(Op.AND, b.load(form, start + _SIZE, 1), b.const(7))
        b.call(PROBE_READ_USER, place, b.emit(Op.ADD, size, b.const(1)), b.take(value))
        b.write(value, b.load(place, 0, 8))
    # The low bytes are the argument's, whatever the register or the memory has above.
    shift = b.load(form, start + _SHIFT, 1)
    high = b.emit(Op.SHL, b.take(value), shift)
    result = b.variable(hint="argument")
    b.write(result, b.emit(Op.LSHR, high, shift))
    with b.if_(Compare(Relation.SET, flags, b.const(SIGNED))):
        b.write(result, b.emit(Op.ASHR, high, shift))
    return b.take(result)


def _add_register(p: ProgramBuilder, value: Any, offset: ir.Value, scale: ir.Value | None) -> None:
    """Add the register at `offset` of the context, unless there is none."""
    b = p.b
    with b.if_(Compare(Relation.NE, offset, b.const(NO_REGISTER))):
        content = probe_read_value(p, Space.KERNEL, b.emit(Op.OFFSET, p.context, offset), 0, 8)
        if scale is not None:
            content = b.emit(Op.SHL, content, scale)
        b.write(value, b.emit(Op.ADD, b.take(value), content))
