"""`pyebpf asm`: a text to bytes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyebpf.asm import Instruction, assemble, encode
from pyebpf.cli.bytecode import Parser, byte_order, to_hex
from pyebpf.cli.report import read_input
from pyebpf.errors import AssemblyError, MalformedData
from pyebpf.output.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION = """\
Assembles eBPF: the kernel's and LLVM's syntax (r0 = *(u32 *)(r1 + 4)) or the
mnemonic one (ldxw %r0, [%r1+4]), also mixed. Prints the bytes in hexadecimal,
eight a line.

  $ printf 'mov %%r0, 5\\nexit\\n' | pyebpf asm -
  b7 00 00 00 05 00 00 00
  95 00 00 00 00 00 00 00"""


def parser() -> Parser:
    """Declare the options."""
    made = Parser("asm", DESCRIPTION)
    made.add_argument("file", metavar="FILE", help="the text; - for standard input")
    made.add_argument("--raw", action="store_true", help="write the bytes themselves")
    made.add_big_endian()
    return made


def run_asm(arguments: Sequence[str]) -> int:
    """Assemble a file. Raises AssemblyError with the place of what means nothing."""
    options = parser().parse_args(arguments)
    data, name = read_input(options.file)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise MalformedData(f"{name}: not text: byte {error.start} is not UTF-8") from None
    program = assemble(text, name)
    for item in program:
        if isinstance(item, Instruction) and item.symbol is not None:
            raise AssemblyError(
                f"{item.symbol!r} gets its number when a program is loaded: write the number (fd:7, btf:77)", item.where
            )
    code = encode(program, byte_order(options))
    if options.raw:
        sys.stdout.buffer.write(code)
        sys.stdout.buffer.flush()
    else:
        Sink.of(sys.stdout).write(to_hex(code))
    return 0
