"""The rewriting engine: rules are data, one walk applies them.

A rule is an op, a pattern for each operand, and a function that gives the value to use instead:

    rule(Op.MUL, (ANY("x"), POWER_OF_TWO("k")), lambda r, x, k: r.emit(Op.SHL, x, r.const(k)))   # x * 2**k  ->  x << k

What a pattern binds arrives by name: a `Value`, or an int where the pattern asks for a constant. The walk visits
blocks in reverse post-order, so operands are rewritten before their uses.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import TYPE_CHECKING, Any, TypeAlias

from pyebpf.compiler.arithmetic import MASK
from pyebpf.compiler.graph import reverse_post_order
from pyebpf.compiler.ir import (
    FOLLOWED_WITH_CONSTANTS,
    Block,
    Branch,
    Condition,
    Function,
    Instruction,
    Jump,
    Op,
    Return,
    Value,
    ValueType,
)
from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.compiler.ir import Terminator
    from pyebpf.compiler.passes.patterns import Bindings, Pattern
    from pyebpf.errors import Location


@dataclass(frozen=True, slots=True, guarded=False)
class Rule:
    """One rewrite.

    `result` gets the rewriter and the bindings by name; None from it means that the rule does not apply after all.
    """

    op: Op
    patterns: tuple[Pattern, ...]
    result: Callable[..., Value | None]

    def fits(self, constants: int) -> bool:
        """Whether the rule may match where the operands of these bits are constants, and no other."""
        return all(
            pattern.constant in (None, bool(constants >> place & 1)) for place, pattern in enumerate(self.patterns)
        )


#: The rules of each op that may match, by the bits of the operands that are constants.
Rules: TypeAlias = "Mapping[Op, tuple[tuple[Rule, ...], ...]]"


def rule(op: Op, patterns: tuple[Pattern, ...], result: Callable[..., Value | None]) -> Rule:
    """An entry of a table of rules."""
    return Rule(op, patterns, result)


def table(*rules: Rule) -> Rules:
    """Rules by op; the first that matches is taken."""
    by_op: dict[Op, list[Rule]] = {}
    for entry in rules:
        by_op.setdefault(entry.op, []).append(entry)
    return {
        op: tuple(
            tuple(entry for entry in entries if entry.fits(constants))
            for constants in range(1 << len(entries[0].patterns))
        )
        for op, entries in by_op.items()
    }


class Rewriter:
    """One walk over a function.

    Rules use `emit`, `const`, `number`, `bits`; `definitions` has the instructions met so far.
    """

    def __init__(
        self,
        function: Function,
        rules: Rules,
        branch: Callable[[Rewriter, Branch], Terminator] | None = None,
    ) -> None:
        self.function = function
        self.rules = rules
        self.branch = branch
        self.slots = {slot.name: slot.size for slot in function.slots}
        self.definitions: dict[int, Instruction] = {}
        self.replaced: dict[int, Value] = {}
        self._numbers: dict[int, int] = {}
        self._bits: dict[int, int] = {}
        self._verified_bits: dict[int, int] = {}
        #: The constants of the first block by their numbers, and those that rules added to them.
        self._constants: dict[int, Value] = {}
        self._added: list[Instruction] = []
        #: The highest number of a value; not looked for before a new one is wanted.
        self._highest = -1
        self._out: list[Instruction] = []
        #: Blocks that have been visited.
        self._done: set[int] = set()
        self._current: Instruction | None = None
        self._where: Location | None = None

    def run(self) -> Function:
        """The function, rewritten, without the blocks that no longer can be reached."""
        function = self.function
        #: The jumps to each block that has parameters: no other terminator leads there.
        jumps: dict[int, list[Jump]] = {}
        sources: dict[int, list[int]] = {}
        for block in function.blocks:
            if isinstance(block.terminator, Jump) and block.terminator.arguments:
                jumps.setdefault(block.terminator.target, []).append(block.terminator)
                sources.setdefault(block.terminator.target, []).append(block.number)
        done = self._done
        blocks = []
        rerouted = False
        for block in function.blocks:
            self._out = []
            parameters = block.parameters
            if parameters:
                ready = done.issuperset(sources.get(block.number, ()))
                parameters = self._parameters(block, jumps.get(block.number, []), ready=ready)
            for instruction in block.instructions:
                self._instruction(instruction)
            self._current = None
            terminator = self._terminator(block.terminator)
            if terminator is not block.terminator and terminator.successors() != block.successors():
                rerouted = True
            out = self._out
            if (
                terminator is not block.terminator
                or parameters is not block.parameters
                or len(out) != len(block.instructions)
                or not all(map(is_, out, block.instructions))
            ):
                block = Block(block.number, parameters, tuple(out), terminator)  # noqa: PLW2901 - the new one
            blocks.append(block)
            done.add(block.number)
        if self._added:
            first = blocks[0]
            blocks[0] = Block(first.number, first.parameters, (*self._added, *first.instructions), first.terminator)
        blocks = self._without_dropped(blocks)
        if rerouted:
            # A branch that became a jump may leave blocks unreached, or another order.
            by_number = {block.number: block for block in blocks}
            order = reverse_post_order(blocks[0].number, {number: b.successors() for number, b in by_number.items()})
            blocks = [by_number[number] for number in order]
        return function.with_blocks(blocks)

    def _without_dropped(self, blocks: list[Block]) -> list[Block]:
        """The blocks, their jumps without arguments for parameters that are replaced."""
        replaced = self.replaced
        kept = {
            block.number: places
            for block in self.function.blocks
            if block.parameters
            and len(places := [place for place, value in enumerate(block.parameters) if value.number not in replaced])
            < len(block.parameters)
        }
        if not kept:
            return blocks
        out = []
        for block in blocks:
            jump = block.terminator
            if isinstance(jump, Jump) and jump.target in kept:
                arguments = tuple([jump.arguments[place] for place in kept[jump.target]])
                jump = Jump(jump.target, arguments, jump.where)
                block = Block(block.number, block.parameters, block.instructions, jump)  # noqa: PLW2901 - the new one
            out.append(block)
        return out

    # -- for rules -----------------------------------------------------------------------------------------------------

    @property
    def current(self) -> Instruction:
        """The instruction that the rule is tried on."""
        assert self._current is not None
        return self._current

    def number(self, value: Value) -> int | None:
        """The constant that a value is, from 0 to 2^64-1."""
        return self._numbers.get(value.number)

    def bits(self, value: Value) -> int:
        """A number of bits that holds the value, unsigned: 64 if nothing better is known."""
        return self._bits.get(value.number, 64)

    def verified_bits(self, value: Value) -> int:
        """The same as far as every verifier knows it: what bounds an index may not be left out for less."""
        return self._verified_bits.get(value.number, 64)

    def fresh(self) -> int:
        """A number for a new value."""
        if self._highest < 0:
            self._highest = self.function.highest()
        self._highest += 1
        return self._highest

    def const(self, number: int) -> Value:
        """A constant: one of the first block, found from anywhere."""
        number &= MASK
        value = self._constants.get(number)
        if value is None:
            value = self._constants[number] = Value(self.fresh())
            imm = number - (1 << 64) if number >> 63 else number
            self._added.append(Instruction(Op.CONST, value, imm=imm, where=self._where))
            self._learn_constant(self._added[-1], value.number)
        return value

    def emit(self, op: Op, *operands: Value, result: ValueType = ValueType.SCALAR, **attributes: Any) -> Value:
        """A new instruction before the current one; it is rewritten itself."""
        value = Value(self.fresh(), result, self._hint())
        instruction = Instruction(op, value, operands, where=self._where, **attributes)
        outer = self._current
        self._instruction(instruction)
        self._current = outer
        return self.replaced.get(value.number, value)

    def _hint(self) -> str:
        return self._current.result.hint if self._current is not None and self._current.result is not None else ""

    # -- visiting ------------------------------------------------------------------------------------------------------

    def _parameters(self, block: Block, jumps: list[Jump], *, ready: bool) -> tuple[Value, ...]:
        """Drop the parameters that are given one and the same value by all jumps, or themselves."""
        kept = []
        for index, parameter in enumerate(block.parameters):
            given = [self.replaced.get(jump.arguments[index].number, jump.arguments[index]) for jump in jumps]
            others = {value.number: value for value in given if value.number != parameter.number}
            numbers = {self._numbers.get(number) for number in others}
            if len(others) == 1:
                (self.replaced[parameter.number],) = others.values()
            elif ready and len(numbers) == 1 and None not in numbers:
                (number,) = numbers
                assert number is not None
                self._where = block.instructions[0].where if block.instructions else block.terminator.where
                self.replaced[parameter.number] = self.const(number)
            else:
                if ready:
                    self._bits[parameter.number] = max([self.bits(value) for value in given])
                    self._verified_bits[parameter.number] = max([self.verified_bits(value) for value in given])
                kept.append(parameter)
        return block.parameters if len(kept) == len(block.parameters) else tuple(kept)

    def _instruction(self, instruction: Instruction) -> None:
        instruction = with_replaced(instruction, self.replaced)
        rules = self.rules.get(instruction.op)
        if rules is None or not self._rewritten(instruction, rules):
            self.keep(instruction)

    def _rewritten(self, instruction: Instruction, rules: tuple[tuple[Rule, ...], ...]) -> bool:
        """Whether a rule gave a value to use instead of the instruction's."""
        operands = instruction.operands
        constants, bit = 0, 1
        for value in operands:
            if value.number in self._numbers:
                constants |= bit
            bit += bit
        self._current, self._where = instruction, instruction.where
        for entry in rules[constants]:
            bindings: Bindings = {}
            for pattern, operand in zip(entry.patterns, operands, strict=True):
                if not pattern.match(self, operand, bindings):
                    break
            else:
                result = entry.result(self, **bindings)
                if result is not None:
                    if instruction.result is not None:
                        self.replaced[instruction.result.number] = result
                    return True
        return False

    def keep(self, instruction: Instruction) -> None:
        """Append an instruction as it is."""
        result, op = instruction.result, instruction.op
        if result is not None:
            self.definitions[result.number] = instruction
            if op is Op.CONST:
                self._learn_constant(instruction, result.number)
                if not self._done:
                    self._constants.setdefault(instruction.imm & MASK, result)
            elif op in _BOUNDS:
                bound = _BOUNDS[op]
                bits = bound(self, instruction, self._bits)
                if bits < 64:
                    self._bits[result.number] = bits
                    if op not in _UNVERIFIED:
                        verified = bound(self, instruction, self._verified_bits)
                        if verified < 64 and not self._is_given_up(instruction):
                            self._verified_bits[result.number] = verified
        self._out.append(instruction)

    def _learn_constant(self, instruction: Instruction, value: int) -> None:
        self.definitions[value] = instruction
        number = self._numbers[value] = instruction.imm & MASK
        self._bits[value] = self._verified_bits[value] = number.bit_length()

    def _is_given_up(self, instruction: Instruction) -> bool:
        """Whether some verifiers know nothing of the result, although they know of the operands.

        Before Linux 6.13 a product of a factor that may have more than 32 bits; in 6.1 what OR, XOR and MUL make of two
        numbers that are no constants.
        """
        operands = instruction.operands
        if instruction.op is Op.MUL and any(self.verified_bits(factor) > 32 for factor in operands):
            return True
        return instruction.op in FOLLOWED_WITH_CONSTANTS and all(self.number(each) is None for each in operands)

    def shift_right_bits(self, instruction: Instruction, known: Mapping[int, int]) -> int:
        """A number of bits that holds a number shifted right."""
        bits = known.get(instruction.operands[0].number, 64)
        shift = self.number(instruction.operands[1])
        if shift is None:
            return bits if known is self._bits else 64
        return max(bits - (shift & 63), 0)

    def _terminator(self, terminator: Terminator) -> Terminator:
        terminator = substitute(terminator, self.replaced)
        if self.branch is not None and isinstance(terminator, Branch):
            self._where = terminator.where
            return self.branch(self, terminator)
        return terminator


def _first(instruction: Instruction, known: Mapping[int, int]) -> int:
    return known.get(instruction.operands[0].number, 64)


def _second(instruction: Instruction, known: Mapping[int, int]) -> int:
    return known.get(instruction.operands[1].number, 64)


def _remainder_bits(r: Rewriter, instruction: Instruction, known: Mapping[int, int]) -> int:
    number = r.number(instruction.operands[1])
    bits = _first(instruction, known)
    return min(bits, (number - 1).bit_length()) if number else bits


def _shift_left_bits(r: Rewriter, instruction: Instruction, known: Mapping[int, int]) -> int:
    shift = r.number(instruction.operands[1])
    return 64 if shift is None else min(64, _first(instruction, known) + (shift & 63))


_Bound: TypeAlias = Callable[[Rewriter, Instruction, "Mapping[int, int]"], int]
#: Operations that bound their results, by themselves or by their operands' bounds: a number of bits that holds the
#: result, by what is known of the operands'.
_BOUNDS: dict[Op, _Bound] = {
    Op.LOAD: lambda _, i, __: 64 if i.signed else 8 * i.size,
    Op.ZEXT: lambda _, i, known: min(8 * i.size, _first(i, known)),
    Op.SWAP: lambda _, i, __: 8 * i.size,
    Op.COMPARE: lambda *_: 1,
    Op.REFINE: lambda _, i, known: _first(i, known),
    Op.UDIV: lambda _, i, known: _first(i, known),
    Op.AND: lambda _, i, known: min(_first(i, known), _second(i, known)),
    Op.OR: lambda _, i, known: max(_first(i, known), _second(i, known)),
    Op.XOR: lambda _, i, known: max(_first(i, known), _second(i, known)),
    Op.ADD: lambda _, i, known: min(64, max(_first(i, known), _second(i, known)) + 1),
    Op.MUL: lambda _, i, known: min(64, _first(i, known) + _second(i, known)),
    Op.UMOD: _remainder_bits,
    Op.LSHR: Rewriter.shift_right_bits,
    Op.SHL: _shift_left_bits,
}
#: Operations whose results no bound is known of to verifiers before Linux 7.0.
_UNVERIFIED = frozenset({Op.UDIV, Op.UMOD, Op.SWAP})

#: The condition that holds for the operands exchanged.
EXCHANGED = {
    Condition.EQ: Condition.EQ,
    Condition.NE: Condition.NE,
    Condition.ULT: Condition.UGT,
    Condition.ULE: Condition.UGE,
    Condition.UGT: Condition.ULT,
    Condition.UGE: Condition.ULE,
    Condition.SLT: Condition.SGT,
    Condition.SLE: Condition.SGE,
    Condition.SGT: Condition.SLT,
    Condition.SGE: Condition.SLE,
    Condition.SET: Condition.SET,
}


#: The condition that holds exactly where the other does not; SET has none.
INVERSE = {
    Condition.EQ: Condition.NE,
    Condition.NE: Condition.EQ,
    Condition.ULT: Condition.UGE,
    Condition.UGE: Condition.ULT,
    Condition.ULE: Condition.UGT,
    Condition.UGT: Condition.ULE,
    Condition.SLT: Condition.SGE,
    Condition.SGE: Condition.SLT,
    Condition.SLE: Condition.SGT,
    Condition.SGT: Condition.SLE,
}


def with_replaced(instruction: Instruction, replaced: Mapping[int, Value]) -> Instruction:
    """An instruction with operands replaced; itself if none are."""
    operands = instruction.operands
    for value in operands:
        if value.number in replaced:
            return instruction.with_operands(tuple([replaced.get(value.number, value) for value in operands]))
    return instruction


def substitute(terminator: Terminator, replaced: Mapping[int, Value]) -> Terminator:
    """A terminator with values replaced; itself if none are."""
    if isinstance(terminator, Jump):
        arguments = terminator.arguments
        for value in arguments:
            if value.number in replaced:
                given = tuple([replaced.get(value.number, value) for value in arguments])
                return Jump(terminator.target, given, terminator.where)
    elif isinstance(terminator, Branch):
        left, right = terminator.left, terminator.right
        if left.number in replaced or right.number in replaced:
            left, right = replaced.get(left.number, left), replaced.get(right.number, right)
            then, otherwise = terminator.then, terminator.otherwise
            return Branch(terminator.condition, left, right, then, otherwise, terminator.where)
    elif isinstance(terminator, Return) and terminator.value.number in replaced:
        return Return(replaced[terminator.value.number], terminator.where)
    return terminator
