"""Shapes of a line of assembly: every template of the table as a row of token kinds.

A line is cut into tokens, each of a kind: a register (`r` or `w`), a number (`#`), a distance from the program counter
(`~`), a name (`@`), or a word or sign that stands for itself. The kinds of a line, joined, are its shape; `SHAPES` says
which operation has that shape and which token is which operand. Both syntaxes are in the one table: no shape means two
different things, so that a text needs no mark of its syntax.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.asm.op import Form
from pyebpf.asm.opcodes import OPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyebpf.asm.op import Op

_LABEL = re.compile(r"\d+[bf]", re.ASCII)
_REGISTER = re.compile(r"%?[rwRW]\d+", re.ASCII)
_MAX_KINDS = 1 << 14
_VARIABLE = ("#", "+#", "~", "@", "?")

_NUMBER_TEXT = r"(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)"
_NUMBER = re.compile(_NUMBER_TEXT, re.ASCII)
TOKEN = re.compile(
    rf"""%?[rwRW]\d+(?![\w.$]) |                                      # register
    pc\s*[+-]\s*{_NUMBER_TEXT}(?:\#[\w.$]+)?(?![\w.$]) |            # distance
    (?:fd|idx|id|btf):-?{_NUMBER_TEXT}(?![\w.$]) |                   # what a number is
    s>>=|s[<>]=|s[<>]|s/=|s%=|<<=|>>=|[-+*/%&|^=<>!]= |             # operators
    (?:[+-]\s*)?{_NUMBER_TEXT}(?![\w.$]) |
    \d[\w.$]* |                                                     # number of a label, or none
    [A-Za-z_.$][\w.$]*(?:\#-?\d+)? |                                # word
    "(?:[^"\\]|\\.)*" |                                            # quoted name
    \S""",
    re.VERBOSE | re.ASCII,
)


class Token(NamedTuple):
    """A piece of a line: its kind as in a shape, its text, and where it starts and ends."""

    kind: str
    text: str
    start: int
    end: int


def _kind(text: str, words: Mapping[str, str]) -> str:
    first = text[0]
    if first.isdigit():
        return "#" if _NUMBER.fullmatch(text) else "@" if _LABEL.fullmatch(text) else "?"
    if first in "+-":
        return "+#" if text[1:].strip()[:1].isdigit() else text
    if first == '"':
        return "@" if len(text) > 1 else text
    if text[:2] == "pc" and text[2:].strip()[:1] in ("+", "-"):
        return "~"
    if "#" in text[1:]:
        bare = text.partition("#")[0]
        return words.get(bare, "@")
    if _REGISTER.fullmatch(text) and text.lower() not in words:
        return "!"
    if text in _VARIABLE:
        return f"`{text}`"  # a sign that no instruction has; not the kind that it happens to spell
    if first.isalpha() or first == "%":
        lower = text.lower()  # both syntaxes are lower case; other writers' capitals mean the same
        return words[lower] if lower != text and lower in words else "@" if first != "%" else text
    return "@" if first == "_" or (first in ".$" and len(text) > 1) else text


# What stands for a field: kinds of its tokens, one row an alternative. A "+#" is a number with its sign written.
_IMMEDIATE: tuple[tuple[str, ...], ...] = (("#",), ("+#",))
_OFFSET: tuple[tuple[str, ...], ...] = (("+#",), ())
_FIELDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "imm": _IMMEDIATE,
    "wide": _IMMEDIATE,
    "high": _IMMEDIATE,
    "low": _IMMEDIATE,
    "off": _OFFSET,
    "disp": _OFFSET,
    "index": _OFFSET,
    "place": _OFFSET,
    "upper": (("upper", "#"), ()),
    "module": (("module", "#"), ("module", "+#"), ()),
    "to": (("+#",), ("#",), ("~",), ("@",)),
    "function": (("~",), ("@",)),
    "map": (("@",), ("#",)),
    "ksym": (("@",), ("#",)),
    "kfunc": (("@",), ("#",), ("+#",)),
    "symbol": (("@",),),
}
_PIECE = re.compile(
    r"""%?(?P<register>[rw])\{(?P<operand>[ds])\} | \{(?P<field>\w+)\} | %?(?P<zero>[rw])0 | (?P<number>\d+) |
    s>>=|s[<>]=|s[<>]|s/=|s%=|<<=|>>=|[-+*/%&|^=<>!]=|[\w.]+|[^\s]""",
    re.VERBOSE,
)
_MEMORY = (Form.LOAD, Form.STORE, Form.LOAD_ABSOLUTE, Form.LOAD_INDIRECT)


class Shape(NamedTuple):
    """Meaning of a shape: the operand fields by token; a field "zero" must be 0, and equal fields equal."""

    op: Op
    mnemonic: bool
    fields: tuple[tuple[int, str], ...]


def _templates(op: Op) -> Iterator[tuple[str, bool]]:
    """The texts that an operation has, and whether they are of the mnemonic syntax."""
    yield op.text, False
    yield op.mnemonic, True
    yield from ((alias, "%" in alias or alias.startswith("call ")) for alias in op.aliases)


def _any_width(op: Op) -> bool:
    """Whether a register that is not an address may be written as r or w, since its upper half is zero or not used.

    Of what memory holds LLVM names the part of the register that is used, the kernel mostly the whole.
    """
    if op.form in _MEMORY:
        return op.size < 8 and not op.name.startswith("ldxs")
    return op.form is Form.DST and op.imm in (16, 32)


def _kinds(piece: re.Match[str], *, any_width: bool) -> tuple[tuple[str, ...], ...]:
    """The alternatives of token kinds for a piece of a template."""
    field, register = piece["field"], piece["register"] or piece["zero"]
    if field:
        return _FIELDS[field]
    if register:
        is_address = piece.string[piece.start() - 1 : piece.start()] in ("(", "[")
        return (("r",), ("w",)) if any_width and not is_address else ((register,),)
    return (("#",),) if piece["number"] else ((piece[0],),)


def _rows(op: Op, template: str, *, mnemonic: bool) -> Iterator[tuple[str, tuple[tuple[int, str], ...]]]:
    """Each way to fill a template: its shape, and the operand fields by token."""
    pieces = list(_PIECE.finditer(template))
    for choice in product(*(_kinds(piece, any_width=not mnemonic and _any_width(op)) for piece in pieces)):
        kinds: list[str] = []
        fields: list[tuple[int, str]] = []
        for piece, chosen in zip(pieces, choice, strict=True):
            kinds += chosen
            field = piece["operand"] or piece["field"] or ("zero" if piece["zero"] or piece["number"] else None)
            if field and chosen:
                fields.append((len(kinds) - 1, field))
        yield " ".join(kinds), tuple(fields)


@cache
def shapes() -> dict[str, Shape]:
    """Every shape that a line may have."""
    found: dict[str, Shape] = {}
    for op in OPS:
        for template, mnemonic in _templates(op):
            for kinds, fields in _rows(op, template, mnemonic=mnemonic):
                known = found.setdefault(kinds, Shape(op, mnemonic, fields))
                assert known.op is op, (template, known.op)
    return found


class _Kinds(dict[str, str]):
    """Kinds of tokens: of words, signs and registers from the start, of others as they come, up to a number."""

    def __missing__(self, text: str) -> str:
        kind = _kind(text, self)
        if len(self) < _MAX_KINDS:
            self[text] = kind
        return kind


@cache
def token_kinds() -> Mapping[str, str]:
    """The kind of each token that there can be; "!" for a register that there is not."""
    kinds = _Kinds((kind, kind) for shape in shapes() for kind in shape.split() if kind not in ("r", "w", *_VARIABLE))
    for letter in "rw":
        kinds.update((f"{percent}{letter}{n}", letter) for percent in ("", "%") for n in range(11))
    return kinds
