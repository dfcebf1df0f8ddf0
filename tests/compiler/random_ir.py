"""Random functions of IR: branches, bounded loops, calls, stack slots, high pressure.

Draws through any source of choices.

The function is a `syscall` program over a context of `CONTEXT` bytes: it reads numbers from it, computes, and stores
results back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyebpf.compiler import ir
from pyebpf.compiler.ir import Condition, Op, ValueType

WORDS = 8
CONTEXT = WORDS * 8
INTERESTING = (
    0, 1, 2, 3, 5, 7, 8, 15, 16, 63, 64, 127, 128, 255, 256, 4095, 32767, 32768, 65535, 65536, (1 << 31) - 1, 1 << 31,
    (1 << 32) - 1, 1 << 32, (1 << 63) - 1, -1, -2, -7, -128, -32768, -(1 << 31), -(1 << 31) - 1, -(1 << 63),
    0x1234_5678_9ABC_DEF0, 0xFFFF_FFF0, 0xFF00,
)  # fmt: skip
BINARY = (
    Op.ADD, Op.SUB, Op.MUL, Op.UDIV, Op.UMOD, Op.SDIV, Op.SMOD, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.LSHR, Op.ASHR,
)  # fmt: skip
OPPOSITE = {Condition.EQ: Condition.NE, Condition.NE: Condition.EQ, Condition.ULT: Condition.UGE}
#: bpf_get_smp_processor_id would do; this one is deterministic in its effect: bpf_jiffies64's result is dropped.
JIFFIES = 118


@dataclass
class Open:
    """A block under construction."""

    number: int
    parameters: tuple[ir.Value, ...] = ()
    instructions: list[ir.Instruction] = field(default_factory=list)
    terminator: ir.Terminator | None = None


class Generator:
    """`choose(n)` gives a number from 0 to n - 1. With `may_goto`, some loops also end by the kernel's budget."""

    def __init__(self, choose, *, size=40, pressure=6, may_goto=False):
        self.choose = choose
        self.size = size
        self.pressure = pressure
        self.may_goto = may_goto
        self.values = 0
        self.blocks = []
        self.arity = 0
        self.slots = []
        self.current = None
        self.loops = 0
        self.trips = 1

    def value(self, type_=ValueType.SCALAR, hint=""):
        self.values += 1
        return ir.Value(self.values - 1, type_, hint)

    def pick(self, items):
        return items[self.choose(len(items))]

    def open(self, parameters=()):
        block = Open(len(self.blocks), tuple(parameters))
        self.blocks.append(block)
        return block

    def emit(self, op, *operands, result=ValueType.SCALAR, **attributes):
        value = None if result is None else self.value(result)
        self.current.instructions.append(ir.Instruction(op, value, operands, **attributes))
        return value

    def constant(self):
        imm = self.pick(INTERESTING) if self.choose(4) else self.choose(1 << 16) - (1 << 15)
        return self.emit(Op.CONST, imm=imm)

    def main(self):
        """A whole module: the main function, and perhaps one that it calls."""
        functions = []
        if self.choose(3) == 0:
            called = Generator(self.choose, size=self.size // 3, pressure=self.pressure, may_goto=self.may_goto)
            functions.append(called.subprogram("sub", 1 + self.choose(5)))
            self.arity = len(functions[0].parameters)
        context = self.value(ValueType.POINTER, "ctx")
        self.begin()
        pool = [self.emit(Op.LOAD, context, size=8, imm=8 * word) for word in range(WORDS // 2)]
        self.fill_slots(pool[0])
        pool = self.region(pool, context, self.size, 0)
        total = self.mixed(pool)
        self.emit(Op.STORE, context, total, result=None, imm=8 * (WORDS - 1))
        return ir.Module((self.finish("main", (context,), pool[-1]), *functions))

    def subprogram(self, name, count):
        """A function of `count` numbers."""
        parameters = tuple(self.value() for _ in range(count))
        self.begin()
        self.fill_slots(parameters[0])
        pool = self.region(list(parameters), None, self.size, 1)
        return self.finish(name, parameters, self.mixed(pool))

    def begin(self):
        self.current = self.open()
        self.slots = [ir.Slot("a", 8), ir.Slot("b", 20, 4)]

    def fill_slots(self, value):
        self.emit(Op.STORE, self.emit(Op.SLOT, symbol="a", result=ValueType.POINTER), value, result=None)
        zero = self.emit(Op.CONST)
        for place in range(0, 20, 4):
            self.emit(
                Op.STORE, self.emit(Op.SLOT, symbol="b", imm=place, result=ValueType.POINTER), zero, result=None, size=4
            )

    def mixed(self, pool):
        total = pool[0]
        for value in pool[1:]:
            total = self.emit(Op.XOR, self.emit(Op.MUL, total, self.emit(Op.CONST, imm=31)), value)
        return total

    def finish(self, name, parameters, returned):
        self.current.terminator = ir.Return(returned)
        blocks = [ir.Block(b.number, b.parameters, tuple(b.instructions), b.terminator) for b in self.blocks]
        order = {number: index for index, number in enumerate(post_order(blocks))}
        blocks.sort(key=lambda block: order[block.number])
        return ir.Function(name, parameters, tuple(blocks), tuple(self.slots))

    def region(self, pool, context, budget, depth):
        """Code over `pool`; gives the values alive behind it."""
        pool = list(pool)
        while budget > 0:
            kind = self.choose(20)
            if kind == 0 and depth < 3 and budget > 4:
                pool = self.branch(pool, context, budget // 3, depth)
                budget -= budget // 2
            elif kind == 1 and depth < 2 and budget > 6 and self.trips < 40:
                pool = self.loop(pool, context, budget // 3, depth)
                budget -= budget // 2
            else:
                self.step(pool, context)
                budget -= 1
            while len(pool) > self.pressure:
                pool.pop(self.choose(len(pool)))
        return pool

    def step(self, pool, context):
        kind = self.choose(25)
        if kind in (20, 21) and context is None:
            kind = 0
        left = self.pick(pool)
        right = self.constant() if self.choose(3) == 0 else self.pick(pool)
        if kind < 10:
            if self.choose(8) == 0:
                left, right = right, left
            pool.append(self.emit(self.pick(BINARY), left, right))
        elif kind < 12:
            pool.append(self.emit(self.pick((Op.SEXT, Op.ZEXT)), left, size=self.pick((1, 2, 4))))
        elif kind == 12:
            pool.append(self.emit(Op.SWAP, left, size=self.pick((2, 4, 8))))
        elif kind == 13:
            pool.append(self.emit(self.pick((Op.NEG, Op.FROM_BITS)), left))
        elif kind < 16:
            pool.append(self.emit(Op.COMPARE, left, right, condition=self.pick(list(Condition))))
        elif kind == 16:
            self.emit(Op.CALL, imm=JIFFIES, result=self.pick((None, ValueType.SCALAR)))
        elif kind == 17:
            slot = self.emit(Op.SLOT, symbol="a", result=ValueType.POINTER)
            size = self.pick((4, 8))
            name = self.pick(("add", "and", "or", "xor", "xchg"))
            old = self.emit(Op.ATOMIC, slot, left, size=size, symbol=name, result=self.pick((None, ValueType.SCALAR)))
            if old is not None:
                pool.append(old)
        elif kind == 18:
            size = self.pick((1, 2, 4))
            place = self.choose(20 // size) * size
            slot = self.emit(Op.SLOT, symbol="b", result=ValueType.POINTER)
            self.emit(Op.STORE, slot, right, result=None, size=size, imm=place)
        elif kind == 19:
            size = self.pick((1, 2, 4))
            place = self.choose(20 // size) * size
            slot = self.emit(Op.SLOT, symbol="b", result=ValueType.POINTER)
            far = self.emit(Op.OFFSET, slot, self.emit(Op.CONST, imm=place), result=ValueType.POINTER)
            pool.append(self.emit(Op.LOAD, far, size=size, signed=bool(self.choose(2))))
        elif kind == 20:
            self.emit(Op.STORE, context, right, result=None, imm=8 * (WORDS // 2 + self.choose(WORDS // 2)))
        elif kind == 21:
            pool.append(self.emit(Op.LOAD, context, imm=8 * self.choose(WORDS)))
        elif kind == 22:
            pool.append(self.emit(Op.REFINE, left))
        elif kind == 23 and self.arity and self.trips < 10:
            arguments = [self.pick(pool) for _ in range(self.arity)]
            pool.append(self.emit(Op.CALL_LOCAL, *arguments, symbol="sub"))
        else:
            slot = self.emit(Op.SLOT, symbol="a", result=ValueType.POINTER)
            pool.append(self.emit(Op.LOAD, slot, size=8))

    def branch(self, pool, context, budget, depth, test=None):
        if test is not None:
            condition, left, right = test
        else:
            left = self.pick(pool)
            right = self.constant() if self.choose(2) else self.pick(pool)
        if test is not None:
            pass
        elif self.choose(3) == 0:
            left = self.emit(Op.COMPARE, left, right, condition=self.pick(list(Condition)))
            right = self.emit(Op.CONST)
            condition = self.pick((Condition.NE, Condition.EQ))
        else:
            condition = self.pick(list(Condition))
        before = self.current
        ends = []
        for _ in range(2):
            self.current = self.open()
            first = self.current
            after = self.region(pool, context, budget, depth + 1)
            ends.append((first, self.current, after))
        count = min(len(ends[0][2]), len(ends[1][2]), self.pressure)
        merged = [self.value() for _ in range(self.choose(count + 1))]
        place = [self.value(ValueType.POINTER)] if self.choose(3) == 0 else []
        join = self.open([*merged, *place])
        for _, last, after in ends:
            self.current = last
            pointer = [self.address() for _ in place]
            last.terminator = ir.Jump(join.number, (*(after[-1 - i] for i in range(len(merged))), *pointer))
        before.terminator = ir.Branch(condition, left, right, ends[0][0].number, ends[1][0].number)
        self.current = join
        pool = [*pool, *merged]
        for pointer in place:
            self.emit(Op.STORE, pointer, left, result=None, size=4)
            pool.append(self.emit(Op.LOAD, pointer, size=2))
        if self.choose(3) == 0 and budget > 2:
            # The same test again, or its opposite, as for a look-up's None: what the ways here already know.
            condition = OPPOSITE.get(condition, condition) if self.choose(2) else condition
            pool = self.branch(pool, context, budget // 2, depth + 1, (condition, left, right))
        return pool

    def address(self):
        """Of four bytes in one of the slots."""
        if self.choose(2):
            return self.emit(Op.SLOT, symbol="a", imm=4, result=ValueType.POINTER)
        slot = self.emit(Op.SLOT, symbol="b", result=ValueType.POINTER)
        return self.emit(Op.OFFSET, slot, self.emit(Op.CONST, imm=4 * self.choose(5)), result=ValueType.POINTER)

    def loop(self, pool, context, budget, depth):
        """Counts from 0 to a small bound, with carried values."""
        bound = 1 + self.choose(4)
        outer, self.trips = self.trips, self.trips * bound
        carried = [self.pick(pool) for _ in range(self.choose(4))]
        counter = self.value(hint="i")
        inner = [self.value() for _ in carried]
        header = self.open([counter, *inner])
        start = self.emit(Op.CONST)
        self.current.terminator = ir.Jump(header.number, (start, *carried))
        body = self.open()
        end = out = self.open()
        test, spent = header, []
        if self.may_goto and self.choose(2):
            test, end, spent = self.budget(header, end)
        self.current = test
        limit = self.emit(Op.CONST, imm=bound)
        test.terminator = ir.Branch(Condition.ULT, counter, limit, body.number, out.number)
        self.current = body
        after = self.region([*pool, *inner, counter], context, budget, depth + 1)
        following = self.emit(Op.ADD, counter, self.emit(Op.CONST, imm=1))
        again = tuple(self.pick(after) for _ in carried)
        self.current.terminator = ir.Jump(header.number, (following, *again))
        self.trips = outer
        self.current = end
        return [*pool, *inner, *spent]

    def budget(self, header, end):
        """Ask the kernel's budget before the loop's own test.

        Gives the block for that test, the block after the loop, and the number that says by which of the two it ended.
        """
        test, stopped = self.open(), self.open()
        header.terminator = ir.MayGoto(stopped.number, test.number)
        number = self.value(hint="spent")
        after = self.open([number])
        for block, answer in ((stopped, 1), (end, 0)):
            self.current = block
            block.terminator = ir.Jump(after.number, (self.emit(Op.CONST, imm=answer),))
        return test, after, [number]


def post_order(blocks):
    """Reverse post-order of the block numbers."""
    from pyebpf.compiler.graph import reverse_post_order

    return reverse_post_order(blocks[0].number, {block.number: block.successors() for block in blocks})


def random_module(choose, *, size=40, pressure=6, may_goto=False):
    """A valid module whose main function always ends."""
    return Generator(choose, size=size, pressure=pressure, may_goto=may_goto).main()
