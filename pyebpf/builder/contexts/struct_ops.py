"""struct_ops: a member's arguments by position, with the types of its prototype, and what programs may write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.contexts.base import LoadAttributes, ProgramContext, annotated
from pyebpf.builder.values.kernel_objects import from_register, integer_type
from pyebpf.builder.values.kernel_references import WritableReference
from pyebpf.compiler.ir import Kind
from pyebpf.errors import NotFound, NotSupported, closest
from pyebpf.specs.attach.struct_ops import StructOpsMember

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.target import KernelFunction, KernelType, Target
    from pyebpf.uapi.bpf import ProgramType

__all__ = ["StructOpsProgramContext"]

#: Types of arguments that the verifier takes for a larger struct that they are the beginning of.
PROMOTED = {("tcp_congestion_ops", "struct sock"): "struct tcp_sock"}


class StructOpsProgramContext(ProgramContext[StructOpsMember]):
    """Parameters are those of the member's prototype, in order."""

    has_context = False
    _prototype: KernelFunction | None = None

    def _table(self, target: Target) -> KernelType:
        name = self.attach.operations
        try:
            target.type_named(f"struct bpf_struct_ops_{name}")
            found = target.type_named(f"struct {name}")
        except NotFound as error:
            raise NotFound(f"this kernel has no struct_ops {name!r} that programs can implement: {error}") from error
        if found.module:
            raise NotSupported(f"struct_ops {name} of module {found.module}: tables of modules are not supported")
        return found

    def _index(self, target: Target, table: KernelType) -> int:
        names, member = target.members(table), self.attach.member
        if member not in names:
            raise NotFound(f"struct {self.attach.operations} has no member {member!r}{closest(member, names)}")
        return names.index(member)

    def load_attributes(self, target: Target) -> LoadAttributes:
        table = self._table(target)
        return LoadAttributes(table.id, table.module, attach_type=self._index(target, table))

    def prototype(self, target: Target) -> KernelFunction:
        """Return the member's parameters and result, asked once. Raises NotFound for a member that is no function."""
        if self._prototype is None:
            table = self._table(target)
            self._index(target, table)
            member = target.member(table, self.attach.member)
            try:
                # By the function's own type, which has a number; a pointer to it has none.
                self._prototype = target.prototype(member.type.element or member.type)
            except NotFound:
                name, what = self.attach.member, f"struct {self.attach.operations}"
                raise NotFound(
                    f"{name} of {what} is no function but a {member.type.c_name}: give its value, {name}=…"
                ) from None
        return self._prototype

    def default_return(self, kind: ProgramType) -> int | None:
        if self.target is None:
            return None
        return 0 if self.prototype(self.target).returns.kind == "void" else None

    def parameter(self, p: ProgramBuilder, name: str, annotation: Any, position: int) -> Any:
        parameters = self.prototype(p.target).parameters
        if position >= len(parameters):
            takes = ", ".join(each.type.c_name for each in parameters) or "nothing"
            p.fail(f"{self.attach} is called with {len(parameters)} arguments, not more: {takes}")
        return annotated(p, self._argument(p, position, parameters[position].type), annotation)

    def _argument(self, p: ProgramBuilder, index: int, type_: KernelType) -> Any:
        element = type_.element
        typed = type_.kind == "pointer" and element is not None and element.composite and element.size > 0
        register = p.b.load(p.context, 8 * index, 8, kind=Kind.POINTER if typed else Kind.SCALAR)
        if not typed or element is None:
            return from_register(p, register, type_, trusted=False)
        promoted = PROMOTED.get((self.attach.operations, element.c_name))
        if promoted is not None:
            element = p.target.type_named(promoted)
        return WritableReference(register, element, trusted=True)

    def check_result(self, p: ProgramBuilder, value: ir.Value) -> None:
        returns = self.prototype(p.target).returns
        type_ = integer_type(returns)
        low, high = p.b.bounds(value)
        if type_ is not None and low == high and not type_.minimum <= low <= type_.maximum:
            p.fail(f"{self.attach} returns {returns.c_name}, which {low} does not fit")
