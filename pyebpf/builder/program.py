"""`ProgramBuilder`: one BPF program under construction: its functions, the maps it uses, what it was written for."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from pyebpf.builder.context import ProgramContext
from pyebpf.builder.drop_counters import DropCounters
from pyebpf.builder.ssa.function import FunctionBuilder
from pyebpf.builder.values.entity import RunTimeValue
from pyebpf.builder.values.operations import binary
from pyebpf.builder.values.reading import read
from pyebpf.builder.values.strings import StringSource
from pyebpf.builder.values.writing import write
from pyebpf.compiler import ir
from pyebpf.dataclass import dataclass
from pyebpf.uapi.flags import BPF_F_SLEEPABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
    from types import FunctionType
    from typing import TypeAlias

    from pyebpf.builder.scratch import ScratchMemory
    from pyebpf.builder.subprograms import BuiltSubprogram, Subprogram
    from pyebpf.builder.values.entity import Entity
    from pyebpf.builder.values.lvalue import Lvalue
    from pyebpf.builder.values.map_pointers import MapPointer
    from pyebpf.errors import Location
    from pyebpf.specs import AttachSpec, MapSpec
    from pyebpf.specs.programs import GlobalFunction
    from pyebpf.target import Target
    from pyebpf.types import Type
    from pyebpf.uapi.bpf import ProgramType

    #: A function's address, the address to pass on to it, and the maps whose entries it makes invalid, with reasons.
    Callback: TypeAlias = tuple[ir.Value, ir.Value, Mapping[str, str]]


class Analysis(Protocol):
    """A front end's facts about a program: found while it is built, and there from the start of the next build.

    `changed` tells that a build has found more, and so must be done again; each build starts with False.
    """

    changed: bool


A = TypeVar("A", bound=Analysis)


@dataclass(frozen=True)
class BoundParameter:
    """An attach point's answer for a parameter: `shape` tells types apart, `what` is for messages."""

    shape: Hashable
    what: str
    where: Location | None


@dataclass(slots=True)
class WholeProgram:
    """Facts of a whole program that only building it finds: with them it is built anew."""

    #: Types of values that Python cannot change, that the program writes over in memory, and that it gives names: those
    #: are copies.
    changed: frozenset[type[Type]] = frozenset()
    #: A property of a record's class is inlined, so that reading an attribute may change a record.
    properties: bool = False
    #: A helper that may move the packet is called: the packet's ends are read each time.
    packet_moves: bool = False
    #: Functions with slots for scratch memory, each behind the name of the one whose claim it runs within.
    large: frozenset[tuple[str, str]] = frozenset()
    #: Loops over ranges, by their numbers in the program, that have one in them that the verifier does not see end.
    around: frozenset[int] = frozenset()

    def __or__(self, other: WholeProgram) -> WholeProgram:
        return WholeProgram(
            self.changed | other.changed,
            self.properties or other.properties,
            self.packet_moves or other.packet_moves,
            self.large | other.large,
            self.around | other.around,
        )


class ProgramBuilder:
    """State that the entities of one program share.

    `b` is the function being built now; `program_type` and `attach` decide what its context is and which pointers the
    verifier trusts; `target` answers for the kernel.
    """

    def __init__(
        self,
        name: str,
        program_type: ProgramType,
        attach: AttachSpec | None,
        target: Target,
        where: Location | None = None,
        function: type[FunctionBuilder] = FunctionBuilder,
        known: WholeProgram | None = None,
        analyses: dict[type[Analysis], Analysis] | None = None,
    ) -> None:
        self.name = name
        self.program_type = program_type
        self.attach = attach
        self.target = target
        #: Whether numbers in network order (`__be16`) are read as they lie, as C does, and not as this machine's.
        self.keeps_byte_order = False
        self._program_context: ProgramContext[Any] | None = None
        self.maps: dict[str, MapSpec] = {}
        self.finished: list[ir.Function] = []
        #: The context in functions that have another first parameter.
        self.contexts: dict[FunctionBuilder, ir.Value] = {}
        #: Functions that have none: they are given numbers only.
        self.contextless: set[FunctionBuilder] = set()
        numbers = attach.scalar_parameters if attach is not None else None
        #: The class of the program's functions.
        self.new_function = function
        self.b = function(name, (ir.ValueType.POINTER,) if numbers is None else (ir.ValueType.SCALAR,) * numbers, where)
        if numbers is None:
            self.b.assume_non_null(self.context)
        else:
            self.contextless.add(self.b)
        #: Reasons that this program counts in the map of drops, in order of first use: the index is the map's key.
        self.drop_counters = DropCounters()
        #: Facts of the whole program: those of the build before, and those that this build finds.
        self.known, self.found = known or WholeProgram(), WholeProgram()
        #: Types of such values as this build writes over, and as it gives names.
        self.written: set[type[Type]] = set()
        self.kept: set[type[Type]] = set()
        #: Memory for large records, of a program whose stack has no room for them.
        self.scratch: ScratchMemory | None = None
        #: How many loops over ranges there are so far, and those of them that are being built, by their numbers.
        self.range_loops = 0
        self.open_loops: list[int] = []
        #: How many loops are being built that need not be seen to end.
        self.limited_loops = 0
        self._analyses = {} if analyses is None else analyses
        #: The annotation and the position of each parameter that the program declares.
        self.declared: dict[str, tuple[object, int]] = {}
        #: What the attach point gave for those of them that have a value at run time.
        self.bound_parameters: dict[str, BoundParameter] = {}
        #: Whether it reads `ctx.target`, so that its code is one target's own.
        self.reads_target = False
        #: Names of the helpers it calls that only programs under the GPL may call.
        self.gpl_only: set[str] = set()
        self.arena: MapPointer | None = None
        #: The entry that tells where the arguments of this USDT probe are.
        self.usdt_spec: ir.Value | None = None
        #: Functions that other programs may take the place of.
        self.global_functions: list[GlobalFunction] = []
        #: Symbols of functions that entities have built, so that each is built once.
        self.functions: set[str] = set()
        #: Subprograms of this program, by the owner of their scratch memory; None for one that is being built.
        self.subprograms: dict[tuple[Subprogram, str], BuiltSubprogram | None] = {}
        #: The number of calls that have been written out.
        self.inlined_calls = 0
        #: The front end's part of `build_callback`, if it has functions.
        self.callback_builder: Callable[..., Callback] | None = None
        self.callbacks = 0
        #: Symbols of the functions that timers call, by the function and the map's name.
        self.timer_functions: dict[tuple[FunctionType, str], str] = {}

    @property
    def program_type_name(self) -> str:
        """The program's type in messages: "socket filter"."""
        return self.program_type.name.lower().replace("_", " ")

    @property
    def context(self) -> ir.Value:
        """The program's context: the first parameter, or in a callback what it was passed along."""
        if self.b in self.contextless:
            self.fail("a function that can be replaced has no context: give it what it needs as numbers, or in a map")
        return self.contexts.get(self.b) or self.b.parameters[0]

    @property
    def program_context(self) -> ProgramContext[Any]:
        """The meaning of the attachment to the program: its context, parameters and result."""
        if self._program_context is None:
            attach = self.attach
            # Without an attachment nothing has a name.
            self._program_context = ProgramContext(attach) if attach is None else attach.program_context()
            self._program_context.target = self.target
        return self._program_context

    @contextmanager
    def context_of(self, context: ProgramContext[Any]) -> Iterator[None]:
        """Build the body with another meaning of the attachment."""
        before, self._program_context = self._program_context, context
        yield
        self._program_context = before

    @contextmanager
    def discarded(self) -> Iterator[None]:
        """Build the body, of which only the Python values are wanted, into a function that is thrown away."""
        outer = self.b
        self.b = type(outer)(outer.name, [each.type for each in outer.parameters], outer.where)
        yield
        self.b = outer

    def analysis(self, kind: type[A]) -> A:
        """The program's one object of a class, which lasts from build to build; made when it is first asked for."""
        found: Any = self._analyses.get(kind)
        if found is None:
            found = self._analyses[kind] = kind()
        return found  # type: ignore[no-any-return]  # the dictionary has each by its class

    def parameter(self, name: str, annotation: object = None, declared: str = "") -> object:
        """Declare the next parameter, and return its value: what the attach point calls `name`.

        `annotation` is the type that the author gives it, `declared` the author's name for it if that is another.
        """
        position = len(self.declared)
        value = self.program_context.parameter(self, name, annotation, position)
        declared = declared or name
        self.declared[declared] = annotation, position
        if isinstance(value, StringSource):
            shape: Hashable = ("text", value.size)
        elif isinstance(value, RunTimeValue):
            shape = value.static_shape
        else:
            return value
        self.bound_parameters[declared] = BoundParameter(shape, value.describe(), self.b.where)
        return value

    def load_value(self, lvalue: Lvalue, type_: Type, *, part: bool = False) -> Entity:
        """Return what stands in memory as a value of `type_`: a number is read now, anything else is a reference.

        What is a `part` of something else is a value where it is bytes, which a name keeps; else it is that memory.
        """
        return read(self, lvalue, type_, part=part)

    def store_value(self, address: ir.Value, offset: int, type_: Type, value: object) -> None:
        """Write an operand to memory as a value of `type_`, every byte of it, padding as zeros.

        Numbers are cut to their low bits; a constant that does not fit is an error. Records, strings and arrays are
        copied.
        """
        write(self, address, offset, type_, value)

    def binary(self, operator: str, left: object, right: object) -> object:
        """Return `left operator right` of any two operands."""
        return binary(self, operator, left, right)

    def build_callback(
        self,
        function: FunctionType,
        registers: Sequence[ir.ValueType],
        arguments: Callable[[Sequence[ir.Value]], Sequence[object]],
        what: str,
        *,
        context: bool = True,
        noting: Callable[[str], None] | None = None,
    ) -> Callback:
        """Build a function that a helper is to call with `registers`, and last with the address that it passes on.

        `arguments` makes the function's own arguments from the registers, inside it. A function annotated `-> bool`
        ends the helper's loop by True. Without `context` nothing is passed on: the function runs when the program has
        ended, and has none. `noting` is told the function's symbol before its body is built. `what` is what messages
        call such a function.

        Returns the function's address, the address to pass on, and the maps whose entries the function makes invalid,
        with the reasons. The front end builds it: `callback_builder`.
        """
        if self.callback_builder is None:
            self.fail(f"{what} is a Python function, and this program does not come from Python source")
        return self.callback_builder(self, function, registers, arguments, what, context=context, noting=noting)

    def fail(self, message: str, where: Location | None = None) -> NoReturn:
        """Raise CompileError at `where`, or at the place being compiled."""
        self.b.fail(message, where)

    def leave_never(self) -> None:
        """End the function where control never comes, though the verifier can't see that."""
        results = self.program_context.return_range if self.b.name == self.name else None
        self.b.ret(self.b.const(0 if results is None or results[0] <= 0 <= results[1] else results[0]))

    def use_map(self, spec: MapSpec) -> str:
        """Note that the program uses a map, and return the name that IR calls it by."""
        if self.attach is not None and self.attach.load_flags & BPF_F_SLEEPABLE:
            from pyebpf.builder.sleepable import check_sleepable

            check_sleepable(self, spec)
        self.maps.setdefault(spec.name, spec)
        return spec.name

    @contextmanager
    def function(self, b: FunctionBuilder, *, detached: bool = False) -> Iterator[None]:
        """Build another function of the program in the body, all of whose paths must return.

        One that is `detached` runs when it will, not within the program.
        """
        outer, where = self.b, self.b.where
        self.b = b
        with nullcontext() if self.scratch is None else self.scratch.function(detached=detached):
            yield
        self.finished.append(b.finish())
        self.b, outer.where = outer, where

    @contextmanager
    def within(self, loop_number: int) -> Iterator[None]:
        """Build the body, that of a loop over a range."""
        self.open_loops.append(loop_number)
        yield
        self.open_loops.pop()

    @contextmanager
    def at(self, where: Location | None) -> Iterator[None]:
        """Build what follows as coming from `where`."""
        before, self.b.where = self.b.where, where
        try:
            yield
        finally:
            self.b.where = before

    def finish(self) -> ir.Module:
        """Return the program's IR: the main function, then its subprograms."""
        return ir.Module((self.b.finish(), *self.finished))
