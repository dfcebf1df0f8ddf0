"""Random Python text as the body of a probe."""

from __future__ import annotations

import ast
import linecache
import re
import textwrap
import warnings
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz.mutation import words
from pyebpf.builder.drop_counters import DropCounters
from pyebpf.compiler import compile_module
from pyebpf.errors import CompileError
from pyebpf.module.program import build_program
from tests.dsl.fake_target import FakeTarget
from tests.dsl.harness import namespace

if TYPE_CHECKING:
    from collections.abc import Iterable

COVERS = ("pyebpf/dsl", "pyebpf/builder", "pyebpf/aggregations")
TEXT = True
DICTIONARY = words(
    r"""
    if else: elif while for in range( ) : = += -= // % ** << >> ~ not and or is None True False return break
    continue pass del with as try: except: finally: raise lambda yield await async def class import global nonlocal
    assert match case _ ( [ ] { } , . ; -> := * ** @ 0 1 -1 255 0xffffffffffffffff 1.5 'a' b'a' f'{x}' "" ... counts
    opens signed records pairs table results events latency Record( Pair( low= high= at= limit= name= .get( .pop(
    .emit( .record( .at .limit .name .low count delta prio dfd filename pid tid comm cpu now u8( s8( u16( s32( u32(
    u64( s64( unroll( enumerate( len( min( max( abs( sum( zip( str( int( bool( tuple( user_string( has_field( enum(
    cast( char[16] x y i
    """
)
_HEAD = '@bpf.tracepoint("syscalls:sys_enter_openat")\ndef probe(count, delta, prio, dfd, filename):\n'
# Such text does something while compiling that is Python's own affair: calls of what touches this process, and numbers
# that fill the memory.
_PYTHONS_OWN = re.compile(
    r"__|\*\*|\d{12}|\b(open|exec|eval|input|breakpoint|exit|quit|compile|globals|locals|vars|help|print|memoryview|bytearray)\b"
)
_TESTS = Path(__file__).resolve().parents[2] / "tests"


def target(data: bytes) -> None:
    """The probe compiles, or there is a CompileError with a place in the text and a message of one line."""
    body = re.sub(r"[\r\f\v\0]", "", data.decode("utf-8", "replace"))
    text = _HEAD + textwrap.indent(body, "    ") + "\n"
    if _PYTHONS_OWN.search(body) or not _is_one_function(text):
        return
    file = f"<fuzzed {zlib.crc32(data)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = namespace()
    try:
        exec(compile(text, file, "exec", dont_inherit=True), names)  # noqa: S102 - one function, which is not called
        probe: Any = names["probe"]
        built = build_program(probe.body, probe.attachments[0], FakeTarget(), DropCounters(), "probe")
        compile_module(built.module, FakeTarget(), check=True)
    except CompileError as error:
        refusal = error
    else:
        return
    finally:
        del linecache.cache[file]
    assert refusal.message
    assert "\n" not in refusal.message, refusal.message
    assert refusal.location is not None, refusal.message
    assert str(refusal)


def _is_one_function(text: str) -> bool:
    """Whether Python takes the text, without a warning, as one function: then running it only defines that."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compile(text, "<fuzzed>", "exec", dont_inherit=True)
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError, Warning):
        return False
    return len(tree.body) == 1 and isinstance(tree.body[0], ast.FunctionDef)


def seeds() -> Iterable[bytes]:
    """Bodies of probes from the tests of the language, taken and refused."""
    for name in ("language/control.txt", "language/refused.txt", "dsl/refused.txt"):
        for case in (_TESTS / name).read_text().split("=== ")[1:]:
            body = case.partition("\n")[2].partition("\n! ")[0]
            yield body.replace("out[0].r0", "results[0]").strip("\n").encode()
