"""Instruction selection: IR to the machine form.

What an operand can be folded into, it is: constants into immediates, addresses of slots and fixed offsets into loads
and stores. The IR has been made legal for the target before (`passes.legalize`), so each op that is left has one way
to be written.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pyebpf.asm import Form, find_op
from pyebpf.compiler import ir
from pyebpf.compiler.graph import in_degrees
from pyebpf.compiler.ir import Condition, Op as IrOp, ValueType
from pyebpf.compiler.machine import (
    ADDRESS,
    COMPARE,
    COPY,
    FIRST_VIRTUAL,
    FRAME,
    NONE,
    MachineBlock,
    MachineBranch,
    MachineFunction,
    MachineJump,
    MachineReturn,
    Node,
)
from pyebpf.compiler.partial_stores import PartialStores

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.asm import Op
    from pyebpf.compiler.machine import MachineTerminator
    from pyebpf.errors import Location

#: IR arithmetic to the 64-bit operation's name.
_ARITHMETIC = {
    IrOp.ADD: "add64",
    IrOp.SUB: "sub64",
    IrOp.MUL: "mul64",
    IrOp.UDIV: "div64",
    IrOp.UMOD: "mod64",
    IrOp.SDIV: "sdiv64",
    IrOp.SMOD: "smod64",
    IrOp.AND: "and64",
    IrOp.OR: "or64",
    IrOp.XOR: "xor64",
    IrOp.SHL: "lsh64",
    IrOp.LSHR: "rsh64",
    IrOp.ASHR: "arsh64",
    IrOp.OFFSET: "add64",
}
_IMMEDIATE = {op: find_op(name, Form.DST_IMM) for op, name in _ARITHMETIC.items()}
_REGISTER = {op: find_op(name, Form.DST_SRC) for op, name in _ARITHMETIC.items()}
_COMMUTATIVE = frozenset({IrOp.ADD, IrOp.MUL, IrOp.AND, IrOp.OR, IrOp.XOR})
_SHIFTS = frozenset({IrOp.SHL, IrOp.LSHR, IrOp.ASHR})
_DIVISIONS = frozenset({IrOp.UDIV, IrOp.UMOD, IrOp.SDIV, IrOp.SMOD})

#: Conditions: the jump's name, and the condition with its operands exchanged.
_JUMPS = {
    Condition.EQ: ("jeq", Condition.EQ),
    Condition.NE: ("jne", Condition.NE),
    Condition.ULT: ("jlt", Condition.UGT),
    Condition.ULE: ("jle", Condition.UGE),
    Condition.UGT: ("jgt", Condition.ULT),
    Condition.UGE: ("jge", Condition.ULE),
    Condition.SLT: ("jslt", Condition.SGT),
    Condition.SLE: ("jsle", Condition.SGE),
    Condition.SGT: ("jsgt", Condition.SLT),
    Condition.SGE: ("jsge", Condition.SLE),
    Condition.SET: ("jset", Condition.SET),
}
_JUMP_IMM = {condition: find_op(name, Form.JUMP_IMM) for condition, (name, _) in _JUMPS.items()}
_JUMP_REG = {condition: find_op(name, Form.JUMP_REG) for condition, (name, _) in _JUMPS.items()}

_LETTERS = {1: "b", 2: "h", 4: "w", 8: "dw"}
_LOAD = {size: find_op(f"ldx{letter}", Form.LOAD) for size, letter in _LETTERS.items()}
_LOAD_SIGNED = {size: find_op(f"ldxs{letter}" if size < 8 else "ldxdw", Form.LOAD) for size, letter in _LETTERS.items()}
_STORE = {size: find_op(f"stx{letter}", Form.STORE) for size, letter in _LETTERS.items()}
_STORE_IMM = {size: find_op(f"st{letter}", Form.STORE_IMM) for size, letter in _LETTERS.items()}

_MOV = find_op("mov64", Form.DST_IMM)
_MOV32 = find_op("mov32", Form.DST_IMM)
_LDDW = find_op("lddw", Form.LDDW)
_LDDW_MAP = find_op("lddw_map", Form.LDDW_MAP)
_LDDW_MAP_VALUE = find_op("lddw_map_value", Form.LDDW_MAP)
_LDDW_KSYM = find_op("lddw_ksym", Form.LDDW_KSYM)
_LDDW_FUNCTION = find_op("lddw_function", Form.LDDW_FUNCTION)
_AND = find_op("and64", Form.DST_IMM)
_AND32 = find_op("and32", Form.DST_IMM)
_ZEXT32 = find_op("mov32", Form.DST_SRC)
_NEG = find_op("neg64", Form.DST)
_XOR = find_op("xor64", Form.DST_IMM)
_SEXT = {size: find_op(f"movsx{size * 8}to64", Form.DST_SRC) for size in (1, 2, 4)}
_MAY_GOTO = find_op("may_goto", Form.JUMP)
_CALL = find_op("call", Form.CALL)
_CALL_LOCAL = find_op("call_local", Form.CALL_LOCAL)
_CALL_KFUNC = find_op("call_kfunc", Form.CALL_KFUNC)

_CAST = find_op("addr_space_cast", Form.CAST)
#: From address space 1, a process's view of an arena, to 0.
_FROM_USER = 1
#: Operations that give an address derived from their first operand.
_DERIVING = frozenset({IrOp.OFFSET, IrOp.REFINE})
_CALLS = {IrOp.CALL: _CALL, IrOp.CALL_LOCAL: _CALL_LOCAL, IrOp.CALL_KFUNC: _CALL_KFUNC}


def _fits(number: int) -> bool:
    return -0x8000_0000 <= number <= 0x7FFF_FFFF


def select(
    function: ir.Function, slots: Mapping[str, int], frame: int, *, little_endian: bool = True
) -> MachineFunction:
    """`function` over virtual registers.

    `slots` has the offset of each stack slot from r10, `frame` the bytes that they take.
    """
    return _Selector(function, slots, little_endian=little_endian).run(frame)


class _Selector:
    def __init__(self, function: ir.Function, slots: Mapping[str, int], *, little_endian: bool) -> None:
        self.function = function
        self.slots = slots
        self.swap = "be" if little_endian else "le"
        self.definitions: dict[int, ir.Instruction] = {}
        #: The numbers that values are known to be.
        self.numbers: dict[int, int] = {}
        for block in function.blocks:
            for instruction in block.instructions:
                if instruction.op in ir.CONSTANTS and instruction.result is not None:
                    self.definitions[instruction.result.number] = instruction
                    if instruction.op is IrOp.CONST:
                        self.numbers[instruction.result.number] = instruction.imm
        self.next_virtual = FIRST_VIRTUAL + function.highest() + 1
        #: ANDs that nothing uses but the branch that ends their block, which tests the bits itself.
        self.bit_tests = self._find_bit_tests()
        self.constants: dict[int, Node] = {}
        self.nodes: list[Node] = []
        self.partial_stores = PartialStores(function, slots)

    def run(self, frame: int) -> MachineFunction:
        function = self.function
        for instruction in self.definitions.values():
            assert instruction.result is not None
            self.constants[FIRST_VIRTUAL + instruction.result.number] = self._constant(instruction)
        blocks = []
        edges_into = in_degrees(function.successors())
        next_block = max([block.number for block in function.blocks]) + 1
        for block in function.blocks:
            nodes: list[Node] = []
            self.nodes = nodes
            self.partial_stores.forget()
            for instruction in block.instructions:
                self._instruction(instruction)
            terminator = self._terminator(block.terminator)
            blocks.append(MachineBlock(block.number, self._registers(block.parameters), nodes, terminator))
            if isinstance(terminator, MachineBranch):
                # An edge from a block with two successors to one with two predecessors gets a block of its own for its
                # moves.
                then, otherwise = terminator.then, terminator.otherwise
                if edges_into[then] > 1:
                    blocks.append(MachineBlock(next_block, (), [], MachineJump(then, (), terminator.where)))
                    terminator.then = next_block
                    next_block += 1
                if edges_into[otherwise] > 1:
                    blocks.append(MachineBlock(next_block, (), [], MachineJump(otherwise, (), terminator.where)))
                    terminator.otherwise = next_block
                    next_block += 1
        return MachineFunction(
            function.name, self._registers(function.parameters), blocks, self.constants, frame, function.where
        )

    # -- values ------------------------------------------------------------------------------------------------------

    def _registers(self, values: tuple[ir.Value, ...]) -> tuple[int, ...]:
        return tuple([FIRST_VIRTUAL + value.number for value in values]) if values else ()

    def _fresh(self) -> int:
        self.next_virtual += 1
        return self.next_virtual - 1

    def _number(self, value: ir.Value) -> int | None:
        """The number that `value` is known to be."""
        return self.numbers.get(value.number)

    def _find_bit_tests(self) -> dict[int, ir.Instruction]:
        """Find blocks that end with `(a & b) != 0` or `== 0` and whose AND has no other use."""
        tests: dict[int, ir.Instruction] = {}
        for block in self.function.blocks:
            branch = block.terminator
            if (
                isinstance(branch, ir.Branch)
                and branch.condition in (Condition.EQ, Condition.NE)
                and self._number(branch.right) == 0
            ):
                for instruction in block.instructions:
                    if instruction.op is IrOp.AND and instruction.result == branch.left:
                        tests[branch.left.number] = instruction
        if not tests:
            return tests
        uses = dict.fromkeys(tests, 0)
        for block in self.function.blocks:
            for instruction in block.instructions:
                for value in instruction.operands:
                    if value.number in uses:
                        uses[value.number] += 1
            for value in block.terminator.uses():
                if value.number in uses:
                    uses[value.number] += 1
        return {number: test for number, test in tests.items() if uses[number] == 1}

    @cached_property
    def contexts(self) -> frozenset[int]:
        """Values that may point into the context, where Linux 6.1 refuses stores of immediates."""
        function = self.function
        contexts = {value.number for value in function.parameters if value.type is ValueType.POINTER}
        if not contexts:
            return frozenset()
        targets = {block.number: block.parameters for block in function.blocks}
        #: Values with those that they may be derived from, or be.
        derived: list[tuple[int, int]] = []
        for block in function.blocks:
            derived += [
                (instruction.result.number, instruction.operands[0].number)
                for instruction in block.instructions
                if instruction.op in _DERIVING and instruction.result is not None
            ]
            if isinstance(block.terminator, ir.Jump):
                pairs = zip(targets[block.terminator.target], block.terminator.arguments, strict=True)
                derived += [(parameter.number, value.number) for parameter, value in pairs]
        changed = True
        while changed:
            before = len(contexts)
            contexts.update([number for number, source in derived if source in contexts])
            changed = len(contexts) > before
        return frozenset(contexts)

    def _constant(self, instruction: ir.Instruction) -> Node:
        assert instruction.result is not None
        result = FIRST_VIRTUAL + instruction.result.number
        imm, comment = instruction.imm, instruction.comment
        match instruction.op:
            case IrOp.CONST if _fits(imm):
                return Node(_MOV, result, imm=imm, comment=comment)
            case IrOp.CONST if 0 <= imm <= 0xFFFF_FFFF:
                # A 32-bit move clears the upper half: one slot instead of two.
                return Node(_MOV32, result, imm=imm - (1 << 32), comment=comment)
            case IrOp.CONST:
                return Node(_LDDW, result, imm=imm, comment=comment)
            case IrOp.MAP:
                return Node(_LDDW_MAP, result, symbol=instruction.symbol, comment=comment)
            case IrOp.MAP_VALUE:
                return Node(_LDDW_MAP_VALUE, result, imm=imm << 32, symbol=instruction.symbol, comment=comment)
            case IrOp.FUNCTION:
                return Node(_LDDW_FUNCTION, result, symbol=instruction.symbol, comment=comment)
            case IrOp.KSYM:
                # The kernel may not have the symbol: the place that asks for it first is told, not one that uses it.
                return Node(_LDDW_KSYM, result, symbol=instruction.symbol, where=instruction.where, comment=comment)
            case _:
                return Node(ADDRESS, result, imm=self.slots[instruction.symbol] + imm, comment=comment)

    def _address(self, pointer: ir.Value, offset: int, where: Location | None) -> tuple[int, int]:
        """Register and s16 offset for a memory access at `pointer` + `offset`."""
        definition = self.definitions.get(pointer.number)
        if definition is not None and definition.op is IrOp.SLOT:
            return FRAME, self.slots[definition.symbol] + definition.imm + offset
        base = FIRST_VIRTUAL + pointer.number
        if -0x8000 <= offset <= 0x7FFF:
            return base, offset
        far = self._fresh()
        self.nodes.append(Node(_IMMEDIATE[IrOp.OFFSET], far, base, imm=offset, where=where))
        return far, 0

    # -- instructions ------------------------------------------------------------------------------------------------

    def _instruction(self, instruction: ir.Instruction) -> None:
        op = instruction.op
        if op in ir.CONSTANTS or (instruction.result is not None and instruction.result.number in self.bit_tests):
            return
        where, comment = instruction.where, instruction.comment
        result = NONE if instruction.result is None else FIRST_VIRTUAL + instruction.result.number
        emit = self.nodes.append
        if op in _CALLS:
            if op is IrOp.CALL_LOCAL:
                self.partial_stores.forget()
            # A kernel function of known BTF id is called by it; its name is for readers.
            imm, symbol = instruction.imm, "" if op is IrOp.CALL or instruction.imm else instruction.symbol
            arguments = self._registers(instruction.operands)
            emit(Node(_CALLS[op], result, NONE, NONE, 0, imm, symbol, arguments, None, where, comment))
            return
        if op is IrOp.STORE:
            self._store(instruction)
            return
        operands = self._registers(instruction.operands)
        if op in _REGISTER:
            self._arithmetic(instruction, result)
        elif op is IrOp.REFINE:
            emit(Node(COPY, result, src=operands[0], where=where, comment=comment))
        elif op is IrOp.ARENA:
            # Nothing reads the handle, but from its being there the verifier takes the program's arena.
            handle = self.definitions[instruction.operands[0].number]
            emit(Node(_LDDW_MAP, self._fresh(), symbol=handle.symbol, where=where))
            emit(Node(_CAST, result, src=operands[1], imm=_FROM_USER, where=where, comment=comment))
        elif op is IrOp.COMPARE:
            assert instruction.condition is not None
            left, right = instruction.operands
            test, dst, src, imm = self._test(instruction.condition, left, right)
            emit(Node(COMPARE, result, dst, src, imm=imm, test=test, where=where, comment=comment))
        elif op is IrOp.FROM_BITS:
            # All verifiers take both bounds of this from the bits that they know of the operand.
            emit(Node(_XOR, result, operands[0], imm=0, where=where, comment=comment))
        elif op is IrOp.NEG:
            emit(Node(_NEG, result, operands[0], where=where, comment=comment))
        elif op is IrOp.ZEXT:
            if instruction.size == 4:
                emit(Node(_ZEXT32, result, src=operands[0], where=where, comment=comment))
            else:
                mask = (1 << 8 * instruction.size) - 1
                emit(Node(_AND, result, operands[0], imm=mask, where=where, comment=comment))
        elif op is IrOp.SEXT:
            emit(Node(_SEXT[instruction.size], result, src=operands[0], where=where, comment=comment))
        elif op is IrOp.SWAP:
            swap = find_op(f"{self.swap}{instruction.size * 8}", Form.DST)
            emit(Node(swap, result, operands[0], where=where, comment=comment))
        elif op is IrOp.LOAD:
            load = (_LOAD_SIGNED if instruction.signed else _LOAD)[instruction.size]
            base, offset = self._address(instruction.operands[0], instruction.imm, where)
            emit(Node(load, result, src=base, offset=offset, where=where, comment=comment))
        else:
            assert op is IrOp.ATOMIC
            self._atomic(instruction, result)

    def _arithmetic(self, instruction: ir.Instruction, result: int) -> None:
        op, (left, right) = instruction.op, instruction.operands
        where, comment = instruction.where, instruction.comment
        number = self._number(right)
        if number is None and op in _COMMUTATIVE:
            number = self._number(left)
            if number is not None:
                left, right = right, left
        dst = FIRST_VIRTUAL + left.number
        form = _IMMEDIATE[op]
        if number is not None:
            if op in _SHIFTS:
                number &= 63
            elif op is IrOp.SUB and _fits(-number):
                form, number = _IMMEDIATE[IrOp.ADD], -number
            if op is IrOp.AND and not _fits(number) and 0 < number <= 0xFFFF_FFFF:
                # A 32-bit operation clears the upper half, as the mask does.
                form, number = _AND32, number - (1 << 32)
            # An immediate is sign-extended; the verifier refuses to divide by an immediate 0.
            divisible = op not in _DIVISIONS or number > 0 or (number < 0 and op in (IrOp.SDIV, IrOp.SMOD))
            if _fits(number) and divisible:
                self.nodes.append(Node(form, result, dst, imm=number, where=where, comment=comment))
                return
        src = FIRST_VIRTUAL + right.number
        self.nodes.append(Node(_REGISTER[op], result, dst, src, where=where, comment=comment))

    def _store(self, instruction: ir.Instruction) -> None:
        pointer, value = instruction.operands
        size, where, comment = instruction.size, instruction.where, instruction.comment
        self._store_anew(instruction)
        base, offset = self._address(pointer, instruction.imm, where)
        number = self._number(value)
        if number is not None and (base == FRAME or pointer.number not in self.contexts):
            if size < 8:
                bits = 8 * size
                number = (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
            if _fits(number):
                self.nodes.append(
                    Node(_STORE_IMM[size], dst=base, offset=offset, imm=number, where=where, comment=comment)
                )
                return
        src = FIRST_VIRTUAL + value.number
        self.nodes.append(Node(_STORE[size], dst=base, src=src, offset=offset, where=where, comment=comment))

    def _store_anew(self, instruction: ir.Instruction) -> None:
        """Store some bytes of the stack as they are, for the verifier: see `partial_stores`."""
        for offset in self.partial_stores.before(instruction.operands[0], instruction.imm, instruction.size):
            byte = self._fresh()
            self.nodes.append(Node(_LOAD[1], byte, src=FRAME, offset=offset, where=instruction.where))
            self.nodes.append(Node(_STORE[1], dst=FRAME, src=byte, offset=offset, where=instruction.where))

    def _atomic(self, instruction: ir.Instruction, result: int) -> None:
        bits = instruction.size * 8
        self._store_anew(instruction)
        name = instruction.symbol
        if name == "xchg":
            # There is no form of it that drops the old value.
            op = find_op(f"atomic_xchg{bits}", Form.STORE)
            result = self._fresh() if result == NONE else result
        else:
            op = find_op(f"atomic_{'fetch_' if result != NONE else ''}{name}{bits}", Form.STORE)
        base, offset = self._address(instruction.operands[0], instruction.imm, instruction.where)
        src = FIRST_VIRTUAL + instruction.operands[1].number
        self.nodes.append(Node(op, result, base, src, offset, where=instruction.where, comment=instruction.comment))

    # -- control -----------------------------------------------------------------------------------------------------

    def _test(self, condition: Condition, left: ir.Value, right: ir.Value) -> tuple[Op, int, int, int]:
        """The conditional jump, its dst, src and imm."""
        number = self._number(right)
        if number is None and self._number(left) is not None:
            condition = _JUMPS[condition][1]
            left, right = right, left
            number = self._number(right)
        dst = FIRST_VIRTUAL + left.number
        if number is not None and _fits(number):
            return _JUMP_IMM[condition], dst, NONE, number
        return _JUMP_REG[condition], dst, FIRST_VIRTUAL + right.number, 0

    def _terminator(self, terminator: ir.Terminator) -> MachineTerminator:
        where = terminator.where
        if isinstance(terminator, ir.Jump):
            return MachineJump(terminator.target, self._registers(terminator.arguments), where)
        if isinstance(terminator, ir.Return):
            return MachineReturn(FIRST_VIRTUAL + terminator.value.number, where)
        then, otherwise = terminator.then, terminator.otherwise
        if isinstance(terminator, ir.MayGoto):
            return MachineBranch(_MAY_GOTO, NONE, NONE, 0, then, otherwise, where)
        if then == otherwise:
            return MachineJump(then, (), where)
        condition, left, right = terminator.condition, terminator.left, terminator.right
        if left.number in self.bit_tests:
            if condition is Condition.EQ:
                then, otherwise = otherwise, then
            condition, (left, right) = Condition.SET, self.bit_tests[left.number].operands
        return MachineBranch(*self._test(condition, left, right), then, otherwise, where)
