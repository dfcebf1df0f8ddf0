"""Runs IR on Python values, with the verifier's eyes: every access is checked against bounds and initialisation.

A number is an int from 0 to 2^64-1, an address a `Pointer` into a `Region`, NULL and addresses of kernel memory plain
numbers. What a program calls comes from the caller: `helpers` by number, `kfuncs` by name. One leg of the
differential tests, so the arithmetic is exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pyebpf.compiler.arithmetic import BINARY, MASK, compare, sign_extend, swap
from pyebpf.compiler.ir import Branch, Jump, MayGoto, Op
from pyebpf.compiler.printer import instruction_text
from pyebpf.dataclass import dataclass, field
from pyebpf.errors import PyebpfError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyebpf.compiler.ir import Block, Condition, Function, Instruction, Module

#: Rounds that the kernel lets loops go (BPF_MAX_LOOPS); since Linux 6.15 some architectures count time instead.
LOOP_LIMIT = 1 << 23


class EvaluationError(PyebpfError):
    """An action that the verifier would refuse: go out of bounds, read what nobody wrote, never end."""


@dataclass(eq=False, slots=True)
class Region:
    """Memory.

    `initialised` has a 1 for each byte that was written; `pointers` the addresses stored in it, by their place.
    """

    name: str
    data: bytearray
    initialised: bytearray
    writable: bool = True
    pointers: dict[int, Pointer | MapHandle] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, data: bytes, *, writable: bool = True) -> Region:
        """Memory that holds `data`."""
        return cls(name, bytearray(data), bytearray(b"\1" * len(data)), writable)

    @classmethod
    def unwritten(cls, name: str, size: int) -> Region:
        """Memory that nothing has been written to."""
        return cls(name, bytearray(size), bytearray(size))

    def load(self, offset: int, size: int) -> bytes:
        """Bytes that are there, all written before."""
        if not 0 <= offset <= len(self.data) - size:
            raise EvaluationError(f"read of {size} bytes at {offset} of {self.name}, which has {len(self.data)}")
        if 0 in self.initialised[offset : offset + size]:
            raise EvaluationError(f"read of {size} bytes at {offset} of {self.name}, not all written")
        return bytes(self.data[offset : offset + size])

    def store(self, offset: int, data: bytes) -> None:
        """Write bytes."""
        if not self.writable:
            raise EvaluationError(f"write to {self.name}, which is read-only")
        if not 0 <= offset <= len(self.data) - len(data):
            raise EvaluationError(f"write of {len(data)} bytes at {offset} of {self.name}, which has {len(self.data)}")
        self.data[offset : offset + len(data)] = data
        self.initialised[offset : offset + len(data)] = b"\1" * len(data)
        if self.pointers:
            for place in [place for place in self.pointers if offset - 8 < place < offset + len(data)]:
                del self.pointers[place]


class Pointer(NamedTuple):
    """An address: `offset` bytes into `region`."""

    region: Region
    offset: int


class MapHandle(NamedTuple):
    """The argument of a helper that stands for a map, or for a subprogram to call back."""

    name: str


Word: TypeAlias = int | Pointer | MapHandle


def evaluate(
    module: Module,
    arguments: Sequence[Word],
    *,
    helpers: Mapping[int, Callable[..., Word]] | None = None,
    kfuncs: Mapping[str, Callable[..., Word]] | None = None,
    values: Mapping[str, Region] | None = None,
    step_limit: int = 1_000_000,
    loop_limit: int = LOOP_LIMIT,
) -> Word:
    """Return the result of the main function for `arguments`. EvaluationError names the instruction at fault.

    helpers      called as helper(evaluator, *arguments)
    values       the only value of each array map that the program addresses directly
    step_limit   instructions after which the program counts as endless
    loop_limit   iterations that `may_goto` lets each call of a function go
    """
    evaluator = Evaluator(module, helpers or {}, kfuncs or {}, values or {}, step_limit, loop_limit)
    return evaluator.call(module.main.name, arguments)


class Evaluator:
    """One run of a module. Helpers get it, to `call` back into the program."""

    def __init__(
        self,
        module: Module,
        helpers: Mapping[int, Callable[..., Word]],
        kfuncs: Mapping[str, Callable[..., Word]],
        values: Mapping[str, Region],
        step_limit: int,
        loop_limit: int = LOOP_LIMIT,
    ) -> None:
        self.functions = {function.name: function for function in module.functions}
        self.helpers = helpers
        self.kfuncs = kfuncs
        self.values = values
        self.steps_left = step_limit
        self.loop_limit = loop_limit
        self.depth = 0

    def call(self, name: str, arguments: Sequence[Word]) -> Word:
        """Run the function `name`."""
        function = self.functions[name]
        if len(arguments) != len(function.parameters):
            raise EvaluationError(f"{name} takes {len(function.parameters)} arguments, not {len(arguments)}")
        self.depth += 1
        if self.depth > 8:
            raise EvaluationError(f"{name}: calls are more than 8 deep")
        try:
            return self._run(function, arguments)
        finally:
            self.depth -= 1

    def _run(self, function: Function, arguments: Sequence[Word]) -> Word:
        slots = {slot.name: Region.unwritten(slot.name, slot.size) for slot in function.slots}
        blocks = function.block_map()
        known: dict[int, Word] = {}
        for parameter, argument in zip(function.parameters, arguments, strict=True):
            known[parameter.number] = argument & MASK if isinstance(argument, int) else argument
        block = function.blocks[0]
        iterations_left = self.loop_limit
        while True:
            self._block(function, block, known, slots)
            terminator = block.terminator
            if isinstance(terminator, Jump):
                target = blocks[terminator.target]
                given = [known[value.number] for value in terminator.arguments]
                known.update(zip((value.number for value in target.parameters), given, strict=True))
                block = target
            elif isinstance(terminator, Branch):
                left, right = known[terminator.left.number], known[terminator.right.number]
                block = blocks[terminator.then if _compare(terminator.condition, left, right) else terminator.otherwise]
            elif isinstance(terminator, MayGoto):
                block = blocks[terminator.otherwise if iterations_left else terminator.then]
                iterations_left -= 1
            else:
                return known[terminator.value.number]

    def _block(self, function: Function, block: Block, known: dict[int, Word], slots: Mapping[str, Region]) -> None:
        self.steps_left -= len(block.instructions) + 1
        if self.steps_left < 0:
            raise EvaluationError(f"{function.name} block {block.number}: no end in sight")
        for instruction in block.instructions:
            try:
                result = self._instruction(instruction, [known[value.number] for value in instruction.operands], slots)
            except EvaluationError as error:
                place = f"{function.name} block {block.number}: {instruction_text(instruction)}"
                raise EvaluationError(f"{place}: {error}") from error
            if instruction.result is not None:
                known[instruction.result.number] = result

    def _instruction(self, instruction: Instruction, operands: list[Word], slots: Mapping[str, Region]) -> Word:
        op = instruction.op
        if op in BINARY:
            return BINARY[op](_number(operands[0]), _number(operands[1]))
        match op:
            case Op.CONST:
                return instruction.imm & MASK
            case Op.MAP | Op.FUNCTION | Op.KSYM:
                return MapHandle(instruction.symbol)
            case Op.MAP_VALUE:
                return Pointer(self.values[instruction.symbol], instruction.imm)
            case Op.SLOT:
                return Pointer(slots[instruction.symbol], instruction.imm)
            case Op.NEG:
                return -_number(operands[0]) & MASK
            case Op.SEXT:
                return sign_extend(_number(operands[0]), instruction.size)
            case Op.ZEXT:
                return _number(operands[0]) & ((1 << 8 * instruction.size) - 1)
            case Op.SWAP:
                return swap(_number(operands[0]), instruction.size)
            case Op.COMPARE:
                assert instruction.condition is not None
                return int(_compare(instruction.condition, *operands))
            case Op.OFFSET:
                return _offset(operands[0], _number(operands[1]))
            case Op.REFINE | Op.FROM_BITS:
                return operands[0]
            case Op.ARENA:
                raise EvaluationError("an arena is the kernel's and a process's own")
            case Op.LOAD:
                return _load(_offset(operands[0], instruction.imm), instruction.size, signed=instruction.signed)
            case Op.STORE:
                _store(_offset(operands[0], instruction.imm), operands[1], instruction.size)
                return 0
            case Op.ATOMIC:
                return _atomic(instruction, _offset(operands[0], instruction.imm), _number(operands[1]))
            case Op.CALL:
                if instruction.imm not in self.helpers:
                    raise EvaluationError(f"no helper {instruction.imm} was given")
                return _word(self.helpers[instruction.imm](self, *operands))
            case Op.CALL_KFUNC:
                if instruction.symbol not in self.kfuncs:
                    raise EvaluationError(f"no kernel function {instruction.symbol} was given")
                return _word(self.kfuncs[instruction.symbol](self, *operands))
            case _:
                return self.call(instruction.symbol, operands)


def _word(value: Word) -> Word:
    return value & MASK if isinstance(value, int) else value


def _number(value: Word) -> int:
    if isinstance(value, int):
        return value
    raise EvaluationError("arithmetic on an address")


def _offset(pointer: Word, distance: int) -> Word:
    if isinstance(pointer, int):
        return pointer + distance & MASK
    if isinstance(pointer, MapHandle):
        raise EvaluationError(f"arithmetic on the map {pointer.name}")
    distance &= MASK
    return Pointer(pointer.region, pointer.offset + (distance - (1 << 64) if distance >> 63 else distance))


def _compare(condition: Condition, left: Word, right: Word) -> bool:
    if isinstance(left, Pointer) and isinstance(right, Pointer) and left.region is right.region:
        return compare(condition, left.offset & MASK, right.offset & MASK)
    # An address is no NULL, and high: the kernel's half of the address space.
    return compare(condition, _address(left), _address(right))


def _address(value: Word) -> int:
    if isinstance(value, int):
        return value
    if isinstance(value, MapHandle):
        raise EvaluationError(f"comparison of the map {value.name}")
    return (0xFFFF_8880_0000_0000 + value.offset) & MASK


def _place(pointer: Word) -> Pointer:
    if isinstance(pointer, Pointer):
        return pointer
    raise EvaluationError("access through what is not an address" if pointer else "access through NULL")


def _load(pointer: Word, size: int, *, signed: bool) -> Word:
    region, offset = _place(pointer)
    data = region.load(offset, size)
    if size == 8 and offset in region.pointers:
        return region.pointers[offset]
    return int.from_bytes(data, "little", signed=signed) & MASK


def _store(pointer: Word, value: Word, size: int) -> None:
    region, offset = _place(pointer)
    if isinstance(value, int):
        region.store(offset, (value & ((1 << 8 * size) - 1)).to_bytes(size, "little"))
    else:
        if size != 8:
            raise EvaluationError("part of an address stored")
        region.store(offset, bytes(8))
        region.pointers[offset] = value


def _atomic(instruction: Instruction, pointer: Word, operand: int) -> int:
    size = instruction.size
    old = _number(_load(pointer, size, signed=False))
    _, offset = _place(pointer)
    if offset % size:
        raise EvaluationError(f"atomic access of {size} bytes at {offset}")
    results = {"add": old + operand, "and": old & operand, "or": old | operand, "xor": old ^ operand, "xchg": operand}
    _store(pointer, results[instruction.symbol] & MASK, size)
    return old
