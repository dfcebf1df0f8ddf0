"""Structs that the kernel shows to programs in place of its own, by tables: where each field stands, what it means.

The verifier rewrites every access to such a struct (`struct bpf_sock_addr`, `struct bpf_sock`, …) into one to the
kernel's own, so each field is loaded and stored in the width that it allows, and in no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn, TypeVar

from pyebpf.builder.context import ProgramContext
from pyebpf.builder.ssa.conditions import Always, Compare
from pyebpf.builder.values.arrays import Array
from pyebpf.builder.values.entity import Entity, NoPythonOperators, RunTimeValue, describe
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.lvalue import Lvalue, temporary, write_bytes
from pyebpf.builder.values.operations import rvalue
from pyebpf.builder.values.writing import integer
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.dataclass import replace
from pyebpf.errors import closest
from pyebpf.specs import AttachSpec
from pyebpf.types import INTEGERS, S64, U8, U64, IntType, array_of

if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import TypedDict, Unpack

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.builder.values.packets import Packet
    from pyebpf.compiler import ir

    class Rules(TypedDict, total=False):
        """Which programs use a field, as `ContextField` says."""

        writable: bool | tuple[str, ...]
        on: tuple[str, ...] | None
        since: str


S = TypeVar("S", bound=AttachSpec)

_WORD = 4


class ContextField:
    """A member of such a struct: `name` at byte `offset`, `size` bytes in all.

    `on` names the hooks whose programs may use it, None for all; `writable` says whether they may write it, or on
    which hooks; `since` is the Linux that brought it, empty for what 5.10 has.
    """

    def __init__(
        self,
        name: str,
        offset: int,
        size: int,
        *,
        writable: bool | tuple[str, ...] = False,
        on: tuple[str, ...] | None = None,
        since: str = "",
    ) -> None:
        self.name = name
        self.offset = offset
        self.size = size
        self.writable = writable
        self.on = on
        self.since = since

    def read(self, p: ProgramBuilder, base: ir.Value) -> object:
        """The field's value, of the struct at `base`."""
        raise NotImplementedError

    def write(self, p: ProgramBuilder, base: ir.Value, value: object) -> None:
        """Set the field."""
        p.fail(f"{self.name} cannot be assigned to")


class IntegerField(ContextField):
    """An integer of `size` bytes.

    `network` says how many of its low bits are a number in network byte order (16 or 32), which programs read and
    write in the machine's order; `readable` is False for what is only written.
    """

    def __init__(
        self,
        name: str,
        offset: int,
        size: int = _WORD,
        *,
        network: int = 0,
        signed: bool = False,
        **rules: Unpack[Rules],
    ) -> None:
        super().__init__(name, offset, size, **rules)
        self.network = network
        self.signed = signed
        self.type: IntType = INTEGERS[f"{'s' if signed else 'u'}{network or 8 * size}"]

    def read(self, p: ProgramBuilder, base: ir.Value) -> object:
        value = p.b.load(base, self.offset, self.size, signed=self.signed)
        if self.network:
            value = p.b.emit(Op.SWAP, value, size=self.network // 8)
            p.b.assume_bounds(value, 0, self.type.maximum)
        if self.size == U64.size:
            return Int(value, S64 if self.signed else U64)
        return Int(value, S64, self.type)

    def write(self, p: ProgramBuilder, base: ir.Value, value: object) -> None:
        wire = INTEGERS[f"be{self.network}"] if self.network else self.type
        p.b.store(base, self.offset, integer(p, wire, value), self.size)


class Bytes(ContextField):
    """Bytes in the order in which they stand, such as an IPv6 address: `u8[N]`, moved by words."""

    def __init__(self, name: str, offset: int, length: int, **rules: Unpack[Rules]) -> None:
        super().__init__(name, offset, length, **rules)

    def read(self, p: ProgramBuilder, base: ir.Value) -> object:
        slot = p.b.slot(-(-self.size // 8) * 8, name=self.name)
        address = p.b.slot_address(slot)
        for at in range(0, self.size, _WORD):
            p.b.store(address, at, p.b.load(base, self.offset + at, _WORD), _WORD)
        return Array(array_of(U8, self.size), Lvalue(slot=slot, owner=self.name, writable=False))

    def write(self, p: ProgramBuilder, base: ir.Value, value: object) -> None:
        value = rvalue(p, value)
        if isinstance(value, bytes) and len(value) != self.size:
            p.fail(f"{value!r} does not fit {self.name}, which has {self.size} bytes")
        with temporary(p, self.size) as slot:
            address = p.b.slot_address(slot)
            if isinstance(value, bytes):
                write_bytes(p, address, 0, value)
            else:
                p.store_value(address, 0, array_of(U8, self.size), value)
            for at in range(0, self.size, _WORD):
                p.b.store(base, self.offset + at, p.b.load(address, at, _WORD), _WORD)


class WordArrayField(ContextField):
    """An array of `count` u32, only read, indexed by numbers known at compile time."""

    def __init__(self, name: str, offset: int, count: int, **rules: Unpack[Rules]) -> None:
        super().__init__(name, offset, _WORD * count, **rules)

    def read(self, p: ProgramBuilder, base: ir.Value) -> object:
        return WordArray(self, base)


class WordArray(Entity, NoPythonOperators):
    """`ctx.name` of a `Words` field."""

    def __init__(self, field: WordArrayField, base: ir.Value) -> None:
        self.field = field
        self.base = base

    def describe(self) -> str:
        return f"the array {self.field.name} of the context"

    def _element(self, p: ProgramBuilder, index: object) -> IntegerField:
        count = self.field.size // _WORD
        if not isinstance(index, int):
            p.fail(f"{self.describe()} is indexed by numbers known at compile time, not by {describe(index)}")
        if not 0 <= index < count:
            p.fail(f"index {int(index)} is outside {self.describe()}: 0 to {count - 1}")
        return IntegerField(self.field.name, self.field.offset + _WORD * int(index))

    def length(self, p: ProgramBuilder) -> int:
        return self.field.size // _WORD

    def item(self, p: ProgramBuilder, index: object) -> object:
        return self._element(p, index).read(p, self.base)


class NestedField(ContextField):
    """A pointer to another such struct; `nullable` where there may be none."""

    def __init__(
        self, name: str, offset: int, table: FieldTable, *, nullable: bool = False, **rules: Unpack[Rules]
    ) -> None:
        super().__init__(name, offset, U64.size, **rules)
        self.table = table
        self.nullable = nullable

    def read(self, p: ProgramBuilder, base: ir.Value) -> object:
        address = p.b.load(base, self.offset, U64.size, result=ValueType.POINTER)
        if not self.nullable:
            p.b.assume_non_null(address)
        return NestedStruct(
            self.table, Lvalue(base=address, owner=self.name, null_check=address if self.nullable else None)
        )


class FieldTable:
    """Such a struct, as C calls it, and its fields by name."""

    def __init__(self, c_name: str, *fields: ContextField) -> None:
        self.c_name = c_name
        self.fields = {field.name: field for field in fields}

    def find(self, p: ProgramBuilder, name: str, hook: str = "") -> ContextField:
        """The field of that name, if programs of `hook` have it; `hook` is empty for what a pointer leads to."""
        found = self.fields.get(name)
        if found is None or (hook and found.on is not None and hook not in found.on):
            self._refuse(p, name, hook)
        if found.since and not p.target.has_field(self.c_name, name):
            p.fail(f"{self.c_name} has no {name} in this kernel (since Linux {found.since})")
        return found

    def _refuse(self, p: ProgramBuilder, name: str, hook: str) -> NoReturn:
        there = [each.name for each in self.fields.values() if not hook or each.on is None or hook in each.on]
        if name in self.fields:
            p.fail(f"{self.c_name} has no {name} in {hook} programs: it has {', '.join(there)}")
        p.fail(f"{self.c_name} has no field {name}{closest(name, there)}: it has {', '.join(there)}")

    def read(self, p: ProgramBuilder, base: ir.Value, name: str, hook: str = "") -> object:
        """The value of the field `name` of the struct at `base`."""
        return self.find(p, name, hook).read(p, base)

    def write(self, p: ProgramBuilder, base: ir.Value, name: str, value: object, hook: str = "") -> None:
        """Set the field `name`, if programs of `hook` may."""
        found = self.find(p, name, hook)
        allowed = found.writable
        if isinstance(allowed, tuple):
            if hook not in allowed:
                here = f" in {hook} programs" if hook else ""
                p.fail(f"{name} of {self.c_name} is read-only{here}: {', '.join(allowed)} programs may write it")
        elif not allowed:
            fields = self.fields.values()
            able = [f.name for f in fields if f.writable is True and (f.on is None or hook in f.on)]
            others = f": what may be written is {', '.join(able)}" if able else ""
            p.fail(f"{name} of {self.c_name} is read-only{others}")
        found.write(p, base, value)


class NestedStruct(RunTimeValue):
    """Such a struct that a pointer leads to, as `ctx.sk` does. It can be given to helpers."""

    def __init__(self, table: FieldTable, lvalue: Lvalue) -> None:
        self.table = table
        self.lvalue = lvalue

    @property
    def ssa_values(self) -> tuple[ir.Value, ...]:
        return self.lvalue.ssa_values

    @property
    def static_shape(self) -> Hashable:
        return ("mirrored", self.table.c_name, self.lvalue.static_shape)

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> NestedStruct:
        return NestedStruct(self.table, self.lvalue.with_ssa_values(values))

    def describe(self) -> str:
        return f"a {self.table.c_name}"

    def local(self, p: ProgramBuilder) -> NestedStruct:
        return self

    def is_none(self, p: ProgramBuilder) -> Test:
        null_check = self.lvalue.null_check
        if null_check is None:
            p.fail(f"{self.describe()} is never None here")
        if p.b.is_non_null(null_check):
            return Always(holds=False)
        return Compare(Relation.EQ, null_check, p.b.const(0), null_check=True)

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return self.table.read(p, self._address(p), name)

    def set_attribute(self, p: ProgramBuilder, name: str, value: object) -> None:
        self.table.write(p, self._address(p), name, value)

    def _address(self, p: ProgramBuilder) -> ir.Value:
        self.lvalue.check(p, self.describe())
        return replace(self.lvalue, null_check=None).exact(p)


class StructContext(ProgramContext[S]):
    """The program context of programs that get such a struct; its fields are parameters, too."""

    table: ClassVar[FieldTable]
    #: `results`, where all places of the class have the same.
    limits: ClassVar[tuple[int, int] | None] = None
    #: The name of `memory` in programs.
    memory_name: ClassVar[str] = "packet"

    @property
    def return_range(self) -> tuple[int, int] | None:
        return self.limits

    @property
    def hook(self) -> str:
        """The name by which fields say where they are to be had."""
        return ""

    def memory(self) -> Packet | None:
        """The packet, or other memory between two pointers of the struct, that programs see."""
        return None

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        if name in ("packet", self.memory_name):
            memory = self.memory()
            if memory is not None:
                return memory
        return super().attribute(p, name)

    def field(self, p: ProgramBuilder, name: str) -> object:
        return self.table.read(p, p.context, name, self.hook)

    def set_attribute(self, p: ProgramBuilder, name: str, value: object) -> None:
        self.table.write(p, p.context, name, value, self.hook)
