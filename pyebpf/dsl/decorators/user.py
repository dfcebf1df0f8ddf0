"""`@bpf.uprobe`, `@bpf.uretprobe`, `@bpf.usdt`: probes in programs and libraries."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pyebpf.dsl.decorators.base import Decorators, attachments
from pyebpf.dsl.probe import Probe, Way, plain_function
from pyebpf.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.dsl.decorators.base import TracingDecorator

__all__ = ["UserDecorators"]

_MAX_PROBES = 1000  # MOST_PROBES of specs.attach.user, which is imported when a probe asks for it
_MULTI = "attach:uprobe_multi"


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

    def usdt(
        self,
        binary: str | os.PathLike[str] = "",
        *probes: str,
        args: Sequence[str] = (),
        pid: int | None = None,
    ) -> TracingDecorator:
        """Run at places that a program's author marked (USDT), each probe "provider:name", at every place it has.

        Parameters are its arguments by position, or by the names that `args` gives them, each with its type. Semaphores
        are raised as long as the probe is attached.
        """
        from pyebpf.specs.attach.usdt import Usdt, UsdtMulti, probe_name

        names = _argument_names(args)
        path, process = os.fspath(binary), _process("usdt", pid)
        if bool(path) is not bool(probes):
            raise InvalidValue('@bpf.usdt(binary, "provider:name"): name both, or neither and attach later')
        pairs = [probe_name(probe) for probe in probes] or [("", "")]

        def decorate(function: Any) -> Any:
            plain = function.function if isinstance(function, Probe) else plain_function(function, "usdt")
            wanted = _wanted(plain.__code__, names)
            ways = tuple(
                Way(way, attachments(kind(path, *pair, names, wanted, process) for pair in pairs), needs)
                for way, kind, needs in (("uprobe.multi", UsdtMulti, (_MULTI,)), ("uprobe", Usdt, ()))
            )
            return self._decorator("usdt", (path, *probes) if path else (), ways)(function)

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
        from pyebpf.specs.attach.user import Uprobe, UprobeMulti, function_names

        path, names, process = os.fspath(binary), function_names(functions), _process(decorator, pid)
        if not path and names:
            raise InvalidValue(f"@bpf.{decorator}(binary, function, …): name the program or library first")
        ways = tuple(
            Way(way, attachments((kind(path, names, returns, process, most),)), needs)
            for way, kind, needs in (("uprobe.multi", UprobeMulti, (_MULTI,)), ("uprobe", Uprobe, ()))
        )
        made: TracingDecorator = self._decorator(decorator, (path, *names) if path else (), ways)
        return made


def _process(decorator: str, pid: int | None) -> int:
    from pyebpf.specs.attach.user import process_id

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


def _wanted(code: Any, names: tuple[str, ...]) -> int:
    """How many of a probe's arguments a function takes: up to the last that it names."""
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    own = parameters[1:] if parameters[:1] == ("ctx",) else parameters
    if not names:
        return len(own)
    return max((names.index(name) + 1 for name in own if name in names), default=0)
