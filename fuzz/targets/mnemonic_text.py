"""Text in the mnemonic syntax."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz import assembly_text
from fuzz.mutation import words
from pyebpf.asm import OPS

if TYPE_CHECKING:
    from collections.abc import Iterable

COVERS = ("pyebpf/asm",)
TEXT = True
DICTIONARY = (
    *sorted({op.mnemonic.split(" ")[0].encode() for op in OPS}),
    *words(r"""

    """),
)


def target(data: bytes) -> None:
    """Any text parses or is an AssemblyError; what parses is printed in this syntax and parses again."""
    assembly_text.check(data.decode("utf-8", "replace"), "mnemonic")


def seeds() -> Iterable[bytes]:
    """Each row of the table, and labels, calls, comments."""
    yield from assembly_text.seeds("mnemonic")
    yield b"ldxw %r0, [%r1+4]\njeq %r0, 0, exit\nlock fetch add [%r10-8], %r1\ncall local f\nexit\nf:\nmov r0, 1\nexit"
