"""`@bpf.uprobe`, `@bpf.uretprobe`, `@bpf.uprobe_session`, `@bpf.usdt`: probes in programs and libraries."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

from pyebpf.attach.decorators import Decorators, attachments
from pyebpf.errors import InvalidValue
from pyebpf.module.probe import Candidate, Probe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.attach.decorators import TracingDecorator, VerdictDecorator
    from pyebpf.specs.attach.uprobes import Uprobe

    P = TypeVar("P", bound=Uprobe)

__all__ = ["UserDecorators"]

_MAX_PROBES = 1000  # MOST_PROBES of specs.attach.uprobes, which is imported when a probe asks for it
#: The features that newer kernels have, with the words for a kernel without.
_MULTI = (("attach:uprobe_multi",), "this kernel has no uprobe.multi links")
_SESSION = (("attach:uprobe_session",), "this kernel has no uprobe sessions (since Linux 6.13)")


class UserDecorators(Decorators):
    """Probes in processes.

    `binary` is a library as programs ask for it ("libc.so.6") or in short ("c"), a program, or any path. With `pid`
    only that process runs the probe, and names mean its files: what it has mapped, and its own file system if that is
    another. Names are looked up when the probe is attached. Without a binary, or without functions, the place is open:
    `probe.attach("libc.so.6", "getaddrinfo", pid=42)` names it.
    """

    def uprobe(
        self,
        binary: str | os.PathLike[str] = "",
        *functions: str | int,
        pid: int | None = None,
        max_probes: int = _MAX_PROBES,
    ) -> TracingDecorator:
        """Run at the entry of functions of a file; parameters are the arguments by position, each with its type.

        A function is a symbol ("pthread_cond_wait" is all its versions, "pthread_cond_wait@GLIBC_2.2.5" one), a place
        in it ("main+0x10", which must be the start of an instruction: elsewhere the program dies), a number (an offset
        in the file, likewise), or a pattern ("str*", at most `max_probes` functions). Of several functions some may be
        missing: `bpf.notes` names them. A `ptr[T]` is the process's memory.
        """
        return self._user("uprobe", binary, functions, pid, max_probes, returns=False)

    def uretprobe(
        self,
        binary: str | os.PathLike[str] = "",
        *functions: str | int,
        pid: int | None = None,
        max_probes: int = _MAX_PROBES,
    ) -> TracingDecorator:
        """Run when functions of a file return. `retval` is what one returns; arguments are gone by then."""
        return self._user("uretprobe", binary, functions, pid, max_probes, returns=True)

    def uprobe_session(
        self,
        binary: str | os.PathLike[str] = "",
        *functions: str | int,
        pid: int | None = None,
        max_probes: int = _MAX_PROBES,
    ) -> VerdictDecorator:
        """Run at the entry and at the return of functions of a file, by one link (since Linux 6.13).

        The program returns a number: 0 at the entry asks to be run at the return, too, and 1 not to. `ctx.is_return`
        says which of the two it is; `ctx.cookie`, a u64, is kept from one to the other, for each call of its own.
        Parameters are the arguments by position, which mean something at the entry, and `retval`, at the return.
        """
        from pyebpf.specs.attach.uprobes import UprobeSession

        path, place = _place("uprobe_session", UprobeSession, binary, functions, pid, max_probes)
        candidates = (Candidate("uprobe session", attachments((place,)), *_SESSION),)
        made: VerdictDecorator = self._decorator("uprobe_session", (path, *place.functions) if path else (), candidates)
        return made

    def usdt(
        self,
        binary: str | os.PathLike[str] = "",
        *probes: str,
        args: Sequence[str] = (),
        pid: int | None = None,
        max_probes: int = _MAX_PROBES,
    ) -> TracingDecorator:
        """Run at places that a program's author marked (USDT), each probe "provider:name", at every place it has.

        Parameters are its arguments by position, or by the names that `args` gives them, each with its type. Semaphores
        are raised as long as the probe is attached. A pattern ("python:gc__*", "*:*") stands for at most `max_probes`
        places; in a probe that takes no arguments, `ctx.cookie` tells which of them it is.
        """
        from pyebpf.specs.attach.usdt import Usdt, UsdtMulti, probe_name

        names = _argument_names(args)
        path, process = os.fspath(binary), _process("usdt", pid)
        if bool(path) is not bool(probes):
            raise InvalidValue('@bpf.usdt(binary, "provider:name"): name both, or neither and attach later')
        pairs = [probe_name(probe) for probe in probes] or [("", "")]

        def decorate(function: Any) -> Any:
            decorated = function if isinstance(function, Probe) else self._module.body_of(function, "usdt")
            body = decorated.body if isinstance(decorated, Probe) else decorated
            wanted = _wanted(body.parameters, names)
            candidates = tuple(
                Candidate(
                    name, attachments(kind(path, *pair, names, wanted, process, max_probes) for pair in pairs), *needs
                )
                for name, kind, needs in (("uprobe.multi", UsdtMulti, _MULTI), ("uprobe", Usdt, ()))
            )
            return self._decorator("usdt", (path, *probes) if path else (), candidates)(decorated)

        return decorate

    def _user(
        self,
        decorator: str,
        binary: str | os.PathLike[str],
        functions: tuple[str | int, ...],
        pid: int | None,
        most: int,
        *,
        returns: bool,
    ) -> TracingDecorator:
        from pyebpf.specs.attach.uprobes import Uprobe, UprobeMulti

        path, place = _place(decorator, UprobeMulti, binary, functions, pid, most, returns=returns)
        single = Uprobe(place.binary, place.functions, place.returns, place.pid, place.max_probes)
        candidates = (
            Candidate("uprobe.multi", attachments((place,)), *_MULTI),
            Candidate("uprobe", attachments((single,))),
        )
        made: TracingDecorator = self._decorator(decorator, (path, *place.functions) if path else (), candidates)
        return made


def _place(
    decorator: str,
    kind: type[P],
    binary: str | os.PathLike[str],
    functions: tuple[str | int, ...],
    pid: int | None,
    most: int,
    *,
    returns: bool = False,
) -> tuple[str, P]:
    """The file as text, and the place. Raises InvalidValue."""
    from pyebpf.specs.attach.uprobes import function_names

    path, names = os.fspath(binary), function_names(functions)
    if not path and names:
        raise InvalidValue(f"@bpf.{decorator}(binary, function, …): name the program or library first")
    return path, kind(path, names, returns, _process(decorator, pid), most)


def _process(decorator: str, pid: int | None) -> int:
    from pyebpf.specs.attach.uprobes import process_id

    try:
        return process_id(pid)
    except InvalidValue as error:
        raise InvalidValue(f"@bpf.{decorator}: {error}") from None


def _argument_names(args: Sequence[object]) -> tuple[str, ...]:
    names = tuple(name for name in args if isinstance(name, str) and name.isidentifier())
    if isinstance(args, str) or len(names) != len(args):
        raise InvalidValue(f'@bpf.usdt(args={args!r}): give the arguments\' names, such as args=("path", "line")')
    if len({*names}) != len(names):
        raise InvalidValue(f"@bpf.usdt(args={args!r}): a name stands there twice")
    return names


def _wanted(parameters: Sequence[str], names: tuple[str, ...]) -> int:
    """Return the number of a probe's arguments that a body takes: up to the last that it names."""
    if not names:
        return len(parameters)
    return max((names.index(name) + 1 for name in parameters if name in names), default=0)
