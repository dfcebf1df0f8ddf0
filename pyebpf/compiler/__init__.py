"""IR to instructions: passes, selection, register allocation, emission.

Pure: same input, same bytes, on every machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.edges import allocate
from pyebpf.compiler.emission import emit
from pyebpf.compiler.frame import FRAME_LIMIT, check_call_chains, frame_too_large, only_called, place_slots
from pyebpf.compiler.passes import run_passes
from pyebpf.compiler.selection import select
from pyebpf.dataclass import dataclass
from pyebpf.errors import CompileError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.compiler import ir
    from pyebpf.compiler.edges import Allocated
    from pyebpf.compiler.features import Features
    from pyebpf.specs.programs import Code

    #: Gives each slot its offset from r10, and the bytes that all take.
    Placing = Callable[[ir.Function], tuple[dict[str, int], int]]

__all__ = ["CompilationReport", "compile_module", "compile_with_report"]


@dataclass(frozen=True, slots=True)
class CompilationReport:
    """The result of compiling a module: the code, and how much of it is spilling.

    stores, loads   operations that put values into spill slots and bring them back
    slots           spill slots of 8 bytes, all functions together
    frames          bytes of stack each function takes
    """

    code: Code
    stores: int
    loads: int
    slots: int
    frames: tuple[int, ...]

    @property
    def spilled(self) -> bool:
        """Whether any value had to live in memory."""
        return self.stores + self.loads > 0


def compile_module(module: ir.Module, target: Features, *, check: bool = False) -> Code:
    """Compile a module. `check` runs the IR checker between passes and the allocation checker, for tests.

    CompileError: the stack is too small for the frames, or the program too long for the target's jumps.
    """
    return compile_with_report(module, target, check=check).code


def compile_with_report(module: ir.Module, target: Features, *, check: bool = False) -> CompilationReport:
    """`compile_module`, with the figures that tests and benchmarks count."""
    # Passes may have removed the only call of a function.
    functions = only_called([run_passes(function, target, check=check) for function in module.functions])
    try:
        allocated = _allocated(functions, _apart, check=check)
    except CompileError:
        # Slots share memory only where they must: it takes time to find out which may.
        from pyebpf.compiler.slots import share_slots

        allocated = _allocated(functions, share_slots, check=check)
    return CompilationReport(
        emit(allocated, target),
        sum(function.stores for function in allocated),
        sum(function.loads for function in allocated),
        sum(function.slots for function in allocated),
        tuple(function.frame for function in allocated),
    )


def _apart(function: ir.Function) -> tuple[dict[str, int], int]:
    return place_slots(function.slots)


def _allocated(functions: Sequence[ir.Function], place: Placing, *, check: bool) -> list[Allocated]:
    """All functions with registers and stack. CompileError if they need too much of it."""
    allocated = [_function(function, place, check=check) for function in functions]
    if len(allocated) > 1:
        check_call_chains(functions, {each.function.name: each.frame for each in allocated})
    return allocated


def _function(function: ir.Function, place: Placing, *, check: bool) -> Allocated:
    slots, frame = place(function)
    allocated = allocate(select(function, slots, frame))
    if check:
        from pyebpf.compiler.allocation_checker import check_allocation

        check_allocation(allocated)
    if allocated.frame > FRAME_LIMIT:
        raise frame_too_large(function, allocated.frame, allocated.slots)
    return allocated
