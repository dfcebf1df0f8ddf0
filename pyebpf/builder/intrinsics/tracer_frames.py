"""Frames that stand before the traced place in a stack of the kernel: the program's, and those of what calls it.

At raw and BTF tracepoints these are the program, `bpf_trace_runN`, and `__bpf_trace_NAME`, `__traceiter_NAME` or both,
at others the last alone: how many differs from one moment to the next, since the kernel calls a single listener
directly. `kstack(depth)` counts from behind them, so the program needs to know where these functions lie: the loader
writes it into a hidden array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.loops import opaque_zero
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64, ArrayType
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

TRACER_MAP = ".tracer"
#: Ranges of addresses, each a start and a size: `bpf_trace_run*`, and two for each of a few tracepoints.
RANGES = 7
#: Frames of the tracer's at most, a power of two less one.
MAX_FRAMES = 7
_LOOKED_AT = range(5)


def own_frames(p: ProgramBuilder, frames: ir.Value) -> ir.Value | None:
    """How many frames at the address `frames` are the tracer's; None where there are none."""
    if p.attach is None or not p.attach.caller_event:
        return None
    b = p.b
    name = p.use_map(MapSpec(TRACER_MAP, MapType.ARRAY, U32, ArrayType(U64, 2 * RANGES), 1))
    own = b.variable(hint="own frames")
    b.write(own, b.const(0))
    for number in range(RANGES):
        entry = b.emit(Op.MAP_VALUE, symbol=name, imm=16 * number)
        start, size = b.load(entry, 0, 8), b.load(entry, 8, 8)
        for index in _LOOKED_AT:
            distance = b.binary(Op.SUB, b.load(frames, 8 * index, 8), start)
            with b.if_(Compare(Relation.ULT, distance, size)):
                before = b.read(own)
                assert before is not None
                with b.if_(Compare(Relation.ULT, before, b.const(index + 1))):
                    b.write(own, b.const(index + 1))
    # To the verifier any number of them: it would follow what comes for each.
    found = b.binary(Op.AND, b.binary(Op.ADD, b.read_final(own), opaque_zero(p)), b.const(MAX_FRAMES))
    b.assume_bounds(found, 0, MAX_FRAMES)
    return found
