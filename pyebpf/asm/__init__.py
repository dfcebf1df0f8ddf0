"""The instruction set: instructions to bytes, text and back; labels and names resolved last.

Pure: no files, no root, any operating system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.asm import build
from pyebpf.asm.encoding import decode, encode
from pyebpf.asm.instruction import Instruction, Item, Label, Raw, slot_starts
from pyebpf.asm.layout import Placed, layout, place, resolve
from pyebpf.asm.op import Form, Op, Register
from pyebpf.asm.opcodes import OPS, find_op
from pyebpf.lazy import lazy_names

if TYPE_CHECKING:
    from pyebpf.asm.data import instructions_of
    from pyebpf.asm.linker import assemble, link
    from pyebpf.asm.parser import parse, parse_line
    from pyebpf.asm.text import kernel_text, listing, mnemonic_text, text_of

__all__ = [
    "OPS",
    "Form",
    "Instruction",
    "Item",
    "Label",
    "Op",
    "Placed",
    "Raw",
    "Register",
    "assemble",
    "build",
    "decode",
    "encode",
    "find_op",
    "instructions_of",
    "kernel_text",
    "layout",
    "link",
    "listing",
    "mnemonic_text",
    "parse",
    "parse_line",
    "place",
    "resolve",
    "slot_starts",
    "text_of",
]

# Text needs regular expressions and tables, which programs that only compile and load should not wait for.
__getattr__ = lazy_names(
    __name__,
    {
        "data": ("instructions_of",),
        "linker": ("assemble", "link"),
        "parser": ("parse", "parse_line"),
        "text": ("kernel_text", "listing", "mnemonic_text", "text_of"),
    },
)
