"""Text to instructions: both syntaxes of `text.py`, also mixed, and what bpftool, the verifier and llvm-objdump print.

A line has a label (`loop:`), an instruction, both or neither. Comments start with `;`, `//`, or `#` after a space.
Slot numbers, opcode bytes and headings of listings are stepped over.

A number may be decimal or hexadecimal. In the mnemonic syntax 0x80000000 to 0xffffffff are the bits of a 32-bit field,
as the tools of that syntax take them; in the kernel's they must fit the operation.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from pyebpf.asm.instruction import Instruction, Label, Raw
from pyebpf.asm.op import Form
from pyebpf.asm.opcodes import find_op
from pyebpf.asm.operands import Operands, integer, unquoted
from pyebpf.asm.shapes import TOKEN, Token, shapes, token_kinds
from pyebpf.errors import AssemblyError, Location

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.asm.instruction import Item

__all__ = ["parse", "parse_line"]

# What listings put before an instruction: slot number, opcode in brackets or all bytes.
_PREFIX = re.compile(
    r"\s*\d+:?\s+(?:\((?P<opcode>[0-9a-f]{2})\)\s+|(?:[0-9a-f]{2} ){7}(?:[0-9a-f]{2} ){0,8}[0-9a-f]{2}\s+)?"
)
_HEADING = re.compile(r"\S.*:\s+file format |Disassembly of section |\S.*\):\s*$")
_OBJDUMP_LABEL = re.compile(r"[0-9a-f]{8,16} <(.+)>:\s*$")
_RELOCATION = re.compile(r"\s*[0-9a-f]{8,16}:\s+R_BPF_64_(64|32)\s+(\S+)\s*$")
_LABEL = re.compile(r'\s*((?:[A-Za-z_.$][\w.$]*)|"(?:[^"\\]|\\.)*")\s*:(?!\w)', re.ASCII)
_TAIL = re.compile(r"\s*<[^<>]*>\s*$")
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|(;|//|(?:(?<=\s)|^)#).*')


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
    code, after_comment, start = line, -1, 0
    if ":" in line:
        if _HEADING.match(line):
            return
        if found := _RELOCATION.match(line):
            _relocate(items, found[1], found[2])
            return
        if found := _OBJDUMP_LABEL.match(line):
            items.append(Label(found[1], at(found.start(1), found.end(1))))
            return
    if ";" in line or "#" in line or "//" in line:
        comment = next((found for found in _COMMENT.finditer(line) if found[2]), None)
        if comment is not None:
            code = line[: comment.start()]
            after_comment = comment.end(2) if comment[2] == ";" else -1
    code = code.rstrip()
    prefix = _PREFIX.match(code)
    if prefix is not None:
        start = prefix.end()
    while ":" in code and (label := _LABEL.match(code, start)):
        items.append(Label(unquoted(label[1]), at(label.start(1), label.end(1))))
        start = label.end()
    if code.endswith(">"):
        code = _TAIL.sub("", code)
    if start == len(code):
        return
    if prefix is not None and prefix["opcode"] == "18" and re.fullmatch(r"\s*r\d+ = 0x[0-9a-f]+", code[start:]):
        code += " ll"  # the verifier leaves it out
    items.append(_instruction(code, start, at))
    if after_comment >= 0:
        _check_comment(line, after_comment, at)


def _check_comment(line: str, start: int, at: Callable[[int, int], Location]) -> None:
    """Refuse a second instruction where a comment would begin: elsewhere `;` separates them."""
    try:
        _instruction(line, start, at)
    except AssemblyError:
        return
    raise AssemblyError(
        "a comment starts at `;`, but this is an instruction: give it a line of its own", at(start, len(line.rstrip()))
    )


def _instruction(code: str, start: int, at: Callable[[int, int], Location]) -> Instruction | Raw:
    texts = TOKEN.findall(code, start)
    kind_of = token_kinds()
    kinds = [kind_of[text] for text in texts]
    table = shapes()
    shape = table.get(" ".join(kinds))
    if shape is None:
        if texts[:1] == [".byte"]:
            return _bytes(_tokens(code, start), at)
        # A name may be spelled as a word of the language, as in `goto exit`.
        for n in reversed(range(len(kinds))):
            if kinds[n][0].isalpha() and len(kinds[n]) > 1:
                renamed = [*kinds[:n], "@", *kinds[n + 1 :]]
                shape = table.get(" ".join(renamed))
                if shape is not None:
                    kinds = renamed
                    break
        if shape is None:
            from pyebpf.asm.parse_errors import explain

            raise explain(_tokens(code, start), len(code.rstrip()), at)
    operands = Operands(shape)
    index = -1
    try:
        for index, field in shape.fields:
            operands.read(field, texts[index], kinds[index])
        index = -1
        return operands.made(at(len(code) - len(code[start:].lstrip()), len(code.rstrip())))
    except AssemblyError as error:
        tokens = _tokens(code, start)
        first, last_token = (tokens[0], tokens[-1]) if index < 0 else (tokens[index], tokens[index])
        raise AssemblyError(error.message, at(first.start, last_token.end)) from None


def _tokens(code: str, start: int) -> list[Token]:
    """The pieces of a line with their places, which only errors ask for."""
    kind_of = token_kinds()
    return [Token(kind_of[found[0]], found[0], found.start(), found.end()) for found in TOKEN.finditer(code, start)]


def _bytes(tokens: Sequence[Token], at: Callable[[int, int], Location]) -> Raw:
    where = at(tokens[0].start, tokens[-1].end)
    if [token.kind for token in tokens[1:]] != ["#", *[",", "#"] * 7]:
        raise AssemblyError(".byte takes the eight bytes of one slot, with commas between them", where)
    numbers = tokens[1::2]
    for token in numbers:
        if integer(token.text) > 0xFF:
            raise AssemblyError(f"{token.text} is no byte (0 to 0xff)", at(token.start, token.end))
    return Raw(bytes(integer(token.text) for token in numbers), where)


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
