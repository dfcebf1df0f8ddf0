"""`with entry.lock:`: nobody else is between the same entry's lock and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.special import Member
from pyebpf.uapi.helper_ids import SPIN_LOCK, SPIN_UNLOCK

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder

__all__ = ["SpinLock"]

#: Helper numbers of enum bpf_func_id (since Linux 5.1).


class SpinLock(Member):
    """A `struct bpf_spin_lock` in a map's entry. Inside, fields of shared records are changed by plain instructions."""

    no_calls = (
        "a spin lock is held, and nothing may be called under it: look things up, read the kernel's memory, emit and "
        "count before or after"
    )

    def enter(self, p: ProgramBuilder) -> Any:
        self.check_kind(p, "a spin lock")
        self.place.check(p, self.describe())
        p.b.call(SPIN_LOCK, self.place.exact(p), comment="bpf_spin_lock")
        return None

    def leave(self, p: ProgramBuilder) -> None:
        p.b.call(SPIN_UNLOCK, self.place.exact(p), comment="bpf_spin_unlock")
