"""`Place`: what a kind of attachment means to a program; `Context`: what the program was called with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pyebpf.builder.annotations import KernelObject
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
    from collections.abc import Hashable, Iterable, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.target import Target

__all__ = ["Context", "Loading", "OpaqueArgument", "Place", "annotated"]

S = TypeVar("S", bound=AttachSpec)

#: What a program of a kind returns that has nothing to say. A tracepoint's 0 would drop the event for every other perf
#: user. In a program of another kind every path returns a value.
SILENT: dict[ProgramType, int] = {
    ProgramType.TRACEPOINT: 1,
    ProgramType.RAW_TRACEPOINT: 0,
    ProgramType.TRACING: 0,
    ProgramType.PERF_EVENT: 0,
    ProgramType.KPROBE: 0,
}


class OpaqueArgument(CompileError):
    """An argument that no program at this place may read, though one that knows no types may."""


@dataclass(frozen=True, slots=True)
class Loading:
    """Attributes of PROG_LOAD that depend on the kernel's types.

    `attach_btf` is the BTF id that the program attaches to, 0 for none; `module` the kernel module whose BTF has it,
    empty for vmlinux. `attach_type` is PROG_LOAD's expected_attach_type where the kernel's types decide it.
    """

    attach_btf: int = 0
    module: str = ""
    attach_type: int | None = None


class Place(Generic[S]):
    """One attachment, seen from the program: its parameters, its context, its result.

    A family of attachments defines one for each of its specs. What is not overridden is refused with a message.
    """

    #: Whether a probe may take `ctx`, the context itself.
    has_context: ClassVar[bool] = True
    #: The memory that a number points to which the author annotates as a pointer.
    space: Space = Space.KERNEL
    #: The target that the program is being built for; None while nothing is.
    target: Target | None = None

    def __init__(self, attach: S) -> None:
        self.attach = attach

    # -- questions to the kernel that the program is compiled for ------------------------------------------------------

    def expand(self, target: Target) -> Iterable[AttachSpec]:
        """The attachments that this one stands for: itself, or what a pattern matches."""
        return (self.attach,)

    def exists(self, target: Target) -> bool:
        """Whether the kernel has the place; an optional attachment without one is left out."""
        return True

    def unfit(self, target: Target) -> str | None:
        """Why a request with other ways does better not to take this one; None if nothing is known against it."""
        return None

    def loading(self, target: Target) -> Loading:
        """Return the attributes of PROG_LOAD for the place. Raises NotFound if the kernel's types lack it."""
        return Loading()

    def same_code(self) -> Hashable | None:
        """A key under which places of one request give the same code; None if each is compiled for itself.

        For places that programs see no difference of unless they ask for `ctx.target`.
        """
        return None

    def signature(self, target: Target, parameters: Sequence[str]) -> Hashable | None:
        """`same_code` for a probe that takes these parameters, where their types decide."""
        return self.same_code()

    def joined(self, others: Sequence[AttachSpec]) -> AttachSpec | None:
        """One attachment for this place and others of its kind that run the same code; None where each is its own."""
        return None

    # -- the program's side --------------------------------------------------------------------------------------------

    def begin(self, p: ProgramBuilder) -> None:
        """Emit the code that runs before the author's statements."""

    def silent(self, kind: ProgramType) -> int | None:
        """The result of a path without a `return`; None where every path must return a value."""
        return SILENT.get(kind)

    @property
    def results(self) -> tuple[int, int] | None:
        """The least and the greatest number that a program may return; None where the kernel has no limits."""
        return None

    def check_result(self, p: ProgramBuilder, value: ir.Value) -> None:
        """Refuse to return a number that the verifier does not know to be within `results`."""
        if self.results is None:
            return
        least, most = self.results
        low, high = p.b.bounds(value)
        if least <= low and high <= most:
            return
        wanted = str(most) if least == most else f"{least} or {most}" if most == least + 1 else f"{least} to {most}"
        if low == high:
            p.fail(f"a program at {self.attach} returns {wanted}, not {low}")
        hint = f": write {most}" if least == most else f": write `return {most} if … else {least}`"
        p.fail(f"a program at {self.attach} returns {wanted}, and this number is not known to be{hint}")

    def parameter(self, p: ProgramBuilder, name: str, annotation: Any, position: int) -> Any:
        """Return the value of a parameter: by its name here; kinds whose target names nothing override it.

        `name` is as the author wrote it, `position` counts from 0 without `ctx`.
        """
        return annotated(p, self.named(p, plain_name(name)), annotation, self.space)

    def named(self, p: ProgramBuilder, name: str) -> Any:
        """Return the target's `name`: a parameter of that name, or an attribute of `ctx`."""
        p.fail(f"{name}: this program's context has no named fields")

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        """`ctx.name`."""
        return annotated(p, self.named(p, plain_name(name)), None)

    def set_attribute(self, p: ProgramBuilder, name: str, value: Any) -> None:
        """`ctx.name = value`."""
        p.fail(f"the context of a {p.kind_name} program cannot be written: {name}")


class Context(Entity, NoPythonOperators):
    """`ctx`: what the program was called with. Its attributes are what parameters of those names would be."""

    def describe(self) -> str:
        return "the context"

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        if name == "target":
            p.reads_target = True
            return p.attach.target if p.attach is not None else str(p.attach)
        declared = p.declared.get(name)
        if declared is not None:
            return p.place.parameter(p, name, *declared)
        return p.place.attribute(p, name)

    def set_attribute(self, p: ProgramBuilder, name: str, value: Any) -> None:
        p.place.set_attribute(p, name, value)


def annotated(p: ProgramBuilder, found: Any, annotation: Any, space: Space = Space.KERNEL) -> Any:
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
