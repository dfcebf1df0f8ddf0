"""Random programs that every verifier takes: arithmetic, branches, loops, memory of every kind, helpers, local calls.

R6 is the context, R7 counts loops, R9 points to a map's value, R8 to the packet of an XDP program; all other registers
hold numbers that come from the map's value, so that the verifier knows none of them. At the end all of them are stored.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyebpf.asm import Form, Instruction, Label, Register
from pyebpf.asm.build import (
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
    add64,
    alu,
    call,
    call_local,
    exit_,
    gotol,
    jump,
    jump_if,
    lddw,
    ldx,
    load_map,
    load_map_value,
    may_goto,
    mov64,
    st,
    stx,
)  # fmt: skip
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64, ArrayType
from pyebpf.uapi.bpf import MapType, ProgramType

if TYPE_CHECKING:
    import random

    from pyebpf.asm import Op

VALUE = 256
CONTEXT = 64
PACKET = 64
STACK = 64
MAIN = "main"
MAPS = (
    MapSpec(MAIN, MapType.ARRAY, U32, ArrayType(U64, VALUE // 8), 1),
    MapSpec("array", MapType.ARRAY, U32, ArrayType(U64, 2), 5),
    MapSpec("hash", MapType.HASH, U32, ArrayType(U64, 2), 5),
    MapSpec("loose", MapType.HASH, U32, ArrayType(U64, 2), 3, flags=1),
    MapSpec("percpu_hash", MapType.PERCPU_HASH, U32, ArrayType(U64, 2), 5),
    MapSpec("percpu_array", MapType.PERCPU_ARRAY, U32, ArrayType(U64, 2), 5),
    # The kernel gives up entries before a small table of this kind is full: it is never filled.
    MapSpec("lru", MapType.LRU_HASH, U32, ArrayType(U64, 2), 1009),
    MapSpec("trie", MapType.LPM_TRIE, U64, ArrayType(U64, 2), 5, flags=1),
    MapSpec("queue", MapType.QUEUE, None, ArrayType(U64, 2), 3),
    MapSpec("stack", MapType.STACK, None, ArrayType(U64, 2), 3),
    MapSpec("ring", MapType.RINGBUF, None, None, 4096),
)
KEYED = ("array", "hash", "loose", "percpu_hash", "percpu_array", "lru")
KEYS = 7
TRIE = "trie"
PROGRAM_KINDS = (ProgramType.SYSCALL, ProgramType.SOCKET_FILTER, ProgramType.XDP)
#: Statements that call helpers.
HELPERS = ("lookup", "update", "delete", "output", "copy", "read_number", "queue", "load_bytes")
CONDITIONS = (Form.JUMP_IMM, Form.JUMP_REG)
ARITHMETIC = (Form.DST, Form.DST_IMM, Form.DST_SRC)
#: Addresses that probe_read_kernel cannot read. Those of a process are -ERANGE on x86-64, as in the interpreter, and
#: -EFAULT on arm64; those of the kernel are -EFAULT on both.
UNREADABLE = range(64) if os.uname().machine == "x86_64" else range((1 << 64) - 4096, (1 << 64) - 64, 8)
SIZES = {1: "b", 2: "h", 4: "w", 8: "dw"}
PACKET_OPS = (Form.LOAD_ABSOLUTE, Form.LOAD_INDIRECT)
MASK64 = (1 << 64) - 1


@dataclass
class Random:
    """A program: its items, and what it is."""

    items: list[Instruction | Label]
    kind: ProgramType
    functions: tuple[str, ...]


@dataclass
class Palette:
    """What a kernel takes: operations, statements with helpers by kind of program, and whether tries heed flags."""

    ops: list[Op]
    helpers: dict[ProgramType, list[str]]
    tries: bool = True


class Generator:
    """Makes one program of `kind` from what `palette` has."""

    def __init__(self, chance: random.Random, palette: Palette, kind: ProgramType) -> None:
        self.r = chance
        self.kind = kind
        self.palette = palette
        self.ops = palette.ops
        self.names = {op.name for op in self.ops}
        self.items: list[Instruction | Label] = []
        self.labels = 0
        self.scalars: tuple[Register, ...] = (R0, R1, R2, R3, R4, R5)
        if kind is not ProgramType.XDP:
            self.scalars = (*self.scalars, R8)
        #: Legacy packet loads and local calls exclude each other without BTF.
        self.legacy = kind is ProgramType.SOCKET_FILTER and chance.random() < 0.5
        self.looping = False
        self.in_function = False
        self.arithmetic = [op for op in self.ops if op.form in ARITHMETIC]
        self.conditions = [op for op in self.ops if op.form in CONDITIONS]
        self.atomics = [op for op in self.ops if op.form is Form.STORE and op.name.startswith("atomic")]
        self.loads = [op for op in self.ops if op.form is Form.LOAD]
        self.stores = [op for op in self.ops if op.form in (Form.STORE, Form.STORE_IMM) and op not in self.atomics]
        self.packet_loads = [op for op in self.ops if op.form in PACKET_OPS]

    # --- pieces ---

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def add(self, *items: Instruction | Label) -> None:
        self.items += items

    def scalar(self) -> Register:
        return self.r.choice(self.scalars)

    def number(self, bits: int = 32) -> int:
        """A constant, often one where something happens; signed."""
        interesting = (
            0,
            1,
            -1,
            2,
            7,
            8,
            31,
            32,
            63,
            64,
            255,
            256,
            0x7FFF,
            0x8000,
            (1 << bits - 1) - 1,
            -(1 << bits - 1),
        )
        return (
            self.r.choice(interesting) if self.r.random() < 0.5 else self.r.randrange(-(1 << bits - 1), 1 << bits - 1)
        )

    def reload(self, *registers: Register) -> None:
        """Give registers numbers again after a call."""
        for register in registers:
            if self.in_function or self.r.random() < 0.3:
                self.add(mov64(register, self.number()))
            else:
                self.add(ldx(8, register, R9, 8 * self.r.randrange(VALUE // 8)))

    # --- statements ---

    def do_arithmetic(self) -> None:
        for _ in range(self.r.randrange(1, 5)):
            op = self.r.choice(self.arithmetic)
            imm = 0
            if op.form is Form.DST_IMM:
                imm = self.number()
                if op.name.startswith(("lsh", "rsh", "arsh")):
                    imm = self.r.randrange(8 * op.size)
                elif "div" in op.name or "mod" in op.name:
                    imm = imm or 3
            src = self.scalar() if op.form is Form.DST_SRC else R0
            self.add(Instruction(op, self.scalar(), src, 0, imm))

    def do_wide(self) -> None:
        self.add(lddw(self.scalar(), self.number(64) & MASK64))

    def place(self, size: int, *, aligned: bool) -> tuple[Register, int]:
        """A base register and an offset where `size` bytes may be accessed."""
        bases = [(R10, -STACK, STACK)]
        if not self.in_function:
            bases.append((R9, 0, VALUE))
            if self.kind is ProgramType.XDP:
                bases.append((R8, 0, PACKET))
            elif self.kind is ProgramType.SYSCALL:
                bases.append((R6, 0, CONTEXT))
        if aligned:
            bases = [base for base in bases if base[0] in (R9, R10)]
        base, start, length = self.r.choice(bases)
        offset = self.r.randrange(length - size + 1)
        if aligned or base in (R10, R6):
            offset -= offset % size
        return base, start + offset

    def do_memory(self) -> None:
        for _ in range(self.r.randrange(1, 4)):
            if self.r.random() < 0.5:
                op = self.r.choice(self.loads)
                base, offset = self.place(op.size, aligned="acquire" in op.name)
                self.add(Instruction(op, self.scalar(), base, offset))
            else:
                op = self.r.choice(self.stores)
                base, offset = self.place(op.size, aligned="release" in op.name)
                imm = op.form is Form.STORE_IMM
                if imm and base == R6:
                    continue  # Linux 6.1 refuses constants stored into the context
                self.add(Instruction(op, base, R0 if imm else self.scalar(), offset, self.number() if imm else 0))

    def do_atomic(self) -> None:
        op = self.r.choice(self.atomics)
        base, offset = self.place(op.size, aligned=True)
        if op.writes and base == R10:
            # Linux 6.18's verifier follows a fetched number back to no stack slot (backtrack_insn): it takes two paths
            # with different constants in the slot for one, and removes code that runs. docs/vm.md has the program.
            return
        self.add(Instruction(op, base, self.scalar(), offset))
        if op.name == "atomic_cmpxchg32":
            # Linux 6.18 leaves R0's upper half as it was where paths meet behind it; docs/vm.md has the program.
            self.add(alu("mov32", R0, R0))

    def do_variable(self) -> None:
        """An access at a place known only at run time."""
        if self.in_function:
            return
        index, value = self.r.sample(self.scalars, 2)
        self.add(alu("and64", index, VALUE // 2 - 1), alu("add64", index, R9))
        offset = self.r.randrange(VALUE // 2 - 8)
        if self.r.random() < 0.5:
            self.add(ldx(self.r.choice((1, 2, 4, 8)), value, index, offset))
        else:
            self.add(stx(self.r.choice((1, 2, 4, 8)), index, offset, value))
        self.reload(index)

    def do_branch(self, depth: int) -> None:
        op = self.r.choice(self.conditions)
        other, end = self.label(), self.label()
        imm = self.number() if op.form is Form.JUMP_IMM else 0
        src = self.scalar() if op.form is Form.JUMP_REG else R0
        self.add(Instruction(op, self.scalar(), src, 0, imm, symbol=other))
        self.block(self.r.randrange(1, 4), depth + 1)
        self.add(gotol(end) if "gotol" in self.names and self.r.random() < 0.4 else jump(end))
        self.add(Label(other))
        self.block(self.r.randrange(1, 3), depth + 1)
        self.add(Label(end))

    def do_loop(self, depth: int) -> None:
        if self.looping:
            return
        self.looping = True
        start, end = self.label(), self.label()
        self.add(mov64(R7, self.r.randrange(1, 6)), Label(start))
        may = "may_goto" in self.names and not self.in_function and self.r.random() < 0.3
        if may:
            self.add(may_goto(end))
        self.block(self.r.randrange(1, 3), depth + 2)
        self.add(alu("sub64", R7, 1), jump_if("jne", R7, 0, start))
        if may:
            self.add(Label(end))
        self.looping = False

    def do_legacy(self) -> None:
        if not self.legacy:
            return
        op = self.r.choice(self.packet_loads)
        indirect = op.form is Form.LOAD_INDIRECT
        src = self.scalar() if indirect else R0
        if indirect:
            self.add(alu("and64", src, 31))
        # Rarely outside: that ends the program.
        most = PACKET if self.r.random() < 0.05 else 24
        self.add(Instruction(op, R0, src, 0, self.r.randrange(most)))
        self.reload(R1, R2, R3, R4, R5)

    def do_call(self) -> None:
        if self.in_function or self.legacy:
            return
        name = self.r.choice(("f", "g"))
        self.add(call_local(name))
        self.reload(R1, R2, R3, R4, R5)

    def keyed(self) -> None:
        """A map in R1, and in R2 the address of a key on the stack."""
        offset = -8 * self.r.randrange(1, STACK // 8 + 1)
        with_trie = self.palette.tries and self.kind is not ProgramType.SYSCALL
        name = self.r.choice((*KEYED, TRIE, TRIE) if with_trie else KEYED)
        if name == TRIE:
            # A length in bits, and few different addresses below it.
            self.add(st(4, R10, offset, self.r.choice((0, 1, 8, 9, 24, 32, 33))))
            self.add(st(4, R10, offset + 4, self.r.choice((0, 1, 0x80, 0x100, 0x01010101))))
        else:
            self.add(st(4, R10, offset, self.r.randrange(KEYS)))
        self.add(mov64(R2, R10), add64(R2, offset), load_map(R1, name))

    def do_helper(self) -> None:
        names = self.palette.helpers[self.kind]
        if self.in_function:
            names = [name for name in names if name != "load_bytes"]
        getattr(self, self.r.choice(names))()
        self.reload(R1, R2, R3, R4, R5)

    def lookup(self) -> None:
        skip = self.label()
        self.keyed()
        self.add(call(1), jump_if("jeq", R0, 0, skip))
        value = self.r.choice((R1, R2, R3))
        self.add(ldx(8, value, R0, 8 * self.r.randrange(2)), add64(value, 3))
        self.add(stx(self.r.choice((1, 2, 4, 8)), R0, self.r.randrange(9), value))
        self.add(Label(skip), mov64(R0, self.number()))

    def update(self) -> None:
        self.keyed()
        self.add(mov64(R3, R10), add64(R3, -8 * self.r.randrange(2, STACK // 8 + 1)))
        flags = self.r.choice((0, 0, 1, 2, 2, 3, 4, 5, 9))
        self.add(mov64(R4, flags), call(2))
        self.error()

    def delete(self) -> None:
        self.keyed()
        self.add(call(3))
        self.error()

    def error(self) -> None:
        """R0 as the 32 bits that it has: before Linux 6.4 map operations return int, whose upper half is undefined."""
        self.add(alu("lsh64", R0, 32), alu("arsh64", R0, 32))

    def queue(self) -> None:
        """Push, pop and peek."""
        self.add(load_map(R1, self.r.choice(("queue", "stack"))), mov64(R2, R10))
        self.add(add64(R2, -8 * self.r.randrange(2, STACK // 8 + 1)))
        helper = self.r.choice((87, 87, 88, 89))
        self.add(mov64(R3, self.r.choice((0, 0, 1, 2, 3))), call(helper))
        self.error()

    def output(self) -> None:
        if self.r.random() < 0.3:
            self.add(load_map(R1, "ring"), mov64(R2, self.r.choice((0, 1, 3, 7))), call(134))
            return
        size = self.r.randrange(1, STACK + 1)
        self.add(load_map(R1, "ring"), mov64(R2, R10), add64(R2, -STACK), mov64(R3, size))
        self.add(mov64(R4, self.r.choice((0, 1, 2, 4))), call(130))

    def copy(self) -> None:
        """Call probe_read_kernel, of what is there and of what is not."""
        size = self.r.randrange(1, 17)
        self.add(mov64(R1, R10), add64(R1, -8 * self.r.randrange(2, STACK // 8 + 1)), mov64(R2, size))
        if self.in_function or self.r.random() < 0.3:
            self.add(lddw(R3, self.r.choice(UNREADABLE)))
        else:
            self.add(mov64(R3, R9), add64(R3, self.r.randrange(VALUE - 16)))
        self.add(call(self.r.choice((113, 115))))

    def read_number(self) -> None:
        """Call strtol and strtoul with a few characters."""
        text = bytes(self.r.choice(b"0123456789abx-  \0") for _ in range(8))
        self.add(lddw(R1, int.from_bytes(text, "little")), stx(8, R10, -16, R1))
        self.add(mov64(R1, R10), add64(R1, -16), mov64(R2, self.r.randrange(1, 9)))
        self.add(mov64(R3, self.r.choice((0, 8, 10, 16, 7))), mov64(R4, R10), add64(R4, -8))
        # After an error the result is 0 in new kernels and what it was in old ones.
        good = self.label()
        self.add(call(self.r.choice((105, 106))), jump_if("jsgt", R0, 0, good), st(8, R10, -8, 0), Label(good))

    def load_bytes(self) -> None:
        size = self.r.randrange(1, 9)
        self.add(mov64(R1, R6), mov64(R2, self.r.randrange(PACKET)), mov64(R3, R10))
        self.add(add64(R3, -8 * self.r.randrange(1, STACK // 8 + 1)), mov64(R4, size), call(26))

    # --- programs ---

    def block(self, count: int, depth: int) -> None:
        for _ in range(count):
            chosen = self.r.random()
            if chosen < 0.3:
                self.do_arithmetic()
            elif chosen < 0.5:
                self.do_memory()
            elif chosen < 0.58:
                self.do_atomic()
            elif chosen < 0.64:
                self.do_variable()
            elif chosen < 0.76 and depth < 3:
                self.do_branch(depth)
            elif chosen < 0.80 and depth < 2:
                self.do_loop(depth)
            elif chosen < 0.84:
                self.do_call()
            elif chosen < 0.90:
                self.do_legacy()
            elif chosen < 0.97:
                self.do_helper()
            else:
                self.do_wide()

    def frame(self) -> None:
        for place in range(-STACK, 0, 8):
            self.add(st(8, R10, place, self.number()))

    def function(self, name: str) -> None:
        self.in_function = True
        scalars, self.scalars = self.scalars, (R0, R1, R2, R3, R4, R5, R8)
        self.add(Label(name), mov64(R0, self.number()), mov64(R8, self.number()))
        self.frame()
        self.block(self.r.randrange(1, 5), 1)
        self.add(exit_())
        self.scalars = scalars

    def make(self, length: int, statement: str = "") -> Random:
        """A program of about `length` statements; or of the one `statement`."""
        self.add(mov64(R6, R1), load_map_value(R9, MAIN))
        if self.kind is ProgramType.XDP:
            fits = self.label()
            self.add(ldx(4, R8, R6, 0), ldx(4, R2, R6, 4), mov64(R1, R8), add64(R1, PACKET))
            self.add(jump_if("jle", R1, R2, fits), mov64(R0, 0), exit_(), Label(fits))
        for index, register in enumerate(self.scalars):
            self.add(ldx(8, register, R9, 8 * index))
        self.frame()
        if statement:
            getattr(self, statement)()
            self.reload(R1, R2, R3, R4, R5)
        self.block(length, 0)
        for index, register in enumerate(self.scalars):
            self.add(stx(8, R9, 8 * index, register))
        self.add(exit_())
        called = {item.symbol for item in self.items if isinstance(item, Instruction) and item.op.name == "call_local"}
        for name in sorted(name for name in called if name):
            self.function(name)
        return Random(self.items, self.kind, tuple(sorted(name for name in called if name)))


def generate(chance: random.Random, palette: Palette) -> Random:
    """A program of any of the three kinds, of those that the kernel has."""
    kind = chance.choice([kind for kind in PROGRAM_KINDS if kind in palette.helpers])
    return Generator(chance, palette, kind).make(chance.randrange(3, 14))
