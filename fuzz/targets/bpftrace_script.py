"""Scripts in bpftrace's language."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.mutation import words
from pyebpf.bpftrace.cursor import room
from pyebpf.bpftrace.macros import expand
from pyebpf.bpftrace.parser import parse
from pyebpf.errors import CompileError
from tests.bpftrace.unparse import unparse

if TYPE_CHECKING:
    from collections.abc import Iterable

COVERS = ("pyebpf/bpftrace",)
TEXT = True
DICTIONARY = words(
    r"""
    BEGIN end kprobe:f k:m:f+0x10 uprobe:/bin/x:f u:/x@y.c:1:2 usdt:/x:p:n U: tracepoint:a:b rawtracepoint:
    fentry:bpf:1:x profile:hz:99 interval:1s software:faults:1 hardware: watchpoint:0x10:8:rw iter:task
    self:signal:SIGUSR1 test:a bench:b name= * , / { } ( ) [ ] ; : ? ?: . -> .. ++ -- + - % & | ^ ~ ! && || << >> <
    > <= >= == != = += -= *= /= %= &= |= ^= <<= >>= $x $1 $# @ @a @a[1] 0 010 0x1f 1e6 5ms 10UL 1_0 "a" "\n\101\x41"
    " // /* */ #include <a> #define X(a) 1 # \ #ifdef struct union enum config import let macro fn if else for while
    unroll break continue return true false sizeof( offsetof( typeof( typeinfo( comptime (uint8) (struct a *)
    unsigned long int const __attribute__((packed)) _ args pid
    """
)


def target(data: bytes) -> None:
    """A script has a tree whose other spelling has an equal one, or there is a CompileError with its place.

    So has one whose macros have been put in, or there is such an error.
    """
    try:
        tree = parse(data)
        if parse(unparse(tree)) != tree:
            raise AssertionError("the other spelling has another tree")
        with room():
            expand(tree, lambda _: False)
    except CompileError as error:
        if error.location is None or "\n" in error.message:
            raise AssertionError(f"an error without a place, or of several lines: {error.message}") from error


def seeds() -> Iterable[bytes]:
    """The scripts of the tests, those that are refused among them."""
    from tests.support.texts import refusals

    for name in ("parsed.txt", "refused.txt"):
        for case in refusals(Path(__file__).resolve().parents[2] / "tests" / "bpftrace" / name):
            yield case.body.encode()
