"""Instructions assembled, disassembled, encoded and decoded a second of processor time.

`python -m benchmarks.assembler`.

The program has every form of the instruction table that LLVM 19 knows, many times over, so that llvm-mc and
llvm-objdump do the same work in the same run where they are installed; each of their figures includes the start of a
process, which is given beside it.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import table
from pyebpf.asm import OPS, Form, Instruction, Register, assemble, decode, encode, listing, text_of
from pyebpf.asm.build import mov64

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 20_011
ROUNDS = 5
# Newer than LLVM 19, resolved by its relocations, or with operands that it reads otherwise.
NOT_IN_LLVM = ("load_acquire", "store_release", "lddw_", "call_local", "call_kfunc", "ldind", "addr_space")


def program() -> list[Instruction]:
    """SIZE instructions: the rows of the table in turn, with operands that all assemblers take."""
    ops = [op for op in OPS if not op.name.startswith(NOT_IN_LLVM)]
    made = []
    for n in range(SIZE):
        op = ops[n % len(ops)]
        operands = op.operands
        wide = n * 0x1_0000_0001 if op.form is Form.LDDW else 0
        made.append(
            Instruction(
                op,
                Register(n % 11) if "d" in operands else Register.R0,
                Register(n // 11 % 11) if "s" in operands else Register.R0,
                n % 0x7FFF if "o" in operands else 0,
                wide or (n % 0x7FFF if "i" in operands else 0),
            )
        )
    return made


def cpu_seconds() -> float:
    """Processor time of this process and the children that it waited for: what others run does not count."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def best(work: Callable[[], object]) -> float:
    """Seconds of the fastest of several rounds."""
    times = []
    for _ in range(ROUNDS):
        began = cpu_seconds()
        work()
        times.append(cpu_seconds() - began)
    return min(times)


def alternatives(folder: Path, text: str) -> list[tuple[str, float, float]]:
    """What LLVM's tools take for the same text, and for one instruction: name, seconds, seconds to start."""
    source, one, target = folder / "all.s", folder / "one.s", folder / "all.o"
    source.write_text(text)
    one.write_text("exit\n")
    found = []
    for name, of in (("llvm-mc-19", "assembled"), ("llvm-objdump-19", "disassembled")):
        if shutil.which(name) is None:
            continue
        assembler = ["llvm-mc-19", "-triple=bpf", "-mcpu=v4", "-filetype=obj"]
        subprocess.run([*assembler, source, "-o", target], check=True)
        subprocess.run([*assembler, one, "-o", folder / "one.o"], check=True)
        commands = [
            [*assembler, source, "-o", target] if name == "llvm-mc-19" else [name, "--mcpu=v4", "-d", target],
            [*assembler, one, "-o", folder / "one.o"] if name == "llvm-mc-19" else [name, "-d", folder / "one.o"],
        ]
        whole, start = (
            best(lambda c=command: subprocess.run(c, check=True, stdout=subprocess.DEVNULL)) for command in commands
        )  # type: ignore[misc]  # mypy cannot infer a lambda's default
        found.append((f"{of} by {name}", whole, start))
    return found


def main() -> None:
    """Print instructions a second, in thousands."""
    instructions = program()
    data = encode(instructions)
    kernel = "".join(f"{text_of(i, 'kernel')}\n" for i in instructions)
    mnemonic = "".join(f"{text_of(i, 'mnemonic')}\n" for i in instructions)
    assert encode(assemble(kernel)) == encode(assemble(mnemonic)) == data
    rows = [
        ("built by a constructor", best(lambda: [mov64(Register.R1, n) for n in range(SIZE)]), 0.0),
        ("encoded", best(lambda: encode(instructions)), 0.0),
        ("decoded", best(lambda: decode(data)), 0.0),
        ("assembled, kernel's syntax", best(lambda: encode(assemble(kernel))), 0.0),
        ("assembled, mnemonic syntax", best(lambda: encode(assemble(mnemonic))), 0.0),
        ("disassembled", best(lambda: listing(decode(data))), 0.0),
    ]
    with tempfile.TemporaryDirectory() as folder:
        rows += alternatives(Path(folder), kernel)
    table(
        ("instructions", "thousands a CPU second", "start of the process, ms"),
        [(name, f"{SIZE / taken / 1e3:.0f}", f"{start * 1e3:.0f}" if start else "") for name, taken, start in rows],
    )


if __name__ == "__main__":
    main()
