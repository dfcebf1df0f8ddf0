"""LSM: hooks of the Linux security modules, for the whole machine or for the processes of a control group."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pyebpf.attach.decorators import Decorators, attachments
from pyebpf.attach.trampolines import TrampolineProgramContext
from pyebpf.builder.context import LoadAttributes
from pyebpf.builder.values.comparisons import maximum, minimum
from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import InvalidValue, NotFound
from pyebpf.module.probe import Candidate
from pyebpf.specs.attach_point import AttachSpec
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.flags import BPF_F_SLEEPABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    from pyebpf.attach.kernel_functions import TracedFunction
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.module.probe import Probe
    from pyebpf.target import KernelFunction, Target

    P = ParamSpec("P")
    R = TypeVar("R", bound=int | None)

    class HookDecorator(Protocol):
        """A decorator of programs that return a verdict, or nothing where the hook asks for none."""

        def __call__(self, function: Callable[P, R] | Probe[P, R], /) -> Probe[P, R]: ...


@dataclass(frozen=True, slots=True)
class Lsm(AttachSpec):
    """The hook `hook` ("file_open"), as include/linux/lsm_hook_defs.h names it. `sleepable` programs may fault."""

    hook: str
    sleepable: bool = False

    program_type = ProgramType.LSM
    attach_type = AttachType.LSM_MAC

    def __str__(self) -> str:
        return f"LSM {self.hook}"

    @property
    def load_flags(self) -> int:
        return BPF_F_SLEEPABLE if self.sleepable else 0

    @property
    def target(self) -> str:
        return self.hook

    def program_context(self) -> LsmProgramContext:
        return LsmProgramContext(self)  # type: ignore[arg-type]  # a hook is a function, but no Fentry


@dataclass(frozen=True, slots=True)
class LsmCgroup(AttachSpec):
    """The hook `hook` for processes and sockets of the control group at `path`; open if that is empty."""

    hook: str
    path: str = ""

    program_type = ProgramType.LSM
    attach_type = AttachType.LSM_CGROUP

    def __str__(self) -> str:
        return f"LSM {self.hook}" + (f" of control group {self.path}" if self.path else " of a control group")

    @property
    def target(self) -> str:
        return self.hook

    @property
    def is_deferred(self) -> bool:
        return not self.path

    def with_target(self, *place: Any, **options: Any) -> LsmCgroup:
        """The same hook of a control group, named by its directory."""
        if len(place) != 1 or options or self.path:
            raise InvalidValue(f"{self} is attached by probe.attach(directory), of a control group")
        return replace(self, path=os.fspath(place[0]))

    def program_context(self) -> LsmCgroupProgramContext:
        return LsmCgroupProgramContext(self)  # type: ignore[arg-type]  # a hook is a function, but no Fentry


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

    def default_return(self, program_type: ProgramType) -> int | None:
        return 0 if self._void else None

    @property
    def return_range(self) -> tuple[int, int] | None:
        return None if self._void else self.verdicts

    @property
    def verdicts(self) -> tuple[int, int]:
        """The least and the greatest number that the program of a hook with a verdict returns."""
        return -MAX_ERRNO, 0

    def _result(self, p: ProgramBuilder, known: TracedFunction, annotation: object) -> object:
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


class LsmDecorators(Decorators):
    """Programs at the hooks of security modules."""

    def lsm(self, *hooks: str, sleepable: bool = False) -> HookDecorator:
        """Run at LSM hooks, such as "file_open", for every process of the machine.

        Parameters are the hook's, and `retval`, what was decided before. The program returns 0 to go on, or the
        negative of an errno to refuse: `return -errno.EPERM`; nothing where the hook asks for no verdict. `sleepable`
        programs may read memory that is not there yet. The kernel must have been booted with bpf among its modules
        (`/sys/kernel/security/lsm`).
        """
        candidates = (Candidate("lsm", attachments(Lsm(hook, sleepable) for hook in hooks), ("attach:lsm",)),)
        made: HookDecorator = self._decorator("lsm", hooks, candidates)
        return made

    def lsm_cgroup(self, hook: str, *cgroups: str | os.PathLike[str]) -> HookDecorator:
        """Run at an LSM hook for what processes and sockets of control groups do (since Linux 6.0).

        `cgroups` are directories of the cgroup2 file system; without one, `probe.attach(directory)` names it. The
        program returns 1 to go on, 0 to refuse with EPERM.
        """
        places = [LsmCgroup(hook, os.fspath(path)) for path in cgroups] or [LsmCgroup(hook)]
        candidates = (Candidate("lsm_cgroup", attachments(places), ("attach:lsm_cgroup",)),)
        made: HookDecorator = self._decorator("lsm_cgroup", (hook, *(place.path for place in places)), candidates)
        return made
