"""Functions of programs and libraries: arguments by position, the result, registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.contexts import sessions
from pyebpf.builder.contexts.base import Place
from pyebpf.builder.contexts.registers import argument, named_register, result, typed
from pyebpf.builder.memory import Space
from pyebpf.specs.attach.user import Uprobe
from pyebpf.types import U64

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.specs import ProgramKind

__all__ = ["COOKIE", "RETVAL", "UprobePlace", "UprobeSessionPlace", "cookie"]

RETVAL = "retval"
COOKIE = "cookie"
#: Of enum bpf_func_id.
GET_ATTACH_COOKIE = 174


class UprobePlace(Place[Uprobe]):
    """Parameters are the function's arguments by position, at its return `retval`: a file has no names for them."""

    def parameter(self, p: ProgramBuilder, name: str, annotation: Any, position: int) -> Any:
        if self.attach.returns:
            if name != RETVAL:
                p.fail(f"{name}: at its return a function has only `{RETVAL}`; keep arguments in a map from its entry")
            return typed(p, result(p), annotation, name, Space.USER)
        if name == RETVAL:
            p.fail(f"{RETVAL} is known when the function returns: write a probe with @bpf.uretprobe")
        return typed(p, argument(p, position, Space.USER), annotation, name, Space.USER)

    def named(self, p: ProgramBuilder, name: str) -> Any:
        return cookie(p) if name == COOKIE else named_register(p, name)


class UprobeSessionPlace(UprobePlace):
    """The entry, then the return: arguments at the one, `retval` at the other, a cookie of the call's own."""

    results = sessions.RESULTS

    def silent(self, kind: ProgramKind) -> int | None:
        return None

    def parameter(self, p: ProgramBuilder, name: str, annotation: Any, position: int) -> Any:
        if name == RETVAL:
            return typed(p, result(p), annotation, name, Space.USER)
        return super().parameter(p, name, annotation, position)

    def named(self, p: ProgramBuilder, name: str) -> Any:
        if name == sessions.IS_RETURN:
            return sessions.is_return(p)
        return sessions.cookie(p) if name == sessions.COOKIE else named_register(p, name)

    def set_attribute(self, p: ProgramBuilder, name: str, value: Any) -> None:
        if name == sessions.COOKIE:
            sessions.set_cookie(p, value)
        else:
            super().set_attribute(p, name, value)


def cookie(p: ProgramBuilder) -> Any:
    """`ctx.cookie`: which of the attachment's places it is, by its number in `link.places`."""
    from pyebpf.builder.integers import Int

    return Int(p.b.call(GET_ATTACH_COOKIE, p.context), U64)
