"""Refusals where a kernel object meets a number: a struct inside another is none, and an address needs 64 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyebpf.builder.values.entity import describe
from pyebpf.errors import NotFound

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.entity import Entity
    from pyebpf.target import KernelType
    from pyebpf.types import IntType

#: Members that a message names; deeper structs than this are named by their own member.
_NAMED = 6
_DEEPEST = 4


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
