"""The rewriting engine: rules are data, one walk applies them.

A rule is an op, a pattern for each operand, and a function that gives the value to use instead:

    rule(Op.MUL, (ANY("x"), POWER_OF_TWO("k")), lambda r, x, k: r.emit(Op.SHL, x, r.const(k)))   # x * 2**k  ->  x << k

What a pattern binds arrives by name: a `Value`, or an int where the pattern asks for a constant. The walk visits
blocks in reverse post-order, so operands are rewritten before their uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from pyebpf.compiler.arithmetic import MASK
from pyebpf.compiler.graph import predecessors, reverse_post_order
from pyebpf.compiler.ir import (
    FOLLOWED_WITH_CONSTANTS,
    Block,
    Branch,
    Condition,
    Function,
    Instruction,
    Jump,
    Kind,
    Op,
    Return,
    Value,
)
from pyebpf.dataclass import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.compiler.ir import Terminator
    from pyebpf.errors import Location

__all__ = [
    "ANY",
    "ANYTHING",
    "BELOW",
    "CONST",
    "EXCHANGED",
    "INVERSE",
    "NUMBER",
    "OF",
    "POWER_OF_TWO",
    "SAME",
    "Pattern",
    "Rewriter",
    "Rule",
    "Rules",
    "rule",
    "substitute",
    "table",
]

_Bindings = dict[str, Any]
#: Whether a value matches; binds what it names.
Pattern: TypeAlias = Callable[["Rewriter", Value, _Bindings], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rewrite.

    `result` gets the rewriter and the bindings by name; None from it means that the rule does not apply after all.
    """

    op: Op
    patterns: tuple[Pattern, ...]
    result: Callable[..., Value | None]


Rules: TypeAlias = "Mapping[Op, tuple[Rule, ...]]"


def rule(op: Op, patterns: tuple[Pattern, ...], result: Callable[..., Value | None]) -> Rule:
    """An entry of a table of rules."""
    return Rule(op, patterns, result)


def table(*rules: Rule) -> Rules:
    """Rules by op; the first that matches is taken."""
    by_op: dict[Op, tuple[Rule, ...]] = {}
    for entry in rules:
        by_op[entry.op] = (*by_op.get(entry.op, ()), entry)
    return by_op


# -- patterns
# -----------------------------------------------------------------------------------------------------------


def ANY(name: str) -> Pattern:  # noqa: N802 - patterns are written as constants of the rule language
    """Any value."""

    def match(rewriter: Rewriter, value: Value, bindings: _Bindings) -> bool:  # noqa: ARG001 - a pattern's signature
        bindings[name] = value
        return True

    return match


def ANYTHING(rewriter: Rewriter, value: Value, bindings: _Bindings) -> bool:  # noqa: ARG001, N802 - a pattern
    """Any value, not bound."""
    return True


def SAME(name: str) -> Pattern:  # noqa: N802 - as above
    """The value that `name` was bound to before."""

    def match(rewriter: Rewriter, value: Value, bindings: _Bindings) -> bool:  # noqa: ARG001 - a pattern's signature
        return bool(bindings[name].number == value.number)

    return match


def CONST(name: str) -> Pattern:  # noqa: N802 - as above
    """Any constant, bound as an int from 0 to 2^64-1."""

    def match(rewriter: Rewriter, value: Value, bindings: _Bindings) -> bool:
        number = rewriter.number(value)
        bindings[name] = number
        return number is not None

    return match


def NUMBER(*numbers: int) -> Pattern:  # noqa: N802 - as above
    """One of these constants, given signed or unsigned."""
    wanted = frozenset(number & MASK for number in numbers)

    def match(rewriter: Rewriter, value: Value, bindings: _Bindings) -> bool:  # noqa: ARG001 - a pattern's signature
        return rewriter.number(value) in wanted

    return match


def POWER_OF_TWO(name: str) -> Pattern:  # noqa: N802 - as above
    """A constant 2**k of at least 2, bound as k."""

    def match(rewriter: Rewriter, value: Value, bindings: _Bindings) -> bool:
        number = rewriter.number(value)
        if number is None or number < 2 or number & (number - 1):
            return False
        bindings[name] = number.bit_length() - 1
        return True

    return match


def BELOW(name: str, bits: int) -> Pattern:  # noqa: N802 - as above
    """A value known to be below 2**bits."""

    def match(rewriter: Rewriter, value: Value, bindings: _Bindings) -> bool:
        bindings[name] = value
        return rewriter.bits(value) <= bits

    return match


def OF(op: Op, *patterns: Pattern, size: str = "") -> Pattern:  # noqa: N802 - as above
    """The result of an op whose operands match; `size` binds its size."""

    def match(rewriter: Rewriter, value: Value, bindings: _Bindings) -> bool:
        definition = rewriter.definitions.get(value.number)
        if definition is None or definition.op is not op:
            return False
        if size:
            bindings[size] = definition.size
        for pattern, operand in zip(patterns, definition.operands, strict=True):
            if not pattern(rewriter, operand, bindings):
                return False
        return True

    return match


# -- the walk
# -----------------------------------------------------------------------------------------------------------


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
        self._highest = max((value.number for value in function.values()), default=-1)
        self._out: list[Instruction] = []
        self._current: Instruction | None = None
        self._where: Location | None = None

    def run(self) -> Function:
        """The function, rewritten, without the blocks that no longer can be reached."""
        function = self.function
        before = predecessors({block.number: block.successors() for block in function.blocks})
        jumps: dict[int, list[Jump]] = {}
        for block in function.blocks:
            if isinstance(block.terminator, Jump):
                jumps.setdefault(block.terminator.target, []).append(block.terminator)
        done: set[int] = set()
        blocks = []
        for block in function.blocks:
            self._out = []
            parameters = block.parameters
            if parameters:
                ready = all(number in done for number in before[block.number])
                parameters = self._parameters(block, jumps.get(block.number, []), ready=ready)
            for instruction in block.instructions:
                self._instruction(instruction)
            self._current = None
            self._where = block.terminator.where
            terminator = self._terminator(block.terminator)
            blocks.append(Block(block.number, parameters, tuple(self._out), terminator))
            done.add(block.number)
        dropped = {
            block.number: tuple(index for index, value in enumerate(block.parameters) if value.number in self.replaced)
            for block in function.blocks
            if block.parameters
        }
        blocks = [_without_arguments(block, dropped) for block in blocks]
        if any(new.successors() != old.successors() for new, old in zip(blocks, function.blocks, strict=True)):
            # A branch that became a jump may leave blocks unreached, or another order.
            by_number = {block.number: block for block in blocks}
            order = reverse_post_order(blocks[0].number, {number: b.successors() for number, b in by_number.items()})
            blocks = [by_number[number] for number in order]
        return replace(function, blocks=tuple(blocks))

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
        self._highest += 1
        return self._highest

    def const(self, number: int) -> Value:
        """A constant."""
        number &= MASK
        return self.emit(Op.CONST, imm=number - (1 << 64) if number >> 63 else number)

    def emit(self, op: Op, *operands: Value, kind: Kind = Kind.SCALAR, **attributes: Any) -> Value:
        """A new instruction before the current one; it is rewritten itself."""
        value = Value(self.fresh(), kind, self._hint())
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
                    self._bits[parameter.number] = max(self.bits(value) for value in given)
                    self._verified_bits[parameter.number] = max(self.verified_bits(value) for value in given)
                kept.append(parameter)
        return tuple(kept)

    def _instruction(self, instruction: Instruction) -> None:
        replaced = self.replaced
        operands = instruction.operands
        for value in operands:
            if value.number in replaced:
                operands = tuple([replaced.get(value.number, value) for value in operands])
                instruction = replace(instruction, operands=operands)
                break
        self._where = instruction.where
        rules = self.rules.get(instruction.op)
        if rules is not None:
            self._current = instruction
            for entry in rules:
                bindings: _Bindings = {}
                for pattern, operand in zip(entry.patterns, operands, strict=True):
                    if not pattern(self, operand, bindings):
                        break
                else:
                    result = entry.result(self, **bindings)
                    if result is not None:
                        if instruction.result is not None:
                            replaced[instruction.result.number] = result
                        return
            self._where = instruction.where
        self.keep(instruction)

    def keep(self, instruction: Instruction) -> None:
        """Append an instruction as it is."""
        result = instruction.result
        if result is not None:
            self.definitions[result.number] = instruction
            if instruction.op is Op.CONST:
                self._numbers[result.number] = instruction.imm & MASK
            bits = self._bits_of(instruction, self._bits) if instruction.op in _BOUNDED else 64
            if bits < 64:
                self._bits[result.number] = bits
                if instruction.op not in _UNVERIFIED:
                    verified = self._bits_of(instruction, self._verified_bits)
                    if verified < 64 and not self._is_given_up(instruction):
                        self._verified_bits[result.number] = verified
        self._out.append(instruction)

    def _is_given_up(self, instruction: Instruction) -> bool:
        """Whether some verifiers know nothing of the result, although they know of the operands.

        Before Linux 6.13 a product of a factor that may have more than 32 bits; in 6.1 what OR, XOR and MUL make of two
        numbers that are no constants.
        """
        operands = instruction.operands
        if instruction.op is Op.MUL and any(self.verified_bits(factor) > 32 for factor in operands):
            return True
        return instruction.op in FOLLOWED_WITH_CONSTANTS and all(self.number(each) is None for each in operands)

    def _bits_of(self, instruction: Instruction, known: Mapping[int, int]) -> int:
        """A number of bits that holds the result, by what is known of the operands'."""
        if instruction.op is Op.CONST:
            return (instruction.imm & MASK).bit_length()
        bits = [known.get(value.number, 64) for value in instruction.operands]
        match instruction.op:
            case Op.LOAD if not instruction.signed:
                return 8 * instruction.size
            case Op.ZEXT | Op.SWAP:
                return min(8 * instruction.size, bits[0] if instruction.op is Op.ZEXT else 64)
            case Op.COMPARE:
                return 1
            case Op.REFINE | Op.UDIV:
                return bits[0]
            case Op.AND:
                return min(bits)
            case Op.OR | Op.XOR:
                return max(bits)
            case Op.ADD:
                return min(64, max(bits) + 1)
            case Op.MUL:
                return min(64, sum(bits))
            case Op.UMOD:
                number = self.number(instruction.operands[1])
                return min(bits[0], (number - 1).bit_length()) if number else bits[0]
            case Op.LSHR:
                shift = self.number(instruction.operands[1])
                if shift is None:
                    return bits[0] if known is self._bits else 64
                return max(bits[0] - (shift & 63), 0)
            case Op.SHL:
                shift = self.number(instruction.operands[1])
                return min(64, bits[0] + (shift & 63)) if shift is not None else 64
            case _:
                return 64

    def _terminator(self, terminator: Terminator) -> Terminator:
        terminator = substitute(terminator, self.replaced)
        if self.branch is not None and isinstance(terminator, Branch):
            return self.branch(self, terminator)
        return terminator


#: Operations that bound their results, by themselves or by their operands' bounds.
_BOUNDED = frozenset(
    {
        Op.CONST,
        Op.LOAD,
        Op.ZEXT,
        Op.SWAP,
        Op.COMPARE,
        Op.REFINE,
        Op.UDIV,
        Op.AND,
        Op.OR,
        Op.XOR,
        Op.ADD,
        Op.MUL,
        Op.UMOD,
        Op.LSHR,
        Op.SHL,
    }
)
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


def substitute(terminator: Terminator, replaced: Mapping[int, Value]) -> Terminator:
    """A terminator with values replaced."""
    match terminator:
        case Jump(arguments=arguments):
            if any(value.number in replaced for value in arguments):
                return replace(terminator, arguments=tuple(replaced.get(value.number, value) for value in arguments))
        case Branch(left=left, right=right):
            if left.number in replaced or right.number in replaced:
                return replace(
                    terminator, left=replaced.get(left.number, left), right=replaced.get(right.number, right)
                )
        case Return(value=value):
            if value.number in replaced:
                return replace(terminator, value=replaced[value.number])
    return terminator


def _without_arguments(block: Block, dropped: Mapping[int, tuple[int, ...]]) -> Block:
    terminator = block.terminator
    if not isinstance(terminator, Jump) or not dropped.get(terminator.target):
        return block
    indices = dropped[terminator.target]
    arguments = tuple(value for index, value in enumerate(terminator.arguments) if index not in indices)
    return replace(block, terminator=replace(terminator, arguments=arguments))
