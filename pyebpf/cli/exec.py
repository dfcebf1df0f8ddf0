"""`pyebpf exec`: run a program in the interpreter, or in the kernel, and print what it returns."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from pyebpf.cli.report import UsageError, read_input
from pyebpf.errors import AssemblyError, InvalidValue
from pyebpf.output.sink import Sink

if TYPE_CHECKING:
    from pyebpf.asm import Instruction, Raw

HELP = """\
usage: pyebpf exec [--kernel] FILE|- [MEMORY]

Runs a program and prints R0 at its end in hexadecimal, all 64 bits. FILE (- for
standard input) is assembler text in either syntax, or the instructions' bytes
in hexadecimal; blanks between digits are ignored. R1 is the address and R2
the length of MEMORY, bytes in hexadecimal; without it both are 0. A refused
access prints what the verifier would say, exit status 1.

  --kernel  load it into this kernel, as a function of a program of type
            syscall (of a raw tracepoint before Linux 5.14), instead of
            interpreting it; needs root
"""

#: The one option.
KERNEL = "--kernel"
_HEX = re.compile(rb"[0-9a-fA-F\s]*")
_STEPS = 10_000_000


def run_exec(arguments: list[str]) -> int:
    """Run the command."""
    if arguments and arguments[0] in {"-h", "--help"}:
        Sink.of(sys.stdout).write(HELP)
        return 0
    kernel = KERNEL in arguments
    options = [each for each in arguments if each.startswith("-") and each not in ("-", KERNEL)]
    if options:
        raise UsageError("pyebpf exec", f"unknown option {options[0]}")
    rest = [each for each in arguments if each != KERNEL]
    if not 1 <= len(rest) <= 2:
        raise UsageError("pyebpf exec", "name a file, or - for standard input, and perhaps memory in hexadecimal")
    memory = _memory(rest[1]) if len(rest) == 2 else b""
    program = _program(rest[0])
    value = _in_kernel(program, memory) if kernel else _interpreted(program, memory)
    Sink.of(sys.stdout).line(f"{value:x}")
    return 0


def _memory(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise UsageError("pyebpf exec", f"MEMORY is bytes in hexadecimal, not {text!r}") from None


def _program(name: str) -> tuple[Instruction, ...]:
    from pyebpf.asm import Form, assemble, decode, instructions_of

    data, shown = read_input(name)
    found: tuple[Instruction | Raw, ...]
    if _HEX.fullmatch(data):
        digits = b"".join(data.split()).decode()
        if len(digits) % 16:
            raise AssemblyError(
                f"{shown}: {len(digits)} hexadecimal digits are no whole number of instructions (16 each)"
            )
        found = decode(bytes.fromhex(digits), raw=True)
    else:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise InvalidValue(
                f"{shown}: neither assembler text nor hexadecimal; `pyebpf disasm` reads bytes"
            ) from None
        found = assemble(text, shown)
    if not found:
        raise AssemblyError(f"{shown}: there is no instruction in it")
    try:
        program = instructions_of(found)
    except AssemblyError as error:
        raise AssemblyError(f"{shown}: {error.message}") from None
    for each in program:
        if each.op.form is Form.LDDW_MAP:
            raise AssemblyError(
                "there are no maps here: run a program with its maps from Python (docs/vm.md)", each.where
            )
    return program


def _interpreted(program: tuple[Instruction, ...], memory: bytes) -> int:
    from pyebpf.vm import Machine
    from pyebpf.vm.memory import Region

    # As the kernel lets root: the stack may be read before it is written.
    machine = Machine(strict=False, max_steps=_STEPS)
    address = machine.memory.add(Region("mem", "memory", bytearray(memory))) if memory else 0
    return machine.run(program, arguments=(address, len(memory))).value


def _in_kernel(program: tuple[Instruction, ...], memory: bytes) -> int:
    """Call it from a program that keeps R0 in a map: PROG_TEST_RUN itself returns 32 bits."""
    from contextlib import ExitStack

    from pyebpf.asm.build import R0, R1, R2, call_local, exit_, lddw, load_map_value, mov64, stx
    from pyebpf.features import Features, Support
    from pyebpf.objects import Map, Program
    from pyebpf.specs import Code, FunctionStart, MapSpec, ProgramSpec
    from pyebpf.types import U8, U32, U64, ArrayType
    from pyebpf.uapi.bpf import MapType, ProgramType
    from pyebpf.uapi.flags import BPF_F_SLEEPABLE
    from pyebpf.vm.flow import functions_of

    caller = (
        load_map_value(R1, "memory") if memory else lddw(R1, 0),
        mov64(R2, len(memory)),
        call_local("program"),
        load_map_value(R1, "result"),
        stx(8, R1, 0, R0),
        mov64(R0, 0),
        exit_(),
    )
    starts = [start + len(caller) for start in functions_of(program, {})]
    names = ["program", *(f"function_{index}" for index in range(1, len(starts)))]
    functions = tuple(FunctionStart(name, start) for name, start in zip(names, starts, strict=True))
    code = Code((*caller, *program), (FunctionStart("caller", 0), *functions))
    # PROG_TEST_RUN runs programs of raw tracepoints since Linux 5.10.
    kind, flags = ProgramType.SYSCALL, BPF_F_SLEEPABLE
    if Features().ask("program:syscall") is Support.NO:
        kind, flags = ProgramType.RAW_TRACEPOINT, 0
    with ExitStack() as stack:
        maps = {"result": stack.enter_context(Map(MapSpec("result", MapType.ARRAY, U32, U64, 1)))}
        if memory:
            spec = MapSpec("memory", MapType.ARRAY, U32, ArrayType(U8, len(memory)), 1, initial=((bytes(4), memory),))
            maps["memory"] = stack.enter_context(Map(spec))
        loaded = stack.enter_context(Program(ProgramSpec("exec", kind, code, flags=flags), maps))
        loaded.test_run()
        value: int = maps["result"][0]
        return value
