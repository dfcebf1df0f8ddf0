"""References to kernel objects that the verifier treats in other ways: those that may be NULL, those to be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.ssa.conditions import Always, Compare, Test
from pyebpf.builder.values.kernel_objects import KernelReference, integer_type, plain_name
from pyebpf.builder.values.operations import fits, to_int
from pyebpf.compiler.ir import Condition as Relation
from pyebpf.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.entity import RunTimeValue
    from pyebpf.builder.values.integers import Int
    from pyebpf.compiler import ir
    from pyebpf.target import KernelMember, KernelType

#: Structs in structs in structs, each at the beginning of the next.
MAX_BASES = 8


class NullableReference(KernelReference):
    """A kernel object that may be NULL where the verifier knows it: read directly, once found not to be None."""

    @property
    def static_shape(self) -> Hashable:
        return ("nullable", super().static_shape)

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> NullableReference:
        return NullableReference(values[0], self.type, offset=self.offset, trusted=self.trusted, space=self.space)

    def is_none(self, p: ProgramBuilder) -> Test:
        if p.b.is_non_null(self.address):
            return Always(holds=False)
        return Compare(Relation.EQ, self.address, p.b.const(0), null_check=True)

    def truth(self, p: ProgramBuilder) -> Test:
        p.fail(f"the truth of {self.describe()} means None or not: write `is None` or `is not None`")

    def _check(self, p: ProgramBuilder) -> None:
        if not p.b.is_non_null(self.address):
            p.fail(f"{self.describe()} may be None: test it with `is None` first")

    def attribute(self, p: ProgramBuilder, name: str) -> RunTimeValue:
        self._check(p)
        return super().attribute(p, name)

    def address_as_int(self, p: ProgramBuilder) -> Int:
        self._check(p)
        return super().address_as_int(p)


class WritableReference(KernelReference):
    """A kernel object whose members may be written where the verifier allows it, and are found in its bases, too.

    A base is a struct that stands at a struct's beginning, as `struct sock` does in `struct tcp_sock`.
    """

    @property
    def static_shape(self) -> Hashable:
        return ("writable", super().static_shape)

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> WritableReference:
        return WritableReference(values[0], self.type, offset=self.offset, trusted=self.trusted, space=self.space)

    def _owner(self, p: ProgramBuilder, name: str) -> tuple[KernelType, KernelMember]:
        """The struct that has a member: this, or a base of it."""
        owner, name = self.type, plain_name(name)
        for _ in range(MAX_BASES):
            names = p.target.members(owner)
            try:
                return owner, p.target.member(owner, name)
            except NotFound:
                if not names or not names[0] or not (first := p.target.member(owner, names[0])).type.composite:
                    break
                owner = first.type
        p.fail(f"{self.describe()} and the structs that it begins with have no member {name}")

    def attribute(self, p: ProgramBuilder, name: str) -> RunTimeValue:
        owner, _ = self._owner(p, name)
        if owner is self.type:
            return super().attribute(p, name)
        return KernelReference(
            self.address, owner, offset=self.offset, trusted=self.trusted, space=self.space
        ).attribute(p, name)

    def set_attribute(self, p: ProgramBuilder, name: str, value: object) -> None:
        _, member = self._owner(p, name)
        type_ = integer_type(member.type)
        if type_ is None or member.bit_size or type_.big_endian:
            p.fail(
                f"{name} of {self.describe()} is not a plain integer, and only integers of kernel objects are writable"
            )
        if isinstance(value, int):
            fits(p, type_, value)
        p.b.store(self.address, self.offset + member.offset, to_int(p, value).value, type_.size)
