"""struct_ops: a table of functions of the kernel's, such as a TCP congestion control, whose functions are programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass
from pyebpf.specs.attach.base import AttachSpec
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.flags import BPF_F_SLEEPABLE

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["StructOpsMember"]


@dataclass(frozen=True, slots=True)
class StructOpsMember(AttachSpec):
    """The function `member` of a `struct OPERATIONS`. Its other members are `values`, by name.

    All members with the same `operations` and `values` are one table, registered as a whole.
    """

    operations: str
    member: str
    values: tuple[tuple[str, int | str], ...] = ()
    sleepable: bool = False

    kind = ProgramType.STRUCT_OPS

    def __str__(self) -> str:
        return f"struct_ops {self.operations}.{self.member}"

    @property
    def load_flags(self) -> int:
        return BPF_F_SLEEPABLE if self.sleepable else 0

    @property
    def target(self) -> str:
        return self.member

    @property
    def group(self) -> Hashable:
        return (self.operations, self.values)
