"""`pyebpf disasm`: bytes, an object's sections or a loaded program to text."""

from __future__ import annotations

import errno
import sys
from bisect import bisect_right
from typing import TYPE_CHECKING

from pyebpf.asm import Form, Instruction, decode, listing, slot_starts
from pyebpf.cli.bytecode import Parser, byte_order, from_hex, is_text
from pyebpf.cli.report import UsageError, read_input
from pyebpf.dataclass import replace
from pyebpf.errors import Location, MalformedData, NotFound
from pyebpf.output.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.asm import Raw
    from pyebpf.asm.encoding import ByteOrder
    from pyebpf.asm.text import Syntax
    from pyebpf.kernel.program_dump import ProgramDump

DESCRIPTION = """\
Prints eBPF bytes as text that `pyebpf asm` reads back. Bytes may come in
hexadecimal, as they are, in an object that clang made, or from a program that
is loaded.

  $ pyebpf disasm program.o         all sections with code
  $ pyebpf disasm program.o socket  its section socket
  $ pyebpf disasm id 23             the program with id 23, as the verifier left
                                    it (needs root)"""
_COLUMN_BITS = 10


def parser() -> Parser:
    """Declare the options."""
    made = Parser("disasm", DESCRIPTION)
    made.add_argument("file", metavar="FILE", help="hexadecimal text, bytes or an ELF object; - for standard input")
    made.add_argument("section", metavar="SECTION", nargs="?", help="a section of the object; an id after `id`")
    made.add_argument("--syntax", choices=("kernel", "mnemonic"), default="kernel", help="default: kernel")
    made.add_argument("--raw", action="store_true", help="the input is bytes, also if it looks like hexadecimal")
    made.add_argument("--no-source", dest="source", action="store_false", help="leave source lines out")
    made.add_big_endian()
    return made


def run_disasm(arguments: Sequence[str]) -> int:
    """Disassemble. Raises MalformedData, NotFound, or KernelError for a program id."""
    made = parser()
    options = made.parse_args(arguments)
    if options.file == "id":
        text = _loaded(options.section, options.syntax, source=options.source)
    else:
        data, name = read_input(options.file)
        if data.startswith(b"\x7fELF") and not options.raw:
            text = _object(data, name, options.section, options.syntax, source=options.source)
        elif options.section is not None:
            raise UsageError(made.prog, f"{name} is not an ELF object: it has no section {options.section!r}")
        else:
            code = from_hex(data, name) if is_text(data) and not options.raw else data
            text = _bytes(code, name, byte_order(options), options.syntax)
    Sink.of(sys.stdout).write(text)
    return 0


def _bytes(code: bytes, name: str, byteorder: ByteOrder, syntax: Syntax) -> str:
    if len(code) % 8:
        raise MalformedData(f"{name}: {len(code)} bytes are no whole number of 8-byte instructions")
    return listing(decode(code, byteorder, raw=True), syntax=syntax)


def _object(data: bytes, name: str, wanted: str | None, syntax: Syntax, *, source: bool) -> str:
    from pyebpf.objfile import list_section, read_object

    try:
        whole = read_object(data)
        if wanted is not None:
            return list_section(whole, wanted, syntax=syntax, source=source)
        names = [section.name for section in whole.elf.sections if section.has_code and section.size]
        parts = [
            f"Disassembly of section {each}:\n\n{list_section(whole, each, syntax=syntax, source=source)}"
            for each in names
        ]
    except MalformedData as error:
        raise MalformedData(f"{name}: {error}") from error
    if not parts:
        raise MalformedData(f"{name}: the object has no section with code")
    return "\n".join(parts)


def _loaded(number: str | None, syntax: Syntax, *, source: bool) -> str:
    if number is None or not (number.isascii() and number.isdecimal() and len(number) < 11 and int(number) < 1 << 32):
        raise UsageError("pyebpf disasm", "after `id` comes the number of a loaded program")
    from pyebpf.kernel.errors_in_words import kernel_error
    from pyebpf.kernel.program_dump import dump_program, helper_names

    try:
        dump = dump_program(int(number))
    except FileNotFoundError:
        raise NotFound(f"no program with id {number} is loaded") from None
    except OSError as error:
        meanings = {errno.EINVAL: "the number is too large"}
        raise kernel_error(error, f"reading program {number}", needs=("CAP_SYS_ADMIN",), meanings=meanings) from error
    items = decode(dump.code, sys.byteorder, raw=True)
    starts = slot_starts(items)
    helpers = {item.imm for item in items if isinstance(item, Instruction) and item.op.form is Form.CALL}
    names = helper_names(helpers) if helpers else {}
    comments = {
        start: comment
        for item, start in zip(items, starts, strict=False)
        if isinstance(item, Instruction) and (comment := _comment(item, names, dump))
    }
    labels: dict[str, int] = {}
    if dump.btf:
        items, labels = _described(items, starts, dump)
    # The kernel puts a map's id where its descriptor was.
    return listing(items, labels=labels, syntax=syntax, source=source, comments=comments, maps_by_id=True)


def _comment(item: Instruction, helpers: dict[int, str], dump: ProgramDump) -> str:
    if item.op.form is Form.CALL:
        return helpers.get(item.imm, "")
    if item.op.form is Form.LDDW_MAP and (name := dump.maps.get(item.imm & 0xFFFF_FFFF)):
        return f"map {name}"
    return ""


def _described(
    items: tuple[Instruction | Raw, ...], starts: tuple[int, ...], dump: ProgramDump
) -> tuple[tuple[Instruction | Raw, ...], dict[str, int]]:
    """Items with their source lines, and functions by the slot where they begin, as the program's BTF tells."""
    from pyebpf.btf import Btf

    btf = Btf(dump.btf)
    labels: dict[str, int] = {}
    for slot, type_id in dump.functions:
        name = btf.type_by_id(type_id).name
        labels[name if name not in labels else f"{name}.{slot}"] = slot
    places = [line[0] for line in dump.lines]
    located = []
    for item, start in zip(items, starts, strict=False):
        found = bisect_right(places, start) - 1
        if found < 0:
            located.append(item)
            continue
        _, file, text, place = dump.lines[found]
        column = place & (1 << _COLUMN_BITS) - 1
        where = Location(btf.string(file), place >> _COLUMN_BITS, column, None, btf.string(text))
        located.append(replace(item, where=where))
    return tuple(located), labels
