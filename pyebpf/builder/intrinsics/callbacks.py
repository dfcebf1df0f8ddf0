"""Functions that the kernel calls back: `loop(n, function)`, and timers' functions."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING

from pyebpf.builder.available import need_helper
from pyebpf.builder.intrinsics.base import intrinsic
from pyebpf.builder.values.entity import describe
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.builder.values.operations import to_int
from pyebpf.compiler.ir import Op, ValueType
from pyebpf.errors import OnlyInProbe
from pyebpf.types import S64, U32
from pyebpf.uapi.helper_ids import LOOP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.specs import MapSpec

#: BPF_MAX_LOOPS.
MAX_ITERATIONS = 1 << 23

#: The arguments that the kernel passes: the map, the addresses of key and value.
ENTRY = (ValueType.POINTER, ValueType.POINTER, ValueType.POINTER)


def function_number(p: ProgramBuilder) -> int:
    """A number for the name of another function that is called back."""
    p.callbacks += 1
    return p.callbacks


def entry_arguments(p: ProgramBuilder, spec: MapSpec) -> Callable[[Sequence[ir.Value]], Sequence[object]]:
    """The Python arguments for one entry: its key and its value, a snapshot where that is a number."""

    def arguments(registers: Sequence[ir.Value]) -> Sequence[object]:
        _, key, value = registers
        # The key is in the entry as well, and its memory goes with it.
        p.b.assume_origin(key, spec.name)
        p.b.assume_origin(value, spec.name)
        key_lvalue = Lvalue(base=key, owner=f"a key of {spec.name}", writable=False)
        value_lvalue = Lvalue(base=value, owner=f"an entry of {spec.name}", shared=True)
        assert spec.value is not None
        return [p.load_value(key_lvalue, spec.key or U32), p.load_value(value_lvalue, spec.value)]

    return arguments


def callback(p: ProgramBuilder, function: object, what: str, of: str = "a key and a value") -> FunctionType:
    """The function that is given; fails for anything else."""
    if not isinstance(function, FunctionType):
        p.fail(f"{what} takes a function of {of}, not {describe(function)}")
    return function


def _loop(p: ProgramBuilder, iterations: object, function: object) -> Int:
    what = "loop()"
    need_helper(p, "loop", what, "write a `for` loop")
    count = to_int(p, iterations)
    low, high = p.b.bounds(count.value)
    if not 0 <= low <= high <= MAX_ITERATIONS:
        p.fail(
            f"loop() runs 0 to {MAX_ITERATIONS} iterations, and this number may be outside: write loop(min(n, …), …)"
        )

    if high == 0:
        # Verifiers do not walk what is called no time, drop its code, and miss it ("No program to jit").
        return Int(p.b.const(0), S64)

    def arguments(registers: Sequence[ir.Value]) -> Sequence[object]:
        index = p.b.emit(Op.ZEXT, registers[0], size=U32.size)
        p.b.assume_bounds(index, 0, max(high - 1, 0))
        return [Int(index, S64, U32)]

    called = callback(p, function, what, "a number")
    address, passed, invalidated = p.build_callback(called, (ValueType.SCALAR,), arguments, f"a function for {what}")
    done = p.b.call(LOOP, count.value, address, passed, p.b.const(0), comment=what)
    for origin, reason in invalidated.items():
        p.b.invalidate_origin(origin, f"{what} and its {reason}")
    p.b.assume_bounds(done, 0, high)
    return Int(done, S64)


@intrinsic(_loop)
def loop(iterations: int, function: Callable[[int], None] | Callable[[int], bool]) -> int:
    """Call `function(i)` for i from 0 to `iterations` - 1, until it returns True; the number of calls (bpf_loop).

    The verifier looks at the function once, whatever the number of iterations, up to 2^23.
    """
    raise OnlyInProbe


def timer_function(p: ProgramBuilder, function: object, spec: MapSpec) -> ir.Value | None:
    """The address of a function that a timer calls with its entry's key and value, without a context.

    None inside that very function: the timer that it starts again has it already.
    """
    function = callback(p, function, "timer.start()")
    key = function, spec.name
    symbol = p.timer_functions.get(key)
    if symbol is not None:
        return None if symbol == p.b.name else p.b.emit(Op.FUNCTION, symbol=symbol)

    def note(made: str) -> None:
        p.timer_functions[key] = made

    address, _, _ = p.build_callback(
        function, ENTRY, entry_arguments(p, spec), "a timer's function", context=False, noting=note
    )
    return address
