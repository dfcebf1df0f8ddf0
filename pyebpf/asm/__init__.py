"""The instruction set: instructions to bytes, text and back; labels and names resolved last.

Pure: no files, no root, any operating system.
"""

from __future__ import annotations

from pyebpf.asm import build
from pyebpf.asm.encoding import decode, encode
from pyebpf.asm.instruction import Instruction, Item, Label, slot_starts
from pyebpf.asm.layout import Placed, layout, place, resolve
from pyebpf.asm.op import Form, Op, Register
from pyebpf.asm.opcodes import OPS, find_op
from pyebpf.asm.text import kernel_text, listing

__all__ = [
    "OPS",
    "Form",
    "Instruction",
    "Item",
    "Label",
    "Op",
    "Placed",
    "Register",
    "build",
    "decode",
    "encode",
    "find_op",
    "kernel_text",
    "layout",
    "listing",
    "place",
    "resolve",
    "slot_starts",
]
