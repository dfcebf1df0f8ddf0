"""USDT: places that a program's author marked, with arguments where the compiler happened to have them."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import InvalidValue
from pyebpf.specs.attach.base import AttachSpec
from pyebpf.specs.attach.uprobes import MOST_PROBES, process_id
from pyebpf.specs.maps import MapSpec
from pyebpf.types import U32, BytesType
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import MapType, ProgramType

if TYPE_CHECKING:
    from typing import Self

__all__ = ["ARGUMENT", "FORMS_MAP", "Usdt", "UsdtMulti", "forms_spec", "probe_name"]

#: Arguments of one place, at most: what the macros of <sys/sdt.h> take.
MOST_ARGUMENTS = 12
#: The hidden map, one value of FORMS slots. A slot says where one list of arguments is; a program attached to a place
#: is given the slot's number as its cookie. Places whose arguments are alike share one.
FORMS_MAP = ".usdt"
FORMS = 128  # a power of two, so that a mask keeps the number inside
#: A slot: u64 number of arguments + 1 (0: free), then the arguments. An argument: s64 constant, u16 offsets of the base
#: and of the scaled register in struct pt_regs (NO_REGISTER: none), u8 flags, scale (a shift), size - 1 in bytes, and
#: 64 - size in bits.
ARGUMENT = Struct("<qHHBBBB")
COUNT = Struct("<Q")
FORM_SIZE = COUNT.size + MOST_ARGUMENTS * ARGUMENT.size
NO_REGISTER = 0xFFFF
IN_MEMORY, SIGNED = 1, 2


def forms_spec() -> MapSpec:
    """The hidden map, which all programs of a module share; filled when they are attached."""
    return MapSpec(FORMS_MAP, MapType.ARRAY, U32, BytesType(FORMS * FORM_SIZE), 1)


def probe_name(name: object) -> tuple[str, str]:
    """Provider and name of "provider:name". Raises InvalidValue."""
    provider, colon, probe = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not colon or not provider or not probe or ":" in probe:
        raise InvalidValue(f'USDT probe {name!r}: write "provider:name", such as "python:line"')
    return provider, probe


@dataclass(frozen=True, slots=True)
class Usdt(AttachSpec):
    """All places of one USDT probe in a file, through perf events of the PMU `uprobe`.

    `binary` and `pid` are as those of `Uprobe`. `arguments` are names that the author gives to the probe's arguments,
    by position; `wanted` is how many the program takes, so that a place with fewer is refused. `provider` and `name`
    may be patterns of fnmatch, for at most `max_probes` places. The places are looked up when the program is attached.
    Without a binary the place is open.
    """

    binary: str = ""
    provider: str = ""
    name: str = ""
    arguments: tuple[str, ...] = ()
    wanted: int = 0
    pid: int = -1
    max_probes: int = MOST_PROBES

    kind = ProgramType.KPROBE

    def __str__(self) -> str:
        process = f" of process {self.pid}" if self.pid >= 0 else ""
        return f"usdt {self.binary}:{self.target}{process}" if self.binary else "usdt (open)"

    @property
    def target(self) -> str:
        return f"{self.provider}:{self.name}"

    @property
    def is_open(self) -> bool:
        return not self.binary

    def at(self, *place: Any, **options: Any) -> Self:
        """`at(binary, "provider:name", pid=-1)`; the name may be a pattern."""
        if not self.is_open:
            raise InvalidValue(f"{self} is attached by `with bpf:`, at the place that its decorator names")
        if len(place) != 2 or not isinstance(place[0], str) or not place[0] or options.keys() - {"pid"}:
            raise InvalidValue('a USDT probe is attached by attach(binary, "provider:name", pid=-1)')
        provider, name = probe_name(place[1])
        return replace(self, binary=place[0], provider=provider, name=name, pid=process_id(options.get("pid")))


@dataclass(frozen=True, slots=True)
class UsdtMulti(Usdt):
    """The same by one link (uprobe.multi) for all places."""

    @property
    def attach_type(self) -> int:
        return AttachType.TRACE_UPROBE_MULTI
