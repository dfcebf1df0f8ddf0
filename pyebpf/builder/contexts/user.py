"""Functions of programs and libraries: arguments by position, the result, registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.contexts.base import Place
from pyebpf.builder.contexts.registers import argument, named_register, result, typed
from pyebpf.builder.memory import Space
from pyebpf.specs.attach.user import Uprobe
from pyebpf.types import U64

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder

__all__ = ["COOKIE", "RETVAL", "UprobePlace", "cookie"]

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


def cookie(p: ProgramBuilder) -> Any:
    """`ctx.cookie`: which of the attachment's places it is, by its number in `link.places`."""
    from pyebpf.builder.integers import Int

    return Int(p.b.call(GET_ATTACH_COOKIE, p.context), U64)
