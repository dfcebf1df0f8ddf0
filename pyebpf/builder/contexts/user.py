"""Functions of programs and libraries: arguments by position, the result, registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.contexts import sessions
from pyebpf.builder.contexts.base import ProgramContext
from pyebpf.builder.contexts.registers import argument, named_register, result, typed
from pyebpf.builder.intrinsics.task import process_number
from pyebpf.builder.ssa.conditions import All, Compare
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.memory import Space
from pyebpf.compiler.ir import Condition, Op
from pyebpf.specs.attach.uprobes import Uprobe, UprobeMulti, cookie_spec
from pyebpf.types import U64
from pyebpf.uapi.helper_ids import GET_ATTACH_COOKIE

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.uapi.bpf import ProgramType

__all__ = ["COOKIE", "RETVAL", "UprobeProgramContext", "UprobeSessionProgramContext", "cookie"]

RETVAL = "retval"
COOKIE = "cookie"


class UprobeProgramContext(ProgramContext[Uprobe]):
    """Parameters are the function's arguments by position, at its return `retval`: a file has no names for them."""

    def prologue(self, p: ProgramBuilder) -> None:
        attach = self.attach
        if not attach.returns or attach.pid < 0 or isinstance(attach, UprobeMulti):
            return
        # Linux 6.1 limits a perf event at a return to no process once somebody else's probe has put its breakpoint
        # into others. A task that this pid namespace has no number for (0) may be the one that was meant.
        process = process_number(p).value
        at_others = (Compare(Condition.NE, process, p.b.const(number)) for number in (attach.pid, 0))
        with p.b.if_(All(tuple(at_others))):
            p.b.ret(p.b.const(0))

    def parameter(self, p: ProgramBuilder, name: str, annotation: Any, position: int) -> Any:
        if self.attach.returns:
            if name != RETVAL:
                p.fail(f"{name}: at its return a function has only `{RETVAL}`; keep arguments in a map from its entry")
            return typed(p, result(p), annotation, name, Space.USER)
        if name == RETVAL:
            p.fail(f"{RETVAL} is known when the function returns: write a probe with @bpf.uretprobe")
        return typed(p, argument(p, position, Space.USER), annotation, name, Space.USER)

    def field(self, p: ProgramBuilder, name: str) -> Any:
        return cookie(p) if name == COOKIE else named_register(p, name)


class UprobeSessionProgramContext(UprobeProgramContext):
    """The entry, then the return: arguments at the one, `retval` at the other, a cookie of the call's own."""

    return_range = sessions.RESULTS

    def default_return(self, kind: ProgramType) -> int | None:
        return None

    def parameter(self, p: ProgramBuilder, name: str, annotation: Any, position: int) -> Any:
        if name == RETVAL:
            return typed(p, result(p), annotation, name, Space.USER)
        return super().parameter(p, name, annotation, position)

    def field(self, p: ProgramBuilder, name: str) -> Any:
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
    # Since Linux commit 7adfc6c9b315 ("bpf: Add bpf_get_attach_cookie() BPF helper to access bpf_cookie value")
    # (in v5.15). Before, each place has a program of its own, whose map holds the number.
    if p.target.has("helper:get_attach_cookie@kprobe"):
        return Int(p.b.call(GET_ATTACH_COOKIE, p.context), U64)
    return Int(p.b.load(p.b.emit(Op.MAP_VALUE, symbol=p.use_map(cookie_spec())), 0, 8), U64)
