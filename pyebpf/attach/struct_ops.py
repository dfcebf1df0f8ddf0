"""`bpf.struct_ops`: a table of the kernel's, function by function."""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pyebpf.attach.decorators import Decorators, attachments
from pyebpf.errors import InvalidValue
from pyebpf.module.probe import Candidate, Probe, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.module.probe import ProbeOwner

__all__ = ["StructOps", "StructOpsDecorators"]

P = ParamSpec("P")
R = TypeVar("R")


class StructOps:
    """A table `struct OPERATIONS` under construction: `@table.member` makes a function its member of that name."""

    def __init__(self, module: ProbeOwner, operations: str, values: tuple[tuple[str, int | str], ...]) -> None:
        self._module = module
        self.operations = operations
        self.values = values
        self._members: set[str] = set()

    def __repr__(self) -> str:
        return f"<StructOps {self.operations} {' '.join(sorted(self._members))}>"

    def member(self, function: Callable[P, R]) -> Probe[P, R]:
        """Make a function the table's member of the same name.

        Its parameters are, in order, those of the kernel's function; their names are free, their types BTF's. Where
        that returns something, so does every path of this.
        """
        body = self._module.body_of(function, "struct_ops")
        name = body.name
        if name in self._members:
            raise InvalidValue(f"{self.operations} has its {name} already: a table has one function of each name")
        self._members.add(name)
        from pyebpf.specs.attach.struct_ops import StructOpsMember

        place = StructOpsMember(self.operations, name, self.values)
        request = Request("struct_ops", (self.operations, name), (Candidate("struct_ops", attachments((place,))),))
        probe: Probe[P, R] = Probe(body, (request,))
        self._module.probes.append(probe)
        return probe


class StructOpsDecorators(Decorators):
    """Programs in tables of the kernel's."""

    def struct_ops(self, operations: str, **values: int | str) -> StructOps:
        """A table of functions that the kernel calls, such as "tcp_congestion_ops"; `values` are its other members.

        Registered, as a whole, when `with bpf:` attaches, and taken back when it ends. Members that are not defined
        are NULL, or 0.
        """
        return StructOps(self._module, operations, tuple(sorted(values.items())))
