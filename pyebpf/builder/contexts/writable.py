"""Writable raw tracepoints: the first argument is memory that the program reads and writes directly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.contexts.tracepoints import KernelArgumentsProgramContext, raw_argument
from pyebpf.builder.values.arrays import Array
from pyebpf.builder.values.kernel_objects import integer_type
from pyebpf.builder.values.kernel_references import WritableReference
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.compiler.ir import Kind
from pyebpf.errors import NotFound
from pyebpf.specs.attach.tracepoints import WritableRawTracepoint
from pyebpf.types import array_of

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.uapi.bpf import ProgramType

__all__ = ["WritableRawTracepointProgramContext"]


class WritableRawTracepointProgramContext(KernelArgumentsProgramContext[WritableRawTracepoint]):
    """Parameters are the kernel's arguments; what the first points to may be written, a number as `argument[0]`."""

    def default_return(self, program_type: ProgramType) -> int | None:
        return 0

    def field(self, p: ProgramBuilder, name: str) -> Any:
        try:
            parameters = p.target.raw_tracepoint_parameters(self.attach.name)
        except NotFound as error:
            p.fail(str(error))
        first = parameters[0] if parameters else None
        element = None if first is None else first.type.element
        if first is None or first.name != name or element is None:
            return raw_argument(p, self.attach.name, name, trusted=False)
        register = p.b.load(p.context, 0, 8, kind=Kind.POINTER)
        if element.composite:
            return WritableReference(register, element, trusted=True)
        number = integer_type(element)
        if number is None:
            p.fail(f"{name} points to a {element.c_name}, which has no type in the language")
        return Array(array_of(number, 1), Lvalue(base=register, owner=f"the argument {name}"))
