"""Members of a map's values that only the kernel touches, as entities: locks and timers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.values.entity import Entity, NoPythonOperators
from pyebpf.uapi.helper_ids import SPIN_LOCK, SPIN_UNLOCK

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.lvalue import Lvalue
    from pyebpf.specs import MapSpec
    from pyebpf.types.special import SpecialType

#: Kinds of programs that may interrupt any other: the verifier lets them use neither locks nor timers.
TRACING_TYPES = ("KPROBE", "TRACEPOINT", "PERF_EVENT", "RAW_TRACEPOINT", "RAW_TRACEPOINT_WRITABLE")


class SpecialField(Entity, NoPythonOperators):
    """Such a member at its place in a map's entry."""

    def __init__(self, type_: SpecialType, lvalue: Lvalue) -> None:
        self.type = type_
        self.lvalue = lvalue

    def describe(self) -> str:
        owner = f" of {self.lvalue.owner}" if self.lvalue.owner else ""
        return f"the {self.type.name}{owner}"

    def map(self, p: ProgramBuilder) -> MapSpec:
        """The map whose entry it is in."""
        base = self.lvalue.base
        name = None if base is None else p.b.origin(base)
        spec = None if name is None else p.maps.get(name)
        if spec is None:
            p.fail(f"{self.describe()}: the map of this entry is not known here: take the entry from .get(k)")
        return spec

    def check_kind(self, p: ProgramBuilder, what: str) -> None:
        """Refuse programs of kinds that may not use it."""
        if p.program_type.name in TRACING_TYPES:
            p.fail(f"{what}: programs of type {p.program_type_name} may interrupt any other, and cannot use it")


class SpinLock(SpecialField):
    """A `struct bpf_spin_lock` in a map's entry. Inside, fields of shared records are changed by plain instructions."""

    no_calls = (
        "a spin lock is held, and nothing may be called under it: look things up, read the kernel's memory, emit and "
        "count before or after"
    )

    def enter(self, p: ProgramBuilder) -> None:
        self.check_kind(p, "a spin lock")
        self.lvalue.check(p, self.describe())
        p.b.call(SPIN_LOCK, self.lvalue.exact(p), comment="bpf_spin_lock")

    def leave(self, p: ProgramBuilder) -> None:
        p.b.call(SPIN_UNLOCK, self.lvalue.exact(p), comment="bpf_spin_unlock")
