"""The parts of a script: attach points, probes, macros, functions, settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pyebpf.bpftrace.ast.base import Node
from pyebpf.dataclass import dataclass, field

if TYPE_CHECKING:
    from pyebpf.bpftrace.ast.base import Expression, Type
    from pyebpf.bpftrace.ast.definitions import Definition
    from pyebpf.bpftrace.ast.expressions import Identifier, Map, TypeOf, Variable
    from pyebpf.bpftrace.ast.statements import Block, Import
    from pyebpf.bpftrace.source import Source


@dataclass(frozen=True, slots=True, guarded=False)
class Setting(Node):
    """One setting of the config block."""

    name: str
    value: int | bool | str


@dataclass(frozen=True, slots=True, guarded=False)
class Config(Node):
    """`config = { … }`."""

    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True, guarded=False)
class MapDeclaration(Node):
    """`let @name = kind(size);`."""

    map: Map
    kind: str
    size: int


@dataclass(frozen=True, slots=True, guarded=False)
class Macro(Node):
    """`macro name(…) { … }`. A parameter says what it takes: a variable, a map, or any expression."""

    name: str
    parameters: tuple[Variable | Map | Identifier, ...]
    body: Block


@dataclass(frozen=True, slots=True, guarded=False)
class Parameter(Node):
    """A parameter of a function."""

    variable: Variable
    type: Type | TypeOf


@dataclass(frozen=True, slots=True, guarded=False)
class Function(Node):
    """`fn name($parameter: type) : type { … }`."""

    name: str
    parameters: tuple[Parameter, ...]
    result: Type | TypeOf
    body: Block


@dataclass(frozen=True, slots=True, guarded=False)
class AttachPoint(Node):
    """A place to attach to, as it is written: wildcards and files are not resolved.

    `parts` has all that colons separate, after the provider, without quotes. The other fields name them as far as the
    provider has them:

    - `target`: module, file, category of a tracepoint, event of `software` and `hardware`, unit of time.
    - `function`: function, tracepoint, USDT probe, iterator, signal, name of a test.
    - `namespace`: provider of a USDT probe, language of a uprobe's function, program id of `fentry:bpf`.
    """

    text: str
    provider: str
    """The long name of the kind of probe, such as `kprobe`; it may be a pattern."""
    parts: tuple[str, ...]
    name: str = ""
    """Its name in the script: `name=kprobe:f`."""
    target: str = ""
    function: str = ""
    namespace: str = ""
    offset: int = 0
    """`kprobe:f+0x10`."""
    address: int | None = None
    """`kprobe:0xffffffff81000000`, `watchpoint:0x10000000:8:rw`."""
    count: int | None = None
    """Rate or period of `profile` and `interval`, in units of `target`; events until `software` or `hardware` fires."""
    length: int = 0
    """Bytes that a watchpoint watches."""
    mode: str = ""
    """`r`, `w` and `x` of a watchpoint."""
    source_file: str = ""
    """`uprobe:/bin/x@file.c:12:3`: file, line and column."""
    source_line: int = 0
    source_column: int = 0
    pin: str = ""
    """File that an iterator is pinned to."""


@dataclass(frozen=True, slots=True, guarded=False)
class Probe(Node):
    """Attach points, a predicate if there is one, and what happens there."""

    attach_points: tuple[AttachPoint, ...]
    predicate: Expression | None
    body: Block


Item: TypeAlias = "Probe | Macro | Function | MapDeclaration"


@dataclass(frozen=True, slots=True, guarded=False)
class Program(Node):
    """A whole script."""

    source: Source = field(compare=False, repr=False)
    shebang: str
    """The first line if it begins with `#!`, as it is written."""
    definitions: tuple[Definition, ...]
    config: Config | None
    imports: tuple[Import, ...]
    items: tuple[Item, ...]

    @property
    def probes(self) -> tuple[Probe, ...]:
        """The probes, in the order that they are written in."""
        return tuple([each for each in self.items if isinstance(each, Probe)])
