"""Syscall programs: Python calls them, by PROG_TEST_RUN, with a record for their context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from pyebpf.attach.decorators import Decorators, attachments, is_decorated
from pyebpf.builder.context import ProgramContext
from pyebpf.builder.values.lvalue import Lvalue, copy, temporary
from pyebpf.builder.values.records import Record
from pyebpf.builder.values.references import note_change
from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue
from pyebpf.module.probe import Candidate, Probe, Request
from pyebpf.specs.attach_point import SYSCALL_PROGRAMS, AttachSpec
from pyebpf.types import IntType
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.flags import BPF_F_SLEEPABLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.specs.attach_point import KernelRequirement
    from pyebpf.types import Struct, StructType

    Q = ParamSpec("Q")
    U = TypeVar("U", bound="Struct | None")

    class SyscallDecorator(Protocol[U]):
        """Makes a function a program that Python runs."""

        def __call__(self, function: Callable[Q, int], /) -> SyscallProbe[Q, U]: ...


P = ParamSpec("P")
T = TypeVar("T", bound="Struct | None")


@dataclass(frozen=True, slots=True)
class SyscallProgram(AttachSpec):
    """Run by PROG_TEST_RUN from user space; the context is a `record` that the caller gives and gets back."""

    record: StructType | None = None

    program_type = ProgramType.SYSCALL

    def __str__(self) -> str:
        return "a call from user space"

    @property
    def load_flags(self) -> int:
        return BPF_F_SLEEPABLE  # the kernel takes no others

    @property
    def requirement(self) -> KernelRequirement:
        return SYSCALL_PROGRAMS

    @property
    def is_deferred(self) -> bool:
        return True

    def with_target(self, *place: object, **options: object) -> AttachSpec:
        """Raise InvalidValue: nothing starts it but `probe.run()`."""
        raise InvalidValue("a syscall program is not attached: run it, probe.run()")

    def program_context(self) -> SyscallProgramContext:
        return SyscallProgramContext(self)


#: The type of the result that the caller gets: 32 bits of the number that a program returns.
RESULTS = -(1 << 31), (1 << 31) - 1


class SyscallProgramContext(ProgramContext[SyscallProgram]):
    """`ctx` is the record: its fields are read and written, and go back to the caller."""

    def _record(self, p: ProgramBuilder, name: str) -> Record:
        record = self.attach.record
        if record is None:
            p.fail(f"{name}: this program is run without a record: name one in the decorator, @bpf.syscall(Record)")
        return Record(record, Lvalue(base=p.context, owner="the caller", fixed=True))

    def field(self, p: ProgramBuilder, name: str) -> object:
        return self._record(p, name).attribute(p, name)

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return self.field(p, name)

    def set_attribute(self, p: ProgramBuilder, name: str, value: object) -> None:
        record = self._record(p, name)
        field = record.field(p, name)
        if isinstance(field.type, IntType):
            record.set_attribute(p, name, value)
            return
        note_change(p, field.type)
        # Helpers write to the stack, not to a context.
        with temporary(p, field.type.size) as slot:
            address = p.b.slot_address(slot)
            p.store_value(address, 0, field.type, value)
            copy(p, p.context, field.offset, address, 0, field.type.size)

    def check_result(self, p: ProgramBuilder, value: ir.Value) -> None:
        low, high = p.b.bounds(value)
        if low == high and not RESULTS[0] <= low <= RESULTS[1]:
            p.fail(f"the caller gets 32 bits of a program's result, which {low} does not fit: write it to the record")


#: The number that the system call gives back is 32 bits wide.
_SIGN = 1 << 31


@dataclass(frozen=True, slots=True)
class Returned(Generic[T]):
    """The result of a run: the `value` that the program returned, as s32, and the `record` as it left it."""

    value: int
    record: T


class SyscallProbe(Probe[P, int], Generic[P, T]):
    """The result of `@bpf.syscall`: `run()` calls the program."""

    _record: StructType | None = None

    def run(self, record: T = None) -> Returned[T]:  # type: ignore[assignment]  # None stands for no record
        """Run it once, now, on this processor, as this process.

        `record` is what the decorator says, and comes back as the program left it. Raises NotLoaded outside `with
        bpf:`, InvalidValue for another record.
        """
        program = self.program
        layout = self._record
        if layout is None:
            if record is not None:
                raise InvalidValue(f"{self.__name__} takes no record: name its class, @bpf.syscall(Record)")
            return Returned(_signed(program.test_run().retval), record)
        found = program.test_run(context=layout.encode(record))
        return Returned(_signed(found.retval), layout.decode(found.context))


def _signed(number: int) -> int:
    return (number ^ _SIGN) - _SIGN


class SyscallDecorators(Decorators):
    """Programs that are called."""

    @overload
    def syscall(self) -> SyscallDecorator[None]: ...
    @overload
    def syscall(self, record: type[T]) -> SyscallDecorator[T]: ...
    def syscall(self, record: object = None) -> object:
        """Run when Python says so, by `probe.run(record)`, with every map and helper that syscall programs have.

        `ctx` is the record, whose fields the program reads and writes, and which comes back; it may sleep. What it
        returns, 32 bits, is `probe.run(…).value`.
        """
        if is_decorated(record):
            raise InvalidValue(
                "@bpf.syscall is used here without parentheses: write @bpf.syscall(Record), or @bpf.syscall() for none"
            )
        layout = getattr(record, "layout", None)
        if record is not None and layout is None:
            raise InvalidValue(f"@bpf.syscall({record!r}): give the Struct class that run() passes")
        place = SyscallProgram(layout)

        def decorate(function: object) -> SyscallProbe[Any, Any]:
            request = Request("syscall", (), (Candidate("syscall", attachments((place,))),))
            probe: SyscallProbe[Any, Any] = SyscallProbe(self._module.body_of(function, "syscall"), (request,))
            probe._record = layout
            self._module.probes.append(probe)
            return probe

        return decorate
