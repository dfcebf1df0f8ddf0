"""Iterators: the element of a kernel's list that a run of the program is for, and the records written for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.contexts.base import LoadAttributes, ProgramContext
from pyebpf.builder.intrinsics.base import intrinsic
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.entity import describe
from pyebpf.builder.values.integers import read_int
from pyebpf.builder.values.kernel_objects import KernelReference, from_register
from pyebpf.builder.values.kernel_references import NullableReference
from pyebpf.builder.values.lvalue import Lvalue, temporary
from pyebpf.builder.values.none import OptionalInt
from pyebpf.builder.values.operations import rvalue
from pyebpf.builder.values.records import RecordLiteral
from pyebpf.builder.values.references import Reference
from pyebpf.compiler.ir import Condition as Relation, Kind
from pyebpf.errors import NotFound, OnlyInProbe, closest
from pyebpf.specs.attach.iterators import MAP_ITERATORS, KernelIterator
from pyebpf.types import U32, IntType, Struct, array_of
from pyebpf.uapi.helper_ids import SEQ_WRITE

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.target import KernelFunction, KernelType, Target
    from pyebpf.types import Type

__all__ = ["IteratorProgramContext", "emit"]

#: Helper number of enum bpf_func_id (since Linux 5.7).
#: In maps' iterators a value has this many bytes at least for each processor.
SLOT = 8


class IteratorProgramContext(ProgramContext[KernelIterator]):
    """Parameters are those of the kernel's function `bpf_iter_NAME`; the element is None at the end of the list."""

    def _function(self, target: Target) -> KernelFunction:
        name = self.attach.name
        try:
            # Other functions begin with bpf_iter_ as well; an iterator's context is a struct of its own.
            target.type_named(f"struct bpf_iter__{name}")
            return target.function(f"bpf_iter_{name}")
        except NotFound as error:
            _, _, meant = str(error).partition(" (did you mean ")
            hint = f" (did you mean {meant.replace('bpf_iter__', '')}" if meant else ""
            text = f"this kernel has no iterator {name!r}{hint}: bpf.iterators() lists those there are"
            raise NotFound(text) from error

    def exists(self, target: Target) -> bool:
        try:
            self._function(target)
        except NotFound:
            return False
        return True

    def load_attributes(self, target: Target) -> LoadAttributes:
        function = self._function(target)
        return LoadAttributes(function.btf_id, function.module)

    def field(self, p: ProgramBuilder, name: str) -> Any:
        function = self._function(p.target)
        for index, parameter in enumerate(function.parameters):
            if parameter.name == name:
                return self._argument(p, index, name, parameter.type)
        names = [each.name for each in function.parameters]
        p.fail(f"{self.attach} has no {name}{closest(name, names)}: it has {', '.join(names)}")

    def _argument(self, p: ProgramBuilder, index: int, name: str, type_: KernelType) -> Any:
        element = type_.element
        if element is None:
            return from_register(p, p.b.load(p.context, 8 * index, 8), type_, trusted=False)
        register = p.b.load(p.context, 8 * index, 8, kind=Kind.POINTER)
        if element.composite:
            always = name == "meta" or (name == "map" and self.attach.name in MAP_ITERATORS)
            made = KernelReference if always else NullableReference
            return made(register, element, trusted=True)
        return self._bytes(p, register, name)

    def _bytes(self, p: ProgramBuilder, register: ir.Value, name: str) -> Any:
        """A key or a value of the map that is walked: as its declaration types it."""
        spec = self.attach.map
        if spec is None:
            p.fail(
                f"the type of {name} is the map's: name it in the decorator, @bpf.iter({self.attach.name!r}, …, map=m)"
            )
        type_: Type | None = (spec.key or U32) if name == "key" else spec.value
        assert type_ is not None
        if name == "value" and spec.traits.per_cpu:
            if type_.size % SLOT:
                p.fail(f"a value of {type_.name} for each processor: use a type of whole 8 bytes, such as u64")
            type_ = array_of(type_, p.target.possible_cpus)
        owner = f"the {name} of {spec.name}"
        if not isinstance(type_, IntType):
            return p.load_value(Lvalue(base=register, owner=owner, null_check=register, writable=False), type_)
        number = p.b.variable(hint=name)
        with p.b.if_(Compare(Relation.NE, register, p.b.const(0), null_check=True)):
            found = read_int(p, register, 0, type_)
            p.b.write(number, found.value)
        with p.b.else_():
            p.b.write(number, p.b.const(0))
        return OptionalInt(register, p.b.take(number), found.type, found.loaded, owner)

    def emit(self, p: ProgramBuilder, value: Any) -> None:
        """Write a copy of a record to what is being read.

        Where it finds no room the kernel gives the reader what there is, and runs the program for this element again.
        """
        record = self.attach.record
        value = rvalue(p, value)
        given = value.type if isinstance(value, RecordLiteral | Reference) else None
        if isinstance(value, Struct):
            given = value.layout
        if given != record:
            p.fail(f"{self.attach} is read as {record.name} records: emit() takes one, not {describe(value)}")
        if isinstance(value, Reference):
            value.check(p)
        meta = p.b.load(p.context, 0, 8, kind=Kind.POINTER)
        place = p.target.struct_member("struct bpf_iter_meta", "seq").offset
        with temporary(p, record.size) as slot:
            address = p.b.slot_address(slot)
            p.store_value(address, 0, record, value)
            seq = p.b.load(meta, place, 8, kind=Kind.POINTER)
            p.b.call(SEQ_WRITE, seq, address, p.b.const(record.size))


def _emit(p: ProgramBuilder, record: Any) -> None:
    if not isinstance(p.program_context, IteratorProgramContext):
        p.fail("emit() gives a record to who reads an iterator: in this program write ring.emit(…) to a ring buffer")
    p.program_context.emit(p, record)


@intrinsic(_emit)
def emit(record: Struct) -> None:
    """Give a record to who reads the iterator, in the order of the list. Only in programs of `@bpf.iter`."""
    raise OnlyInProbe
