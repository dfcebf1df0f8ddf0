"""`pyebpf asm` and `pyebpf disasm`: text to hexadecimal and back, and one line for what goes wrong."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyebpf.asm import assemble, encode
from pyebpf.asm.build import R0, R1, exit_, lddw, mov64
from pyebpf.cli import main
from tests.support.needs import needs

CODE = encode([lddw(R1, 0x1122334455667788), mov64(R0, R1), exit_()])
HEX = "18 01 00 00 88 77 66 55\n00 00 00 00 44 33 22 11\nbf 10 00 00 00 00 00 00\n95 00 00 00 00 00 00 00\n"
KERNEL = "    0 r1 = 0x1122334455667788 ll\n    2 r0 = r1\n    3 exit\n"
MNEMONIC = "    0 lddw %r1, 0x1122334455667788\n    2 mov %r0, %r1\n    3 exit\n"


class Bytes(io.TextIOWrapper):
    """A standard stream over bytes in memory."""

    def __init__(self, data=b""):
        super().__init__(io.BytesIO(data), encoding="utf-8", write_through=True)


@pytest.fixture
def command(monkeypatch, capfd):
    """A function that runs the command with standard input; status, standard output as bytes, standard error."""

    def run(*arguments, data=b""):
        out = Bytes()
        monkeypatch.setattr(sys, "stdin", Bytes(data))
        monkeypatch.setattr(sys, "stdout", out)
        status = main(list(map(str, arguments)))
        return status, out.buffer.getvalue(), capfd.readouterr().err

    return run


@pytest.mark.parametrize("text", [KERNEL, MNEMONIC, "lddw r1, 0x1122334455667788\nr0 = r1\nexit"])
def test_asm_prints_eight_bytes_a_line(command, text):
    """Either syntax, also both in one text, from standard input."""
    assert command("asm", "-", data=text.encode()) == (0, HEX.encode(), "")


def test_asm_writes_bytes(command, tmp_path):
    """From a file, with --raw; and in the other byte order."""
    path = tmp_path / "program.s"
    path.write_text(KERNEL)
    assert command("asm", "--raw", path) == (0, CODE, "")
    assert command("asm", "--raw", "--big-endian", path) == (0, encode(assemble(KERNEL), "big"), "")


@pytest.mark.parametrize(("syntax", "text"), [("kernel", KERNEL), ("mnemonic", MNEMONIC)])
@pytest.mark.parametrize("data", [HEX.encode(), CODE.hex().encode(), CODE])
def test_disasm_reads_hexadecimal_and_bytes(command, syntax, text, data):
    """Told apart by themselves; printed in either syntax."""
    assert command("disasm", "--syntax", syntax, "-", data=data) == (0, text.encode(), "")


def test_disasm_of_big_endian_bytes(command):
    """The same text for the other byte order."""
    data = encode(assemble(KERNEL), "big")
    assert command("disasm", "--big-endian", "-", data=data) == (0, KERNEL.encode(), "")


def test_what_is_no_instruction_goes_both_ways(command):
    """An unknown opcode, a register above R10, half a two-slot load."""
    data = bytes.fromhex("ff00000000000001 bfb1000000000000 1801000000000000")
    status, text, _ = command("disasm", "-", data=data)
    assert (status, text.count(b".byte")) == (0, 3)
    assert command("asm", "--raw", "-", data=text) == (0, data, "")


def test_bytes_that_look_like_hexadecimal(command):
    """--raw says what they are."""
    data = b"77777777"
    assert command("disasm", "--raw", "-", data=data)[1] == b"    0 .byte " + b", ".join([b"0x37"] * 8) + b"\n"


REFUSALS = [
    (["asm", "-"], b"exit\nmov %r0 5", 1, "pyebpf asm: <stdin>:2:9: `5` cannot stand here: expected `,`\n"),
    (["asm", "-"], b"\xff", 1, "pyebpf asm: <stdin>: not text: byte 0 is not UTF-8\n"),
    (
        ["asm", "-"],
        b"r1 = map[counts]",
        1,
        "pyebpf asm: <stdin>:1:1: 'counts' gets its number when a program is loaded: write the number (fd:7, btf:77)\n",
    ),
    (["disasm", "-"], b"9500\n00zz", 1, "pyebpf disasm: <stdin>:2:3: 'z' is not a hexadecimal digit\n"),
    (["disasm", "-"], b"9500\n00", 1, "pyebpf disasm: <stdin>: 3 bytes are no whole number of 8-byte instructions\n"),
    (["disasm", "-"], b"950", 1, "pyebpf disasm: <stdin>: an odd number of hexadecimal digits (3): one is missing\n"),
    (["disasm", "-"], b"\x7fELF", 1, "pyebpf disasm: <stdin>: an ELF file of another kind than 64-bit objects\n"),
    (["disasm", "-", "xdp"], CODE, 2, "pyebpf disasm: <stdin> is not an ELF object: it has no section 'xdp'"),
    (["disasm", "id"], b"", 2, "pyebpf disasm: after `id` comes the number of a loaded program; see pyebpf "),
    (["disasm", "id", "x"], b"", 2, "pyebpf disasm: after `id` comes the number of a loaded program"),
    (["disasm", "/nonexistent"], b"", 1, "pyebpf disasm: /nonexistent: No such file or directory\n"),
    (["asm"], b"", 2, "pyebpf asm: the following arguments are required: FILE; see pyebpf asm --help\n"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "data", "status", "message"), REFUSALS, ids=[row[3] for row in REFUSALS])
def test_what_goes_wrong_is_a_line(command, arguments, data, status, message):
    """With the place; below it the line of an assembly text; nothing on standard output."""
    *rest, errors = command(*arguments, data=data)
    assert rest == [status, b""]
    assert errors.startswith(message)
    assert errors.count("\n") <= 3


def test_disasm_of_an_object(command, tmp_path):
    """All sections with code, or one; an unknown one names the closest."""
    needs("command:llvm-mc-19")
    path = tmp_path / "two.o"
    text = '.section xdp,"ax"\nfirst:\nr0 = 2\nexit\n.section socket,"ax"\nsecond:\nr0 = 0\nexit\n'
    command_line = ["llvm-mc-19", "-triple=bpfel", "-filetype=obj", "-o", path]
    subprocess.run(command_line, input=text, text=True, check=True)
    status, out, _ = command("disasm", path)
    first = b"Disassembly of section xdp:\n\n    0 r0 = 2\n    1 exit\n"
    second = b"Disassembly of section socket:\n\n    0 r0 = 0\n    1 exit\n"
    assert (status, out) == (0, first + b"\n" + second)
    assert command("disasm", path, "socket")[1] == b"    0 r0 = 0\n    1 exit\n"
    assert command("asm", "-", data=out)[1].count(b"\n") == 4
    assert command("disasm", path, "sockets") == (
        1,
        b"",
        f"pyebpf disasm: {path}: the object has no section 'sockets' with code (did you mean socket?)\n",
    )


def test_the_command_that_help_shows_prints_what_it_shows():
    """Pasted into a shell."""
    shown = subprocess.run(
        [sys.executable, "-m", "pyebpf", "asm", "--help"], capture_output=True, text=True, check=True
    ).stdout
    [command] = re.findall(r"^  \$ (.*) \| pyebpf asm -$", shown, re.MULTILINE)
    printed = re.findall(r"^  ((?:[0-9a-f]{2} ?){8})$", shown, re.MULTILINE)
    shell = ["sh", "-c", f'{command} | "$0" -m pyebpf asm -', sys.executable]
    done = subprocess.run(shell, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == printed
    assert len(printed) == 2


@pytest.mark.parametrize("words", [("asm",), ("disasm",), ("disasm", "--raw"), ("exec",)])
@pytest.mark.parametrize("standard", [True, False])
def test_input_without_an_end_is_refused(words, standard):
    """No more than 64 MiB are read, of standard input or a file, and one line says so."""
    with Path("/dev/zero").open("rb") as zeros:
        done = subprocess.run(
            [sys.executable, "-m", "pyebpf", *words, "-" if standard else "/dev/zero"],
            stdin=zeros,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    name = "<stdin>" if standard else "/dev/zero"
    assert done.stderr == f"pyebpf {words[0]}: {name} has more than 64 MiB, which no program or object has\n"
    assert (done.returncode, done.stdout) == (1, "")


def test_a_long_word_is_shown_in_part(command):
    """An error about three million letters has some hundred."""
    status, _, error = command("asm", "-", data=b"a" * 3_000_000)
    assert status == 1
    assert len(error) < 1000


@pytest.mark.parametrize("number", ["99999999999999999999", str(1 << 32), "-1"])
def test_a_number_that_is_no_id_is_refused(command, number):
    """The ids of maps have 32 bits."""
    status, _, error = command("map", "id", number)
    assert status == 1
    assert error == f"pyebpf map: {number} is no map's id: ids are numbers of 32 bits, 1 to 4294967295\n"
