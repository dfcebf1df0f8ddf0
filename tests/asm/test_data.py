"""Directives that make bytes: any number of them, of any width, as long as they fill slots together."""

from __future__ import annotations

import time

import pytest

from pyebpf.asm import Raw, assemble, encode, resolve
from pyebpf.asm.data import read_data
from pyebpf.asm.shapes import Token
from pyebpf.errors import AssemblyError
from pyebpf.specs import Code, FunctionStart, ProgramSpec
from pyebpf.uapi.bpf import ProgramType
from pyebpf.vm import Machine


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (".8byte 0x95", "9500000000000000"),
        (".quad 1, -1", "0100000000000000ffffffffffffffff"),
        (".byte 1, 2, 3, 4\n.long 5", "0102030405000000"),
        (".short 1, 2\n.2byte 3\n.byte 4, 5", "0100020003000405"),
        (".byte " + ", ".join(map(str, range(24))), bytes(range(24)).hex()),
        (".byte 0xb7\n.byte 0, 0, 0\n.4byte -2\nexit", "b7000000feffffff9500000000000000"),
    ],
)
def test_data_fills_slots(text, data):
    """Lines in a row are one piece of data."""
    assert encode(assemble(text)).hex() == data


def test_a_line_of_many_numbers_takes_time_in_proportion():
    """Ten times as many take some ten times as long, not a hundred."""
    numbers = Token("#", "1", 0, 1), Token(",", ",", 1, 2)

    def seconds(count):
        tokens = [Token(".byte", ".byte", 0, 5), *numbers * count, numbers[0]]
        start = time.thread_time()
        assert len(read_data(tokens, lambda *_: None).data) == count + 1
        return time.thread_time() - start

    assert seconds(500_000) < 40 * max(seconds(50_000), 0.01)


def test_jumps_count_the_slots_of_data():
    """And each slot knows the line that its first byte came from."""
    jump, first, second, _ = assemble(
        "goto end\n.byte 1, 2, 3\n.byte 4, 5, 6, 7, 8, 9\n.int 10\n.byte 0, 0, 0\nend: exit"
    )
    assert (jump.offset, first, second.where.line) == (2, Raw(bytes(range(1, 9))), 3)


@pytest.mark.parametrize("text", [".byte 1", ".quad 1\n.byte 2\nexit", ".long 1\nhere: .long 2"])
def test_data_that_fills_no_slot_is_refused(text):
    """A label inside a slot, too."""
    with pytest.raises(AssemblyError, match="bytes of data make no whole slots of 8"):
        assemble(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".byte 0xb7, 0, 0, 0, 7, 0, 0, 0\nexit", 7),
        (".quad 0x0000002a000000b7\n.8byte 0x95", 42),
        ("goto end\n.quad 0x0000000200000018, 0x0000000100000000\nexit\nend: r0 = 5\nexit", 5),
        (".quad 0x0000000200000018, 0x0000000100000000\nexit", 2),
    ],
)
def test_a_program_written_as_bytes_is_code(text, expected):
    """Instructions that are written as bytes are run, and have the place of their first byte."""
    items = assemble(text)
    code = Code(items, (FunctionStart("main", 0),))
    assert encode(resolve(code.instructions)) == encode(items)
    assert all(each.where is not None for each in code.instructions)
    program = ProgramSpec("main", ProgramType.SOCKET_FILTER, code)
    assert [Machine().run(each).value & 0xFFFFFFFF for each in (program, items)] == [expected] * 2


def test_bytes_that_are_no_instruction_are_no_code():
    """They are refused at their place when the code is made, and before they are run."""
    items = assemble("r0 = 0\n.byte 0xff, 0, 0, 0, 0, 0, 0, 0\nexit", "file.s")
    for make in (lambda: Code(items, (FunctionStart("main", 0),)), lambda: Machine().run(items)):
        with pytest.raises(AssemblyError, match=r"^file\.s:2:1: slot 1: unknown opcode ff \(ff00000000000000\)"):
            make()
