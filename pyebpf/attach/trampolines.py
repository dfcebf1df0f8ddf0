"""Trampolines at kernel functions: fentry, fexit and fmod_ret, with arguments typed by BTF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.attach import registers
from pyebpf.attach.decorators import Decorators
from pyebpf.attach.kernel_functions import (
    MAX_PROBES,
    FunctionProgramContext,
    TracedFunction,
    btf_function,
    check_names,
    expanded,
    is_denied,
    not_loaded,
    split,
    system_call,
)
from pyebpf.builder.context import LoadAttributes
from pyebpf.builder.values.kernel_numbers import as_number
from pyebpf.builder.values.kernel_objects import from_register
from pyebpf.compiler.ir import ValueType
from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import NotFound, NotSupported, closest
from pyebpf.specs.attach_point import AttachSpec, is_pattern
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from pyebpf.attach.decorators import TracingDecorator, VerdictDecorator
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.target import KernelType, Target


@dataclass(frozen=True, slots=True)
class Trampoline(AttachSpec):
    """A function through a trampoline: the context has its arguments, with types that the verifier knows.

    `function` is a name, a module's ("sch_fq:fq_enqueue"), or a pattern for at most `max_probes` of them.
    """

    function: str
    max_probes: int = MAX_PROBES

    program_type = ProgramType.TRACING

    @property
    def target(self) -> str:
        return self.function


@dataclass(frozen=True, slots=True)
class Fentry(Trampoline):
    """The entry of a function."""

    attach_type = AttachType.TRACE_FENTRY

    def __str__(self) -> str:
        return f"fentry {self.function}"

    def program_context(self) -> FentryProgramContext:
        return FentryProgramContext(self)


@dataclass(frozen=True, slots=True)
class Fexit(Trampoline):
    """The return of a function: its arguments as they were at its entry, and what it returns."""

    attach_type = AttachType.TRACE_FEXIT

    def __str__(self) -> str:
        return f"fexit {self.function}"

    def program_context(self) -> FexitProgramContext:
        return FexitProgramContext(self)


@dataclass(frozen=True, slots=True)
class FmodRet(Trampoline):
    """Before a function of the error-injection list: what the program returns, unless 0, the function's caller gets."""

    attach_type = AttachType.MODIFY_RETURN

    def __str__(self) -> str:
        return f"fmod_ret {self.function}"

    def program_context(self) -> FmodRetProgramContext:
        return FmodRetProgramContext(self)


class TrampolineProgramContext(FunctionProgramContext[Trampoline]):
    """A function through a trampoline: arguments in a row of 8 bytes each, which objects load from directly."""

    enters = True

    def expand(self, target: Target) -> Iterator[AttachSpec]:
        names = list(expanded(target, self.attach.function, self.attach.max_probes))
        if is_pattern(self.attach.function):
            # Of the names of one function BTF has some, and none of many functions of assembler.
            names = [name for name in names if btf_function(target, name) is not None] or names
        for name in names:
            yield replace(self.attach, function=name)

    def reason_against(self, target: Target) -> str | None:
        _, name, _ = split(self.function)
        found = btf_function(target, self.function) or btf_function(target, system_call(target, name))
        if found is None:
            return f"the kernel's BTF has no function {name}"
        if found.variadic:
            return f"{name}() has variable arguments"
        return f"{name}() runs around every program" if is_denied(name) else None

    def parameter(self, p: ProgramBuilder, name: str, annotation: object, position: int) -> object:
        self.load_attributes(p.target)  # raises NotFound with the closest names
        return super().parameter(p, name, annotation, position)

    def load_attributes(self, target: Target) -> LoadAttributes:
        module, name, _ = split(self.function)
        if is_denied(name):
            raise NotFound(f"{self.attach}: {name}() runs around every program, so a probe would hang the machine")
        try:
            found = target.function(name)
        except NotFound as error:
            raise self._not_in_module(target, module, name) or error from None
        if module not in {"", found.module}:
            where = f": it is in {found.module or 'the kernel itself'}"
            raise self._not_in_module(target, module, name, where) or NotFound(f"no function {self.function}{where}")
        if found.variadic:
            raise NotSupported(
                f"{self.attach}: trampolines do not support functions with variable arguments: use @bpf.kprobe"
            )
        return LoadAttributes(found.btf_id, found.module)

    def _not_in_module(self, target: Target, module: str, name: str, where: str = "") -> NotFound | None:
        """The error for a function that a module lacks, or whose module is not loaded; None if nothing tells."""
        if not module:
            return None
        try:
            # A module that is loaded has functions that ftrace reaches.
            names = [each.rpartition(":")[2] for each in target.functions(f"{module}:*")]
        except (NotFound, NotSupported):
            return None
        if not names:
            return not_loaded(self.function)
        if name in names and not where:
            return NotFound(
                f"BTF has no function {name} of module {module}: modules have BTF since Linux 5.11; use @bpf.kprobe"
            )
        return NotFound(f"no function {name} in module {module}{where or closest(name, names)}")

    def other_attribute(self, p: ProgramBuilder, name: str) -> object:
        if name not in registers.machine(p).registers:
            return self.parameter(p, name, None, 0)
        p.fail(f"ctx.{name}: this program has no registers; a function's arguments are ctx.NAME by their names")

    def argument(self, p: ProgramBuilder, slot: int) -> ir.Value:
        return p.b.load(p.context, 8 * slot, 8)

    def raw_place(self, known: TracedFunction, name: str) -> Hashable:
        return known.slots, self._gives(known)

    def raw_argument(self, p: ProgramBuilder, known: TracedFunction, position: int) -> ir.Value:
        return self.argument(p, position) if position < known.slots else p.b.const(0)

    def result(self, p: ProgramBuilder, known: TracedFunction) -> ir.Value:
        return self.argument(p, known.slots) if self._gives(known) else p.b.const(0)

    def _gives(self, known: TracedFunction) -> bool:
        """Whether there is a result behind the arguments."""
        return known.returns is None or known.returns.kind != "void"

    def saved(self, p: ProgramBuilder, position: int) -> ir.Value:
        found = registers.machine(p)
        if position >= len(found.call_arguments):
            p.fail(f"a system call has at most {len(found.call_arguments)} arguments")
        saved = p.b.load(p.context, 0, 8, result=ValueType.POINTER)
        return p.b.load(saved, found.register_offset(found.call_arguments[position]), 8)

    def value(self, p: ProgramBuilder, slot: int, type_: KernelType, *, nullable: bool, result: bool = False) -> object:
        element = type_.element
        # For `void *` and pointers to integers the verifier has a number.
        typed = type_.kind == "pointer" and element is not None and element.composite and element.size > 0
        register = p.b.load(p.context, 8 * slot, 8, result=ValueType.POINTER if typed else ValueType.SCALAR)
        if typed and nullable:
            register, typed = as_number(p, register), False
        return from_register(p, register, type_, trusted=typed)


class FentryProgramContext(TrampolineProgramContext):
    """At the entry."""

    no_result = "a function has returned nothing yet at its entry: use @bpf.fexit"


class FexitProgramContext(TrampolineProgramContext):
    """At the return."""

    returns = True


class FmodRetProgramContext(TrampolineProgramContext):
    """Before the function: every path of the program returns what the function's caller is to get, 0 to go on."""

    returns = True

    def default_return(self, program_type: ProgramType) -> int | None:
        return None


class TrampolineDecorators(Decorators):
    """Probes at functions of the kernel through trampolines: arguments with the types that BTF gives them."""

    def fentry(self, *functions: str, optional: bool = False, max_probes: int = MAX_PROBES) -> TracingDecorator:
        """Run at the entry of functions through a trampoline (since Linux 5.5): kernel objects load directly."""
        check_names("fentry", functions)
        places = (Fentry(function, max_probes) for function in functions)
        return self._tracing("fentry", functions, places, optional=optional)

    def fexit(self, *functions: str, optional: bool = False, max_probes: int = MAX_PROBES) -> TracingDecorator:
        """Run when functions return, through a trampoline: with `retval` and the arguments as passed at the entry."""
        check_names("fexit", functions)
        places = (Fexit(function, max_probes) for function in functions)
        return self._tracing("fexit", functions, places, optional=optional)

    def fmod_ret(self, *functions: str, optional: bool = False, max_probes: int = MAX_PROBES) -> VerdictDecorator:
        """Run before functions of the kernel's error-injection list, and decide their result.

        What the program returns, unless it is 0, is what the function's caller gets; the function does not run.
        `retval` is what an earlier program decided.
        """
        check_names("fmod_ret", functions)
        places = (FmodRet(function, max_probes) for function in functions)
        return self._verdict("fmod_ret", functions, places, optional=optional)
