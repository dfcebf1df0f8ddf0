"""Where a kernel object meets a number: its address as one; a struct inside another is none, and 64 bits are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyebpf.builder.values.entity import describe
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.memory import Space, probe_read
from pyebpf.compiler.ir import ValueType
from pyebpf.errors import NotFound
from pyebpf.types import U64

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.entity import Entity
    from pyebpf.compiler import ir
    from pyebpf.target import KernelType
    from pyebpf.types import IntType

#: Members that a message names; deeper structs than this are named by their own member.
_NAMED = 6
_DEEPEST = 4


class AddressNumber(Int):
    """The address of an object that the verifier knows, as a u64: where it is only stored, the pointer itself will do.

    The author may compute with it, which the verifier forbids with pointers: then it is made a number, where that is.
    """

    __slots__ = ("_made", "_program", "pointer")

    def __init__(self, p: ProgramBuilder, pointer: ir.Value) -> None:
        self._program = p
        self.pointer = pointer
        self._made: ir.Value | None = None
        self.type = U64
        self.loaded = None
        self.literal = None

    @property
    def value(self) -> ir.Value:  # type: ignore[override]  # made when it is asked for
        # Once where no branch is between: a block that another one does not lead to has it not.
        if self._made is None or not self._program.b.made_here(self._made):
            self._made = as_number(self._program, self.pointer)
        return self._made

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> Int:
        return Int(values[0], self.type)


def as_number(p: ProgramBuilder, address: ir.Value) -> ir.Value:
    """A typed pointer as a number that may be computed with.

    Through memory, since the verifier forbids arithmetic on pointers, above all on those that may be NULL.
    """
    if address.type is ValueType.SCALAR:
        return address
    held = p.b.slot_address(p.b.slot(8, name="pointer"))
    p.b.store(held, 0, address, 8)
    copy = p.b.slot_address(p.b.slot(8, name="number"))
    probe_read(p, Space.KERNEL, copy, 8, held)
    return p.b.load(copy, 0, 8)


def refuse_struct(p: ProgramBuilder, value: Entity, type_: KernelType, what: str = "is not a number") -> NoReturn:
    """Refuse to take a struct, or an array, that stands in another object for a number."""
    p.fail(f"{value.describe()} {what}: {member_remedy(p, type_)}")


def check_width(p: ProgramBuilder, value: object, type_: IntType) -> None:
    """Refuse an address that becomes a number of less than 64 bits."""
    if hasattr(value, "narrow_remedy") and type_.size < 8 and not type_.is_bool:
        p.fail(
            f"{describe(value)} is an address, which {type_.name} has no room for: {value.narrow_remedy()}, or take a "
            "u64 for the address"
        )


def member_remedy(p: ProgramBuilder, type_: KernelType) -> str:
    """Return what to write in place of a struct or an array: the member that is a number."""
    path = ""
    for _ in range(_DEEPEST):
        if type_.kind == "array" and type_.element is not None:
            path, type_ = f"{path}[0]", type_.element
            continue
        names = _members(p, type_)
        if len(names) != 1:
            break
        try:
            path, type_ = f"{path}.{names[0]}", p.target.member(type_, names[0]).type
        except NotFound:
            break
    names = _members(p, type_)
    if not names:
        return f"write {path}" if path else "write the member that you mean"
    more = ", …" if len(names) > _NAMED else ""
    return f"write the member that you mean, {', '.join(f'{path}.{name}' for name in names[:_NAMED])}{more}"


def _members(p: ProgramBuilder, type_: KernelType) -> list[str]:
    try:
        return [name for name in p.target.members(type_) if name] if type_.composite else []
    except NotFound:
        return []
