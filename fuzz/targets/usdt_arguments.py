"""Arguments of USDT probes, as the assembler spells them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz.mutation import words
from pyebpf.arch import architecture
from pyebpf.arch.operands import parse_argument, parse_arguments
from pyebpf.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterable

COVERS = ("pyebpf/arch/operands.py",)
TEXT = True
DICTIONARY = words(
    """
    8@%rdi -4@%ebp 2@%r15w -1@%sil 1@%al %rax 8@$0 $-5 0xff 017 (%rax) 112(%rsp) -0x10(%rbp) (%r9,%rbx,8) (,%rbx,2)
    number(%rip) number+4(%rip) %xmm0 8f@ %ah %fs:-8 ( ) , @ % $ + - 9223372036854775808 -9223372036854775809 08 ÿ
    8@x0 -4@w21 8@sp [x22] [sp, 128] [x2, x3, lsl 3] #5 [x21, #:lo12:.L] xzr sxtw [ ] #
    """
)
_ARCHITECTURES = architecture("x86_64"), architecture("aarch64")


def target(data: bytes) -> None:
    """Each argument of any text is a place that a program can read, in numbers that fit, or InvalidValue."""
    for text in parse_arguments(data.decode("utf-8", "replace")):
        for arch in _ARCHITECTURES:
            try:
                found = parse_argument(text, arch, 0x1000, lambda name: len(name) << 12)
            except InvalidValue:
                continue
            assert found.size in {1, 2, 4, 8}
            assert -(1 << 63) <= found.constant < 1 << 63
            assert {found.base, found.scaled} <= {"", *arch.registers}
            assert 0 <= found.scale <= 3


def seeds() -> Iterable[bytes]:
    """The spellings of the tests, alone and in a row."""
    from tests.arch.test_operands import FORMS, UNKNOWN

    for arch in _ARCHITECTURES:
        for text in (*FORMS[arch], *UNKNOWN[arch]):
            yield text.encode()
        yield " ".join(FORMS[arch]).encode()
