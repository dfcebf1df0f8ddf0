"""Programs that Python runs, whose context is a record of its caller's; programs in place of others' functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.contexts.base import ProgramContext
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.lvalue import Lvalue, copy, temporary
from pyebpf.builder.values.records import Record
from pyebpf.compiler.ir import Op
from pyebpf.errors import closest
from pyebpf.specs.attach.freplace import Freplace
from pyebpf.specs.attach.syscall import SyscallProgram
from pyebpf.types import S64, U64, IntType

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

__all__ = ["FreplaceProgramContext", "SyscallProgramContext"]

#: The type of the result that the caller gets: 32 bits of the number that a program returns.
RESULTS = -(1 << 31), (1 << 31) - 1


class SyscallProgramContext(ProgramContext[SyscallProgram]):
    """`ctx` is the record: its fields are read and written, and go back to the caller."""

    def _record(self, p: ProgramBuilder, name: str) -> Record:
        record = self.attach.record
        if record is None:
            p.fail(f"{name}: this program is run without a record: name one in the decorator, @bpf.syscall(Record)")
        return Record(record, Lvalue(base=p.context, owner="the caller", fixed=True))

    def field(self, p: ProgramBuilder, name: str) -> Any:
        return self._record(p, name).attribute(p, name)

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        return self.field(p, name)

    def set_attribute(self, p: ProgramBuilder, name: str, value: Any) -> None:
        record = self._record(p, name)
        field = record.field(p, name)
        if isinstance(field.type, IntType):
            record.set_attribute(p, name, value)
            return
        # Helpers write to the stack, not to a context.
        with temporary(p, field.type.size) as slot:
            address = p.b.slot_address(slot)
            p.store_value(address, 0, field.type, value)
            copy(p, p.context, field.offset, address, 0, field.type.size)

    def check_result(self, p: ProgramBuilder, value: ir.Value) -> None:
        low, high = p.b.bounds(value)
        if low == high and not RESULTS[0] <= low <= RESULTS[1]:
            p.fail(
                f"the caller gets 32 bits of what a program returns, which {low} does not fit: write it to the record"
            )


class FreplaceProgramContext(ProgramContext[Freplace]):
    """Parameters are the replaced function's, by name; the result is converted to its type."""

    has_context = False

    def parameter(self, p: ProgramBuilder, name: str, annotation: Any, position: int) -> Any:
        names = [each for each, _ in self.attach.parameters]
        if name not in names:
            p.fail(f"{self.attach} has no parameter {name}{closest(name, names)}: it has {', '.join(names) or 'none'}")
        index = names.index(name)
        value, type_ = p.b.parameters[index], self.attach.parameters[index][1]
        if type_.size == U64.size:
            return Int(value, S64 if type_.signed else U64)
        value = p.b.emit(Op.SEXT if type_.signed else Op.ZEXT, value, size=type_.size)
        p.b.assume_bounds(value, type_.minimum, type_.maximum)
        return Int(value, S64, type_)
