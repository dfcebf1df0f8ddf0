"""`kstack` and `ustack`: numbers of stacks that `bpf.stacks` has, shown by names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.translate.values import Special
from pyebpf.bpftrace.value_types import KernelStack, UserStack
from pyebpf.builder.intrinsics import stacks, task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value

MODES = ("bpftrace", "perf", "raw")


def stack(s: Scope, name: str, arguments: Sequence[ast.Expression]) -> Value:
    """`kstack`, `kstack(3)`, `kstack(perf)`, `kstack(perf, 3)`."""
    from pyebpf.bpftrace.translate.expressions import known_number

    mode, limit = s.script.settings.stack_mode, stacks.DEPTH
    for each in arguments:
        if isinstance(each, ast.Identifier) and each.name in MODES:
            mode = each.name
        elif isinstance(each, ast.Identifier) and each.name == "build_id":
            raise s.error("the stack mode build_id is not supported yet: write bpftrace, perf or raw", each)
        else:
            limit = known_number(s, each)
            if limit < 1:
                raise s.error(f"{name}({limit}): give a number of frames above 0", each)
    p = s.p
    word: Any = stacks.kstack if name == "kstack" else stacks.ustack
    number = word.call(p, [] if limit >= stacks.DEPTH else [limit], {})
    if name == "kstack":
        return Special(KernelStack(limit, mode), number)
    return Special(UserStack(limit, mode), (number, task.process_number(p)))
