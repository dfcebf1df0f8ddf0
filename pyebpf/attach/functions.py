"""`@bpf.function` and `@bpf.function_return`: trampolines or kprobes, whichever is the best that a kernel has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.attach.decorators import Decorators, attachments
from pyebpf.attach.kernel_functions import MAX_PROBES, check_names
from pyebpf.attach.kprobes import Kprobe, KprobeMulti
from pyebpf.attach.trampolines import Fentry, Fexit
from pyebpf.module.probe import Candidate
from pyebpf.specs.attach_point import is_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.attach.decorators import TracingDecorator
    from pyebpf.specs import AttachSpec

FENTRY, MULTI, KPROBE = "attach:fentry", "attach:kprobe_multi", "attach:kprobe"
MISSING_REASONS = {
    FENTRY: "this kernel has no trampolines for programs, or refuses them",
    MULTI: "this kernel has no kprobe.multi links",
    KPROBE: "this kernel has no kprobes",
}


class FunctionDecorators(Decorators):
    """Probes at functions of the kernel.

    Each decorator takes one or more functions by name, such as "tcp_sendmsg"; a module's may be written
    "sch_fq:fq_enqueue", a system call's "sys_openat"; a pattern, "tcp_*", stands for all functions that match, at
    most `max_probes` of them. With `optional`, names that the kernel lacks are left out. A probe's parameters are the
    function's own, by the names in the kernel's BTF; of a function that BTF lacks (".isra.0", assembler), by position
    and with annotations. At a return, `retval` is what the function returned.
    """

    def function(self, *functions: str, optional: bool = False, max_probes: int = MAX_PROBES) -> TracingDecorator:
        """Run at the entry of functions: by fentry, else kprobe.multi, else kprobe, whichever the kernel has."""
        return self._best("function", functions, optional=optional, max_probes=max_probes, returns=False)

    def function_return(
        self, *functions: str, optional: bool = False, max_probes: int = MAX_PROBES
    ) -> TracingDecorator:
        """Run when functions return: by fexit, else kretprobe.multi, else kretprobe, whichever the kernel has.

        `retval` is what the function returns. Its arguments can only be had in a probe that asks for fexit.
        """
        return self._best("function_return", functions, optional=optional, max_probes=max_probes, returns=True)

    def _best(
        self, decorator: str, functions: tuple[str, ...], *, optional: bool, max_probes: int, returns: bool
    ) -> TracingDecorator:
        check_names(decorator, functions)

        def candidate(name: str, need: str, place: Callable[[str], AttachSpec]) -> Candidate:
            made = attachments(map(place, functions), optional=optional)
            return Candidate(name, made, (need,), MISSING_REASONS[need])

        candidates: tuple[Candidate, ...] = (
            candidate(
                "kretprobe.multi" if returns else "kprobe.multi",
                MULTI,
                lambda f: KprobeMulti((f,), returns, max_probes=max_probes),
            ),
            candidate(
                "kretprobe" if returns else "kprobe", KPROBE, lambda f: Kprobe((f,), returns, max_probes=max_probes)
            ),
        )
        # A trampoline takes a program for each function, and some 0.1 s each to detach.
        if not any(map(is_pattern, functions)):
            trampoline = Fexit if returns else Fentry
            first = candidate("fexit" if returns else "fentry", FENTRY, lambda f: trampoline(f, max_probes))
            candidates = (first, *candidates)
        made: TracingDecorator = self._decorator(decorator, functions, candidates, "kernel functions")
        return made
