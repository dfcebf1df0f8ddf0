"""`ProgramContext`: parameters, context and result of a program, by where it is attached; `Context`: the name `ctx`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pyebpf.builder.values.entity import Entity, NoPythonOperators
from pyebpf.builder.values.kernel_objects import plain_name
from pyebpf.builder.values.memory import Space
from pyebpf.builder.values.pointers import Pointer
from pyebpf.builder.values.strings import StringSource
from pyebpf.dataclass import dataclass
from pyebpf.errors import CompileError
from pyebpf.specs import AttachSpec
from pyebpf.types import CharArray, IntType, PointerType
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.target import Target

S = TypeVar("S", bound=AttachSpec)

#: The default return value of a program type. A tracepoint's 0 would drop the event for every other perf user. In a
#: program of a type that is not listed every path returns a value.
DEFAULT_RETURN: dict[ProgramType, int] = {
    ProgramType.TRACEPOINT: 1,
    ProgramType.RAW_TRACEPOINT: 0,
    ProgramType.TRACING: 0,
    ProgramType.PERF_EVENT: 0,
    ProgramType.KPROBE: 0,
}


class OpaqueArgument(CompileError):
    """An argument that no program at this place may read, though one that knows no types may."""


@dataclass(frozen=True, slots=True)
class LoadAttributes:
    """Attributes of PROG_LOAD that depend on the kernel's types.

    `attach_btf` is the BTF id that the program attaches to, 0 for none; `module` the kernel module whose BTF has it,
    empty for vmlinux. `attach_type` is PROG_LOAD's expected_attach_type where the kernel's types decide it.
    """

    attach_btf: int = 0
    module: str = ""
    attach_type: int | None = None


class ProgramContext(Generic[S]):
    """The parameters, the context and the result of programs at one attach point.

    Each class of attach specs has its own. A member that it does not override refuses with a message.
    """

    #: Whether a probe may take `ctx`, the context itself.
    has_context: ClassVar[bool] = True
    #: Whether a task may be preempted in the middle of the program, and another run it on the same processor.
    is_preemptible: bool = False
    #: The memory that a number points to which the author annotates as a pointer.
    space: Space = Space.KERNEL
    #: The target that the program is being built for; None while nothing is.
    target: Target | None = None

    def __init__(self, attach: S) -> None:
        self.attach = attach

    # -- questions to the kernel that the program is compiled for ------------------------------------------------------

    def expand(self, target: Target) -> Iterable[AttachSpec]:
        """The attachments that this one stands for: itself, or those that a pattern matches."""
        return (self.attach,)

    def exists(self, target: Target) -> bool:
        """Whether the kernel has the attach point; an optional attachment without one is left out."""
        return True

    def without_types(self) -> AttachSpec | None:
        """The same attach point for programs whose arguments are plain numbers; None where there is no such."""
        return None

    def reason_against(self, target: Target) -> str | None:
        """The reason to prefer another candidate of the request; None if nothing is known against this one."""
        return None

    def load_attributes(self, target: Target) -> LoadAttributes:
        """Return the attributes of PROG_LOAD. Raises NotFound if the kernel's types lack the attach point."""
        return LoadAttributes()

    def code_key(self) -> Hashable | None:
        """A key shared by attach points of one request that give the same code; None if each is compiled for itself.

        For attach points that look alike to a program, unless it reads `ctx.target`.
        """
        return None

    def signature(self, target: Target, parameters: Sequence[str]) -> Hashable | None:
        """`same_code` for a probe that takes these parameters, where their types decide."""
        return self.code_key()

    def coalesced(self, others: Sequence[AttachSpec]) -> AttachSpec | None:
        """One attachment in place of this and others that run the same code; None where each has a link of its own."""
        return None

    # -- the program's side --------------------------------------------------------------------------------------------

    def prologue(self, p: ProgramBuilder) -> None:
        """Emit the code that runs before the author's statements."""

    def check_user_read(self, p: ProgramBuilder) -> None:
        """Refuse to read a process's memory where the kernel does not survive it."""

    def default_return(self, program_type: ProgramType) -> int | None:
        """The result of a path without a `return`; None where every path must return a value."""
        return DEFAULT_RETURN.get(program_type)

    @property
    def return_range(self) -> tuple[int, int] | None:
        """The least and the greatest number that a program may return; None where the kernel has no limits."""
        return None

    def check_result(self, p: ProgramBuilder, value: ir.Value) -> None:
        """Refuse to return a number that the verifier does not know to be within `results`."""
        if self.return_range is None:
            return
        least, most = self.return_range
        low, high = p.b.bounds(value)
        if least <= low and high <= most:
            return
        wanted = str(most) if least == most else f"{least} or {most}" if most == least + 1 else f"{least} to {most}"
        if low == high:
            p.fail(f"a program at {self.attach} returns {wanted}, not {low}")
        hint = f": write {most}" if least == most else f": write `return {most} if … else {least}`"
        p.fail(f"a program at {self.attach} returns {wanted}, and this number is not known to be{hint}")

    def parameter(self, p: ProgramBuilder, name: str, annotation: object, position: int) -> object:
        """Return the value of a parameter: by its name here; kinds whose target names nothing override it.

        `name` is as the author wrote it, `position` counts from 0 without `ctx`.
        """
        return annotated(p, self.field(p, plain_name(name)), annotation, self.space)

    def field(self, p: ProgramBuilder, name: str) -> object:
        """Return the target's `name`: a parameter of that name, or an attribute of `ctx`."""
        p.fail(f"{name}: this program's context has no named fields")

    def emit(self, p: ProgramBuilder, value: object) -> None:
        """`emit(value)`: in programs of iterators, a record for who reads one."""
        p.fail(
            "emit() is for iterators, and gives a record to the reader: in this program write ring.emit(…) "
            "to a ring buffer"
        )

    def function_ip(self, p: ProgramBuilder) -> ir.Value:
        """The traced function's address, where the kernel lacks the helper that tells it."""
        p.fail(
            "on this kernel only @bpf.kprobe at a function's entry can tell which function it is (helper "
            "bpf_get_func_ip, since Linux 5.15)"
        )

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        """`ctx.name`."""
        return annotated(p, self.field(p, plain_name(name)), None)

    def set_attribute(self, p: ProgramBuilder, name: str, value: object) -> None:
        """`ctx.name = value`."""
        p.fail(f"the context of a {p.program_type_name} program cannot be written: {name}")


class Context(Entity, NoPythonOperators):
    """`ctx`: what the program was called with. Its attributes are what parameters of those names would be."""

    REMEDIES: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("binary", "unary", "compare", "truth", "convert", "item", "length", "fit"),
            "read one of its fields, ctx.NAME",
        ),
        "number": "it is an address that only this run of the program may use; read one of its fields, ctx.NAME",
    }

    def describe(self) -> str:
        return "the context"

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        if name == "target":
            p.reads_target = True
            return p.attach.target if p.attach is not None else str(p.attach)
        declared = p.declared.get(name)
        if declared is not None:
            return p.program_context.parameter(p, name, *declared)
        return p.program_context.attribute(p, name)

    def set_attribute(self, p: ProgramBuilder, name: str, value: object) -> None:
        p.program_context.set_attribute(p, name, value)


class KernelObject:
    """A struct of the kernel.

    Answers any attribute that the running kernel's BTF gives it, each read where it is written.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def annotated(p: ProgramBuilder, found: object, annotation: object, space: Space = Space.KERNEL) -> object:
    """`found` as the type that the author wrote: a type of the language, KernelObject, int or None.

    A number that is a pointer to the author points to `space`.
    """
    if annotation is None or annotation is int or annotation is KernelObject:
        return found
    if isinstance(annotation, CharArray) and isinstance(found, StringSource):
        return found.sized(annotation.length)
    if isinstance(annotation, PointerType) and hasattr(found, "as_int"):
        return Pointer(found.as_int(p).value, annotation.target, getattr(found, "space", space))
    if isinstance(annotation, IntType) and hasattr(found, "convert"):
        return found.convert(p, annotation)
    return found
