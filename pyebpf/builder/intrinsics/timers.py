"""Timers in maps' entries: `entry.timer.start(callback, nanoseconds)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.available import need_helper
from pyebpf.builder.intrinsics.callbacks import timer_function
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import to_int
from pyebpf.builder.values.special import SpecialField
from pyebpf.compiler.ir import Op
from pyebpf.types import S64
from pyebpf.uapi.helper_ids import TIMER_CANCEL, TIMER_INIT, TIMER_SET_CALLBACK, TIMER_START

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.methods import Method

#: CLOCK_MONOTONIC, what now() reads.
CLOCK_MONOTONIC = 1


class Timer(SpecialField):
    """A `struct bpf_timer` in a map's entry; it lives as long as the map has its entry, and a loaded owner."""

    def attribute(self, p: ProgramBuilder, name: str) -> Method:
        return method_of(p, self, name, {"start": self.start, "cancel": self.cancel})

    def start(self, p: ProgramBuilder, callback: object, nanoseconds: object) -> Int:
        """Call `callback(key, value)` once, so many nanoseconds from now; what was set before is forgotten.

        0, or the negative of an errno.
        """
        self.check_kind(p, "a timer")
        need_helper(p, "timer_init", self.describe(), "let Python do it at its time")
        self.lvalue.check(p, self.describe())
        spec = self.map(p)
        timer = self.lvalue.exact(p)
        function = timer_function(p, callback, spec)
        if function is not None:
            handle = p.b.emit(Op.MAP, symbol=p.use_map(spec))
            # Again where it has been made before: -EBUSY then, which changes nothing.
            p.b.call(TIMER_INIT, timer, handle, p.b.const(CLOCK_MONOTONIC), comment="bpf_timer_init")
            p.b.call(TIMER_SET_CALLBACK, timer, function, comment="bpf_timer_set_callback")
        wait = to_int(p, nanoseconds).value
        return Int(p.b.call(TIMER_START, timer, wait, p.b.const(0), comment="bpf_timer_start"), S64)

    def cancel(self, p: ProgramBuilder) -> Int:
        """Forget it, waiting for a call that runs now: 1 if it was to come, 0 if not, or the negative of an errno."""
        self.check_kind(p, "a timer")
        self.lvalue.check(p, self.describe())
        return Int(p.b.call(TIMER_CANCEL, self.lvalue.exact(p), comment="bpf_timer_cancel"), S64)
