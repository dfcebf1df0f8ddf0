"""The base class of attach specs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pyebpf.uapi.bpf import ProgramType


def is_pattern(name: str) -> bool:
    """Whether a name stands for all that match it, as a shell's pattern."""
    return any(character in name for character in "*?[")


@dataclass(frozen=True, slots=True)
class KernelRequirement:
    """A kind of attach point that some supported kernels lack.

    `feature` asks for it (`pyebpf.features`), `name` is what messages call it, `release` the Linux that brought it,
    `config` the kernel option it needs, empty for none, `alternative` another way to the same end.
    """

    feature: str
    name: str
    release: str
    config: str
    alternative: str


SYSCALL_PROGRAMS = KernelRequirement(
    "program:syscall", "syscall programs", "5.14", "", "do it in Python, or in a probe on an event"
)
"""Also those that are loaded for no attach point."""


class AttachSpec:
    """An attach point of a program: frozen data, one class a kind of attachment, `str()` for messages.

    The program's side (context, parameters, result) is its `program_context()`; how a loaded program gets there, its
    function in `link/`.
    """

    __slots__ = ()

    #: The type of program that is loaded for it.
    program_type: ClassVar[ProgramType]

    @property
    def attach_type(self) -> int:
        """Enum bpf_attach_type's number for PROG_LOAD's expected_attach_type, where the kind wants one; else 0."""
        return 0

    @property
    def load_flags(self) -> int:
        """PROG_LOAD's flags, such as BPF_F_SLEEPABLE (16)."""
        return 0

    @property
    def device(self) -> str:
        """The one network interface that the program is loaded for; empty for any."""
        return ""

    @property
    def requirement(self) -> KernelRequirement | None:
        """The feature that the kernel must have for it; None where every supported kernel has it."""
        return None

    @property
    def target(self) -> str:
        """The text that a probe reads as `ctx.target`."""
        return str(self)

    @property
    def caller_event(self) -> str:
        """The tracepoint whose own functions call the program, and so stand in its stacks; empty for other callers."""
        return ""

    @property
    def link_group(self) -> Hashable | None:
        """The key shared by attach points that one link serves; None for one with a link of its own."""
        return None

    @property
    def scalar_parameters(self) -> int | None:
        """The number of scalar arguments that the program is called with in place of a context; None for a context."""
        return None

    @property
    def is_deferred(self) -> bool:
        """Whether `Probe.attach(...)` names the target later: entering `with bpf:` only loads the program."""
        return False

    @property
    def named_after_owner(self) -> bool:
        """Whether the loaded program is named after this process, since nothing else says whose attachment it is."""
        return False

    def program_context(self) -> Any:
        """The attachment as the program sees it: a `pyebpf.builder.context.ProgramContext`."""
        raise NotImplementedError

    def with_target(self, *place: Any, **options: Any) -> AttachSpec:  # noqa: ARG002 - deferred ones take them
        """Return the same attachment with its target, which `Probe.attach(...)` was given.

        Raises InvalidValue where the target is known already, and where nothing is ever attached.
        """
        raise InvalidValue(f"{self} is attached by `with bpf:`, at the place that its decorator names")
