"""From instructions to Python functions, one a subprogram: registers become local variables, blocks become branches.

Nothing is interpreted while a program runs; Python's own byte code does the work. Checks that can be decided here are:
a register that certainly holds a value is not looked at again, and neither is a byte of the frame that was certainly
written. An error finds its instruction by the line of the Python source, and the registers in the locals.
"""

from __future__ import annotations

import re
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING

from pyebpf.asm.instruction import slot_starts
from pyebpf.asm.op import Form, Register
from pyebpf.errors import InvalidValue
from pyebpf.uapi.helper_ids import TAIL_CALL
from pyebpf.uapi.helpers import helper
from pyebpf.vm.flow import FRAME_SIZE, REGISTERS, callee, functions_of, known_after, returns_value
from pyebpf.vm.semantics import ATOMICS, BINARY, CONDITIONS, UNARY, divide_signed, modulo_signed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyebpf.asm import Instruction
    from pyebpf.vm.flow import Block, Function

SOURCE_NAME = "<eBPF program>"
_LOW = 0xFFFF_FFFF
_ALL = 0xFFFF_FFFF_FFFF_FFFF
_ONES = {size: b"\1" * size for size in (1, 2, 4, 8)}


class Translation:
    """A program as Python: `compiled` is its code object, which defines a function `f<index>` for each subprogram.

    `lines` has the index of the instruction that each source line stands for, `starts` the functions, `blocks` for
    each block's number the indices of its instructions.
    """

    def __init__(
        self, instructions: Sequence[Instruction], names: Mapping[str, int], *, strict: bool, trace: bool
    ) -> None:
        self.instructions = tuple(instructions)
        self.slots = slot_starts(instructions)
        self.index_of = {slot: index for index, slot in enumerate(self.slots)}
        self.names = names
        self.strict = strict
        self.trace = trace
        self.functions = functions_of(self.instructions, names)
        self.starts = tuple(self.functions)
        self.lines: list[int] = [0]
        self.blocks: list[range] = []
        self._text: list[str] = []
        self._constants: dict[str, object] = {}
        for function in self.functions.values():
            _Writer(self, function).write()
        self.source = "\n".join(self._text) + "\n"
        self.compiled = compile(self.source, SOURCE_NAME, "exec")

    def emit(self, text: str, index: int) -> None:
        """One line of source, for the instruction `index`."""
        self._text.append(text)
        self.lines.append(index)

    def callee(self, index: int) -> int:
        """The function that the instruction calls or loads."""
        return callee(self.instructions[index], index, self.slots, self.index_of, self.names)


def translate(
    instructions: Sequence[Instruction], names: Mapping[str, int], *, strict: bool = True, trace: bool = False
) -> Translation:
    """Translate placed instructions (no labels left). `strict`: reading what was not written on the stack is refused.

    InvalidValue for what cannot run at all: jumps out of the function, raw bytes.
    """
    return Translation(instructions, names, strict=strict, trace=trace)


SCOPE: dict[str, object] = {
    "divide_signed": divide_signed,
    "modulo_signed": modulo_signed,
    "from_bytes": int.from_bytes,
    **{f"unpack{size}": Struct(code).unpack_from for size, code in ((2, "<H"), (4, "<I"), (8, "<Q"))},
    **{f"pack{size}": Struct(code).pack_into for size, code in ((2, "<H"), (4, "<I"), (8, "<Q"))},
    **{f"ones{size}": ones for size, ones in _ONES.items()},
}
"""What every translated program may name, besides what the machine gives it."""


_OPERAND = re.compile(r"\b[ds]\b")


@cache
def _template(text: str) -> str:
    """The template as a format string: `d` and `s` stand alone in it."""
    return _OPERAND.sub(lambda found: f"{{{found[0]}}}", text)


def _expression(template: str, d: str, s: str = "") -> str:
    """The template with its operands in place."""
    return _template(template).format(d=d, s=s)


class _Writer:
    """Writes one function."""

    def __init__(self, translation: Translation, function: Function) -> None:
        self.t = translation
        self.function = function
        self.known = 0
        self.indent = ""
        self.index = function.start
        self.heads = self._heads()
        self.numbers = {head: number for number, head in enumerate(self.heads)}

    # --- structure ---

    def _heads(self) -> list[int]:
        """First blocks of chains; in a chain each block follows the one before and is reached from nowhere else."""
        blocks = self.function.blocks
        return [
            start
            for start, block in blocks.items()
            if start == self.function.start
            or len(block.sources) != 1
            or blocks[next(iter(block.sources))].next != start
            or blocks[next(iter(block.sources))].jump == start
        ]

    def _chain(self, head: int) -> list[Block]:
        blocks = self.function.blocks
        chain = [blocks[head]]
        while (after := chain[-1].next) in blocks and after not in self.numbers:
            chain.append(blocks[after])
        return chain

    def line(self, text: str) -> None:
        self.t.emit(self.indent + text, self.index)

    def write(self) -> None:
        function = self.function
        self.line(f"def f{function.start}(r1=None, r2=None, r3=None, r4=None, r5=None):")
        self.indent = " "
        self.line("r0 = r6 = r7 = r8 = r9 = None")
        self.line("frame = enter()")
        if function.uses_frame:
            self.line(f"stack = frame.data; written = frame.written; r10 = frame.base + {FRAME_SIZE}")
        if self.t.strict and function.uses_frame:
            self.line(f"written[:] = bytes({FRAME_SIZE})")
        self.line("left = budget[0]; iterations = may_goto_iterations; reserve = left >> 1; block = 0")
        self.line("while True:")
        self.indent = "  "
        self._dispatch(0, len(self.heads))
        self.indent = ""

    def _dispatch(self, low: int, high: int) -> None:
        if high - low == 1:
            self._write_chain(self.heads[low])
            return
        middle = (low + high) // 2
        self.line(f"if block < {middle}:" if middle - low > 1 else f"if block == {low}:")
        before = self.indent
        self.indent += " "
        self._dispatch(low, middle)
        self.indent = before
        self.line("else:")
        self.indent += " "
        self._dispatch(middle, high)
        self.indent = before

    def _write_chain(self, head: int) -> None:
        chain = self._chain(head)
        loops = any(block.jump == head or block.next == head for block in chain)
        back = any(source >= head for source in self.function.blocks[head].sources)
        self.index = head
        before = self.indent
        if loops:
            self.line("while True:")
            self.indent += " "
        if back:
            self.line(f"left -= {sum(block.end - block.start for block in chain)}")
            self.line("if left < 0: budget_spent()")
        for block in chain:
            self.known = block.known
            if self.t.trace:
                self.line(f"ran({len(self.t.blocks)})")
                self.t.blocks.append(range(block.start, block.end))
            for index in range(block.start, block.end):
                self.index = index
                self._instruction(self.t.instructions[index], head if loops else None, block)
        last = chain[-1]
        if last.next is not None:
            if last.next not in self.function.blocks:
                self.line("fell_off_the_end()")
            else:
                self._go(last.next, head if loops else None)
        self.indent = before

    def _go(self, target: int, looping: int | None) -> None:
        if looping is not None:
            if target == looping:
                self.line("continue")
            else:
                self.line(f"block = {self.numbers[target]}")
                self.line("break")
        else:
            self.line(f"block = {self.numbers[target]}")
            self.line("continue")

    # --- instructions ---

    def _need(self, *registers: int) -> None:
        """Make sure that registers hold something."""
        for register in registers:
            if not self.known >> register & 1:
                self.line(f"if r{register} is None: unreadable({register})")
                self.known |= 1 << register

    def _instruction(self, instruction: Instruction, looping: int | None, block: Block) -> None:
        op, form = instruction.op, instruction.op.form
        write = _WRITERS.get(form)
        if write is None:
            raise InvalidValue(f"slot {self.t.slots[self.index]}: {op.name} is not an instruction that can run")
        if form in (Form.JUMP, Form.JUMP_LONG, Form.JUMP_IMM, Form.JUMP_REG):
            self._jump(instruction, looping, block)
            return
        if Register.R10 in instruction.writes and form is not Form.EXIT:
            # The verifier does not look at code that no run comes to.
            self.line("frame_pointer_written()")
            return
        write(self, instruction)
        self.known = known_after((instruction,), self.known)

    def _jump(self, instruction: Instruction, looping: int | None, block: Block) -> None:
        op = instruction.op
        target = block.jump
        assert target is not None
        if op.name == "may_goto":
            # What ends a loop in the kernel must end it here, too, before the limit of steps refuses the program.
            self.line("if iterations and left > reserve: iterations -= 1")
            self.line("else:")
        elif op.form in (Form.JUMP, Form.JUMP_LONG):
            self._go(target, looping)
            return
        else:
            s = f"r{instruction.src}"
            if op.form is Form.JUMP_IMM:
                self._need(instruction.dst)
                s = str(instruction.imm & (_ALL if op.size == 8 else _LOW))
            else:
                self._need(instruction.dst, instruction.src)
            self.line(f"if {_expression(CONDITIONS[op.name], f'r{instruction.dst}', s)}:")
        self.indent += " "
        self._go(target, looping)
        self.indent = self.indent[:-1]

    def _arithmetic(self, instruction: Instruction) -> None:
        op, d = instruction.op, f"r{instruction.dst}"
        reads_dst = "d" in op.reads
        if op.form is Form.DST:
            self._need(instruction.dst)
            self.line(f"{d} = {_expression(UNARY[op.name], d)}")
            return
        if op.form is Form.DST_IMM:
            s = str(instruction.imm & (_ALL if op.size == 8 else _LOW))
            self._need(*([instruction.dst] if reads_dst else []))
        else:
            s = f"r{instruction.src}"
            self._need(*([instruction.dst] if reads_dst else []), instruction.src)
        self.line(f"{d} = {_expression(BINARY[op.name], d, s)}")

    def _load(self, instruction: Instruction) -> None:
        op, d, size = instruction.op, f"r{instruction.dst}", instruction.op.size
        signed = op.name.startswith("ldxs")
        self._need(instruction.src)
        place = FRAME_SIZE + instruction.offset
        if instruction.src == Register.R10 and not signed and "_" not in op.name and _in_frame(place, size):
            bits = ((1 << size) - 1) << (REGISTERS + place)
            fast = f"unpack{size}(stack, {place})[0]" if size > 1 else f"stack[{place}]"
            if self.t.strict and self.known & bits != bits:
                slow = f"load{size}(r10 + {instruction.offset})"
                self.line(f"{d} = {slow} if 0 in written[{place}:{place + size}] else {fast}")
            else:
                self.line(f"{d} = {fast}")
            return
        self.line(f"{d} = load{'s' if signed else ''}{size}({_address(instruction.src, instruction.offset)})")

    def _store(self, instruction: Instruction) -> None:
        op, size, offset = instruction.op, instruction.op.size, instruction.offset
        self._need(instruction.dst)
        if op.form is Form.STORE:
            self._need(instruction.src)
            if op.name.startswith("atomic"):
                self._atomic(instruction)
                return
            value = f"r{instruction.src}"
        else:
            value = str(instruction.imm & _ALL)
        place = FRAME_SIZE + offset
        if instruction.dst == Register.R10 and _in_frame(place, size):
            cut = value if size == 8 else f"{value} & {(1 << 8 * size) - 1}"
            self.line(f"pack{size}(stack, {place}, {cut})" if size > 1 else f"stack[{place}] = {cut}")
            bits = ((1 << size) - 1) << (REGISTERS + place)
            if self.t.strict and self.known & bits != bits:
                self.line(f"written[{place}:{place + size}] = ones{size}")
            return
        self.line(f"store{size}({_address(instruction.dst, offset)}, {value})")

    def _atomic(self, instruction: Instruction) -> None:
        op, s, mask = instruction.op, f"r{instruction.src}", (1 << 8 * instruction.op.size) - 1
        name = op.name.removeprefix("atomic_").removeprefix("fetch_").removesuffix(str(8 * op.size))
        arguments = f"{_address(instruction.dst, instruction.offset)}, {op.size}"
        if name == "cmpxchg":
            self._need(Register.R0)
        template = ATOMICS[name].replace("mask", str(mask)).replace("r0", f"(r0 & {mask})")
        change = f"lambda old, r0=r0, s={s} & {mask}: {template}"
        result = {"d": "", "s": f"{s} = ", "0": "r0 = "}[op.writes or "d"]
        self.line(f"{result}atomic({arguments}, {change})")

    def _wide(self, instruction: Instruction) -> None:
        d, imm, form = f"r{instruction.dst}", instruction.imm, instruction.op.form
        if form is Form.LDDW:
            self.line(f"{d} = {imm}")
        elif form is Form.LDDW_FUNCTION:
            self.line(f"{d} = function_address({self.t.callee(self.index)})")
        elif form is Form.LDDW_KSYM:
            name = instruction.symbol if instruction.symbol is not None else imm & _LOW
            self.line(f"{d} = ksym_address({name!r})")
        else:
            indexed = "index" in instruction.op.name
            name = instruction.symbol if instruction.symbol is not None else imm & _LOW
            if "value" in instruction.op.name:
                self.line(f"{d} = map_value_address({name!r}, {imm >> 32}, {indexed})")
            else:
                self.line(f"{d} = map_address({name!r}, {indexed})")

    def _call(self, instruction: Instruction) -> None:
        form = instruction.op.form
        self.line("budget[0] = left")
        if form is Form.CALL_LOCAL:
            arguments = ", ".join(f"r{n}" for n in range(1, 6))
            self.line(f"r0 = f{self.t.callee(self.index)}({arguments})")
        elif form is Form.CALL_KFUNC:
            name = instruction.symbol if instruction.symbol is not None else instruction.imm
            self.line(f"r0 = call_kfunc({name!r}, r1, r2, r3, r4, r5)")
        elif form is Form.CALL_REGISTER:
            self._need(instruction.dst)
            self.line(f"r0 = function_at(r{instruction.dst})(r1, r2, r3, r4, r5)")
        else:
            self._helper(instruction.imm)
        self.line("left = budget[0]")
        self.line("r1 = r2 = r3 = r4 = r5 = None")

    def _helper(self, number: int) -> None:
        from pyebpf.errors import NotFound

        try:
            prototype = helper(number)
        except NotFound:
            self.line(f"unknown_helper({number})")
            return
        count = len(prototype.parameters)
        self._need(*range(1, count + 1))
        if number == TAIL_CALL:
            self.line("target = tail_call(r1, r2, r3)")
            self.line("if target is not None: leave(); return target(r1)")
            self.line("r0 = None")
            return
        arguments = ", ".join(f"r{n}" for n in range(1, 6 if prototype.variadic else count + 1))
        call = f"helper{number}({arguments})"
        if returns_value(number):
            self.line(f"r0 = {call} & {_ALL}")
        else:
            self.line(call)
            self.line("r0 = None")

    def _exit(self, _instruction: Instruction) -> None:
        if self.function.start == 0 and not self.known & 1:
            self.line("if r0 is None: unreadable(0)")
        self.line("budget[0] = left; leave(); return r0")

    def _packet(self, instruction: Instruction) -> None:
        self._need(Register.R6)
        place = str(instruction.imm)
        if instruction.op.form is Form.LOAD_INDIRECT:
            self._need(instruction.src)
            place = f"{place} + ((r{instruction.src} & {_LOW} ^ 0x80000000) - 0x80000000)"
        self.line(f"r0 = load_packet(r6, {place}, {instruction.op.size})")
        # A place outside the packet ends the program with 0.
        self.line("if r0 is None: budget[0] = left; leave(); return 0")
        self.line("r1 = r2 = r3 = r4 = r5 = None")

    def _cast(self, instruction: Instruction) -> None:
        self._need(instruction.src)
        to = instruction.imm >> 16 & 0xFFFF
        self.line(f"r{instruction.dst} = cast_{'user' if to else 'kernel'}(r{instruction.src})")


def _in_frame(place: int, size: int) -> bool:
    """Whether an access is certainly allowed: inside, and aligned."""
    return 0 <= place <= FRAME_SIZE - size and not place % size


def _address(register: int, offset: int) -> str:
    return f"r{register} + {offset}" if offset else f"r{register}"


_WRITERS: dict[Form, Callable[[_Writer, Instruction], None]] = {
    **dict.fromkeys((Form.DST, Form.DST_IMM, Form.DST_SRC), _Writer._arithmetic),
    **dict.fromkeys((Form.LDDW, Form.LDDW_MAP, Form.LDDW_KSYM, Form.LDDW_FUNCTION), _Writer._wide),
    **dict.fromkeys((Form.CALL, Form.CALL_LOCAL, Form.CALL_KFUNC, Form.CALL_REGISTER), _Writer._call),
    **dict.fromkeys((Form.STORE, Form.STORE_IMM), _Writer._store),
    **dict.fromkeys((Form.LOAD_ABSOLUTE, Form.LOAD_INDIRECT), _Writer._packet),
    **dict.fromkeys((Form.JUMP, Form.JUMP_LONG, Form.JUMP_IMM, Form.JUMP_REG), lambda _writer, _instruction: None),
    Form.LOAD: _Writer._load,
    Form.CAST: _Writer._cast,
    Form.EXIT: _Writer._exit,
}
