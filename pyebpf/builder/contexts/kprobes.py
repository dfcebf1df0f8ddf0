"""kprobes and kretprobes: a function's parameters and result from registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pyebpf.builder.contexts import registers, sessions
from pyebpf.builder.contexts.kernel_functions import FunctionProgramContext, TracedFunction, expanded, is_pattern
from pyebpf.builder.values.kernel_objects import from_register
from pyebpf.builder.values.memory import Space
from pyebpf.dataclass import replace
from pyebpf.specs import AttachSpec
from pyebpf.specs.attach.kprobes import Kprobe, KprobeMulti

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.target import KernelType, Target
    from pyebpf.uapi.bpf import ProgramType

__all__ = ["KprobeMultiProgramContext", "KprobeProgramContext"]

S = TypeVar("S", bound=AttachSpec)


class _RegisterProgramContext(FunctionProgramContext[S]):
    """A function seen through `struct pt_regs`. The context's attributes are registers."""

    def other_attribute(self, p: ProgramBuilder, name: str) -> Any:
        return registers.named_register(p, name)

    def argument(self, p: ProgramBuilder, slot: int) -> ir.Value:
        return registers.argument(p, slot, Space.KERNEL)

    def result(self, p: ProgramBuilder, known: TracedFunction) -> ir.Value:
        return registers.result(p)

    def value(self, p: ProgramBuilder, slot: int, type_: KernelType, *, nullable: bool, result: bool = False) -> Any:
        register = registers.result(p) if result else registers.argument(p, slot, Space.KERNEL)
        return from_register(p, register, type_, trusted=False)


class KprobeProgramContext(_RegisterProgramContext[Kprobe]):
    """A kprobe or kretprobe."""

    no_parameters = (
        "a function's arguments are gone when it returns: keep what you need in a map at its entry, or use "
        "@bpf.fexit, which has them"
    )
    no_result = "a function has returned nothing yet at its entry: use @bpf.kretprobe"

    @property
    def enters(self) -> bool:  # type: ignore[override] # a constant of other kinds
        return not self.attach.returns

    @property
    def returns(self) -> bool:  # type: ignore[override] # a constant of other kinds
        return self.attach.returns

    @property
    def names(self) -> tuple[str, ...]:
        return self.attach.functions

    def expand(self, target: Target) -> Iterator[AttachSpec]:
        for function in self.attach.functions:
            for name in expanded(target, function, self.attach.most):
                matched = (name,) if is_pattern(function) else ()
                yield replace(self.attach, functions=(name,), matched=matched)

    def coalesced(self, others: Sequence[AttachSpec]) -> AttachSpec | None:
        kprobes = [self.attach, *(each for each in others if isinstance(each, Kprobe))]
        return replace(
            self.attach,
            functions=tuple(function for each in kprobes for function in each.functions),
            matched=tuple(function for each in kprobes for function in each.matched),
        )


class KprobeMultiProgramContext(_RegisterProgramContext[KprobeMulti]):
    """Many functions by one link; with a session the entry, then the return."""

    no_parameters = KprobeProgramContext.no_parameters
    no_result = "a function has returned nothing yet at its entry: use @bpf.kretprobe_multi"

    @property
    def enters(self) -> bool:  # type: ignore[override] # a constant of other kinds
        return not self.attach.returns

    @property
    def returns(self) -> bool:  # type: ignore[override] # a constant of other kinds
        return self.attach.returns or self.attach.session

    @property
    def names(self) -> tuple[str, ...]:
        return self.attach.functions

    def default_return(self, program_type: ProgramType) -> int | None:
        return None if self.attach.session else super().default_return(program_type)

    @property
    def return_range(self) -> tuple[int, int] | None:
        return sessions.RESULTS if self.attach.session else None

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        if self.attach.session and name == sessions.IS_RETURN:
            return sessions.is_return(p)
        if self.attach.session and name == sessions.COOKIE:
            return sessions.cookie(p)
        return super().attribute(p, name)

    def set_attribute(self, p: ProgramBuilder, name: str, value: Any) -> None:
        if not self.attach.session or name != sessions.COOKIE:
            super().set_attribute(p, name, value)
        else:
            sessions.set_cookie(p, value)

    def expand(self, target: Target) -> Iterator[AttachSpec]:
        cookies = self.attach.cookies or (0,) * len(self.attach.functions)
        for function, cookie in zip(self.attach.functions, cookies, strict=True):
            for name in expanded(target, function, self.attach.most):
                kept = (cookie,) if self.attach.cookies else ()
                yield replace(self.attach, functions=(name,), cookies=kept)

    def coalesced(self, others: Sequence[AttachSpec]) -> AttachSpec | None:
        multi = [self.attach, *(each for each in others if isinstance(each, KprobeMulti))]
        return replace(
            self.attach,
            functions=tuple(function for each in multi for function in each.functions),
            cookies=tuple(cookie for each in multi for cookie in each.cookies),
        )
