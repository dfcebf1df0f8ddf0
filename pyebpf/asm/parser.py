"""Text to instructions: both syntaxes of `text.py`, also mixed, and what bpftool, the verifier and llvm-objdump print.

A line has a label (`loop:`), an instruction, both or neither. Slot numbers, opcode bytes and headings of listings are
stepped over, and so are directives that make no bytes (`.globl`).

A number may be decimal or hexadecimal. In the mnemonic syntax 0x80000000 to 0xffffffff are the bits of a 32-bit field,
as the tools of that syntax take them; in the kernel's they must fit the operation.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from pyebpf.asm.comments import COMMENT, without_blocks
from pyebpf.asm.data import DATA, Data, read_data, slots_of
from pyebpf.asm.encoding import ByteOrder, decode
from pyebpf.asm.instruction import Instruction, Label, Raw
from pyebpf.asm.numbered_labels import has_numbered_labels, name_numbered_labels
from pyebpf.asm.op import Form
from pyebpf.asm.opcodes import find_op
from pyebpf.asm.operands import Operands, unquoted
from pyebpf.asm.shapes import TOKEN, Shape, Token, shapes, token_kinds
from pyebpf.errors import AssemblyError, InvalidValue, Location

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.asm.instruction import Item

# What listings put before an instruction: slot number, registers in use and opcode in brackets, or all bytes.
_PREFIX = re.compile(
    r"\s*\d+:?\s+(?:(?:[0-9.]{10}\s+)?\((?P<opcode>[0-9a-f]{2})\)\s+"
    r"|(?P<bytes>(?:[0-9a-f]{2} ){7}(?:[0-9a-f]{2} ){0,8}[0-9a-f]{2})\s+)?"
)
_HEADING = re.compile(r"\s*[0-9a-f]{16}:\s+CO-RE <|\S.*:\s+file format |Disassembly of section |\S.*\):\s*$")
_OBJDUMP_LABEL = re.compile(r"[0-9a-f]{8,16} <(.+)>:\s*$")
_RELOCATION = re.compile(r"\s*[0-9a-f]{8,16}:\s+R_BPF_64_(64|32)\s+(\S+)\s*$")
_LABEL = re.compile(r'\s*((?:[A-Za-z_.$][\w.$]*)|"(?:[^"\\]|\\.)*")\s*:', re.ASCII)
_LABEL_OR_NUMBER = re.compile(r'\s*(\d+|(?:[A-Za-z_.$][\w.$]*)|"(?:[^"\\]|\\.)*")\s*:', re.ASCII)
_TAIL = re.compile(r"\s*<[^<>]*>\s*$")
_UNKNOWN = "<unknown>"
# What llvm-objdump 19 prints in the same words: the first is what they say, the second what they may mean.
_MISPRINTED = {"call": "call_local", "atomic_add32": "atomic_fetch_add32"}
_ORDERS: tuple[ByteOrder, ...] = ("little", "big")
# Directives of LLVM's assembler that change no byte of a program.
_DIRECTIVES = frozenset(
    (
        ".text",
        ".globl",
        ".global",
        ".local",
        ".weak",
        ".hidden",
        ".type",
        ".size",
        ".p2align",
        ".align",
        ".balign",
        ".file",
        ".ident",
        ".loc",
        ".addrsig",
        ".addrsig_sym",
        ".cfi_startproc",
        ".cfi_endproc",
        ".cfi_sections",
    )
)


def parse(text: str, file: str = "<text>") -> tuple[Item | Raw, ...]:
    """The labels and instructions of a text; each knows its place, and jumps and calls still have their names.

    A call of a bare name (`call f`) is a call of that label if there is one, else of the helper of that name.
    AssemblyError, with `location`, for a line that means nothing; InvalidValue for what is not text.
    """
    if not isinstance(text, str):
        raise InvalidValue(f"a program's text is a str, not {type(text).__name__}")
    items: list[Item | Raw | Data] = []
    text = text.removeprefix("\ufeff")  # some editors begin a file with it
    numbered = has_numbered_labels(text)
    codes = without_blocks(text, file).split("\n") if "/*" in text else None
    for number, line in enumerate(text.split("\n"), 1):
        code = line if codes is None else codes[number - 1]
        try:
            _line(code, items, partial(_place, file, number, line), numbered=numbered)
        except AssemblyError as error:
            if error.location is None:
                start = len(line) - len(line.lstrip())
                raise AssemblyError(error.message, Location(file, number, start, len(line.rstrip()), line)) from None
            raise
    found = slots_of(items)
    if numbered:
        found = name_numbered_labels(found)
    labels = {item.name for item in found if isinstance(item, Label)}
    return tuple(_decided(item, labels) for item in found)


def _place(file: str, number: int, line: str, start: int, end: int) -> Location:
    return Location(file, number, start, end, line)


def parse_line(line: str) -> Instruction | Raw:
    """The one instruction that `line` holds; names of labels are not looked up."""
    items = parse(line)
    if len(items) != 1 or isinstance(items[0], Label):
        raise AssemblyError(f"{line!r} is not one instruction")
    return items[0]


def _line(line: str, items: list[Item | Raw | Data], at: Callable[[int, int], Location], *, numbered: bool) -> None:
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
        comment = next((found for found in COMMENT.finditer(line) if found[2]), None)
        if comment is not None:
            code = line[: comment.start()]
            after_comment = comment.end(2) if comment[2] == ";" else -1
    code = code.rstrip()
    prefix = None if numbered else _PREFIX.match(code)
    if prefix is not None:
        start = prefix.end()
    label_pattern = _LABEL_OR_NUMBER if numbered else _LABEL
    while ":" in code and (label := label_pattern.match(code, start)):
        items.append(Label(unquoted(label[1]), at(label.start(1), label.end(1))))
        start = label.end()
    if code.endswith(">"):
        if prefix is not None and code[start:] == _UNKNOWN:
            if not prefix["bytes"]:
                raise AssemblyError("`<unknown>` stands for bytes that the listing does not show")
            items.append(Raw(bytes.fromhex(prefix["bytes"]), at(start, len(code))))
            return
        code = _TAIL.sub("", code)
    if start == len(code):
        return
    if prefix is not None and prefix["opcode"] == "18" and re.fullmatch(r"\s*r\d+ = 0x[0-9a-f]+", code[start:]):
        code += " ll"  # the verifier leaves it out
    if prefix is not None and code[start : start + 1] == "R" and prefix["opcode"] is prefix["bytes"] is None:
        raise AssemblyError("`R1=…` is what the verifier knows of a register, not an instruction")
    item = _instruction(code, start, at)
    if item is None:
        return
    if prefix is not None and prefix["bytes"] and isinstance(item, Instruction) and item.op.name in _MISPRINTED:
        item = _as_its_bytes(item, bytes.fromhex(prefix["bytes"]))
    items.append(item)
    if after_comment >= 0 and prefix is None:  # behind a slot's number it is a tool's: a name, the verifier's state
        _check_comment(line, after_comment, at)


def _as_its_bytes(item: Instruction, data: bytes) -> Instruction:
    """The instruction that llvm-objdump means where two have one text there: only the bytes beside it differ."""
    for order in _ORDERS:
        (other,) = decode(data, order, raw=True)
        if isinstance(other, Instruction) and other.op.name == _MISPRINTED[item.op.name]:
            meant = Instruction(other.op, item.dst, item.src, item.offset, item.imm, where=item.where)
            if meant == other:
                return meant
    return item


def _check_comment(line: str, start: int, at: Callable[[int, int], Location]) -> None:
    """Refuse a second instruction where a comment would begin: elsewhere `;` separates them."""
    while line[start : start + 1] in (";", " ", "\t"):
        start += 1
    following = COMMENT.search(line, start)
    end = following.start() if following is not None else len(line)
    label = _LABEL.match(line, start, end)
    texts = TOKEN.findall(line, label.end() if label is not None else start, end)
    if texts and _shape(texts)[0] is not None:
        raise AssemblyError(
            "a comment starts at `;`, but this is an instruction: give it a line of its own",
            at(start, len(line[:end].rstrip())),
        )


def _shape(texts: Sequence[str]) -> tuple[Shape | None, list[str]]:
    """Find the shape that these tokens have, if any, and their kinds."""
    kind_of = token_kinds()
    kinds = [kind_of[text] for text in texts]
    table = shapes()
    shape = table.get(" ".join(kinds))
    if shape is None:
        # A name may be spelled as a word of the language, as in `goto exit`.
        for n in reversed(range(len(kinds))):
            if kinds[n][0].isalpha() and len(kinds[n]) > 1:
                renamed = [*kinds[:n], "@", *kinds[n + 1 :]]
                shape = table.get(" ".join(renamed))
                if shape is not None:
                    return shape, renamed
    return shape, kinds


def _instruction(code: str, start: int, at: Callable[[int, int], Location]) -> Instruction | Raw | Data | None:
    """The instruction that starts there; None for a directive that makes none."""
    texts = TOKEN.findall(code, start)
    shape, kinds = _shape(texts)
    if shape is None:
        if texts[:1] and texts[0] in DATA:
            return read_data(_tokens(code, start), at)
        if texts[:1] and texts[0] in _DIRECTIVES:
            return None
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


def _decided(item: Item | Raw, labels: set[str]) -> Item | Raw:
    """A call of a name that is not a label becomes the call of the helper of that name."""
    if isinstance(item, Label | Raw) or item.op.form is not Form.CALL_LOCAL or item.symbol is None:
        return item
    if item.symbol in labels:
        return item
    from pyebpf.uapi.helpers import HELPER_IDS

    number = HELPER_IDS.get(item.symbol.removeprefix("bpf_")) if item.symbol.startswith("bpf_") else None
    return Instruction(find_op("call", Form.CALL), imm=number, where=item.where) if number is not None else item


def _relocate(items: list[Item | Raw | Data], width: str, name: str) -> None:
    """Apply what llvm-objdump prints below an instruction that a relocation changes."""
    last = items[-1] if items else None
    if not isinstance(last, Instruction):
        return
    where = last.where
    if width == "64" and last.op.form is Form.LDDW:
        items[-1] = Instruction(find_op("lddw_map", Form.LDDW_MAP), last.dst, symbol=name, where=where)
    elif width == "32" and last.op.form in (Form.CALL, Form.CALL_LOCAL) and not name.startswith("."):
        items[-1] = Instruction(find_op("call_local", Form.CALL_LOCAL), symbol=name, where=where)
