"""Names of kernel functions, as kprobes and trampolines take them, and functions that no pattern reaches."""

from __future__ import annotations

import functools
import re

from pyebpf.errors import NotFound

__all__ = ["MAX_PROBES", "in_words", "is_denied", "not_loaded", "split"]

#: Functions that a pattern may match at most, unless its author says otherwise.
MAX_PROBES = 1000


def split(function: str) -> tuple[str, str, str]:
    """Module, name and offset of "module:name+offset"; empty where not given."""
    module, _, name = function.rpartition(":")
    name, _, offset = name.partition("+")
    return module, name, offset


def not_loaded(function: str) -> NotFound:
    """The error for a function of a module that is not loaded."""
    module, _, _ = split(function)
    return NotFound(f"no function {function}: module {module} is not loaded (modprobe {module})")


def in_words(functions: tuple[str, ...]) -> str:
    """Return the functions for a message, the first of many."""
    if len(functions) <= 2:
        return " and ".join(functions)
    return f"{functions[0]} and {len(functions) - 1} more"


# Functions that run between an event and its program, or while one is detached. The verifier refuses some of them on
# newer kernels (btf_id_deny of kernel/bpf/verifier.c). Linux 6.1 stops for good when a trampoline is put on
# __rcu_read_lock.
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
