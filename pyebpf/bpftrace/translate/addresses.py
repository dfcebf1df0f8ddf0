"""`&$variable`: a variable stands in memory then, and `*` of its address reads it as it is. `&@map`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.translate.values import Reference, Unknown, kernel_target, read_stored
from pyebpf.bpftrace.value_types import Number, String
from pyebpf.builder.values.kernel_numbers import as_number
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.builder.values.memory import Space, probe_read
from pyebpf.compiler.ir import Op
from pyebpf.errors import NotFound
from pyebpf.types import INTEGERS, CharFactory

if TYPE_CHECKING:
    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.bpftrace.value_types import ValueType
    from pyebpf.types import IntType


def address_of(s: Scope, node: ast.AddressOf) -> Value:
    """The address of a variable, or of a map."""
    target = node.target
    if isinstance(target, ast.Map):
        return _map(s, target)
    type_ = s.storage.type_of(target.name)
    s.variables.note_address(target.name)
    if type_ is None:
        s.unknown = s.unknown or s.error(f"nothing is assigned to ${target.written}", node)
        return Unknown(s.p)
    address = s.storage.address(target.name)
    if address is None:
        return Unknown(s.p)
    return Reference(as_number(s.p, address), _target(type_), Space.KERNEL, type_)


def _map(s: Scope, node: ast.Map) -> Value:
    """The address of a map: of the kernel's own struct bpf_map."""
    table = s.script.maps.table(node)
    if table is None:
        return Unknown(s.p)
    p = s.p
    pointer = p.b.emit(Op.MAP, symbol=p.use_map(table.spec))
    try:
        target = kernel_target(p.target.type_named("struct bpf_map"))
    except NotFound:
        target = None
    return Reference(as_number(p, pointer), target, Space.KERNEL)


def _target(type_: ValueType) -> IntType | CharFactory | None:
    if isinstance(type_, Number):
        return INTEGERS[f"{'s' if type_.signed else 'u'}{8 * type_.size}"]
    return CharFactory() if isinstance(type_, String) else None


def held_by(s: Scope, pointer: Reference) -> Value | None:
    """The value of the variable that a pointer leads to, now; None if it leads elsewhere."""
    held = pointer.type.held
    if held is None:
        return None
    size = held.storage.size
    slot = s.p.b.slot(-(-size // 8) * 8, name="held")
    probe_read(s.p, pointer.type.space, s.p.b.slot_address(slot), size, pointer.value)
    return read_stored(s.p, held, Lvalue(slot=slot, owner="a variable", writable=False))
