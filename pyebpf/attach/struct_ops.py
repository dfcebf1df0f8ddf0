"""struct_ops: a table of functions of the kernel's, such as a TCP congestion control, whose functions are programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pyebpf.attach.decorators import Decorators, attachments
from pyebpf.builder.context import LoadAttributes, ProgramContext, annotated
from pyebpf.builder.values.kernel_objects import from_register, integer_type
from pyebpf.builder.values.kernel_references import WritableReference
from pyebpf.compiler.ir import ValueType
from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue, NotFound, NotSupported, closest
from pyebpf.module.probe import Candidate, Probe, Request
from pyebpf.specs.attach_point import AttachSpec
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.flags import BPF_F_SLEEPABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.module.probe import ProbeOwner
    from pyebpf.target import KernelFunction, KernelType, Target

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class StructOpsMember(AttachSpec):
    """The function `member` of a `struct OPERATIONS`. Its other members are `values`, by name.

    All members with the same `operations` and `values` are one table, registered as a whole.
    """

    operations: str
    member: str
    values: tuple[tuple[str, int | str], ...] = ()
    sleepable: bool = False

    program_type = ProgramType.STRUCT_OPS

    def __str__(self) -> str:
        return f"struct_ops {self.operations}.{self.member}"

    @property
    def load_flags(self) -> int:
        return BPF_F_SLEEPABLE if self.sleepable else 0

    @property
    def target(self) -> str:
        return self.member

    @property
    def link_group(self) -> Hashable:
        return (self.operations, self.values)

    def program_context(self) -> StructOpsProgramContext:
        return StructOpsProgramContext(self)


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
        """Return the member's parameters and result, asked once. Raises NotFound for one that is not a function."""
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
                    f"{name} of {what} is not a function but a {member.type.c_name}: give its value, {name}=…"
                ) from None
        return self._prototype

    def default_return(self, program_type: ProgramType) -> int | None:
        if self.target is None:
            return None
        return 0 if self.prototype(self.target).returns.kind == "void" else None

    def parameter(self, p: ProgramBuilder, name: str, annotation: object, position: int) -> object:
        parameters = self.prototype(p.target).parameters
        if position >= len(parameters):
            takes = ", ".join(each.type.c_name for each in parameters) or "nothing"
            p.fail(f"{self.attach} is called with {len(parameters)} arguments, not more: {takes}")
        return annotated(p, self._argument(p, position, parameters[position].type), annotation)

    def _argument(self, p: ProgramBuilder, index: int, type_: KernelType) -> object:
        element = type_.element
        typed = type_.kind == "pointer" and element is not None and element.composite and element.size > 0
        register = p.b.load(p.context, 8 * index, 8, result=ValueType.POINTER if typed else ValueType.SCALAR)
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


class StructOps:
    """A table `struct OPERATIONS` under construction: `@table.member` makes a function its member of that name."""

    def __init__(self, module: ProbeOwner, operations: str, values: tuple[tuple[str, int | str], ...]) -> None:
        self._module = module
        self.operations = operations
        self.values = values
        self._members: set[str] = set()

    def __repr__(self) -> str:
        return f"<StructOps {self.operations} {' '.join(sorted(self._members))}>"

    def member(self, function: Callable[P, R]) -> Probe[P, R]:
        """Make a function the table's member of the same name.

        Its parameters are, in order, those of the kernel's function; their names are free, their types BTF's. Where
        that returns something, so does every path of this.
        """
        body = self._module.body_of(function, "struct_ops")
        name = body.name
        if name in self._members:
            raise InvalidValue(f"{self.operations} has its {name} already: a table has one function of each name")
        self._members.add(name)
        place = StructOpsMember(self.operations, name, self.values)
        request = Request("struct_ops", (self.operations, name), (Candidate("struct_ops", attachments((place,))),))
        probe: Probe[P, R] = Probe(body, (request,))
        self._module.probes.append(probe)
        return probe


class StructOpsDecorators(Decorators):
    """Programs in tables of the kernel's."""

    def struct_ops(self, operations: str, **values: int | str) -> StructOps:
        """A table of functions that the kernel calls, such as "tcp_congestion_ops"; `values` are its other members.

        Registered, as a whole, when `with bpf:` attaches, and taken back when it ends. Members that are not defined
        are NULL, or 0.
        """
        return StructOps(self._module, operations, tuple(sorted(values.items())))
