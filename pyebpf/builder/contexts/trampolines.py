"""fentry, fexit and fmod_ret programs: a function's parameters and result from a trampoline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pyebpf.builder.contexts import registers
from pyebpf.builder.contexts.base import LoadAttributes
from pyebpf.builder.contexts.kernel_functions import (
    FunctionProgramContext,
    TracedFunction,
    btf_function,
    expanded,
    system_call,
)
from pyebpf.builder.values.kernel_objects import as_number, from_register
from pyebpf.compiler.ir import Kind
from pyebpf.dataclass import replace
from pyebpf.errors import NotFound, NotSupported, closest
from pyebpf.specs.attach.kernel_functions import is_denied, not_loaded, split
from pyebpf.specs.attach.trampolines import Fentry, Fexit, FmodRet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.specs import AttachSpec
    from pyebpf.target import KernelType, Target
    from pyebpf.uapi.bpf import ProgramType

__all__ = ["FentryProgramContext", "FexitProgramContext", "FmodRetProgramContext", "TrampolineProgramContext"]

Trampoline: TypeAlias = Fentry | Fexit | FmodRet


class TrampolineProgramContext(FunctionProgramContext[Trampoline]):
    """A function through a trampoline: arguments in a row of 8 bytes each, which objects load from directly."""

    enters = True

    def expand(self, target: Target) -> Iterator[AttachSpec]:
        for name in expanded(target, self.attach.function, self.attach.most):
            yield replace(self.attach, function=name)

    def reason_against(self, target: Target) -> str | None:
        _, name, _ = split(self.function)
        found = btf_function(target, self.function) or btf_function(target, system_call(target, name))
        if found is None:
            return f"the kernel's BTF has no function {name}"
        if found.variadic:
            return f"{name}() has variable arguments"
        return f"{name}() runs around every program" if is_denied(name) else None

    def parameter(self, p: ProgramBuilder, name: str, annotation: Any, position: int) -> Any:
        self.load_attributes(p.target)  # raises NotFound with the closest names
        return super().parameter(p, name, annotation, position)

    def load_attributes(self, target: Target) -> LoadAttributes:
        module, name, _ = split(self.function)
        if is_denied(name):
            raise NotFound(
                f"{self.attach}: {name}() runs around every program, so none is put on it: it would stop the machine"
            )
        try:
            found = target.function(name)
        except NotFound as error:
            raise self._not_in_module(target, module, name) or error from None
        if module not in {"", found.module}:
            where = f": it is in {found.module or 'the kernel itself'}"
            raise self._not_in_module(target, module, name, where) or NotFound(f"no function {self.function}{where}")
        if found.variadic:
            raise NotSupported(f"{self.attach}: a function of variable arguments takes no trampoline: use @bpf.kprobe")
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

    def other_attribute(self, p: ProgramBuilder, name: str) -> Any:
        if name not in registers.machine(p).registers:
            return self.parameter(p, name, None, 0)
        p.fail(f"ctx.{name}: this program has no registers; a function's arguments are ctx.NAME by their names")

    def argument(self, p: ProgramBuilder, slot: int) -> ir.Value:
        return p.b.load(p.context, 8 * slot, 8)

    def result(self, p: ProgramBuilder, known: TracedFunction) -> ir.Value:
        return self.argument(p, known.slots)

    def saved(self, p: ProgramBuilder, position: int) -> ir.Value:
        found = registers.machine(p)
        if position >= len(found.call_arguments):
            p.fail(f"a system call has at most {len(found.call_arguments)} arguments")
        saved = p.b.load(p.context, 0, 8, kind=Kind.POINTER)
        return p.b.load(saved, found.register_offset(found.call_arguments[position]), 8)

    def value(self, p: ProgramBuilder, slot: int, type_: KernelType, *, nullable: bool, result: bool = False) -> Any:
        element = type_.element
        # For `void *` and pointers to integers the verifier has a number.
        typed = type_.kind == "pointer" and element is not None and element.composite and element.size > 0
        register = p.b.load(p.context, 8 * slot, 8, kind=Kind.POINTER if typed else Kind.SCALAR)
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
