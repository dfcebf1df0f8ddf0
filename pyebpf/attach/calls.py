"""Calls: one probe for the entry and the return of functions, with arguments, result and elapsed time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pyebpf.attach.call_bodies import AT_RETURN, ELAPSED, CallKey, Entering, InSession, Returning
from pyebpf.attach.decorators import Decorators
from pyebpf.attach.functions import FENTRY, KPROBE, MISSING_REASONS, MULTI
from pyebpf.attach.kernel_functions import MAX_PROBES, check_names
from pyebpf.attach.kprobes import Kprobe, KprobeMulti
from pyebpf.attach.tracepoints import Tracepoint
from pyebpf.attach.trampolines import Fentry, Fexit
from pyebpf.attach.uprobes import MAX_UPROBES, MULTI as UPROBE_MULTI, Uprobe, UprobeMulti, function_names, process_of
from pyebpf.attach.usdt import Usdt, UsdtMulti, argument_names, probe_name, wanted_arguments
from pyebpf.dataclass import replace
from pyebpf.errors import InvalidValue
from pyebpf.module.probe import Attachment, Candidate, Probe
from pyebpf.specs.attach_point import is_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyebpf.attach.decorators import TracingDecorator
    from pyebpf.module.body import Body
    from pyebpf.specs import AttachSpec

_ENTER, _EXIT = "sys_enter_", "sys_exit_"
_SESSION = (("attach:kprobe_session",), "this kernel has no kprobe sessions (since Linux 6.10)")


def _entry(attach: Any) -> AttachSpec:
    """The entry of what a probe is at the return of."""
    entry: AttachSpec = replace(attach, returns=False)
    return entry


def _system_call_entry(attach: Tracepoint) -> Tracepoint:
    return replace(attach, name=attach.name.replace(_EXIT, _ENTER, 1))


def _pair(
    entry: AttachSpec, at_return: AttachSpec, entering: Entering, returning: Returning, *, optional: bool = False
) -> Iterable[Attachment]:
    for attach, body in ((entry, entering), (at_return, returning)):
        yield Attachment(attach.program_type, attach, optional, body)


class CallDecorators(Decorators):
    """Probes at calls: of kernel functions, of system calls, of functions of programs and libraries.

    The probe runs when the call returns. Its parameters are the call's arguments as they were at the entry, `retval`,
    what the call returned, and `elapsed`, the nanoseconds in between. What a pointer points to is read at the return.
    A call that began before the probe was attached is left out.
    """

    def call(self, *functions: str, optional: bool = False, max_probes: int = MAX_PROBES) -> TracingDecorator:
        """Run when functions of the kernel return: parameters are those of `@bpf.function`, `retval` and `elapsed`.

        By fexit alone if `elapsed` is no parameter, by fentry and fexit if it is; else by a kprobe session if there are
        no arguments to keep, by kprobe.multi or kprobes.
        Patterns stand for at most `max_probes` functions.
        """
        check_names("call", functions)

        def made(body: Body) -> tuple[Candidate, ...]:
            entering, returning = Entering(CallKey.NESTED), Returning(CallKey.NESTED, _entry)

            def probes(kind: Callable[..., AttachSpec]) -> tuple[Attachment, ...]:
                return tuple(
                    each
                    for name in functions
                    for each in _pair(
                        kind((name,), max_probes=max_probes),
                        kind((name,), returns=True, max_probes=max_probes),
                        entering,
                        returning,
                        optional=optional,
                    )
                )

            candidates = [
                Candidate("kprobe.multi and kretprobe.multi", probes(KprobeMulti), (MULTI,), MISSING_REASONS[MULTI]),
                Candidate("kprobe and kretprobe", probes(Kprobe), (KPROBE,), MISSING_REASONS[KPROBE]),
            ]
            if AT_RETURN.issuperset(body.parameters):
                session = tuple(
                    Attachment(each.program_type, each, optional, InSession())
                    for name in functions
                    for each in (KprobeMulti((name,), session=True, max_probes=max_probes),)
                )
                candidates.insert(0, Candidate("kprobe.session", session, *_SESSION))
            if not any(map(is_pattern, functions)):
                candidates.insert(0, _by_trampolines(body, functions, max_probes, optional=optional))
            return tuple(candidates)

        return self._call("call", functions, made, "kernel functions")

    def system_call(self, *names: str, optional: bool = False) -> TracingDecorator:
        """Run when system calls return: parameters are their arguments by name, `retval` and `elapsed`.

        `@bpf.system_call("connect")`, by the tracepoints syscalls:sys_enter_connect and sys_exit_connect. Pointers are
        the process's. With `optional`, calls that the kernel lacks are left out.
        """
        for name in names:
            if not name.isidentifier():
                raise InvalidValue(f'@bpf.system_call({name!r}): write a system call\'s name, such as "connect"')
        pairs = tuple(
            each
            for name in names
            for each in _pair(
                Tracepoint("syscalls", _ENTER + name),
                Tracepoint("syscalls", _EXIT + name),
                Entering(CallKey.THREAD),
                Returning(CallKey.THREAD, _system_call_entry, result="ret"),
                optional=optional,
            )
        )
        return self._call("system_call", names, lambda _: (Candidate("system_call", pairs),))

    def user_call(
        self,
        binary: str | os.PathLike[str],
        *functions: str | int,
        pid: int | None = None,
        max_probes: int = MAX_UPROBES,
    ) -> TracingDecorator:
        """Run when functions of a program or library return: parameters are those of `@bpf.uprobe`, and `elapsed`.

        Arguments are annotated and stand first, in their order. A call that ends without returning, as by longjmp(3) or
        an exception, is left out.
        """
        path, found = os.fspath(binary), function_names(functions)
        if not path or not found:
            raise InvalidValue("@bpf.user_call(binary, function, …): name the program or library, and a function of it")
        pid_ = process_of("user_call", pid)
        entering, returning = Entering(CallKey.USER_FRAME), Returning(CallKey.USER_FRAME, _entry)

        def pair(kind: type[Uprobe]) -> tuple[Attachment, ...]:
            entry, at_return = (kind(path, found, each, pid_, max_probes) for each in (False, True))
            return tuple(_pair(entry, at_return, entering, returning))

        candidates = (
            Candidate("uprobe.multi and uretprobe.multi", pair(UprobeMulti), *UPROBE_MULTI),
            Candidate("uprobe and uretprobe", pair(Uprobe)),
        )
        return self._call("user_call", (path, *found), lambda _: candidates)

    def usdt_call(
        self,
        binary: str | os.PathLike[str],
        begins: str,
        ends: str,
        *,
        args: Sequence[str] = (),
        pid: int | None = None,
    ) -> TracingDecorator:
        """Run at the second of two USDT probes: parameters are the first's arguments, as of `@bpf.usdt`, and `elapsed`.

        `@bpf.usdt_call("python3", "python:gc__start", "python:gc__done")`. Pairs may be nested.
        """
        names, path, process = argument_names(args), os.fspath(binary), process_of("usdt_call", pid)
        first, last = probe_name(begins), probe_name(ends)

        def made(body: Body) -> tuple[Candidate, ...]:
            wanted = wanted_arguments([name for name in body.parameters if name != ELAPSED], names)

            def pair(kind: type[Usdt]) -> tuple[Attachment, ...]:
                entry = kind(path, *first, names, wanted, process)
                returning = Returning(CallKey.NESTED, lambda _: entry, result="")
                return tuple(_pair(entry, kind(path, *last, (), 0, process), Entering(CallKey.NESTED), returning))

            return (
                Candidate("uprobe.multi", pair(UsdtMulti), *UPROBE_MULTI),
                Candidate("uprobe", pair(Usdt)),
            )

        return self._call("usdt_call", (path, begins, ends), made)

    def _call(
        self,
        decorator: str,
        targets: tuple[str, ...],
        candidates: Callable[[Body], tuple[Candidate, ...]],
        subject: str = "",
    ) -> TracingDecorator:
        def decorate(function: object) -> Any:
            decorated = function if isinstance(function, Probe) else self._module.body_of(function, decorator)
            body = decorated.body if isinstance(decorated, Probe) else decorated
            return self._decorator(decorator, targets, candidates(body), subject)(decorated)

        return decorate


def _by_trampolines(body: Body, functions: tuple[str, ...], max_probes: int, *, optional: bool) -> Candidate:
    """Fexit has the arguments of the entry; only the time that it lacks takes a program there."""
    if ELAPSED not in body.parameters:
        alone = tuple(Attachment(Fexit.program_type, Fexit(name, max_probes), optional) for name in functions)
        return Candidate("fexit", alone, (FENTRY,), MISSING_REASONS[FENTRY])
    entering, returning = Entering(CallKey.TRAMPOLINE, keeps=False), Returning(CallKey.TRAMPOLINE)
    pairs = tuple(
        each
        for name in functions
        for each in _pair(Fentry(name, max_probes), Fexit(name, max_probes), entering, returning, optional=optional)
    )
    return Candidate("fentry and fexit", pairs, (FENTRY,), MISSING_REASONS[FENTRY])
