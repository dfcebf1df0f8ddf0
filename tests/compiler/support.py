"""What the compiler's tests share: short spellings of IR, targets, runs in the evaluator."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Any

from pyebpf.asm import encode, listing, resolve, slot_starts
from pyebpf.compiler import compile_module, ir
from pyebpf.compiler.evaluator import LOOP_LIMIT, Pointer, Region, evaluate
from pyebpf.compiler.ir import Op, ValueType
from tests.compiler.random_ir import CONTEXT, INTERESTING, JIFFIES, WORDS, random_module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.specs import Code

MASK = (1 << 64) - 1


class Target:
    """Has every feature but those named."""

    def __init__(self, *lacking: str) -> None:
        self.lacking = lacking

    def has(self, name: str) -> bool:
        return name not in self.lacking


NEWEST = Target()
OLDEST = Target(
    *(f"isa:{name}" for name in ("sdiv", "movsx", "ldsx", "bswap", "gotol", "may_goto", "jmp32", "atomics"))
)
CTX = ir.Value(0, ValueType.POINTER, "ctx")


class Builder:
    """Blocks of a function of one parameter, the context, by hand. Value numbers count up from 1."""

    def __init__(self, parameters: Sequence[ir.Value] = (CTX,), slots: Sequence[ir.Slot] = ()) -> None:
        self.parameters = tuple(parameters)
        self.slots = tuple(slots)
        self.blocks: list[ir.Block] = []
        self.instructions: list[ir.Instruction] = []
        self.number = len(self.parameters)

    def value(self, type_: ValueType = ValueType.SCALAR) -> ir.Value:
        self.number += 1
        return ir.Value(self.number - 1, type_)

    def emit(
        self, op: Op, *operands: ir.Value, result: ValueType | None = ValueType.SCALAR, **attributes: Any
    ) -> ir.Value:
        value = None if result is None else self.value(result)
        self.instructions.append(ir.Instruction(op, value, operands, **attributes))
        return value or CTX

    def const(self, number: int) -> ir.Value:
        return self.emit(Op.CONST, imm=number)

    def load(self, word: int, **attributes: Any) -> ir.Value:
        return self.emit(Op.LOAD, CTX, imm=8 * word, **attributes)

    def end(self, terminator: ir.Terminator, parameters: Sequence[ir.Value] = ()) -> None:
        """End the current block; numbers count up from 0."""
        block = ir.Block(len(self.blocks), tuple(parameters), tuple(self.instructions), terminator)
        self.blocks.append(block)
        self.instructions = []

    def function(self, name: str = "main") -> ir.Function:
        return ir.Function(name, self.parameters, tuple(self.blocks), self.slots)

    def module(self) -> ir.Module:
        return ir.Module((self.function(),))

    def text(self, target: Any = NEWEST) -> list[str]:
        """The lines of the listing of the compiled module, less labels and numbers."""
        return text_of(self.module(), target)


def text_of(module: ir.Module, target: Any = NEWEST) -> list[str]:
    code = compile_module(module, target, check=True)
    lines = [line.split("  ;")[0].strip() for line in listing(code.instructions).splitlines()]
    return [line.split(" ", 1)[1] for line in lines if not line.endswith(":") and not line.startswith(";")]


def loadable(code: Code) -> bytes:
    """A program without maps as the kernel takes it, calls to its subprograms filled in."""
    starts = slot_starts(code.instructions)
    functions = {each.name: starts[each.start] for each in code.subprograms}
    return encode(resolve(code.instructions, {}, functions))


def contexts(seed: int) -> bytes:
    """A context of interesting words."""
    chance = random.Random(seed)
    return struct.pack(f"<{WORDS}Q", *(chance.choice(INTERESTING) & MASK for _ in range(WORDS)))


def run(module: ir.Module, context: bytes, loop_limit: int = LOOP_LIMIT) -> tuple[Any, bytes]:
    """What the evaluator returns, and the context afterwards; `loop_limit` is the kernel's budget for loops."""
    assert len(context) == CONTEXT
    region = Region.of("ctx", context)
    returned = evaluate(module, [Pointer(region, 0)], helpers={JIFFIES: lambda _: 0}, loop_limit=loop_limit)
    return returned, bytes(region.data)


def seeded_module(seed: int, size: int = 40, pressure: int = 6, *, may_goto: bool = False) -> ir.Module:
    chance = random.Random(seed)
    return random_module(chance.randrange, size=size, pressure=pressure, may_goto=may_goto)
