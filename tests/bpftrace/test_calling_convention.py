"""Where compilers pass parameters: functions by chance, each of which returns one, by the instruction that reads it."""

from __future__ import annotations

import random
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from pyebpf.arch import architecture
from pyebpf.bpftrace.translate.calling_convention import positions
from pyebpf.elf.dwarf.types import DebugTypes
from pyebpf.elf.symbols import ElfSymbols
from tests.support.needs import needs

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
#define VECTOR(name, of, bytes) typedef of name __attribute__((vector_size(bytes)))
VECTOR(v4, int, 16); VECTOR(v2, int, 8); VECTOR(d2, double, 16); VECTOR(f2, float, 8); VECTOR(c16, char, 16);
VECTOR(l1, long, 8); VECTOR(s4, short, 8); VECTOR(v8, int, 32); VECTOR(v16, int, 64); VECTOR(c4, char, 4);
VECTOR(d1, double, 8); VECTOR(i1, __int128, 16);
typedef int i_16 __attribute__((aligned(16))); typedef v4 v4_1 __attribute__((aligned(1)));
typedef long l_32 __attribute__((aligned(32)));
"""
NUMBERS = ["char", "short", "int", "float", "double", "long double", "__int128", "char *", "_Bool"]
NUMBERS += [f"_Complex {name}" for name in ("float", "double", "long double", "int", "long", "char")]
VECTORS = ["v4", "v2", "d2", "f2", "c16", "l1", "s4"]
#: Those that compilers pass in two ways.
DOUBTFUL = ["v8", "v16", "c4", "d1", "i1"]
ALIGNED = ["i_16", "l_32", "v4_1"]
BITS = {"int": 32, "long": 64, "char": 8, "unsigned short": 16, "__int128": 128}
ATTRIBUTES = ["", "", "", "", "aligned(16)", "aligned(32)", "aligned(64)", "packed", "packed, aligned(16)"]
#: Members of 16 bytes, of which debugging information does not tell whether a struct is packed.
WIDE = {"long double", "__int128", "v4", "d2", "c16", "_Complex long double", *ALIGNED}


def any_struct(chance: random.Random, number: int, before: list[str]) -> str:
    """A struct or union of up to four members, of which half have only one."""
    attribute, members = chance.choice(ATTRIBUTES), []
    is_packed = "packed" in attribute
    types = [each for each in NUMBERS + VECTORS + ALIGNED if not is_packed or each not in WIDE]
    for position in range(chance.choice((1, 1, 1, 2, 3, 4))):
        type_, length, own = chance.choice(types), "", ""
        match chance.randrange(10):
            case 0 if not is_packed:
                type_ = chance.choice([*BITS])
                length = f":{chance.randint(1, BITS[type_])}"
            case 1 | 2 if before and not is_packed:
                type_ = chance.choice(before)
            case 3 if type_ not in ALIGNED:
                length = f"[{chance.randint(1, 4)}]"
            case 4:
                own = f"__attribute__((aligned({chance.choice((2, 8, 16, 32))})))"
            case 5 if not is_packed and not chance.randrange(4):
                type_ = chance.choice(DOUBTFUL)
        members.append(f"{type_} m{position}{length} {own};")
    keyword = chance.choice(("struct", "struct", "struct", "union"))
    return f"{keyword} __attribute__(({attribute})) s{number} {{ {' '.join(members)} }};"


def any_functions(seed: str, number: int) -> tuple[str, dict[str, int]]:
    """Functions of up to 15 parameters in C, and which of them each returns."""
    chance = random.Random(seed)
    structs: list[str] = []
    lines, wanted = [HEAD], {}
    for position in range(number):
        text = any_struct(chance, position, structs)
        lines.append(text)
        structs.append(f"{text.partition(' ')[0]} s{position}")
    for position in range(number):
        parameters = []
        for each in range(chance.randint(2, 15)):
            kinds = chance.choice((["long"], ["long"], structs, NUMBERS, VECTORS, VECTORS + DOUBTFUL[:1]))
            parameters.append(f"{chance.choice(kinds)} p{each}")
        for which, each in enumerate(parameters):
            if each.startswith("long p"):
                name = f"f{position}_{which}"
                wanted[name] = which
                lines.append(f"long {name}({', '.join(parameters)}) {{ return p{which}; }}")
    return "\n".join(lines), wanted


def read_places(arch: str, text: str) -> dict[str, int]:
    """The position among integer arguments that each function returns, by what the compiler wrote."""
    registers, found = architecture(arch).arguments, {}
    for name, code in re.findall(r"^(f\d+_\d+):(.*?)^\s*\.cfi_endproc", text, re.MULTILINE | re.DOTALL):
        if arch == "aarch64":
            match = re.search(r"(?:mov|ldr)\s+x0, (?:(x\d)|\[sp(?:, #(\d+))?\])", code)
            offset, register = (int(match[2] or 0), match[1]) if match else (0, "x0")
        else:
            match = re.search(r"movq\s+(?:%(?:r(?=[a-z]))?(\w+)|(\d+)\(%r([sb])p\)), %rax", code)
            assert match, code
            start = 8 if match[3] == "s" else 16  # behind the frame pointer's old value, too
            offset, register = int(match[2] or 0) - start, match[1]
        found[name] = registers.index(register) if register else len(registers) + offset // 8
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("arch", "command"),
    [("x86_64", "gcc"), ("x86_64", "clang-19"), ("aarch64", "clang-19 --target=aarch64-linux-gnu")],
)
def test_parameters_are_where_compilers_pass_them(arch: str, command: str, seed: int, tmp_path: Path) -> None:
    """Vectors, aligned and packed structs, wide integers, complex numbers: each is in its place, or not known.

    The types have the same debugging information on both architectures.
    """
    compiler = command.split(maxsplit=1)[0]
    needs(f"command:{compiler}")
    text, wanted = any_functions(f"{command} {seed}", 60)
    (tmp_path / "some.c").write_text(text)
    options = [*command.split()[1:], "-O2", "-w", "-fomit-frame-pointer", "-S", "some.c"]
    subprocess.run([compiler, *options, "-Wno-psabi"], cwd=tmp_path, check=True, capture_output=True)
    places = read_places(arch, (tmp_path / "some.s").read_text())
    link = ["-g", "-w", "-Wno-psabi", "-shared", "-fPIC", "-O1", "-o", "some.so", "some.c"]
    host = [compiler] if arch == "x86_64" else [compiler, "--target=x86_64-linux-gnu"]
    subprocess.run([*host, *link], cwd=tmp_path, check=True, capture_output=True)
    elf = ElfSymbols.from_bytes((tmp_path / "some.so").read_bytes(), "some.so")
    types = DebugTypes(elf)
    addresses = {symbol.name: symbol.value for symbol in elf.symbols() if symbol.is_function}
    known = 0
    for name, which in wanted.items():
        signature = types.signature(addresses[name])
        assert signature is not None
        place = positions(arch, signature)[which]
        declared = ", ".join(each.type.c_name for each in signature.parameters)
        assert place in (None, places[name]), (name, declared)
        known += place is not None
    assert known > len(wanted) * 0.7
