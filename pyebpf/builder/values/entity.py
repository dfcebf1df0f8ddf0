"""`Entity`: whatever has a meaning of its own inside a probe, and what can be done with it there.

Two families share this protocol. *Run-time values* (`RunTimeValue`) stand for something known only at run time: a
number, a record, a map's entry, a kernel object. *Words* are Python objects known at compile time that act in a
probe: a map, `pid`, `u64`, a Struct class turned into its constructor. Every method takes the function being built,
appends what it needs, and returns a run-time value, another entity, or a plain Python value where the answer is known
at compile time. Whatever an entity does not define is refused with a message that names it: `describe()` is that
name.

An operand is an Entity or a plain Python value (int, str, bool, None, tuple …).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, NoReturn

from pyebpf.builder.ssa.conditions import NoPythonOperators

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.builder.values.entries import MapEntries
    from pyebpf.compiler import ir
    from pyebpf.types import IntType

__all__ = ["Entity", "NoPythonOperators", "RunTimeValue", "describe"]


class Entity:
    """Base of everything that acts inside a probe. Methods not overridden raise CompileError."""

    #: The reason that nothing may be called inside `with self:`; empty where calls are allowed.
    no_calls: ClassVar[str] = ""
    #: Remedies, added to the message of a refused operation; by the method's name, "number" for use as a number.
    REMEDIES: ClassVar[Mapping[str, str]] = {}

    def describe(self) -> str:
        """Return how messages call it: "a u64", "the map opens", "a record Drop"."""
        return type(self).__name__

    def _refuse(self, p: ProgramBuilder, method: str, what: str) -> NoReturn:
        remedy = self.REMEDIES.get(method)
        p.fail(f"{self.describe()} {what}" + (f": {remedy}" if remedy else ""))

    # -- as a value ----------------------------------------------------------------------------------------------------

    def binary(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> object:
        """`self operator other` (`other operator self` if reflected) for + - * / // % ** @ << >> & | ^."""
        self._refuse(p, "binary", f"has no operator {operator}")

    def unary(self, p: ProgramBuilder, operator: str) -> object:
        """`-self`, `+self`, `~self`."""
        self._refuse(p, "unary", f"has no operator {operator}")

    def compare(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> Test:
        """`self operator other` for == != < <= > >=."""
        self._refuse(p, "compare", f"cannot be compared with {describe(other)} by {operator}")

    def truth(self, p: ProgramBuilder) -> Test:
        """`if self`, `not self`."""
        self._refuse(p, "truth", "is neither true nor false")

    def is_none(self, p: ProgramBuilder) -> Test:
        """`self is None`."""
        self._refuse(p, "is_none", "is never None")

    def convert(self, p: ProgramBuilder, type_: IntType) -> object:
        """`T(self)` for an integer type."""
        self._refuse(p, "convert", f"cannot be converted to {type_}")

    # -- as a container
    # --------------------------------------------------------------------------------------------------

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        """`self.name`."""
        self._refuse(p, "attribute", f"has no attribute {name}")

    def set_attribute(self, p: ProgramBuilder, name: str, value: object) -> None:
        """`self.name = value`."""
        self._refuse(p, "set_attribute", f"has no attribute {name} to assign to")

    def augment_attribute(self, p: ProgramBuilder, name: str, operator: str, value: object) -> None:
        """`self.name operator= value`: plain read, compute, write unless overridden."""
        self.set_attribute(p, name, p.binary(operator, self.attribute(p, name), value))

    def item(self, p: ProgramBuilder, index: object) -> object:
        """`self[index]`."""
        self._refuse(p, "item", "cannot be indexed")

    def set_item(self, p: ProgramBuilder, index: object, value: object) -> None:
        """`self[index] = value`."""
        self._refuse(p, "set_item", "cannot be assigned to by index")

    def augment_item(self, p: ProgramBuilder, index: object, operator: str, value: object) -> None:
        """`self[index] operator= value`: plain read, compute, write unless overridden."""
        self.set_item(p, index, p.binary(operator, self.item(p, index), value))

    def delete_item(self, p: ProgramBuilder, index: object) -> None:
        """`del self[index]`."""
        self._refuse(p, "delete_item", "has no entries to delete")

    def contains(self, p: ProgramBuilder, item: object) -> Test:
        """`item in self`."""
        self._refuse(p, "contains", f"cannot be asked whether {describe(item)} is in it")

    def length(self, p: ProgramBuilder) -> object:
        """`len(self)`."""
        self._refuse(p, "length", "has no length")

    def is_shared(self, p: ProgramBuilder) -> bool:
        """Whether others may write what is in it meanwhile, so that `self[index] += value` is one operation."""
        return False

    def entries(self, p: ProgramBuilder) -> MapEntries | None:
        """Return the entries that `for … in self:` visits each time that the program runs; None unless it is a map."""
        return None

    # -- as a callable, as a context
    # ----------------------------------------------------------------------------------------

    def call(self, p: ProgramBuilder, arguments: Sequence[object], keywords: Mapping[str, object]) -> object:
        """`self(*arguments, **keywords)`."""
        self._refuse(p, "call", "cannot be called")

    def enter(self, p: ProgramBuilder) -> object:
        """`with self:` begins."""
        self._refuse(p, "enter", "cannot be used with `with`")

    def leave(self, p: ProgramBuilder) -> None:
        """`with self:` ends, on each way out."""
        self._refuse(p, "leave", "cannot be used with `with`")


class RunTimeValue(Entity, NoPythonOperators):
    """A value known only at run time.

    A local variable holds its `ssa_values` and its `static_shape`, all that is known at compile time. Two values of one
    shape may stand in one variable, and `with_ssa_values` makes a value of that shape from others (after paths have
    met). A record on the stack has its place in its shape, so a name that may stand for two records is refused.
    """

    @property
    @abstractmethod
    def ssa_values(self) -> tuple[ir.Value, ...]:
        """All known only at run time."""

    @property
    @abstractmethod
    def static_shape(self) -> Hashable:
        """Everything else, compared by value."""

    @abstractmethod
    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> RunTimeValue:
        """Return the value of this shape that is made of these."""

    def local(self, p: ProgramBuilder) -> RunTimeValue:
        """Return what an assignment to a local name binds: itself, unless reading must happen now."""
        return self


def describe(operand: object) -> str:
    """Return how messages call an operand, in a tuple or a list, too."""
    if isinstance(operand, (Entity, NoPythonOperators)):
        return operand.describe()
    if type(operand) is not tuple and type(operand) is not list:
        return repr(operand)
    inside = ", ".join(map(describe, operand))
    return f"[{inside}]" if isinstance(operand, list) else f"({inside}{',' if len(operand) == 1 else ''})"
