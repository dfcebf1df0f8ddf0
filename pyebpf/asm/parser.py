"""Text to instructions: both syntaxes of `text.py`, also mixed, and what bpftool, the verifier and llvm-objdump print.

A line has a label (`loop:`), an instruction, both or neither. Comments start with `;`, `//`, or `#` after a space.
Slot numbers, opcode bytes and headings of listings are stepped over.

A number may be decimal or hexadecimal. In the mnemonic syntax 0x80000000 to 0xffffffff are the bits of a 32-bit field,
as the tools of that syntax take them; in the kernel's they must fit the operation.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.asm.instruction import Instruction, Label, Raw
from pyebpf.asm.op import REGISTERS, Form, Register
from pyebpf.asm.opcodes import find_op
from pyebpf.asm.shapes import TOKEN, shapes, words
from pyebpf.errors import AssemblyError, Location

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.asm.instruction import Item
    from pyebpf.asm.shapes import Shape

__all__ = ["parse", "parse_line"]

_LOW = 0xFFFF_FFFF
# What listings put before an instruction: slot number, opcode in brackets or all bytes.
_PREFIX = re.compile(
    r"\s*\d+:?\s+(?:\((?P<opcode>[0-9a-f]{2})\)\s+|(?:[0-9a-f]{2} ){7}(?:[0-9a-f]{2} ){0,8}[0-9a-f]{2}\s+)?"
)
_HEADING = re.compile(r"\S.*:\s+file format |Disassembly of section |\S.*\):\s*$")
_OBJDUMP_LABEL = re.compile(r"[0-9a-f]{8,16} <(.+)>:\s*$")
_RELOCATION = re.compile(r"\s*[0-9a-f]{8,16}:\s+R_BPF_64_(64|32)\s+(\S+)\s*$")
_LABEL = re.compile(r'\s*((?:[A-Za-z_.$][\w.$]*)|"(?:[^"\\]|\\.)*")\s*:(?!\w)', re.ASCII)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|(.))")
_UNESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_TAIL = re.compile(r"\s*<[^<>]*>\s*$")
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|(;|//|(?:(?<=\s)|^)#).*')


class Token(NamedTuple):
    """A piece of a line: its kind as in a shape, its text, and where it starts and ends."""

    kind: str
    text: str
    start: int
    end: int


def parse(text: str, file: str = "<text>") -> tuple[Item | Raw, ...]:
    """The labels and instructions of a text; each knows its place, and jumps and calls still have their names.

    A call of a bare name (`call f`) is a call of that label if there is one, else of the helper of that name.
    AssemblyError, with `location`, for a line that means nothing.
    """
    items: list[Item | Raw] = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            _line(line, items, partial(_place, file, number, line))
        except AssemblyError as error:
            if error.location is None:
                start = len(line) - len(line.lstrip())
                raise AssemblyError(error.message, Location(file, number, start, len(line.rstrip()), line)) from None
            raise
    labels = {item.name for item in items if isinstance(item, Label)}
    return tuple(_decided(item, labels) for item in items)


def _place(file: str, number: int, line: str, start: int, end: int) -> Location:
    return Location(file, number, start, end, line)


def parse_line(line: str) -> Instruction | Raw:
    """The one instruction that `line` holds; names of labels are not looked up."""
    items = parse(line)
    if len(items) != 1 or isinstance(items[0], Label):
        raise AssemblyError(f"{line!r} is not one instruction")
    return items[0]


def _line(line: str, items: list[Item | Raw], at: Callable[[int, int], Location]) -> None:
    if _HEADING.match(line):
        return
    if found := _RELOCATION.match(line):
        _relocate(items, found[1], found[2])
        return
    if found := _OBJDUMP_LABEL.match(line):
        items.append(Label(found[1], at(found.start(1), found.end(1))))
        return
    comment = next((found for found in _COMMENT.finditer(line) if found[2]), None)
    code = line[: comment.start()] if comment is not None else line
    prefix = _PREFIX.match(code)
    start = prefix.end() if prefix is not None else 0
    while label := _LABEL.match(code, start):
        items.append(Label(_unquoted(label[1]), at(label.start(1), label.end(1))))
        start = label.end()
    code = _TAIL.sub("", code)
    if not code[start:].strip():
        return
    if prefix is not None and prefix["opcode"] == "18" and re.fullmatch(r"\s*r\d+ = 0x[0-9a-f]+\s*", code[start:]):
        code = f"{code.rstrip()} ll"  # the verifier leaves it out
    items.append(_instruction(code, start, at))
    if comment is not None and comment[2] == ";":
        _check_comment(line, comment.end(2), at)


def _check_comment(line: str, start: int, at: Callable[[int, int], Location]) -> None:
    """Refuse a second instruction where a comment would begin: elsewhere `;` separates them."""
    try:
        _instruction(line, start, at)
    except AssemblyError:
        return
    raise AssemblyError(
        "a comment starts at `;`, but this is an instruction: give it a line of its own", at(start, len(line.rstrip()))
    )


def _tokens(code: str, start: int, at: Callable[[int, int], Location]) -> list[Token]:
    tokens = []
    known = words()
    for found in TOKEN.finditer(code, start):
        group = found.lastgroup
        assert group is not None
        text, begin, end = found[group], found.start(group), found.end(group)
        if group == "register":
            number = text.lstrip("%")[1:]
            if int(number) > Register.R10:
                raise AssemblyError(f"there is no register {text}: they are r0 to r10", at(begin, end))
            kind = text.lstrip("%")[0]
        elif group == "number":
            kind = "+#" if text[0] in "+-" else "#"
        elif group == "word":
            text = text.partition("#")[0]
            kind = text if text in known else "@"
        else:
            kind = {"relative": "~", "tagged": "@", "quoted": "@"}.get(group, text)
        tokens.append(Token(kind, text, begin, end))
    return tokens


def _instruction(code: str, start: int, at: Callable[[int, int], Location]) -> Instruction | Raw:
    tokens = _tokens(code, start, at)
    if not tokens:
        raise AssemblyError("there is no instruction")
    if tokens[0].text == ".byte":
        return _bytes(tokens, at)
    table = shapes()
    shape = table.get(" ".join([token.kind for token in tokens]))
    if shape is None:
        # A name may be spelled as a word of the language: it is the last one then, as in `goto exit`.
        last = max((n for n, token in enumerate(tokens) if token.kind[0].isalpha() and len(token.kind) > 1), default=-1)
        renamed = [token._replace(kind="@") if n == last else token for n, token in enumerate(tokens)]
        shape = table.get(" ".join([token.kind for token in renamed]))
        if shape is None:
            from pyebpf.asm.parse_errors import explain

            raise explain(tokens, len(code.rstrip()), at)
    where = at(tokens[0].start, tokens[-1].end)
    fields = _Fields(shape)
    place = where
    try:
        for index, field in shape.fields:
            place = at(tokens[index].start, tokens[index].end)
            fields.read(field, tokens[index])
        place = where
        return fields.made(where)
    except AssemblyError as error:
        raise AssemblyError(error.message, place) from None


def _bytes(tokens: Sequence[Token], at: Callable[[int, int], Location]) -> Raw:
    numbers = [token for token in tokens[1:] if token.kind == "#"]
    where = at(tokens[0].start, tokens[-1].end)
    if [token.kind for token in tokens[1:]] != ["#", *[",", "#"] * 7]:
        raise AssemblyError(".byte takes the eight bytes of one slot, with commas between them", where)
    for token in numbers:
        if _integer(token.text) > 0xFF:
            raise AssemblyError(f"{token.text} is no byte (0 to 0xff)", at(token.start, token.end))
    return Raw(bytes(_integer(token.text) for token in numbers), where)


def _integer(text: str) -> int:
    sign = -1 if text[0] == "-" else 1
    digits = text.lstrip("+- \t")
    return sign * int(digits, 16 if digits[:2] in ("0x", "0X") else 10)


def _unquoted(text: str) -> str:
    if text[0] != '"':
        return text

    def character(found: re.Match[str]) -> str:
        if found[1]:
            number = int(found[1], 16)
            if number > 0x10FFFF:
                raise AssemblyError(f"{found[0]} is no character")
            return chr(number)
        return _UNESCAPED.get(found[2], found[2])

    return _ESCAPE.sub(character, text[1:-1])


def _name_or_number(token: Token) -> tuple[str | None, int]:
    """What a map, function or symbol is named by: a name, or the number after `fd:`, `btf:` or alone."""
    tag, _, number = token.text.partition(":")
    if token.kind in ("#", "+#"):
        return None, _integer(token.text)
    if number and tag in ("fd", "idx", "id", "btf") and token.text[0] != '"':
        return None, _integer(number)
    return _unquoted(token.text), 0


class _Fields:
    """Operands as they are read from a line."""

    __slots__ = ("imm", "offset", "registers", "shape", "symbol", "upper")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.registers: dict[str, Register] = {}
        self.offset = self.imm = self.upper = 0
        self.symbol: str | None = None

    def read(self, field: str, token: Token) -> None:
        op = self.shape.op
        if field in ("d", "s"):
            register = REGISTERS[int(token.text.lstrip("%")[1:])]
            if self.registers.setdefault(field, register) is not register:
                raise AssemblyError(
                    f"{op.name} has one register in these places, but here are r{self.registers[field]:d} and"
                    f" {token.text}"
                )
        elif field == "zero":
            if _integer(token.text.lstrip("%rw")) != 0:
                raise AssemblyError(f"{token.text} must be {'0' if token.kind in ('#', '+#') else token.text[0] + '0'}")
        elif field in ("imm", "index"):
            self.imm = self._immediate(token)
        elif field == "wide":
            self.imm = _integer(token.text)
        elif field in ("off", "disp", "module"):
            self.offset = _integer(token.text)
        elif field in ("place", "upper"):
            self.upper = _checked(token, 0xFFFF_FFFF)
        elif field == "high":
            self.imm |= _checked(token, 0xFFFF) << 16
            self.imm -= self.imm >> 31 << 32
        elif field == "low":
            self.imm |= _checked(token, 0xFFFF)
        elif field in ("to", "function"):
            self._target(token)
        else:  # map, ksym, kfunc, symbol
            self.symbol, self.imm = _name_or_number(token)

    def _immediate(self, token: Token) -> int:
        op, value = self.shape.op, _integer(token.text)
        if 0x8000_0000 <= value <= 0xFFFF_FFFF:
            written_as_bits = token.text.lstrip("+ \t")[:2] in ("0x", "0X")
            if op.size <= 4 or (self.shape.mnemonic and written_as_bits):
                return value - (1 << 32)
        if not -0x8000_0000 <= value <= 0x7FFF_FFFF and op.name == "mov64":
            wider = f"{'lddw %r' if self.shape.mnemonic else 'r'}{self.registers['d']:d}"
            wider += f", {value:#x}" if self.shape.mnemonic else f" = {value:#x} ll"
            raise AssemblyError(f"{token.text} does not fit 32 bits: load it with `{wider}`")
        return value

    def _target(self, token: Token) -> None:
        if token.kind == "@" or token.kind[0].isalpha():
            self.symbol = _unquoted(token.text)
            return
        distance = _integer(token.text.removeprefix("pc").partition("#")[0].strip())
        form = self.shape.op.form
        if form in (Form.JUMP_LONG, Form.CALL_LOCAL):
            self.imm = distance
        elif form is Form.LDDW_FUNCTION:
            self.imm = _checked32(distance)
        else:
            self.offset = distance

    def made(self, where: Location) -> Instruction:
        op = self.shape.op
        imm = self.imm
        if op.slots == 2 and op.form is not Form.LDDW:
            imm = _checked32(imm) | self.upper << 32
        register = self.registers.get
        return Instruction(
            op, register("d", Register.R0), register("s", Register.R0), self.offset, imm, self.symbol, where
        )


def _checked(token: Token, most: int) -> int:
    value = _integer(token.text)
    if not 0 <= value <= most:
        raise AssemblyError(f"{token.text} is outside 0..{most}")
    return value


def _checked32(value: int) -> int:
    if not -0x8000_0000 <= value <= _LOW:
        raise AssemblyError(f"{value} does not fit 32 bits")
    return value & _LOW


def _decided(item: Item | Raw, labels: set[str]) -> Item | Raw:
    """A call of a name that is no label becomes the call of the helper of that name."""
    if isinstance(item, Label | Raw) or item.op.form is not Form.CALL_LOCAL or item.symbol is None:
        return item
    if item.symbol in labels:
        return item
    from pyebpf.uapi.helpers import HELPER_IDS

    number = HELPER_IDS.get(item.symbol.removeprefix("bpf_")) if item.symbol.startswith("bpf_") else None
    return Instruction(find_op("call", Form.CALL), imm=number, where=item.where) if number is not None else item


def _relocate(items: list[Item | Raw], width: str, name: str) -> None:
    """Apply what llvm-objdump prints below an instruction that a relocation changes."""
    last = items[-1] if items else None
    if not isinstance(last, Instruction):
        return
    where = last.where
    if width == "64" and last.op.form is Form.LDDW:
        items[-1] = Instruction(find_op("lddw_map", Form.LDDW_MAP), last.dst, symbol=name, where=where)
    elif width == "32" and last.op.form is Form.CALL and not name.startswith("."):
        items[-1] = Instruction(find_op("call_local", Form.CALL_LOCAL), symbol=name, where=where)
