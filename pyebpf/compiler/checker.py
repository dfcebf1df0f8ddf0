"""Validates a function of IR: run on what the builder makes and, in tests, after every pass.

Each error is one line with function, block and instruction; `check_module` raises with all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.graph import dominators, predecessors, reverse_post_order
from pyebpf.compiler.ir import OPS, Jump, Op, Result, ValueType
from pyebpf.compiler.printer import instruction_text, terminator_text
from pyebpf.errors import PyebpfError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.compiler.ir import Block, Function, Instruction, Module, Value

_SIZES = {
    Op.SEXT: (1, 2, 4),
    Op.ZEXT: (1, 2, 4),
    Op.SWAP: (2, 4, 8),
    Op.LOAD: (1, 2, 4, 8),
    Op.STORE: (1, 2, 4, 8),
    Op.ATOMIC: (4, 8),
}
_ATOMICS = frozenset({"add", "and", "or", "xor", "xchg"})
_RESULT_TYPES = {Result.SCALAR: ValueType.SCALAR, Result.POINTER: ValueType.POINTER, Result.MAP: ValueType.MAP}
#: Calls may have no result; so may an atomic operation whose old value nobody wants.
_OPTIONAL = frozenset({Op.CALL, Op.CALL_LOCAL, Op.CALL_KFUNC, Op.ATOMIC})


class InvalidIr(PyebpfError):
    """IR that breaks the rules of `ir`: a mistake in the compiler or in whoever built it, never in a user's program."""


def check_module(module: Module, when: str = "") -> None:
    """Raise InvalidIr if a function is invalid, or calls a subprogram that the module has not.

    `when` says after what.
    """
    errors = [error for function in module.functions for error in find_errors(function)]
    arity = {function.name: len(function.parameters) for function in module.functions}
    if len(arity) < len(module.functions):
        errors.append("two functions have one name")
    for function in module.functions:
        for block in function.blocks:
            for instruction in block.instructions:
                if instruction.op not in (Op.CALL_LOCAL, Op.FUNCTION):
                    continue
                place = f"{function.name} block {block.number}: {instruction_text(instruction)}"
                if instruction.symbol not in arity:
                    errors.append(f"{place}: the module has no such function")
                elif instruction.op is Op.CALL_LOCAL and len(instruction.operands) != arity[instruction.symbol]:
                    errors.append(f"{place}: it takes {arity[instruction.symbol]} arguments")
    _refuse(errors, when)


def check_function(function: Function, when: str = "") -> None:
    """Raise InvalidIr if a function is invalid."""
    _refuse(list(find_errors(function)), when)


def _refuse(errors: list[str], when: str) -> None:
    if errors:
        raise InvalidIr("\n".join([f"after {when}: {errors[0]}" if when else errors[0], *errors[1:]]))


def find_errors(function: Function) -> Iterator[str]:
    """Everything wrong with a function, a line each."""
    if len(function.parameters) > 5:
        yield f"{function.name}: {len(function.parameters)} parameters, and there are five registers for them"
    blocks: dict[int, Block] = {}
    for block in function.blocks:
        if block.number in blocks:
            yield f"{function.name} block {block.number}: there are two of that number"
        blocks[block.number] = block
    if not blocks:
        yield f"{function.name}: has no blocks"
        return
    structural = list(_edge_errors(function, blocks))
    yield from structural
    if structural:
        return
    successors = {number: block.successors() for number, block in blocks.items()}
    before = predecessors(successors)
    entry = function.blocks[0]
    if before[entry.number] or entry.parameters:
        yield f"{function.name} block {entry.number}: the entry has predecessors or parameters"
    reachable = reverse_post_order(entry.number, successors)
    for number in blocks.keys() - set(reachable):
        yield f"{function.name} block {number}: cannot be reached"
    if len(reachable) < len(blocks):
        return
    yield from _order_errors(function, before)
    yield from _value_errors(function, dominators(reachable, before))


def _edge_errors(function: Function, blocks: dict[int, Block]) -> Iterator[str]:
    for block in function.blocks:
        place = f"{function.name} block {block.number}: {terminator_text(block.terminator)}"
        for target in block.successors():
            if target not in blocks:
                yield f"{place}: there is no block {target}"
                continue
            given = block.terminator.arguments if isinstance(block.terminator, Jump) else ()
            wanted = blocks[target].parameters
            if len(given) != len(wanted):
                yield f"{place}: gives {len(given)} arguments, block {target} takes {len(wanted)}"
            for value, parameter in zip(given, wanted, strict=False):
                if value.type is not parameter.type:
                    yield f"{place}: gives a {value.type} for {parameter}, a {parameter.type}"


def _order_errors(function: Function, before: dict[int, list[int]]) -> Iterator[str]:
    position = {block.number: index for index, block in enumerate(function.blocks)}
    for block in function.blocks[1:]:
        if not any(position[number] < position[block.number] for number in before[block.number]):
            yield f"{function.name} block {block.number}: comes before all its predecessors"


def _value_errors(function: Function, parent: dict[int, int]) -> Iterator[str]:
    """Every value defined once, of the right type, before its uses."""
    types: dict[int, ValueType] = {}
    homes: dict[int, tuple[int, int]] = {}
    entry = function.blocks[0].number

    def define(value: Value, place: str, block: int, index: int) -> Iterator[str]:
        if value.number in types:
            yield f"{place}: {value} is defined a second time"
        if value.number < 0:
            yield f"{place}: {value} has a negative number"
        types[value.number] = value.type
        homes[value.number] = (block, index)

    for value in function.parameters:
        yield from define(value, f"{function.name}: parameters", entry, -1)
    for block in function.blocks:
        for value in block.parameters:
            yield from define(value, f"{function.name} block {block.number}: parameters", block.number, -1)
        for index, instruction in enumerate(block.instructions):
            if instruction.result is not None:
                place = f"{function.name} block {block.number}: {instruction_text(instruction)}"
                yield from define(instruction.result, place, block.number, index)

    depth = {entry: 0}
    for block in function.blocks[1:]:
        chain = [block.number]
        while chain[-1] not in depth:
            chain.append(parent[chain[-1]])
        for number in reversed(chain[:-1]):
            depth[number] = depth[parent[number]] + 1

    def use(value: Value, place: str, block: int, index: int) -> Iterator[str]:
        if value.number not in types:
            yield f"{place}: {value} is not defined"
            return
        if types[value.number] is not value.type:
            yield f"{place}: {value} is a {types[value.number]}, not a {value.type}"
        home, defined = homes[value.number]
        if home == block:
            if defined >= index:
                yield f"{place}: {value} is defined only later"
            return
        while depth[block] > depth[home]:
            block = parent[block]
        if block != home:
            yield f"{place}: {value} is not defined on every path here"

    for block in function.blocks:
        for index, instruction in enumerate(block.instructions):
            place = f"{function.name} block {block.number}: {instruction_text(instruction)}"
            for value in instruction.operands:
                yield from use(value, place, block.number, index)
            for error in _instruction_errors(function, instruction):
                yield f"{place}: {error}"
        terminator = block.terminator
        place = f"{function.name} block {block.number}: {terminator_text(terminator)}"
        for value in terminator.uses():
            yield from use(value, place, block.number, len(block.instructions))


def _instruction_errors(function: Function, instruction: Instruction) -> Iterator[str]:
    op = instruction.op
    info = OPS[op]
    operands = instruction.operands
    if info.operands == ("…",):
        if len(operands) > 5:
            yield f"{len(operands)} arguments, and a call takes five at most"
    elif len(operands) != len(info.operands):
        yield f"{len(operands)} operands, {op} takes {len(info.operands)}"
    else:
        for value, word in zip(operands, info.operands, strict=True):
            if word not in ("any", value.type):
                yield f"{value} is a {value.type}, {op} takes a {word}"
    result = instruction.result
    if info.result is Result.NONE:
        if result is not None:
            yield f"{op} has no result"
    elif result is None:
        if op not in _OPTIONAL:
            yield f"{op} needs a result"
    elif info.result is Result.SAME:
        if operands and result.type is not operands[0].type:
            yield f"the result is a {result.type}, the operand a {operands[0].type}"
    elif info.result in _RESULT_TYPES and result.type is not _RESULT_TYPES[info.result]:
        yield f"the result of {op} is a {_RESULT_TYPES[info.result]}, not a {result.type}"
    if "size" in info.attributes and instruction.size not in _SIZES[op]:
        yield f"size {instruction.size} is none of {', '.join(map(str, _SIZES[op]))}"
    if "condition" in info.attributes and instruction.condition is None:
        yield "a comparison needs a condition"
    if op is Op.CONST and not -(1 << 63) <= instruction.imm < 1 << 63:
        yield "the constant is not kept as s64"
    if op in (Op.MAP, Op.MAP_VALUE, Op.SLOT, Op.FUNCTION, Op.KSYM, Op.CALL_LOCAL) and not instruction.symbol:
        yield "the symbol is missing"
    if op is Op.SLOT and instruction.symbol:
        slot = next((slot for slot in function.slots if slot.name == instruction.symbol), None)
        if slot is None:
            yield f"the function has no slot {instruction.symbol}"
        elif not 0 <= instruction.imm <= slot.size:
            yield f"byte {instruction.imm} is outside the slot's {slot.size}"
    if op is Op.ATOMIC and instruction.symbol not in _ATOMICS:
        yield f"{instruction.symbol or 'nothing'} is not an atomic operation ({', '.join(sorted(_ATOMICS))})"
