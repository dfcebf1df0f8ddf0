"""Functions of programs and libraries: uprobes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

from pyebpf.attach import sessions
from pyebpf.attach.decorators import Decorators, attachments
from pyebpf.attach.registers import argument, named_register, result, typed
from pyebpf.builder.context import ProgramContext
from pyebpf.builder.intrinsics.task import process_number
from pyebpf.builder.ssa.conditions import All, Compare
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.memory import Space
from pyebpf.compiler.ir import Condition, Op
from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import InvalidValue
from pyebpf.module.probe import Candidate
from pyebpf.specs.attach_point import AttachSpec
from pyebpf.specs.maps import MapSpec
from pyebpf.types import U32, U64
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.helper_ids import GET_ATTACH_COOKIE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from pyebpf.attach.decorators import TracingDecorator, VerdictDecorator
    from pyebpf.builder.program import ProgramBuilder

    P = TypeVar("P", bound="Uprobe")

#: The hidden map from which a program reads which of its places it is, where the kernel keeps no cookies (before Linux
#: 5.15): each place is given a program of its own, with a map of its own.
COOKIE_MAP = ".cookie"
#: Functions that one pattern may stand for, unless the author says otherwise.
MAX_UPROBES = 1000


def cookie_spec() -> MapSpec:
    """The hidden map of a place's number."""
    return MapSpec(COOKIE_MAP, MapType.ARRAY, U32, U64, 1)


def function_names(functions: Iterable[object]) -> tuple[str, ...]:
    """Functions as the author gave them: text, and numbers for offsets in the file. Raises InvalidValue."""
    found = []
    for function in functions:
        if isinstance(function, int) and not isinstance(function, bool) and function >= 0:
            found.append(f"{function:#x}")
        elif isinstance(function, str) and function:
            found.append(function)
        else:
            raise InvalidValue(f"{function!r} is not a function: write its name, a pattern, or an offset in the file")
    return tuple(found)


def process_id(pid: object) -> int:
    """The process that a probe is limited to; -1 for None, which is every process. Raises InvalidValue."""
    if pid is None or pid == -1:
        return -1
    if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
        raise InvalidValue(f"pid={pid!r}: give the id of a process, or nothing for all of them")
    return pid


@dataclass(frozen=True, slots=True)
class Uprobe(AttachSpec):
    """Functions in a file, through perf events of the PMU `uprobe`: at their entry, or with `returns` at their return.

    `binary` is a path, a library's name ("libc.so.6", "c") or a program's; `functions` are symbols, "symbol+offset",
    offsets in the file ("0x1234"), addresses ("*0x401234"), lines of source files ("file.c:22") and patterns of
    fnmatch, of which none stands for more than `max_probes` functions. They are looked up when the program is attached.
    `pid` limits it to one process, and says whose files and libraries the names mean; -1 is every process. Without a
    binary and functions the place is open.
    """

    binary: str = ""
    functions: tuple[str, ...] = ()
    returns: bool = False
    pid: int = -1
    max_probes: int = MAX_UPROBES

    program_type = ProgramType.KPROBE

    def __str__(self) -> str:
        return f"{self.word} {self.target}" + (f" of process {self.pid}" if self.pid >= 0 else "")

    @property
    def word(self) -> str:
        """The name of such a probe in messages."""
        return "uretprobe" if self.returns else "uprobe"

    @property
    def target(self) -> str:
        return f"{self.binary}:{', '.join(self.functions)}" if self.binary else "(open)"

    @property
    def is_deferred(self) -> bool:
        return not self.functions

    def with_target(self, *place: object, **options: object) -> Self:
        """`with_target(binary, *functions, pid=-1, max_probes=…)`."""
        usage = f"attach(binary, *functions, pid=-1, max_probes={MAX_UPROBES})"
        if not self.is_deferred:
            raise InvalidValue(f"{self} is attached by `with bpf:`, at the place that its decorator names")
        binary, functions = (place[0] if place else "", place[1:])
        if not isinstance(binary, str) or not binary or not functions or options.keys() - {"pid", "max_probes"}:
            raise InvalidValue(f"a probe at functions of a process is attached by {usage}")
        return replace(self, binary=binary, functions=function_names(functions), **_checked(options))

    def program_context(self) -> UprobeProgramContext:
        return UprobeProgramContext(self)


def _checked(options: Mapping[str, object]) -> dict[str, Any]:
    return {name: process_id(value) if name == "pid" else value for name, value in options.items()}


@dataclass(frozen=True, slots=True)
class UprobeMulti(Uprobe):
    """The same by one link (uprobe.multi), which hundreds of functions share: attached and detached at once.

    Since Linux commit 89ae89f53d20 ("bpf: Add multi uprobe link") (v6.6).
    """

    attach_type = AttachType.TRACE_UPROBE_MULTI

    def program_context(self) -> UprobeProgramContext:
        return UprobeProgramContext(self)


@dataclass(frozen=True, slots=True)
class UprobeSession(UprobeMulti):
    """Entry and return by one link: the program runs at the entry and, if it returned 0 there, at the return.

    Since Linux commit d920179b3d48 ("bpf: Add support for uprobe multi session attach") (v6.13).
    """

    attach_type = AttachType.TRACE_UPROBE_SESSION

    @property
    def word(self) -> str:
        return "uprobe session"

    def program_context(self) -> UprobeSessionProgramContext:
        return UprobeSessionProgramContext(self)


RETVAL = "retval"
COOKIE = "cookie"


class UprobeProgramContext(ProgramContext[Uprobe]):
    """Parameters are the function's arguments by position, at its return `retval`: a file has no names for them."""

    is_preemptible = True

    def prologue(self, p: ProgramBuilder) -> None:
        attach = self.attach
        if not attach.returns or attach.pid < 0 or isinstance(attach, UprobeMulti):
            return
        # Linux 6.1 limits a perf event at a return to no process once somebody else's probe has put its breakpoint
        # into others. A task that this pid namespace has no number for (0) may be the one that was meant.
        process = process_number(p).value
        at_others = (Compare(Condition.NE, process, p.b.const(number)) for number in (attach.pid, 0))
        with p.b.if_(All(tuple(at_others))):
            p.b.ret(p.b.const(0))

    def parameter(self, p: ProgramBuilder, name: str, annotation: object, position: int) -> object:
        if self.attach.returns:
            if name != RETVAL:
                p.fail(f"{name}: at a return there is only `{RETVAL}`: keep arguments in a map from the entry")
            return typed(p, result(p), annotation, name, Space.USER)
        if name == RETVAL:
            p.fail(f"{RETVAL} is known when the function returns: write a probe with @bpf.uretprobe")
        return typed(p, argument(p, position, Space.USER), annotation, name, Space.USER)

    def field(self, p: ProgramBuilder, name: str) -> object:
        return cookie(p) if name == COOKIE else named_register(p, name)


class UprobeSessionProgramContext(UprobeProgramContext):
    """The entry, then the return: arguments at the one, `retval` at the other, a cookie of the call's own."""

    return_range = sessions.RESULTS

    def default_return(self, program_type: ProgramType) -> int | None:
        return None

    def parameter(self, p: ProgramBuilder, name: str, annotation: object, position: int) -> object:
        if name == RETVAL:
            return typed(p, result(p), annotation, name, Space.USER)
        return super().parameter(p, name, annotation, position)

    def field(self, p: ProgramBuilder, name: str) -> object:
        if name == sessions.IS_RETURN:
            return sessions.is_return(p)
        return sessions.cookie(p) if name == sessions.COOKIE else named_register(p, name)

    def set_attribute(self, p: ProgramBuilder, name: str, value: object) -> None:
        if name == sessions.COOKIE:
            sessions.set_cookie(p, value)
        else:
            super().set_attribute(p, name, value)


def cookie(p: ProgramBuilder) -> Int:
    """`ctx.cookie`: which of the attachment's places it is, by its number in `link.places`."""
    # Since Linux commit 7adfc6c9b315 ("bpf: Add bpf_get_attach_cookie() BPF helper to access bpf_cookie value")
    # (in v5.15). Before, each place has a program of its own, whose map holds the number.
    if p.target.has("helper:get_attach_cookie@kprobe"):
        return Int(p.b.call(GET_ATTACH_COOKIE, p.context), U64)
    return Int(p.b.load(p.b.emit(Op.MAP_VALUE, symbol=p.use_map(cookie_spec())), 0, 8), U64)


#: The features that newer kernels have, with the words for a kernel without.
MULTI = (("attach:uprobe_multi",), "this kernel has no uprobe.multi links")
_SESSION = (("attach:uprobe_session",), "this kernel has no uprobe sessions (since Linux 6.13)")


class UprobeDecorators(Decorators):
    """Probes in processes.

    `binary` is a library as programs ask for it ("libc.so.6") or in short ("c"), a program, or any path. With `pid`
    only that process runs the probe, and names mean its files: what it has mapped, and its own file system if that is
    another. Names are looked up when the probe is attached. Without a binary and functions the place is open:
    `probe.attach("libc.so.6", "getaddrinfo", pid=42)` names it.
    """

    def uprobe(
        self,
        binary: str | os.PathLike[str] = "",
        *functions: str | int,
        pid: int | None = None,
        max_probes: int = MAX_UPROBES,
    ) -> TracingDecorator:
        """Run at the entry of functions of a file; parameters are the arguments by position, each with its type.

        A function is a symbol ("pthread_cond_wait" is all its versions, "pthread_cond_wait@GLIBC_2.2.5" one), a place
        in it ("main+0x10", which must be the start of an instruction: elsewhere the program dies), a number (an offset
        in the file, likewise), or a pattern ("str*", at most `max_probes` functions). Of several functions some may be
        missing: `bpf.warnings` names them. A `ptr[T]` is the process's memory.
        """
        return self._user("uprobe", binary, functions, pid, max_probes, returns=False)

    def uretprobe(
        self,
        binary: str | os.PathLike[str] = "",
        *functions: str | int,
        pid: int | None = None,
        max_probes: int = MAX_UPROBES,
    ) -> TracingDecorator:
        """Run when functions of a file return. `retval` is what one returns; arguments are gone by then."""
        return self._user("uretprobe", binary, functions, pid, max_probes, returns=True)

    def uprobe_session(
        self,
        binary: str | os.PathLike[str] = "",
        *functions: str | int,
        pid: int | None = None,
        max_probes: int = MAX_UPROBES,
    ) -> VerdictDecorator:
        """Run at the entry and at the return of functions of a file, by one link (since Linux 6.13).

        The program returns a number: 0 at the entry asks to be run at the return, too, and 1 not to. `ctx.is_return`
        says which of the two it is; `ctx.cookie`, a u64, is kept from one to the other, for each call of its own.
        Parameters are the arguments by position, which mean something at the entry, and `retval`, at the return.
        """
        path, place = _place("uprobe_session", UprobeSession, binary, functions, pid, max_probes)
        candidates = (Candidate("uprobe session", attachments((place,)), *_SESSION),)
        made: VerdictDecorator = self._decorator("uprobe_session", (path, *place.functions) if path else (), candidates)
        return made

    def _user(
        self,
        decorator: str,
        binary: str | os.PathLike[str],
        functions: tuple[str | int, ...],
        pid: int | None,
        max_probes: int,
        *,
        returns: bool,
    ) -> TracingDecorator:
        path, place = _place(decorator, UprobeMulti, binary, functions, pid, max_probes, returns=returns)
        single = Uprobe(place.binary, place.functions, place.returns, place.pid, place.max_probes)
        candidates = (
            Candidate("uprobe.multi", attachments((place,)), *MULTI),
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
    max_probes: int,
    *,
    returns: bool = False,
) -> tuple[str, P]:
    """The file as text, and the place. Raises InvalidValue."""
    path, names = os.fspath(binary), function_names(functions)
    if not path and names:
        raise InvalidValue(f"@bpf.{decorator}(binary, function, …): name the program or library first")
    if path and not names:
        library, colon, function = path.rpartition(":")
        example = f'"{library}", "{function}"' if colon and library and function else f'"{path}", "FUNCTION"'
        raise InvalidValue(
            f'@bpf.{decorator}("{path}") names no function: write @bpf.{decorator}({example}), '
            "or name neither and attach it later"
        )
    return path, kind(path, names, returns, process_of(decorator, pid), max_probes)


def process_of(decorator: str, pid: int | None) -> int:
    """`process_id` of a decorator's argument, whose name stands before the message."""
    try:
        return process_id(pid)
    except InvalidValue as error:
        raise InvalidValue(f"@bpf.{decorator}: {error}") from None
