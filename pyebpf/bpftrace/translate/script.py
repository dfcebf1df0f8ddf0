"""`Script`: a whole script while it is compiled, and what its programs share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace.events import Events
from pyebpf.bpftrace.packets import Packets
from pyebpf.bpftrace.tables import MAX_KEYS
from pyebpf.bpftrace.translate.enums import Enums
from pyebpf.bpftrace.translate.inference import Maps
from pyebpf.bpftrace.translate.structs import Structs
from pyebpf.bpftrace.translate.user_files import UserFiles
from pyebpf.dataclass import dataclass, fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyebpf.bpftrace.ast import Function, MapDeclaration, Node, Program
    from pyebpf.bpftrace.translate.user_types import UserTypes

#: Bytes of a string at most, its NUL among them, unless the script's `config` says otherwise.
MAX_STRING = 64
#: The greatest such setting: what a program holds of strings at once has to fit into a value of a per-CPU map.
MAX_STRLEN = 16384


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a script that have an effect."""

    max_strlen: int = MAX_STRING
    max_map_keys: int = MAX_KEYS
    print_maps_on_exit: bool = True
    stack_mode: str = "bpftrace"
    max_cat_bytes: int = 10240
    dummy_ts_map: str = ""
    missing_probes: str = "error"
    perf_rb_pages: int = 64
    cpp_demangle: bool = True
    show_debug_info: bool = False


#: Licenses with which the kernel lets programs call all helpers.
_LICENSES = ("Dual MIT/GPL", "Dual BSD/GPL", "Dual MPL/GPL", "GPL and additional rights", "GPL v2", "GPL")
#: Bytes of a page of perf_rb_pages, wherever it runs, and the most pages: a ring buffer has 1 GiB at most.
_PAGE, _MAX_PAGES = 4096, 1 << 18
#: Bytes of a file that cat() prints at most: they are in memory at once.
_MAX_CAT_BYTES = 1 << 26
#: What becomes of attach points that the machine has not.
MISSING_PROBES = ("error", "warn", "ignore")
#: Settings that are taken and have no effect here.
_IGNORED = {"log_size", "on_stack_limit", "cache_user_symbols", "lazy_symbolication", "license"}
_IGNORED |= {"unstable_import", "unstable_macro", "max_ast_nodes", "max_bpf_progs", "max_probes"}
_IGNORED |= {
    "use_blazesym",
    "debuginfo_path",
    "str_trunc_trailer",
    "symbol_source",
    "unstable_tseries",
    "unstable_typeinfo",
    "unstable_dw_ustack",
}


class Script:
    """A parsed script with its arguments, its maps and the ring buffer of what it asks user space to do."""

    def __init__(self, program: Program, arguments: Sequence[str], settings: Mapping[str, str] | None = None) -> None:
        from pyebpf.bpftrace.ast import MapDeclaration as Declaration

        self.program = program
        self.source = program.source
        #: `$1` and so on, and `--name=value` for getopt().
        self.arguments = tuple([each for each in arguments if not each.startswith("--")])
        pairs = [each[2:].partition("=") for each in arguments if each.startswith("--")]
        self.options = {name: value for name, _, value in pairs}
        #: What getopt() has asked for, each with its description.
        self.expected: dict[str, str] = {}
        #: Whether probes warn of entries that they do not find.
        self.checks_lookups = False
        self.settings = _settings(program, settings or {})
        declared: tuple[MapDeclaration, ...] = tuple(each for each in program.items if isinstance(each, Declaration))
        self.maps = Maps(program.source, declared, self.settings.max_map_keys)
        self.events = Events(self.settings.perf_rb_pages * _PAGE)
        self.packets = Packets()
        self.functions = _functions(program)
        self.structs = Structs(program)
        self.enums = Enums(program)
        #: The process that the script is about; None: all.
        self.pid: int | None = None
        #: The process that was started with the script; None: none was.
        self.child: int | None = None
        #: Whether it may run commands and send signals.
        self.unsafe = False
        #: Whether `size` stands for `args.size` where it is nothing else, as in bcc's specifications.
        self.takes_bare_arguments = False
        #: The number of a group of processes by its directory.
        self.cgroup_id: Callable[[str], int] = _no_files
        #: The `pyebpf.unwinding.Unwinder` of dw_ustack(), which scripts that name it are given.
        self.unwinder: Any = None
        #: The programs and libraries that it probes.
        self.files = UserFiles()
        self._user_types: UserTypes | None = None
        self.defines = _defines(program)
        #: Statements that nothing comes to, by their place.
        self.unreachable: dict[int, Node] = {}
        #: Whether they are built, for the types in them; the result is thrown away.
        self.asks_everywhere = False
        self._names: dict[int, int] = {}

    @property
    def user_types(self) -> UserTypes:
        """Types of the files that the script probes."""
        if self._user_types is None:
            from pyebpf.bpftrace.translate.user_types import UserTypes

            self._user_types = UserTypes(self.structs, self.files.function)
        return self._user_types

    def name_of(self, node: Node) -> str:
        """The name of the variable of a node with a value: macros have put one node's text into several places."""
        return f"?{self._names.setdefault(id(node), len(self._names))}"


def _no_files(path: str) -> int:
    raise FileNotFoundError(2, "no files are read here", path)


def _functions(program: Program) -> dict[str, Function]:
    """The functions that a script defines, by name."""
    from pyebpf.bpftrace.ast import Function
    from pyebpf.bpftrace.translate.functions import is_function
    from pyebpf.bpftrace.translate.script_functions import renamed

    found: dict[str, Function] = {}
    for each in program.items:
        if not isinstance(each, Function):
            continue
        if each.name in found or is_function(each.name):
            whose = "already" if each.name in found else "of the language's own"
            raise program.source.error(f"there is a function {each.name} {whose}: give this one another name", each)
        names = [parameter.variable.name for parameter in each.parameters]
        for position, parameter in enumerate(each.parameters):
            if names[position] in names[:position]:
                raise program.source.error(f"{each.name} has a parameter ${names[position]} already", parameter)
        found[each.name] = renamed(each)
    return found


#: Names of those that have an effect.
_NAMES = tuple(each.name for each in fields(Settings))


def _settings(program: Program, outer: Mapping[str, str]) -> Settings:
    """The settings of a script's config block, and those from outside, which go before them."""
    given: dict[str, object] = {}
    for each in program.config.settings if program.config is not None else ():
        name = each.name.lower().removeprefix("bpftrace_")
        if name == "license" and each.value not in _LICENSES:
            raise program.source.error(
                f"Invalid value for license. Found: {each.value}. Valid values: {', '.join(_LICENSES)}", each
            )
        if name in _IGNORED:
            continue
        if name not in _NAMES:
            raise program.source.error(f"the setting {each.name} is not supported yet: leave it out", each)
        given[name] = each.value
    given |= {name: value for name, value in outer.items() if name in _NAMES}
    found = Settings(
        int(str(given.get("max_strlen", MAX_STRING))),
        int(str(given.get("max_map_keys", MAX_KEYS))),
        _is_true(given.get("print_maps_on_exit", True)),
        str(given.get("stack_mode", "bpftrace")),
        int(str(given.get("max_cat_bytes", 10240))),
        str(given.get("dummy_ts_map", "")),
        str(given.get("missing_probes", "error")).lower(),
        _power_of_two(int(str(given.get("perf_rb_pages", 64)))),
        _is_true(given.get("cpp_demangle", True)),
        _is_true(given.get("show_debug_info", False)),
    )
    if not 1 <= found.max_strlen <= MAX_STRLEN:
        raise program.source.error(
            f"max_strlen = {found.max_strlen}: give 1 to {MAX_STRLEN} bytes", program.config or program.probes[0]
        )
    if not 0 <= found.max_cat_bytes <= _MAX_CAT_BYTES:
        raise program.source.error(
            f"max_cat_bytes = {found.max_cat_bytes}: give 0 to {_MAX_CAT_BYTES} bytes, which are 64 MiB",
            program.config or program.probes[0],
        )
    if found.perf_rb_pages > _MAX_PAGES:
        raise program.source.error(
            f"perf_rb_pages = {found.perf_rb_pages}: give {_MAX_PAGES} at most, which are 1 GiB",
            program.config or program.probes[0],
        )
    if found.missing_probes not in MISSING_PROBES:
        raise program.source.error(
            f"missing_probes = {found.missing_probes}: give one of {', '.join(MISSING_PROBES)}",
            program.config or program.probes[0],
        )
    return found


def _is_true(value: object) -> bool:
    return str(value).lower() not in ("0", "false")


def _power_of_two(number: int) -> int:
    """The least power of two that is no smaller."""
    return 1 << max(number - 1, 0).bit_length()


def _defines(program: Program) -> dict[str, str]:
    """Texts of `#define NAME text`."""
    from pyebpf.bpftrace.ast import Define

    return {
        each.name: each.text for each in program.definitions if isinstance(each, Define) and each.parameters is None
    }
