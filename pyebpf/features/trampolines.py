"""fentry, fexit, fmod_ret and LSM: whether such programs load, and whether the kernel can put them on a function.

Loading says little: Linux before 6.4 on arm64 (commit 2aa6ac03516d, "arm64: ftrace: Add direct call support") loads
them all and attaches none. Attaching tells, but taking a trampoline away can last for a tenth of a second.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyebpf.asm import encode
from pyebpf.dataclass import dataclass
from pyebpf.features.loading import Load, attempt, finish, forbidden, target_of
from pyebpf.features.support import Support, from_refusal
from pyebpf.kernel import bpf
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.btf import Btf

#: Of the kernel's own, to try trampolines on: they run only when it is asked to test a program.
_TEST, _TEST_RESULT = "bpf_fentry_test1", "bpf_modify_return_test"
#: A hook that hardly ever is asked, with the function that asks.
_HOOK, _HOOKED = "bpf_lsm_quotactl", "security_quotactl"
#: What is in the BTF of kernels that can have ftrace call a trampoline in place of its own code.
_DIRECT_CALLS = ("register_ftrace_direct", "register_ftrace_direct_multi")


@dataclass(frozen=True, slots=True)
class _Loading:
    """A load that names BTF type 1, which is not a function: EINVAL and a message where there are trampolines.

    A kernel locked down against them answers EPERM to whoever may load everything else.
    """

    program_type: ProgramType
    attach_type: AttachType

    def __call__(self, _: Callable[[], Btf] | None) -> Support:
        if self.program_type is ProgramType.LSM and not _asked():
            return Support.NO
        outcome = attempt(finish(), self.program_type, load=Load(self.attach_type), target=1)
        if outcome.errno in {0, errno.EINVAL}:
            return Support.YES if outcome.log or not outcome.errno else Support.NO
        return Support.NO if forbidden(outcome) else Support.UNKNOWN


def _asked() -> bool:
    """Whether programs at LSM hooks are called: they load where `bpf` is not among the modules, and never run."""
    from pyebpf.kernel.privileges import security_modules

    used = security_modules()
    return not used or "bpf" in used


@dataclass(frozen=True, slots=True)
class _Trampoline:
    """A program that does nothing, put on one of `functions` and taken away again."""

    loading: _Loading
    functions: tuple[str, ...]

    def __call__(self, btf: Callable[[], Btf] | None) -> Support:
        answer = self.loading(btf)
        if answer is not Support.YES:
            return answer
        for function in self.functions:
            load = Load(self.loading.attach_type, target=function)
            target = target_of(load, btf)
            if target is None:
                continue
            result = bpf.prog_load(
                self.loading.program_type,
                encode(finish()),
                name="probe",
                expected_attach_type=self.loading.attach_type,
                attach_btf_id=target,
            )
            if result.descriptor is None:
                continue
            with result.descriptor as program:
                return _attached(program.fileno(), self.loading.attach_type)
        return Support.UNKNOWN


def _attached(program: int, attach_type: AttachType) -> Support:
    try:
        try:
            bpf.link_create(program, 0, attach_type).close()
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            bpf.raw_tracepoint_open(program).close()  # before Linux 5.18 only so
    except OSError as error:
        return from_refusal(error)
    return Support.YES


@dataclass(frozen=True, slots=True)
class _Promise:
    """`exact`, asked where there is doubt only: a kernel with direct calls of ftrace is taken at its word."""

    exact: _Trampoline

    def __call__(self, btf: Callable[[], Btf] | None) -> Support:
        if btf is not None:
            known = btf()
            if any(known.find(name) for name in _DIRECT_CALLS):
                return self.exact.loading(btf)
        return self.exact(btf)


_TRACING = ProgramType.TRACING

TRAMPOLINES: dict[str, _Trampoline] = {
    "fentry": _Trampoline(_Loading(_TRACING, AttachType.TRACE_FENTRY), (_TEST, _HOOKED)),
    "fexit": _Trampoline(_Loading(_TRACING, AttachType.TRACE_FEXIT), (_TEST, _HOOKED)),
    # Any function whose name begins with "security_", and those that the kernel lists.
    "fmod_ret": _Trampoline(_Loading(_TRACING, AttachType.MODIFY_RETURN), (_TEST_RESULT, _HOOKED)),
    "lsm": _Trampoline(_Loading(ProgramType.LSM, AttachType.LSM_MAC), (_HOOK,)),
}
"""By the name that `pyebpf.features` has for them, behind "attach:"."""

LOADING: dict[str, _Promise] = {name: _Promise(exact) for name, exact in TRAMPOLINES.items()}
"""The same question for who is about to attach: answered without attaching, wherever that tells nothing new."""
