"""Sessions: a program that runs at a function's entry and at its return, with a number kept between the two.

`bpf_session_is_return` and `bpf_session_cookie` of the kernel tell which of the two it is, and where the number stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.operations import to_int
from pyebpf.compiler.ir import Op, ValueType
from pyebpf.errors import NotFound
from pyebpf.types import S64, U64
from pyebpf.types.integers import INTEGERS

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

#: The names of the two as attributes of `ctx`.
IS_RETURN, COOKIE = "is_return", "cookie"
#: Results of a program: at the entry, 1 leaves the return out. Verifiers since the end of 2024 take nothing else.
RESULTS = 0, 1


def is_return(p: ProgramBuilder) -> Int:
    """`ctx.is_return`: 1 at the return, 0 at the entry."""
    found = p.b.emit(Op.ZEXT, _kfunc(p, "bpf_session_is_return"), size=1)
    p.b.assume_bounds(found, 0, 1)
    return Int(found, S64, INTEGERS["bool"])


def cookie(p: ProgramBuilder) -> Int:
    """`ctx.cookie`: a u64, 0 at the entry."""
    return Int(p.b.load(_kfunc(p, "bpf_session_cookie", result=ValueType.POINTER), 0, 8), U64)


def set_cookie(p: ProgramBuilder, value: object) -> None:
    """`ctx.cookie = value`."""
    number = to_int(p, value).value
    p.b.store(_kfunc(p, "bpf_session_cookie", result=ValueType.POINTER), 0, number, 8)


def _kfunc(p: ProgramBuilder, name: str, result: ir.ValueType = ValueType.SCALAR) -> ir.Value:
    try:
        function = p.target.function(name)
    except NotFound:
        p.fail(f"this kernel has no {name}(), which came with kprobe sessions in Linux 6.10")
    # Both take the context since Linux 7.0, with sessions of trampolines; before, no argument.
    context = (p.context,) if function.parameters else ()
    found = p.b.emit(Op.CALL_KFUNC, *context, result=result, imm=function.btf_id, symbol=name)
    if result is ValueType.POINTER:
        p.b.assume_non_null(found)
    return found
