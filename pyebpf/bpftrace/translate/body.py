"""`ProbeBody`: one attach point of a script as the linker sees it, and the state of building it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.attach.iterators import IteratorProgramContext
from pyebpf.attach.usdt import POSITIONS
from pyebpf.bpftrace.ast import Identifier, nodes
from pyebpf.bpftrace.translate.inference import Variables
from pyebpf.bpftrace.translate.storage import Storage, Stored
from pyebpf.bpftrace.value_types import Boolean, Number, String
from pyebpf.builder.intrinsics.task import process_number
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.module.body import Body
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from pyebpf.bpftrace.ast import AttachPoint, Node, Probe
    from pyebpf.bpftrace.translate.script import Script
    from pyebpf.bpftrace.translate.script_functions import Frame
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.function import Loop
    from pyebpf.compiler import ir
    from pyebpf.errors import CompileError, Location
    from pyebpf.maps.for_each import ForEachLoop


#: Probes that `-p` limits by a test: the others are limited by the kernel, or are of no process.
_FILTERED = {"tracepoint", "rawtracepoint", "kprobe", "kretprobe", "fentry", "fexit"}


#: The map of whether exit() was called, one u64.
EXITED_MAP = ".exited"


def exited(p: ProgramBuilder) -> ir.Value:
    """The address of the status that exit() was called with, plus 1; 0 before that."""
    p.maps[EXITED_MAP] = MapSpec(EXITED_MAP, MapType.ARRAY, U32, U64, 1)
    return p.b.emit(Op.MAP_VALUE, symbol=EXITED_MAP)


class Scope:
    """The state of building one program of a script: its variables, its loops."""

    def __init__(self, p: ProgramBuilder, script: Script, point: AttachPoint) -> None:
        self.p = p
        self.script = script
        self.point = point
        self.variables = p.analysis(Variables)
        self.variables.growths.begin(lambda: self.max_strlen)
        self.storage = Storage(p, self.variables)
        self.loops: list[Loop] = []
        #: Functions of the script that are being built, each in the one before.
        self.frames: list[Frame] = []
        #: Loops over maps, whose bodies are functions of their own, and what they go over by the variable's name.
        self.map_loops: list[ForEachLoop] = []
        self.bound: dict[str, tuple[Stored, ...]] = {}
        #: Types of variables that the script declares: numbers are cut to them, and longer texts refused.
        self.declared: dict[str, Number | Boolean | String] = {}
        #: Variables of loops over numbers that the script wrote, none below 0: as such they take the sign of others.
        self.natural: set[str] = set()
        #: Variables that a `let` declares, and those of them that are read before anything tells their type.
        self.let: set[str] = set()
        self.untyped: set[str] = set()
        #: Whether exit() is called.
        self.exits = False
        #: Warnings, each with the first place that it is about.
        self.concerns: dict[str, Node] = {}
        #: Whether what is built is only asked about, in code that nothing comes to.
        self.asking = script.asks_everywhere
        #: The first place where a variable is read that nothing has been assigned to.
        self.unknown: CompileError | None = None

    @property
    def max_strlen(self) -> int:
        """Bytes of a string at most, its NUL among them."""
        return self.script.max_strlen(self.p.target)

    def error(self, message: str, node: Node) -> CompileError:
        """An error about a node."""
        return self.script.source.error(message, node)

    def leave(self) -> None:
        """Return from the program."""
        p = self.p
        if self.map_loops:
            p.b.jump(self.map_loops[-1].returned)
            return
        result = p.program_context.default_return(p.program_type)
        p.b.ret(p.b.const(result or 0))


def identifiers(probe: Probe) -> set[str]:
    """The names in a probe that are no variable's and no map's: of builtins, arguments, constants."""
    return {each.name for each in nodes((probe.predicate, probe.body)) if isinstance(each, Identifier)}


class ProbeBody(Body):
    """A probe's block, behind its predicate, for one of its attach points."""

    def __init__(self, script: Script, probe: Probe, point: AttachPoint, name: str) -> None:
        self.script = script
        self.probe = probe
        self.point = point
        self.name = name
        if point.provider == "usdt":  # the kernel is told where these are when it is attached
            named = identifiers(probe)
            self.parameters = tuple(each for each in POSITIONS if each in named)
        #: Whether its length was reckoned, which is the same in each build.
        self._is_reckoned = False
        #: Whether it calls exit(), as the build before found.
        self.exits = False

    @property
    def where(self) -> Location:
        return self.script.source.location(self.point)

    def build(self, p: ProgramBuilder) -> None:
        from pyebpf.bpftrace.translate.expressions import condition
        from pyebpf.bpftrace.translate.growth import check_growth
        from pyebpf.bpftrace.translate.statements import run_block

        p.keeps_byte_order = True
        scope = Scope(p, self.script, self.point)
        self.script.concerns[self] = scope.concerns
        scope.storage.begin()
        if not self._is_reckoned:
            check_growth(scope, self.probe)
            self._is_reckoned = True
        if isinstance(p.program_context, IteratorProgramContext):
            with p.b.if_(p.program_context.end(p)):
                scope.leave()
        if self.exits:  # and may run again before user space has heard of that
            with p.b.if_(Compare(Relation.NE, p.b.load(exited(p), 0, 8), p.b.const(0))):
                scope.leave()
        if self.script.pid is not None and self.point.provider in _FILTERED:
            with p.b.if_(Compare(Relation.NE, process_number(p).value, p.b.const(self.script.pid))):
                scope.leave()
        if self.probe.predicate is not None:
            with p.b.if_(condition(scope, self.probe.predicate)):
                run_block(scope, self.probe.body)
        else:
            run_block(scope, self.probe.body)
        if p.b.reachable:
            scope.leave()
        self.exits = scope.exits
        if scope.untyped and not scope.variables.changed and not self.script.maps.changed:
            for name in scope.untyped:  # assigned where nothing comes: they are 0
                scope.variables.note(name, Number())
        if scope.unknown is not None and not scope.variables.changed and not self.script.maps.changed:
            # A variable may hold what comes of such a map: that is the cause, then.
            unassigned = self.script.maps.unknown
            raise scope.unknown if unassigned is None else self.script.source.error(*unassigned)
