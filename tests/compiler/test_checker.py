"""The IR checker names block and instruction of every broken rule, and accepts what is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyebpf.compiler import ir
from pyebpf.compiler.checker import InvalidIr, check_function, check_module
from pyebpf.compiler.ir import Branch, Condition, Jump, Op, Return, Value, ValueType
from pyebpf.dataclass import replace
from tests.compiler.support import CTX, Builder, seeded_module

if TYPE_CHECKING:
    from collections.abc import Callable

V = Value


def straight(*instructions: ir.Instruction, slots: tuple[ir.Slot, ...] = ()) -> ir.Function:
    """One block that ends by returning a constant."""
    end = ir.Instruction(Op.CONST, V(99))
    return ir.Function("main", (CTX,), (ir.Block(0, (), (*instructions, end), Return(V(99))),), slots)


def const(number: int) -> ir.Instruction:
    return ir.Instruction(Op.CONST, V(number))


def op(name: Op, result: Value | None, *operands: Value, **attributes: object) -> ir.Instruction:
    return ir.Instruction(name, result, operands, **attributes)  # type: ignore[arg-type]  # wrong on purpose here


WRONG = {
    "main block 0: %1: scalar = const 0: %1 is defined a second time": lambda: straight(const(1), const(1)),
    "main block 0: %2: scalar = neg %1: %1 is not defined": lambda: straight(op(Op.NEG, V(2), V(1))),
    "main block 0: %2: scalar = neg %1: %1 is defined only later": lambda: straight(op(Op.NEG, V(2), V(1)), const(1)),
    "main block 0: %2: scalar = add %1: 1 operands, add takes 2": lambda: straight(const(1), op(Op.ADD, V(2), V(1))),
    "main block 0: %1: scalar = neg %0.ctx: %0.ctx is a pointer, neg takes a scalar": lambda: straight(
        op(Op.NEG, V(1), CTX)
    ),
    "main block 0: %1: scalar = neg %0: %0 is a pointer, not a scalar": lambda: straight(op(Op.NEG, V(1), V(0))),
    "main block 0: const 0: const needs a result": lambda: straight(op(Op.CONST, None)),
    "main block 0: %2: scalar = store %0.ctx, %1 size 8: store has no result": lambda: straight(
        const(1), op(Op.STORE, V(2), CTX, V(1))
    ),
    "main block 0: %1: pointer = const 0: the result of const is a scalar, not a pointer": lambda: straight(
        op(Op.CONST, V(1, ValueType.POINTER))
    ),
    "main block 0: %1: scalar = refine %0.ctx: the result is a scalar, the operand a pointer": lambda: straight(
        op(Op.REFINE, V(1), CTX)
    ),
    "main block 0: %1: scalar = load %0.ctx size 3: size 3 is none of 1, 2, 4, 8": lambda: straight(
        op(Op.LOAD, V(1), CTX, size=3)
    ),
    "main block 0: %2: scalar = compare %1, %1 None: a comparison needs a condition": lambda: straight(
        const(1), op(Op.COMPARE, V(2), V(1), V(1))
    ),
    "main block 0: %1: scalar = const 9223372036854775808: the constant is not kept as s64": lambda: straight(
        op(Op.CONST, V(1), imm=1 << 63)
    ),
    "main block 0: %1: pointer = slot key: the function has no slot key": lambda: straight(
        op(Op.SLOT, V(1, ValueType.POINTER), symbol="key")
    ),
    "main block 0: %1: pointer = slot key imm 5: byte 5 is outside the slot's 4": lambda: straight(
        op(Op.SLOT, V(1, ValueType.POINTER), symbol="key", imm=5), slots=(ir.Slot("key", 4),)
    ),
    "main block 0: %1: map = map: the symbol is missing": lambda: straight(op(Op.MAP, V(1, ValueType.MAP))),
    "main block 0: atomic %0.ctx, %1 size 8 sub: sub is not an atomic operation (add, and, or, xchg, xor)": lambda: (
        straight(const(1), op(Op.ATOMIC, None, CTX, V(1), symbol="sub"))
    ),
    "main block 0: call %1, %1, %1, %1, %1, %1 imm 6: 6 arguments, and a call takes five at most": lambda: straight(
        const(1), op(Op.CALL, None, *[V(1)] * 6, imm=6)
    ),
    "main: 6 parameters, and there are five registers for them": lambda: replace(
        straight(), parameters=tuple(V(n, ValueType.POINTER) for n in range(10, 16))
    ),
    "main: has no blocks": lambda: ir.Function("main", (), ()),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_broken_instruction_is_named(message: str) -> None:
    """Each rule about one instruction has its message, with the place."""
    with pytest.raises(InvalidIr) as caught:
        check_function(WRONG[message]())
    assert str(caught.value).splitlines()[0] == message


def diamond(change: Callable[[list[ir.Block]], None]) -> ir.Function:
    """If ctx: one way defines %2, the other %3; both give it to the parameter %4. `change` breaks something."""
    blocks = [
        ir.Block(0, (), (const(1),), Branch(Condition.NE, CTX, V(1), 1, 2)),
        ir.Block(1, (), (const(2),), Jump(3, (V(2),))),
        ir.Block(2, (), (const(3),), Jump(3, (V(3),))),
        ir.Block(3, (V(4),), (), Return(V(4))),
    ]
    change(blocks)
    return ir.Function("main", (CTX,), tuple(blocks))


def put(index: int, **changes: object) -> Callable[[list[ir.Block]], None]:
    def change(blocks: list[ir.Block]) -> None:
        blocks[index] = replace(blocks[index], **changes)  # type: ignore[arg-type]  # fields by name

    return change


BROKEN_FLOW = {
    "main block 1: jump 9: there is no block 9": put(1, terminator=Jump(9)),
    "main block 1: jump 3: gives 0 arguments, block 3 takes 1": put(1, terminator=Jump(3)),
    "main block 1: jump 3(%0.ctx): gives a pointer for %4, a scalar": put(1, terminator=Jump(3, (CTX,))),
    "main block 3: return %2: %2 is not defined on every path here": put(3, terminator=Return(V(2))),
    "main block 1: cannot be reached": put(0, terminator=Jump(2)),
    "main block 1: there are two of that number": put(2, number=1),
    "main block 0: the entry has predecessors or parameters": put(1, terminator=Jump(0)),
    "main block 3: comes before all its predecessors": lambda blocks: blocks.insert(1, blocks.pop()),
}


@pytest.mark.parametrize("message", BROKEN_FLOW)
def test_broken_control_flow_is_named(message: str) -> None:
    """Edges, arguments, dominance and order of blocks are checked."""
    with pytest.raises(InvalidIr) as caught:
        check_function(diamond(BROKEN_FLOW[message]))
    assert message in str(caught.value).splitlines()


def test_the_pass_is_named() -> None:
    """An error says after which pass it was found."""
    with pytest.raises(InvalidIr, match=r"^after simplify: main block 0: "):
        check_function(straight(const(1), const(1)), "simplify")


def test_calls_need_their_function() -> None:
    """A local call to a function that the module lacks, or with the wrong number of arguments, is refused."""
    b = Builder()
    b.emit(Op.CALL_LOCAL, symbol="other")
    b.end(Return(b.const(0)))
    with pytest.raises(InvalidIr, match="the module has no such function"):
        check_module(b.module())
    other = Builder((V(0), V(1)))
    other.end(Return(V(0)))
    with pytest.raises(InvalidIr, match="it takes 2 arguments"):
        check_module(ir.Module((b.function(), other.function("other"))))


def test_right_functions_pass() -> None:
    """Generated functions are valid."""
    for seed in range(53):
        module = seeded_module(seed)
        check_module(module)
        assert module.functions
