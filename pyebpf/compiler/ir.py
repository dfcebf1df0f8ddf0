"""The intermediate representation: functions of basic blocks in static single assignment form.

Everything here is frozen data; the objects that a function has many of are so for the type checker alone. A `Value` is
defined once, by a block's parameter or by one instruction, and every definition dominates its uses. Control joins
through block parameters: a jump gives one argument for each. All values are 64 bits wide; its type says whether it is a
number, an address or a map's handle, as the verifier tells them apart. Numbers have no sign: operations do.

An instruction is an `Op` with operands and a few attributes; `OPS` says what each op takes and yields, and the
checker, the evaluator, the printer and the passes all read that table.
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from itertools import chain
from operator import is_
from typing import TYPE_CHECKING, TypeAlias

from pyebpf.dataclass import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyebpf.errors import Location


class ValueType(StrEnum):
    """The verifier's type of a value."""

    SCALAR = "scalar"
    POINTER = "pointer"
    MAP = "map"


class Op(StrEnum):
    """Operations; `OPS` has their signatures."""

    CONST = auto()
    MAP = auto()
    MAP_VALUE = auto()
    SLOT = auto()
    FUNCTION = auto()
    KSYM = auto()
    ADD = auto()
    SUB = auto()
    MUL = auto()
    UDIV = auto()
    UMOD = auto()
    SDIV = auto()
    SMOD = auto()
    AND = auto()
    OR = auto()
    XOR = auto()
    SHL = auto()
    LSHR = auto()
    ASHR = auto()
    NEG = auto()
    SEXT = auto()
    ZEXT = auto()
    SWAP = auto()
    COMPARE = auto()
    OFFSET = auto()
    LOAD = auto()
    STORE = auto()
    ATOMIC = auto()
    CALL = auto()
    CALL_LOCAL = auto()
    CALL_KFUNC = auto()
    REFINE = auto()
    FROM_BITS = auto()
    ARENA = auto()


class Condition(StrEnum):
    """Relations of COMPARE and Branch, on 64 bits. SET is `(a & b) != 0`."""

    EQ = "=="
    NE = "!="
    ULT = "u<"
    ULE = "u<="
    UGT = "u>"
    UGE = "u>="
    SLT = "s<"
    SLE = "s<="
    SGT = "s>"
    SGE = "s>="
    SET = "&"


class Result(Enum):
    """The type of result that an op defines."""

    NONE = auto()
    SCALAR = auto()
    POINTER = auto()
    MAP = auto()
    #: The type of the first operand.
    SAME = auto()
    #: As the instruction's own `result` says (calls, loads).
    DECLARED = auto()


@dataclass(frozen=True, slots=True, guarded=False)
class OpInfo:
    """An op's signature.

    `attributes` names the fields of Instruction that it uses; `pure` ones may be dropped, moved and merged.
    """

    operands: tuple[str, ...]
    result: Result
    attributes: tuple[str, ...] = ()
    pure: bool = True
    meaning: str = ""


_ALU = (("scalar", "scalar"), Result.SCALAR)

#: Operand words: scalar, pointer, map, any; a last "…" stands for up to five arguments of a call.
OPS: dict[Op, OpInfo] = {
    Op.CONST: OpInfo((), Result.SCALAR, ("imm",), meaning="imm, any 64-bit number; kept as s64"),
    Op.MAP: OpInfo((), Result.MAP, ("symbol",), meaning="the handle of a map, for helpers"),
    Op.MAP_VALUE: OpInfo(
        (), Result.POINTER, ("symbol", "imm"), meaning="address of byte imm in the only value of an array map"
    ),
    Op.SLOT: OpInfo(
        (), Result.POINTER, ("symbol", "imm"), meaning="address of byte imm in a stack slot of this function"
    ),
    Op.FUNCTION: OpInfo((), Result.POINTER, ("symbol",), meaning="address of a subprogram, for callbacks"),
    Op.KSYM: OpInfo((), Result.SCALAR, ("symbol",), meaning="address of the kernel's symbol"),
    Op.ADD: OpInfo(*_ALU, meaning="a + b modulo 2^64"),
    Op.SUB: OpInfo(*_ALU, meaning="a - b modulo 2^64"),
    Op.MUL: OpInfo(*_ALU, meaning="a * b modulo 2^64"),
    Op.UDIV: OpInfo(*_ALU, meaning="unsigned quotient; 0 if b is 0"),
    Op.UMOD: OpInfo(*_ALU, meaning="unsigned remainder; a if b is 0"),
    Op.SDIV: OpInfo(*_ALU, meaning="signed quotient toward zero; 0 if b is 0; a if b is -1 and a is -2^63"),
    Op.SMOD: OpInfo(*_ALU, meaning="signed remainder with a's sign; a if b is 0; 0 if b is -1"),
    Op.AND: OpInfo(*_ALU),
    Op.OR: OpInfo(*_ALU),
    Op.XOR: OpInfo(*_ALU),
    Op.SHL: OpInfo(*_ALU, meaning="a << (b & 63)"),
    Op.LSHR: OpInfo(*_ALU, meaning="a >> (b & 63), zeros come in"),
    Op.ASHR: OpInfo(*_ALU, meaning="a >> (b & 63), the sign comes in"),
    Op.NEG: OpInfo(("scalar",), Result.SCALAR, meaning="-a modulo 2^64"),
    Op.SEXT: OpInfo(("scalar",), Result.SCALAR, ("size",), meaning="low size bytes (1, 2, 4), sign-extended"),
    Op.ZEXT: OpInfo(("scalar",), Result.SCALAR, ("size",), meaning="low size bytes (1, 2, 4), zero-extended"),
    Op.SWAP: OpInfo(("scalar",), Result.SCALAR, ("size",), meaning="low size bytes (2, 4, 8) reversed, zero-extended"),
    Op.COMPARE: OpInfo(("any", "any"), Result.SCALAR, ("condition",), meaning="1 or 0"),
    Op.OFFSET: OpInfo(
        ("pointer", "scalar"),
        Result.POINTER,
        ("imm",),
        meaning="address plus number of bytes; of those that vary imm is the largest that verifiers know of, 0 if none",
    ),
    Op.LOAD: OpInfo(
        ("pointer",),
        Result.DECLARED,
        ("size", "imm", "signed"),
        pure=False,
        meaning="size bytes at address + imm, extended as signed says",
    ),
    Op.STORE: OpInfo(
        ("pointer", "any"),
        Result.NONE,
        ("size", "imm"),
        pure=False,
        meaning="low size bytes of b to address + imm",
    ),
    Op.ATOMIC: OpInfo(
        ("pointer", "scalar"),
        Result.DECLARED,
        ("size", "imm", "symbol"),
        pure=False,
        meaning="symbol: add and or xor xchg; memory op= b; with a result, the old value",
    ),
    Op.CALL: OpInfo(("…",), Result.DECLARED, ("imm",), pure=False, meaning="kernel helper number imm"),
    Op.CALL_LOCAL: OpInfo(("…",), Result.DECLARED, ("symbol",), pure=False, meaning="subprogram of this module"),
    Op.CALL_KFUNC: OpInfo(
        ("…",),
        Result.DECLARED,
        ("symbol", "imm"),
        pure=False,
        meaning="kernel function with BTF id imm; with 0, found by its name as the program is loaded",
    ),
    Op.REFINE: OpInfo(
        ("any",),
        Result.SAME,
        meaning="the same value, known to satisfy the branch before it. Never merged with its operand: if it lives in "
        "memory, it is stored after the check, since Linux 6.1's verifier forgets what it learns of a spilled number "
        "in a register",
    ),
    Op.FROM_BITS: OpInfo(
        ("scalar",),
        Result.SCALAR,
        meaning="the same number, of which verifiers know what its bits tell and nothing else",
    ),
    Op.ARENA: OpInfo(
        ("map", "scalar"), Result.POINTER, meaning="address, for programs, of what user space has at b in the arena a"
    ),
}


_FIXED = {
    Result.NONE: None,
    Result.SCALAR: ValueType.SCALAR,
    Result.POINTER: ValueType.POINTER,
    Result.MAP: ValueType.MAP,
}
#: The types of results that `OPS` fixes; None for no result.
RESULT_TYPES = {op: _FIXED[info.result] for op, info in OPS.items() if info.result in _FIXED}
#: Operations that give the same wherever they stand. The builder puts each into the first block, once.
CONSTANTS = frozenset({Op.CONST, Op.MAP, Op.MAP_VALUE, Op.SLOT, Op.FUNCTION, Op.KSYM})
#: Operations whose results every verifier bounds where one operand is a constant; Linux 6.1 does not, of two others.
FOLLOWED_WITH_CONSTANTS = frozenset({Op.OR, Op.XOR, Op.MUL})


@dataclass(frozen=True, slots=True, guarded=False)
class Value:
    """One SSA value: `number` is unique in its function; `hint` names the variable it came from, for dumps."""

    number: int
    type: ValueType = ValueType.SCALAR
    hint: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"%{self.number}" + (f".{self.hint}" if self.hint else "")


@dataclass(frozen=True, slots=True, guarded=False)
class Instruction:
    """One operation. Which attributes count is in `OPS[op].attributes`; the others keep their defaults.

    `imm` is a number or an offset in bytes, `size` bytes (1, 2, 4, 8), `symbol` a map, slot, subprogram or atomic
    operation.
    """

    op: Op
    result: Value | None = None
    operands: tuple[Value, ...] = ()
    imm: int = 0
    size: int = 8
    signed: bool = False
    condition: Condition | None = None
    symbol: str = ""
    where: Location | None = field(default=None, compare=False, repr=False)
    comment: str = field(default="", compare=False, repr=False)

    def with_operands(self, operands: tuple[Value, ...]) -> Instruction:
        """Return the same operation on other operands; `replace` would take four times as long."""
        return Instruction(
            self.op,
            self.result,
            operands,
            self.imm,
            self.size,
            self.signed,
            self.condition,
            self.symbol,
            self.where,
            self.comment,
        )


@dataclass(frozen=True, slots=True, guarded=False)
class Jump:
    """Go to `target`, giving its parameters."""

    target: int
    arguments: tuple[Value, ...] = ()
    where: Location | None = field(default=None, compare=False, repr=False)

    def uses(self) -> tuple[Value, ...]:
        """Values that it reads."""
        return self.arguments

    def successors(self) -> tuple[int, ...]:
        """Numbers of the blocks that may come next, `then` before `otherwise`."""
        return (self.target,)


@dataclass(frozen=True, slots=True, guarded=False)
class Branch:
    """Go to `then` if `left condition right` holds, else to `otherwise`.

    Neither has arguments: edges of a block with two successors carry none.
    """

    condition: Condition
    left: Value
    right: Value
    then: int
    otherwise: int
    where: Location | None = field(default=None, compare=False, repr=False)

    def with_successors(self, then: int, otherwise: int) -> Branch:
        """Return the same test before other blocks."""
        return Branch(self.condition, self.left, self.right, then, otherwise, self.where)

    def uses(self) -> tuple[Value, ...]:
        """Values that it reads."""
        return self.left, self.right

    def successors(self) -> tuple[int, ...]:
        """Numbers of the blocks that may come next, `then` before `otherwise`."""
        return (self.then, self.otherwise)


@dataclass(frozen=True, slots=True, guarded=False)
class MayGoto:
    """Go to `then` once the kernel's budget for the loops of this call is spent, else to `otherwise`, spending of it.

    Neither has arguments. The verifier takes a loop through here for one that ends (Linux commit 011832b97b31 "bpf:
    Introduce may_goto instruction", in v6.9).
    """

    then: int
    otherwise: int
    where: Location | None = field(default=None, compare=False, repr=False)

    def with_successors(self, then: int, otherwise: int) -> MayGoto:
        """Return the same question before other blocks."""
        return MayGoto(then, otherwise, self.where)

    def uses(self) -> tuple[Value, ...]:
        """Reads nothing."""
        return ()

    def successors(self) -> tuple[int, ...]:
        """Numbers of the blocks that may come next, `then` before `otherwise`."""
        return (self.then, self.otherwise)


@dataclass(frozen=True, slots=True, guarded=False)
class Return:
    """Leave the function with `value` in r0."""

    value: Value
    where: Location | None = field(default=None, compare=False, repr=False)

    def uses(self) -> tuple[Value, ...]:
        """Values that it reads."""
        return (self.value,)

    def successors(self) -> tuple[int, ...]:
        """Numbers of the blocks that may come next, `then` before `otherwise`."""
        return ()


Terminator: TypeAlias = Jump | Branch | MayGoto | Return


@dataclass(frozen=True, slots=True, guarded=False)
class Block:
    """Straight-line code. `parameters` are defined on entry, one argument each from every jump."""

    number: int
    parameters: tuple[Value, ...]
    instructions: tuple[Instruction, ...]
    terminator: Terminator

    def with_instructions(self, instructions: Sequence[Instruction]) -> Block:
        """Return the block with other instructions; itself if they are its own."""
        if len(instructions) == len(self.instructions) and all(map(is_, instructions, self.instructions)):
            return self
        return Block(self.number, self.parameters, tuple(instructions), self.terminator)

    def with_terminator(self, terminator: Terminator) -> Block:
        """Return the block with another terminator; itself if it is its own."""
        if terminator is self.terminator:
            return self
        return Block(self.number, self.parameters, self.instructions, terminator)

    def successors(self) -> tuple[int, ...]:
        """Numbers of the blocks that may come next, `then` before `otherwise`."""
        return self.terminator.successors()


@dataclass(frozen=True, slots=True)
class Slot:
    """A named piece of the stack frame, `size` bytes at `align`; the author's memory, not the allocator's."""

    name: str
    size: int
    align: int = 8
    where: Location | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, guarded=False)
class Function:
    """A program or subprogram.

    `parameters` arrive in r1…r5 (a program's only one is its context). `blocks` are in reverse post-order, the entry
    first; the entry has no parameters of its own and no predecessors.
    """

    name: str
    parameters: tuple[Value, ...]
    blocks: tuple[Block, ...]
    slots: tuple[Slot, ...] = ()
    where: Location | None = field(default=None, compare=False, repr=False)

    def with_blocks(self, blocks: Sequence[Block]) -> Function:
        """Return the function with other blocks; itself if they are its own."""
        if len(blocks) == len(self.blocks) and all(map(is_, blocks, self.blocks)):
            return self
        return Function(self.name, self.parameters, tuple(blocks), self.slots, self.where)

    def block_map(self) -> Mapping[int, Block]:
        """Blocks by their number."""
        return {block.number: block for block in self.blocks}

    def successors(self) -> dict[int, tuple[int, ...]]:
        """Numbers of the blocks that may come right behind each block, by its number."""
        return {
            block.number: (terminator.target,)
            if isinstance(terminator := block.terminator, Jump)
            else block.successors()
            for block in self.blocks
        }

    def highest(self) -> int:
        """The highest number of a value; -1 if there is none."""
        highest = max((value.number for value in self.parameters), default=-1)
        for block in self.blocks:
            for value in block.parameters:
                if value.number > highest:
                    highest = value.number
            for instruction in block.instructions:
                result = instruction.result
                if result is not None and result.number > highest:
                    highest = result.number
        return highest

    def values(self) -> Iterator[Value]:
        """Every value defined, in order."""
        yield from self.parameters
        for block in self.blocks:
            yield from block.parameters
            for instruction in block.instructions:
                if instruction.result is not None:
                    yield instruction.result


@dataclass(frozen=True, slots=True)
class Module:
    """One program: its main function first, then the subprograms that it calls."""

    functions: tuple[Function, ...]

    def __hash__(self) -> int:
        """Equal modules have equal names, and numbers in operations; a hash of all takes a tenth of a compilation."""
        return hash((*[each.name for each in self.functions], *[each.imm for each in self._instructions()]))

    def _instructions(self) -> Iterator[Instruction]:
        return chain.from_iterable([block.instructions for function in self.functions for block in function.blocks])

    @property
    def main(self) -> Function:
        """The function that the kernel enters."""
        return self.functions[0]
