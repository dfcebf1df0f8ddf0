"""Functions of programs and libraries: uprobes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import InvalidValue
from pyebpf.specs.attach.base import AttachSpec
from pyebpf.specs.maps import MapSpec
from pyebpf.types import U32, U64
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import MapType, ProgramType

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

__all__ = [
    "COOKIE_MAP",
    "MOST_PROBES",
    "Uprobe",
    "UprobeMulti",
    "UprobeSession",
    "cookie_spec",
    "function_names",
    "process_id",
]

#: The hidden map from which a program reads which of its places it is, where the kernel keeps no cookies (before Linux
#: 5.15): each place is given a program of its own, with a map of its own.
COOKIE_MAP = ".cookie"
#: Functions that one pattern may stand for, unless the author says otherwise.
MOST_PROBES = 1000


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
            raise InvalidValue(f"{function!r} is no function: write its name, a pattern, or an offset in the file")
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
    offsets in the file ("0x1234") and patterns of fnmatch, of which none stands for more than `max_probes` functions.
    They are looked up when the program is attached. `pid` limits it to one process, and says whose files and libraries
    the names mean; -1 is every process. Without a binary or functions the place is open.
    """

    binary: str = ""
    functions: tuple[str, ...] = ()
    returns: bool = False
    pid: int = -1
    max_probes: int = MOST_PROBES

    kind = ProgramType.KPROBE

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
    def is_open(self) -> bool:
        return not self.functions

    def at(self, *place: Any, **options: Any) -> Self:
        """`at(binary, *functions, pid=-1, max_probes=…)`, or just `at(*functions)` where the binary is known."""
        usage = f"attach({'' if self.binary else 'binary, '}*functions, pid=-1, max_probes={MOST_PROBES})"
        if not self.is_open:
            raise InvalidValue(f"{self} is attached by `with bpf:`, at the place that its decorator names")
        binary, functions = (self.binary, place) if self.binary else (place[0] if place else "", place[1:])
        if not isinstance(binary, str) or not binary or not functions or options.keys() - {"pid", "max_probes"}:
            raise InvalidValue(f"a probe at functions of a process is attached by {usage}")
        return replace(self, binary=binary, functions=function_names(functions), **_checked(options))


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    return {name: process_id(value) if name == "pid" else value for name, value in options.items()}


@dataclass(frozen=True, slots=True)
class UprobeMulti(Uprobe):
    """The same by one link (uprobe.multi), which hundreds of functions share: attached and detached at once.

    Since Linux commit 89ae89f53d20 ("bpf: Add multi uprobe link") (v6.6).
    """

    @property
    def attach_type(self) -> int:
        return AttachType.TRACE_UPROBE_MULTI


@dataclass(frozen=True, slots=True)
class UprobeSession(UprobeMulti):
    """Entry and return by one link: the program runs at the entry and, if it returned 0 there, at the return.

    Since Linux commit d920179b3d48 ("bpf: Add support for uprobe multi session attach") (v6.13).
    """

    @property
    def word(self) -> str:
        return "uprobe session"

    @property
    def attach_type(self) -> int:
        return AttachType.TRACE_UPROBE_SESSION
