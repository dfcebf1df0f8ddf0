"""`Script`: a whole script while it is compiled, and what its programs share."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace.ast import Call, nodes
from pyebpf.bpftrace.events import Events
from pyebpf.bpftrace.packets import Packets
from pyebpf.bpftrace.translate.enums import Enums
from pyebpf.bpftrace.translate.inference import Maps
from pyebpf.bpftrace.translate.settings import MAX_STRING, PAGE, SHORT_STRING, read_settings
from pyebpf.bpftrace.translate.structs import Structs
from pyebpf.bpftrace.translate.user_files import UserFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyebpf.bpftrace.ast import AttachPoint, Function, MapDeclaration, Node, Program
    from pyebpf.bpftrace.translate.user_types import UserTypes
    from pyebpf.module.body import Body
    from pyebpf.target import Target


class Script:
    """A parsed script with its arguments, its maps and the ring buffer of what it asks user space to do."""

    def __init__(self, program: Program, arguments: Sequence[str], settings: Mapping[str, str] | None = None) -> None:
        from pyebpf.bpftrace.ast import Define, MapDeclaration as Declaration

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
        self.settings = read_settings(program, settings or {})
        self._max_strlen = self.settings.max_strlen
        declared: tuple[MapDeclaration, ...] = tuple(each for each in program.items if isinstance(each, Declaration))
        self.maps = Maps(program.source, declared, self.settings.max_map_keys)
        self.events = Events(self.settings.perf_rb_pages * PAGE)
        self.packets = Packets()
        self.functions = _functions(program)
        self.enums = Enums(program)
        self.structs = Structs(program, self.enums)
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
        #: The names of `#define`.
        self.defines = {each.name for each in program.definitions if isinstance(each, Define)}
        #: Statements that nothing comes to, by their place.
        self.unreachable: dict[int, Node] = {}
        #: Sums and the like of numbers, by the nodes' identities, with what they come to.
        self.folded: dict[int, tuple[Node, int | None]] = {}
        #: Warnings of each probe's last build, with the first place that each is about.
        self.concerns: dict[Body, dict[str, Node]] = {}
        #: Whether they are built, for the types in them; the result is thrown away.
        self.asks_everywhere = False
        self._names: dict[int, int] = {}

    def max_strlen(self, target: Target) -> int:
        """Bytes of a string at most, with its NUL: as the script says, or as the keys of the kernel's maps may have."""
        if self._max_strlen is None:  # asked for by scripts that have strings
            self._max_strlen = MAX_STRING if target.has("map:long_keys") else SHORT_STRING
        return self._max_strlen

    @property
    def user_types(self) -> UserTypes:
        """Types of the files that the script probes."""
        if self._user_types is None:
            from pyebpf.bpftrace.translate.user_types import UserTypes

            self._user_types = UserTypes(self.structs, self.files.function)
        return self._user_types

    @cached_property
    def names_functions(self) -> bool:
        """Whether all uprobes are at functions by their names, which `func` is, then: no address has to be looked up.

        One place by an address or a pattern, or a usym(), and it is a symbol at all of them: maps hold one type.
        """
        points = [point for probe in self.program.probes for point in probe.attach_points]
        in_files = [each for each in points if each.provider in ("uprobe", "uretprobe")]
        if not all(map(_is_at_a_name, in_files)):
            return False
        return not any(isinstance(each, Call) and each.name == "usym" for each in nodes(self.program.items))

    def name_of(self, node: Node) -> str:
        """The name of the variable of a node with a value: macros have put one node's text into several places."""
        return f"?{self._names.setdefault(id(node), len(self._names))}"


#: A function's name; not one that C++ or Rust have mangled, which is shown readable.
_NAME = re.compile(r"(?!_[ZR])[A-Za-z_][\w.$]*", re.ASCII)


def _is_at_a_name(point: AttachPoint) -> bool:
    """Whether a uprobe is at the beginning of a function by its name."""
    elsewhere = point.namespace or point.offset or point.address is not None or point.source_file
    return not elsewhere and _NAME.fullmatch(point.function) is not None


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
