"""`kstack`, `ustack` and `dw_ustack`: numbers of stacks that `bpf.stacks` has, shown by names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.translate.values import Integer, Special
from pyebpf.bpftrace.value_types import KernelStack, UserStack
from pyebpf.builder.intrinsics import stacks, task
from pyebpf.builder.values.integers import Int
from pyebpf.types import S64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value

#: How stacks are shown; `build_id` are those of user space alone.
MODES = ("bpftrace", "perf", "raw", "build_id")


def stack(s: Scope, name: str, arguments: Sequence[ast.Expression]) -> Value:
    """`kstack`, `kstack(3)`, `kstack(perf)`, `kstack(perf, 3)`."""
    from pyebpf.bpftrace.translate.expressions import known_number

    mode, limit = s.script.settings.stack_mode, stacks.DEPTH
    for each in arguments:
        if isinstance(each, ast.Identifier) and each.name in MODES:
            mode = each.name
            if mode == "build_id" and name == "kstack":
                raise s.error("build_id is a mode of ustack: the kernel's own code is in no file", each)
        else:
            limit = known_number(s, each)
            if limit < 0:
                raise s.error(f"{name}({limit}): give a number of frames, 0 or more", each)
    if mode == "build_id" and name == "kstack":
        mode = "raw"  # by the setting `stack_mode`, as in bpftrace
    p, limit = s.p, min(limit, stacks.DEPTH)
    if not limit:  # none is kept, and nothing shown
        number = Int(p.b.const(-1), S64)
    elif name == "dw_ustack":
        number = s.script.unwinder.subprogram(limit).call(p, [], {})
    else:
        word: Any = stacks.kstack if name == "kstack" else stacks.ustack
        number = word.call(p, [] if limit == stacks.DEPTH else [limit], {})
    if name == "kstack":
        return Special(KernelStack(limit, mode), number)
    return Special(UserStack(limit, mode), (number, task.process_number(p)))


def stack_length(s: Scope, value: Value) -> Value:
    """`len(stack)`: the number of its frames."""
    number: Any = value.operand(s.p)
    if isinstance(value.type, UserStack):
        number = number[0] if isinstance(number, tuple) else number.item(s.p, 0)
    return Integer(stacks.frame_count(s.p, number.value).value, signed=False)
