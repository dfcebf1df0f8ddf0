"""Settings of a script: of its config block, and from outside, such as the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pyebpf.bpftrace.literals import LiteralError, integer
from pyebpf.bpftrace.tables import MAX_KEYS
from pyebpf.bpftrace.translate.stacks import MODES
from pyebpf.dataclass import dataclass
from pyebpf.errors import CompileError, closest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyebpf.bpftrace.ast import Program, Setting

#: Bytes of a string at most, its NUL among them, unless the script's `config` says otherwise; and where a kernel takes
#: no long keys, which strings often are.
MAX_STRING, SHORT_STRING = 1024, 64
#: The greatest such setting: what a program holds of strings at once has to fit into a value of a per-CPU map.
MAX_STRLEN = 16384
#: Bytes of a file that cat() prints at most: they are in memory at once.
_MAX_CAT_BYTES = 1 << 26
#: Bytes of a page of perf_rb_pages, wherever it runs, and the most pages: a ring buffer has 1 GiB at most.
PAGE, _MAX_PAGES = 4096, 1 << 18
#: What becomes of attach points that the machine has not.
_MISSING_PROBES = ("error", "warn", "ignore")
#: Licenses with which the kernel lets programs call all helpers.
_LICENSES = ("Dual MIT/GPL", "Dual BSD/GPL", "Dual MPL/GPL", "GPL and additional rights", "GPL v2", "GPL")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a script that have an effect."""

    max_strlen: int | None = None  # MAX_STRING, or SHORT_STRING, as the kernel is
    max_map_keys: int = MAX_KEYS
    print_maps_on_exit: bool = True
    stack_mode: str = "bpftrace"
    max_cat_bytes: int = 10240
    dummy_ts_map: str = ""
    missing_probes: str = "error"
    perf_rb_pages: int = 64
    cpp_demangle: bool = True
    show_debug_info: bool = False
    str_trunc_trailer: str = ".."
    max_probes: int = 0  # as many as the decorators have it


class _Wrong(ValueError):
    """A value that a setting does not take: the message, without the setting's name."""


class _Number(NamedTuple):
    """A number of a range; `unit` is what messages call it."""

    least: int = 0
    most: int = (1 << 32) - 1
    unit: str = ""

    def read(self, value: object) -> int:
        try:
            number = int(value) if isinstance(value, int) else integer(str(value))
        except LiteralError:
            raise _Wrong(f"expecting a number, got {value}") from None
        if not self.least <= number <= self.most:
            raise _Wrong(f"{number} is out of range: give {self.least} to {self.most}{self.unit}")
        return number


_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _truth(value: object) -> bool:
    text = str(value).lower()
    if text in _WORDS:
        return _WORDS[text]
    try:
        return integer(text) != 0
    except LiteralError:
        raise _Wrong(f"expecting true or false, or 1 or 0, got {value}") from None


class _Choice(NamedTuple):
    """One of a few words; `folds` if the case of letters means nothing."""

    name: str
    words: tuple[str, ...]
    folds: bool = False

    def read(self, value: object) -> str:
        word = str(value).lower() if self.folds else str(value)
        if word not in self.words:
            near = closest(word, self.words)
            raise _Wrong(f"Invalid value for {self.name}, {value}{near}: give one of {', '.join(self.words)}")
        return word


def _pages(value: object) -> int:
    """The least power of two that is no smaller."""
    return 1 << max(_Number(0, _MAX_PAGES, " pages, which are 1 GiB").read(value) - 1, 0).bit_length()


_READERS: dict[str, Callable[[object], Any]] = {
    "max_strlen": _Number(1, MAX_STRLEN, " bytes").read,
    "max_map_keys": _Number(1).read,
    "print_maps_on_exit": _truth,
    "stack_mode": _Choice("stack_mode", MODES).read,
    "max_cat_bytes": _Number(most=_MAX_CAT_BYTES).read,
    "dummy_ts_map": str,
    "missing_probes": _Choice("missing_probes", _MISSING_PROBES, folds=True).read,
    "perf_rb_pages": _pages,
    "cpp_demangle": _truth,
    "show_debug_info": _truth,
    "str_trunc_trailer": str,
    "max_probes": _Number(1).read,
}
#: Settings that are taken and have no effect here.
_IGNORED: dict[str, Callable[[object], Any]] = {
    "license": _Choice("license", _LICENSES).read,
    **dict.fromkeys(("lazy_symbolication", "use_blazesym"), _truth),
    **dict.fromkeys(("log_size", "on_stack_limit", "max_bpf_progs"), _Number(most=(1 << 64) - 1).read),
    **dict.fromkeys(
        ("cache_user_symbols", "debuginfo_path", "max_ast_nodes", "max_type_res_iterations", "symbol_source"), str
    ),
    **dict.fromkeys(
        (f"unstable_{each}" for each in ("addr", "dw_ustack", "import", "macro", "map_decl", "tseries", "typeinfo")),
        str,
    ),
}
_NAMES = (*_READERS, *_IGNORED)
#: Names that bpftrace had before, and still takes.
_FORMER = {"strlen": "max_strlen", "map_keys_max": "max_map_keys", "cat_bytes_max": "max_cat_bytes"}


def read_settings(program: Program, outer: Mapping[str, str]) -> Settings:
    """The settings of a script's config block, and those from outside, which go before them."""
    found: dict[str, Any] = {}
    for each in program.config.settings if program.config is not None else ():
        name = each.name.lower().removeprefix("bpftrace_")
        name = _FORMER.get(name, name)
        if name not in _NAMES:
            raise program.source.error(f"there is no setting {each.name}{_known(name)}", each)
        value = _read(program, name, each.value, each)
        if name in _READERS:
            found[name] = value
    found |= {name: _read(program, name, value, None) for name, value in outer.items() if name in _READERS}
    return Settings(**found)


def _known(name: str) -> str:
    return closest(name, _READERS) or closest(name, _NAMES) or f": those with an effect are {', '.join(_READERS)}"


def _read(program: Program, name: str, value: object, node: Setting | None) -> Any:
    try:
        return (_READERS.get(name) or _IGNORED[name])(value)
    except _Wrong as error:
        if node is not None:
            raise program.source.error(f"{name}: {error}", node) from None
        raise CompileError(
            f"{name}, set outside the script (by BPFTRACE_{name.upper()} or settings=): {error}"
        ) from None
