"""`pyebpf exec` with the interpreter: text and hexadecimal, memory, errors."""

from __future__ import annotations

import io
import sys

import pytest

from pyebpf.cli import main

HEX = "b7 00 00 00 2a 00 00 00  95 00 00 00 00 00 00 00\n"


@pytest.fixture
def execute(monkeypatch, capfd):
    """Run the command with `stdin`; status, output, errors."""

    def run(*arguments, stdin=""):
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        status = main(["exec", *arguments])
        out, err = capfd.readouterr()
        return status, out, err

    return run


def test_hexadecimal_on_standard_input(execute):
    """As conformance runners give it: blanks between bytes, empty memory."""
    assert execute("-", "", stdin=HEX) == (0, "2a\n", "")


def test_all_64_bits(execute):
    """R0 is not cut."""
    assert execute("-", stdin="r0 = -1\nexit\n")[1] == "ffffffffffffffff\n"


@pytest.mark.parametrize("text", ["r0 = *(u32 *)(r1 + 4)\nexit", "ldxw %r0, [%r1+4]\nexit"])
def test_text_of_either_syntax_and_memory(execute, tmp_path, text):
    """R1 is the memory's address."""
    file = tmp_path / "program.s"
    file.write_text(text)
    assert execute(str(file), "00000000 01020304")[1] == "4030201\n"


def test_registers_at_the_start(execute):
    """R2 is the memory's length; without memory both are 0."""
    assert execute("-", "0102030405", stdin="r0 = r2\nexit")[1] == "5\n"
    assert execute("-", stdin="r0 = r1\nr0 |= r2\nexit")[1] == "0\n"


@pytest.mark.parametrize(
    ("arguments", "stdin", "status", "message"),
    [
        (["-", "00"], "r0 = *(u8 *)(r1 + 1)\nexit", 1, "<stdin>:1: invalid access to memory, mem_size=1 off=1 size=1"),
        (["-"], "b700", 1, "<stdin>: 4 hexadecimal digits are no whole number"),
        (["-"], "ff" * 8, 1, "<stdin>: slot 0: unknown opcode ff"),
        (["-"], "", 1, "<stdin>: there is no instruction in it"),
        (["-"], b"\xff\xfe", 1, "<stdin>: neither assembler text nor hexadecimal"),
        (["-"], "r0 = 0\ngoto -2", 1, "infinite loop detected"),
        (["/no/such/file"], "", 1, "/no/such/file: No such file or directory"),
        (["-", "0g"], HEX, 2, "MEMORY is bytes in hexadecimal, not '0g'"),
        (["--fast", "-"], HEX, 2, "unknown option --fast"),
        ([], "", 2, "name a file, or - for standard input"),
    ],
)
def test_errors(execute, arguments, stdin, status, message):
    """One line that says what is wrong; nothing on standard output."""
    got, out, err = execute(*arguments, stdin=stdin)
    assert (got, out) == (status, "")
    assert message in err
