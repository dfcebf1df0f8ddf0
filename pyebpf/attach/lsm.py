"""`@bpf.lsm` and `@bpf.lsm_cgroup`: a word in the kernel's security decisions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pyebpf.attach.decorators import Decorators, attachments
from pyebpf.module.probe import Candidate

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from pyebpf.module.probe import Probe

    P = ParamSpec("P")
    R = TypeVar("R", bound=int | None)

    class HookDecorator(Protocol):
        """A decorator of programs that return a verdict, or nothing where the hook asks for none."""

        def __call__(self, function: Callable[P, R] | Probe[P, R], /) -> Probe[P, R]: ...


__all__ = ["LsmDecorators"]


class LsmDecorators(Decorators):
    """Programs at the hooks of security modules."""

    def lsm(self, *hooks: str, sleepable: bool = False) -> HookDecorator:
        """Run at LSM hooks, such as "file_open", for every process of the machine.

        Parameters are the hook's, and `retval`, what was decided before. The program returns 0 to go on, or the
        negative of an errno to refuse: `return -errno.EPERM`; nothing where the hook asks for no verdict. `sleepable`
        programs may read memory that is not there yet. The kernel must have been booted with bpf among its modules
        (`/sys/kernel/security/lsm`).
        """
        from pyebpf.specs.attach.lsm import Lsm

        candidates = (Candidate("lsm", attachments(Lsm(hook, sleepable) for hook in hooks), ("attach:lsm",)),)
        made: HookDecorator = self._decorator("lsm", hooks, candidates)
        return made

    def lsm_cgroup(self, hook: str, *cgroups: str | os.PathLike[str]) -> HookDecorator:
        """Run at an LSM hook for what processes and sockets of control groups do (since Linux 6.0).

        `cgroups` are directories of the cgroup2 file system; without one, `probe.attach(directory)` names it. The
        program returns 1 to go on, 0 to refuse with EPERM.
        """
        from pyebpf.specs.attach.lsm import LsmCgroup

        places = [LsmCgroup(hook, os.fspath(path)) for path in cgroups] or [LsmCgroup(hook)]
        candidates = (Candidate("lsm_cgroup", attachments(places), ("attach:lsm_cgroup",)),)
        made: HookDecorator = self._decorator("lsm_cgroup", (hook, *(place.path for place in places)), candidates)
        return made
