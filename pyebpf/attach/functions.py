"""`@bpf.kprobe`, `@bpf.fentry` and their kin, and `@bpf.function`, which takes the best of them that a kernel has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.attach.decorators import Decorators, attachments
from pyebpf.errors import InvalidValue
from pyebpf.module.probe import Candidate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyebpf.attach.decorators import TracingDecorator, VerdictDecorator
    from pyebpf.specs import AttachSpec

__all__ = ["FunctionDecorators"]

#: The syntax of a function's name or a pattern; a module may stand before, an offset behind.
_NAME = re.compile(r"(?:[\w*?\[\]!-]+:)?[\w.$*?\[\]!-]+(?P<offset>\+(?:0x[0-9a-fA-F]+|\d+))?", re.ASCII)
_PATTERN = re.compile(r"[*?\[]")

_MAX_PROBES = 1000  # MAX_PROBES of specs.attach.kernel_functions, which is imported when a probe asks for it

FENTRY, MULTI, KPROBE = "attach:fentry", "attach:kprobe_multi", "attach:kprobe"
_MISSING_REASONS = {
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

    def function(self, *functions: str, optional: bool = False, max_probes: int = _MAX_PROBES) -> TracingDecorator:
        """Run at the entry of functions: by fentry, else kprobe.multi, else kprobe, whichever the kernel has."""
        return self._best("function", functions, optional=optional, most=max_probes, returns=False)

    def function_return(
        self, *functions: str, optional: bool = False, max_probes: int = _MAX_PROBES
    ) -> TracingDecorator:
        """Run when functions return: by fexit, else kretprobe.multi, else kretprobe, whichever the kernel has.

        `retval` is what the function returns. Its arguments can only be had in a probe that asks for fexit.
        """
        return self._best("function_return", functions, optional=optional, most=max_probes, returns=True)

    def kprobe(self, *functions: str, optional: bool = False, max_probes: int = _MAX_PROBES) -> TracingDecorator:
        """Run at the entry of functions, or at an instruction within one: "ip_rcv+0x1c"."""
        from pyebpf.specs.attach.kprobes import Kprobe

        _check("kprobe", functions, offsets=True)
        places = (Kprobe((function,), most=max_probes) for function in functions)
        return self._tracing("kprobe", functions, places, optional=optional)

    def kretprobe(self, *functions: str, optional: bool = False, max_probes: int = _MAX_PROBES) -> TracingDecorator:
        """Run when functions return. `retval` is what one returns; arguments are gone by then."""
        from pyebpf.specs.attach.kprobes import Kprobe

        _check("kretprobe", functions)
        places = (Kprobe((function,), returns=True, most=max_probes) for function in functions)
        return self._tracing("kretprobe", functions, places, optional=optional)

    def kprobe_multi(
        self,
        *functions: str,
        cookies: Mapping[str, int] | None = None,
        optional: bool = False,
        max_probes: int = _MAX_PROBES,
    ) -> TracingDecorator:
        """Run at the entry of functions, however many by one call (since Linux 5.18; on arm64 later, not yet in 6.12).

        `cookies` gives functions a number each, which `helpers.get_attach_cookie(ctx)` reads; others have 0.
        """
        return self._multi("kprobe_multi", functions, cookies, optional=optional, most=max_probes)

    def kretprobe_multi(
        self,
        *functions: str,
        cookies: Mapping[str, int] | None = None,
        optional: bool = False,
        max_probes: int = _MAX_PROBES,
    ) -> TracingDecorator:
        """Run when functions return, however many by one call (as `kprobe_multi`). `retval` is what one returns."""
        return self._multi("kretprobe_multi", functions, cookies, optional=optional, most=max_probes)

    def kprobe_session(
        self,
        *functions: str,
        cookies: Mapping[str, int] | None = None,
        optional: bool = False,
        max_probes: int = _MAX_PROBES,
    ) -> VerdictDecorator:
        """Run at the entry and at the return of functions, by one call (since Linux 6.10).

        The program returns a number: 0 at the entry asks to be run at the return, too, 1 not to. `ctx.is_return` says
        which of the two it is; `ctx.cookie`, a u64, is kept from one to the other. `retval` and parameters are those
        of the moment: at the return only `retval` means something.
        """
        from pyebpf.specs.attach.kprobes import KprobeMulti

        _check("kprobe_session", functions)
        places = _with_cookies("kprobe_session", functions, cookies, KprobeMulti((), session=True, most=max_probes))
        return self._verdict("kprobe_session", functions, places, optional=optional)

    def fentry(self, *functions: str, optional: bool = False, max_probes: int = _MAX_PROBES) -> TracingDecorator:
        """Run at the entry of functions through a trampoline (since Linux 5.5): kernel objects load directly."""
        from pyebpf.specs.attach.trampolines import Fentry

        _check("fentry", functions)
        places = (Fentry(function, max_probes) for function in functions)
        return self._tracing("fentry", functions, places, optional=optional)

    def fexit(self, *functions: str, optional: bool = False, max_probes: int = _MAX_PROBES) -> TracingDecorator:
        """Run when functions return, through a trampoline: with `retval` and the arguments as passed at the entry."""
        from pyebpf.specs.attach.trampolines import Fexit

        _check("fexit", functions)
        places = (Fexit(function, max_probes) for function in functions)
        return self._tracing("fexit", functions, places, optional=optional)

    def fmod_ret(self, *functions: str, optional: bool = False, max_probes: int = _MAX_PROBES) -> VerdictDecorator:
        """Run before functions of the kernel's error-injection list, and decide their result.

        What the program returns, unless it is 0, is what the function's caller gets; the function does not run.
        `retval` is what an earlier program decided.
        """
        from pyebpf.specs.attach.trampolines import FmodRet

        _check("fmod_ret", functions)
        places = (FmodRet(function, max_probes) for function in functions)
        return self._verdict("fmod_ret", functions, places, optional=optional)

    def _multi(
        self,
        decorator: str,
        functions: tuple[str, ...],
        cookies: Mapping[str, int] | None,
        *,
        optional: bool,
        most: int,
    ) -> TracingDecorator:
        from pyebpf.specs.attach.kprobes import KprobeMulti

        _check(decorator, functions)
        pattern = KprobeMulti((), returns=decorator.startswith("kret"), most=most)
        return self._tracing(
            decorator, functions, _with_cookies(decorator, functions, cookies, pattern), optional=optional
        )

    def _best(
        self, decorator: str, functions: tuple[str, ...], *, optional: bool, most: int, returns: bool
    ) -> TracingDecorator:
        from pyebpf.specs.attach.kprobes import Kprobe, KprobeMulti
        from pyebpf.specs.attach.trampolines import Fentry, Fexit

        _check(decorator, functions)

        def candidate(name: str, need: str, place: Callable[[str], AttachSpec]) -> Candidate:
            made = attachments(map(place, functions), optional=optional)
            return Candidate(name, made, (need,), _MISSING_REASONS[need])

        candidates: tuple[Candidate, ...] = (
            candidate(
                "kretprobe.multi" if returns else "kprobe.multi", MULTI, lambda f: KprobeMulti((f,), returns, most=most)
            ),
            candidate("kretprobe" if returns else "kprobe", KPROBE, lambda f: Kprobe((f,), returns, most=most)),
        )
        # A trampoline takes a program for each function, and some 0.1 s each to detach.
        if not any(_PATTERN.search(function) for function in functions):
            trampoline = Fexit if returns else Fentry
            first = candidate("fexit" if returns else "fentry", FENTRY, lambda f: trampoline(f, most))
            candidates = (first, *candidates)
        made: TracingDecorator = self._decorator(decorator, functions, candidates)
        return made


def _check(decorator: str, functions: tuple[str, ...], *, offsets: bool = False) -> None:
    for function in functions:
        found = _NAME.fullmatch(function)
        if found is None:
            raise InvalidValue(f'@bpf.{decorator}({function!r}): write a function\'s name, such as "tcp_sendmsg"')
        if found["offset"] and not offsets:
            raise InvalidValue(f"@bpf.{decorator}({function!r}): only @bpf.kprobe takes an offset within a function")
        if found["offset"] and _PATTERN.search(function):
            raise InvalidValue(f"@bpf.{decorator}({function!r}): a pattern has no offset")


def _with_cookies(
    decorator: str, functions: tuple[str, ...], cookies: Mapping[str, int] | None, pattern: AttachSpec
) -> tuple[AttachSpec, ...]:
    from pyebpf.dataclass import replace

    for name in cookies or ():
        if name not in functions:
            raise InvalidValue(f"@bpf.{decorator}(cookies=…): {name!r} is none of its functions")
    given = cookies or {}
    return tuple(
        replace(pattern, functions=(function,), cookies=(given.get(function, 0),) if cookies else ())
        for function in functions
    )
