"""Kprobes: one program at kernel functions one by one, or by one link for many."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pyebpf.attach import registers, sessions
from pyebpf.attach.decorators import Decorators
from pyebpf.attach.kernel_functions import (
    MAX_PROBES,
    FunctionProgramContext,
    TracedFunction,
    check_names,
    expanded,
    in_words,
    split,
)
from pyebpf.builder.values.kernel_objects import from_register
from pyebpf.builder.values.memory import Space
from pyebpf.compiler.ir import Op
from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import InvalidValue
from pyebpf.specs.attach_point import AttachSpec, is_pattern
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyebpf.attach.decorators import TracingDecorator, VerdictDecorator
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.target import KernelType, Target

S = TypeVar("S", bound=AttachSpec)


@dataclass(frozen=True, slots=True)
class Kprobe(AttachSpec):
    """The entry of kernel functions, or the return with `returns`: the context is `struct pt_regs`.

    A function is given by name ("tcp_sendmsg", "ip_rcv+0x1c" for an instruction within, "sch_fq:fq_enqueue" for a
    module's), by the address of an instruction ("0xffffffff81234567") or by a pattern ("tcp_*"), which stands for at
    most `max_probes` of them. `matched` are those that only a pattern named: those that cannot be probed are left out.
    """

    functions: tuple[str, ...]
    returns: bool = False
    max_probes: int = MAX_PROBES
    matched: tuple[str, ...] = ()

    program_type = ProgramType.KPROBE

    def __str__(self) -> str:
        return f"{'kretprobe' if self.returns else 'kprobe'} {in_words(self.functions)}"

    @property
    def target(self) -> str:
        return self.functions[0]

    def program_context(self) -> KprobeProgramContext:
        return KprobeProgramContext(self)


@dataclass(frozen=True, slots=True)
class KprobeMulti(AttachSpec):
    """`Kprobe` by one link for all functions (since Linux 5.18, on arm64 later). No offsets.

    `session`: the program runs at the entry and, if it returned 0 there, at the return (since Linux 6.10). `cookies`
    are what get_attach_cookie reads, one a function, or none.
    """

    functions: tuple[str, ...]
    returns: bool = False
    session: bool = False
    cookies: tuple[int, ...] = ()
    max_probes: int = MAX_PROBES

    program_type = ProgramType.KPROBE

    def __str__(self) -> str:
        name = "kprobe.session" if self.session else "kretprobe.multi" if self.returns else "kprobe.multi"
        return f"{name} {in_words(self.functions)}"

    @property
    def attach_type(self) -> int:
        return AttachType.TRACE_KPROBE_SESSION if self.session else AttachType.TRACE_KPROBE_MULTI

    @property
    def target(self) -> str:
        return self.functions[0]

    def program_context(self) -> KprobeMultiProgramContext:
        return KprobeMultiProgramContext(self)


class _RegisterProgramContext(FunctionProgramContext[S]):
    """A function seen through `struct pt_regs`. The context's attributes are registers."""

    def other_attribute(self, p: ProgramBuilder, name: str) -> object:
        return registers.named_register(p, name)

    def argument(self, p: ProgramBuilder, slot: int) -> ir.Value:
        return registers.argument(p, slot, Space.KERNEL)

    def result(self, p: ProgramBuilder, known: TracedFunction) -> ir.Value:
        return registers.result(p)

    def value(self, p: ProgramBuilder, slot: int, type_: KernelType, *, nullable: bool, result: bool = False) -> object:
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
            for name in expanded(target, function, self.attach.max_probes):
                matched = (name,) if is_pattern(function) else ()
                yield replace(self.attach, functions=(name,), matched=matched)

    def function_ip(self, p: ProgramBuilder) -> ir.Value:
        if self.attach.returns:
            return super().function_ip(p)
        if split(self.function)[2]:
            return p.b.const(0)
        # A kprobe leaves the program counter right behind its trap instruction.
        arch = registers.machine(p)
        return p.b.emit(Op.ADD, registers.register(p, arch.instruction), p.b.const(-arch.trap_size))

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

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        if self.attach.session and name == sessions.IS_RETURN:
            return sessions.is_return(p)
        if self.attach.session and name == sessions.COOKIE:
            return sessions.cookie(p)
        return super().attribute(p, name)

    def set_attribute(self, p: ProgramBuilder, name: str, value: object) -> None:
        if not self.attach.session or name != sessions.COOKIE:
            super().set_attribute(p, name, value)
        else:
            sessions.set_cookie(p, value)

    def expand(self, target: Target) -> Iterator[AttachSpec]:
        cookies = self.attach.cookies or (0,) * len(self.attach.functions)
        for function, cookie in zip(self.attach.functions, cookies, strict=True):
            for name in expanded(target, function, self.attach.max_probes):
                kept = (cookie,) if self.attach.cookies else ()
                yield replace(self.attach, functions=(name,), cookies=kept)

    def coalesced(self, others: Sequence[AttachSpec]) -> AttachSpec | None:
        multi = [self.attach, *(each for each in others if isinstance(each, KprobeMulti))]
        return replace(
            self.attach,
            functions=tuple(function for each in multi for function in each.functions),
            cookies=tuple(cookie for each in multi for cookie in each.cookies),
        )


class KprobeDecorators(Decorators):
    """Probes at functions of the kernel by their registers: one by one, or many by one link."""

    def kprobe(self, *functions: str, optional: bool = False, max_probes: int = MAX_PROBES) -> TracingDecorator:
        """Run at the entry of functions, or at an instruction: "ip_rcv+0x1c", "0xffffffff81234567"."""
        check_names("kprobe", functions, offsets=True)
        places = (Kprobe((function,), max_probes=max_probes) for function in functions)
        return self._tracing("kprobe", functions, places, optional=optional)

    def kretprobe(self, *functions: str, optional: bool = False, max_probes: int = MAX_PROBES) -> TracingDecorator:
        """Run when functions return. `retval` is what one returns; arguments are gone by then."""
        check_names("kretprobe", functions)
        places = (Kprobe((function,), returns=True, max_probes=max_probes) for function in functions)
        return self._tracing("kretprobe", functions, places, optional=optional)

    def kprobe_multi(
        self,
        *functions: str,
        cookies: Mapping[str, int] | None = None,
        optional: bool = False,
        max_probes: int = MAX_PROBES,
    ) -> TracingDecorator:
        """Run at the entry of functions, however many by one call (since Linux 5.18; on arm64 later, not yet in 6.12).

        `cookies` gives functions a number each, which `helpers.get_attach_cookie(ctx)` reads; others have 0.
        """
        return self._multi("kprobe_multi", functions, cookies, optional=optional, max_probes=max_probes)

    def kretprobe_multi(
        self,
        *functions: str,
        cookies: Mapping[str, int] | None = None,
        optional: bool = False,
        max_probes: int = MAX_PROBES,
    ) -> TracingDecorator:
        """Run when functions return, however many by one call (as `kprobe_multi`). `retval` is what one returns."""
        return self._multi("kretprobe_multi", functions, cookies, optional=optional, max_probes=max_probes)

    def kprobe_session(
        self,
        *functions: str,
        cookies: Mapping[str, int] | None = None,
        optional: bool = False,
        max_probes: int = MAX_PROBES,
    ) -> VerdictDecorator:
        """Run at the entry and at the return of functions, by one call (since Linux 6.10).

        The program returns a number: 0 at the entry asks to be run at the return, too, 1 not to. `ctx.is_return` says
        which of the two it is; `ctx.cookie`, a u64, is kept from one to the other. `retval` and parameters are those
        of the moment: at the return only `retval` means something.
        """
        check_names("kprobe_session", functions)
        places = _with_cookies(
            "kprobe_session", functions, cookies, KprobeMulti((), session=True, max_probes=max_probes)
        )
        return self._verdict("kprobe_session", functions, places, optional=optional)

    def _multi(
        self,
        decorator: str,
        functions: tuple[str, ...],
        cookies: Mapping[str, int] | None,
        *,
        optional: bool,
        max_probes: int,
    ) -> TracingDecorator:
        check_names(decorator, functions)
        pattern = KprobeMulti((), returns=decorator.startswith("kret"), max_probes=max_probes)
        return self._tracing(
            decorator, functions, _with_cookies(decorator, functions, cookies, pattern), optional=optional
        )


def _with_cookies(
    decorator: str, functions: tuple[str, ...], cookies: Mapping[str, int] | None, pattern: AttachSpec
) -> tuple[AttachSpec, ...]:
    for name in cookies or ():
        if name not in functions:
            raise InvalidValue(f"@bpf.{decorator}(cookies=…): {name!r} is not one of its functions")
    given = cookies or {}
    return tuple(
        replace(pattern, functions=(function,), cookies=(given.get(function, 0),) if cookies else ())
        for function in functions
    )
