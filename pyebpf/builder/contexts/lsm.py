"""LSM hooks: their arguments by BTF's names, and the verdict that a program returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.contexts.base import LoadAttributes
from pyebpf.builder.contexts.trampolines import TrampolineProgramContext
from pyebpf.builder.values.comparisons import maximum, minimum
from pyebpf.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.builder.contexts.kernel_functions import TracedFunction
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.specs import AttachSpec
    from pyebpf.target import KernelFunction, Target
    from pyebpf.uapi.bpf import ProgramType

__all__ = ["LsmCgroupProgramContext", "LsmProgramContext"]

#: The function that stands for a hook.
PREFIX = "bpf_lsm_"
#: MAX_ERRNO: a verdict is 0 or the negative of an errno.
MAX_ERRNO = 4095


class LsmProgramContext(TrampolineProgramContext):
    """Parameters are the hook's; `retval` is what programs and modules before this one decided."""

    returns = True

    @property
    def function(self) -> str:
        return PREFIX + self.attach.target

    def expand(self, target: Target) -> Iterator[AttachSpec]:
        yield self.attach

    def _hook(self, target: Target) -> KernelFunction:
        try:
            return target.function(self.function)
        except NotFound as error:
            hook = self.attach.target
            raise NotFound(f"this kernel has no LSM hook {hook!r} for programs: {error}") from error

    def load_attributes(self, target: Target) -> LoadAttributes:
        found = self._hook(target)
        return LoadAttributes(found.btf_id, found.module)

    @property
    def _void(self) -> bool:
        return self.target is not None and self._hook(self.target).returns.kind == "void"

    def default_return(self, kind: ProgramType) -> int | None:
        return 0 if self._void else None

    @property
    def return_range(self) -> tuple[int, int] | None:
        return None if self._void else self.verdicts

    @property
    def verdicts(self) -> tuple[int, int]:
        """The least and the greatest number that the program of a hook with a verdict returns."""
        return -MAX_ERRNO, 0

    def _result(self, p: ProgramBuilder, known: TracedFunction, annotation: Any) -> Any:
        # The verifier knows no bounds of it, but wants to know those of what is returned.
        found = super()._result(p, known, annotation)
        return minimum(p, maximum(p, found, -MAX_ERRNO), 0)

    def check_result(self, p: ProgramBuilder, value: ir.Value) -> None:
        low, high = p.b.bounds(value)
        if self.return_range == (-MAX_ERRNO, 0) and low < high and not -MAX_ERRNO <= low <= high <= 0:
            p.fail(
                f"a program at {self.attach} returns 0 or the negative of an errno, and this number is not known to be "
                "one: write `return -errno.EPERM if … else 0`"
            )
        super().check_result(p, value)


class LsmCgroupProgramContext(LsmProgramContext):
    """A program of a control group returns 1 to go on, 0 to refuse."""

    @property
    def verdicts(self) -> tuple[int, int]:
        return 0, 1
