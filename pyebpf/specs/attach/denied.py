"""Functions that no pattern reaches: what runs between an event and its program, or while one is detached."""

from __future__ import annotations

import functools
import re

__all__ = ["is_denied"]

# The verifier refuses to attach to some of it on newer kernels (btf_id_deny of kernel/bpf/verifier.c). Linux 6.1 stops
# for good when a trampoline is put on __rcu_read_lock.
_DENIED = r"""
      _*rcu_(read_(un)?lock|nmi|irq|note_context|eqs|dynticks|user|idle|is_watching|preempt|momentary)\w*
    | _*(migrate_(dis|en)able|preempt_count_(add|sub)|preempt_schedule(_notrace)?)
    | _*bpf_(prog_(enter|exit)|tramp|trampoline|dispatcher|kprobe|get_func_ip|get_attach_cookie)\w*
    | (kprobe|kretprobe|rethook|fprobe|ftrace|trace_call_bpf|perf_trace_run_bpf)\w*
    | __ftrace_invalid_address___\d+
    | __(pfx|cfi)_\w+
"""


@functools.cache
def _matcher() -> re.Pattern[str]:
    return re.compile(_DENIED, re.VERBOSE | re.ASCII)


def is_denied(function: str) -> bool:
    """Whether probes keep away from a function: a pattern leaves it out, and no trampoline is put on it by name."""
    return _matcher().fullmatch(function) is not None
