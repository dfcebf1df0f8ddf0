"""Random structs of a script: sizes and values of members are those of gcc, in the same memory."""

from __future__ import annotations

import random
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.native import build_native
from tests.support.scripts import printed

if TYPE_CHECKING:
    from pathlib import Path

    from pyebpf.testing import Simulation

OPEN = "tracepoint:syscalls:sys_enter_openat"
NUMBERS = {
    f"{sign}{name}": bits
    for sign in ("", "unsigned ")
    for name, bits in (("char", 8), ("short", 16), ("int", 32), ("long", 64))
}
PACKED, ALIGNED = " __attribute__((packed))", " __attribute__((aligned(8)))"
MEMORY = bytes((n * n * 37 + n * 91 + 11 ^ n >> 3) & 255 for n in range(4096))


class Structs:
    """Random definitions, each name in them once."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._names = 0

    def body(self, depth: int = 0) -> tuple[str, list[str]]:
        """The members of a struct as text, and the paths of numbers in it."""
        members, paths = [], []
        for _ in range(self.random.randint(1, 5)):
            text, found = self._nested(depth) if depth < 3 and self.random.random() < 0.3 else self._number()
            members.append(text)
            paths += found
        return " ".join(members), paths

    def _name(self) -> str:
        self._names += 1
        return f"m{self._names}"

    def _number(self) -> tuple[str, list[str]]:
        type_ = self.random.choice(sorted(NUMBERS))
        name, packed = self._name(), self.random.choice(["", "", "", PACKED])
        match self.random.randrange(8):
            case 0:
                return f"{type_} : {self.random.choice([0, self.random.randint(1, NUMBERS[type_])])};", []
            case 1 | 2 | 3:
                return f"{type_} {name} : {self.random.randint(1, NUMBERS[type_])}{packed};", [name]
            case 4:
                count = self.random.randint(1, 3)
                return f"{type_} {name}[{count}];", [f"{name}[{n}]" for n in range(count)]
            case _:
                return f"{type_} {name}{self.random.choice([packed, packed, ALIGNED])};", [name]

    def _nested(self, depth: int) -> tuple[str, list[str]]:
        """A struct or union within another, with or without a name: one member, two, an array, or the outer one's."""
        body, paths = self.body(depth + 1)
        tag = self.random.choice(["", f"{self._name()}_t "])
        text = (
            f"{self.random.choice(['struct', 'struct', 'union'])} {tag}{{ {body} }}{self.random.choice(['', PACKED])}"
        )
        names = [self._name(), self._name()]
        match self.random.randrange(4):
            case 0 if not tag:
                return f"{text};", paths
            case 1:
                names, declared = [f"{names[0]}[0]", f"{names[0]}[1]"], f"{names[0]}[2]"
            case 2:
                declared = ", ".join(names)
            case _:
                names, declared = names[:1], names[0]
        return f"{text} {declared};", [f"{name}.{path}" for name in names for path in paths]


@pytest.mark.parametrize("seed", range(3))
def test_structs_lie_as_gcc_lays_them_out(seed: int, tmp_path: Path) -> None:
    """Bit-fields, packed and aligned members and structs, unions, arrays and types that are defined within others."""
    structs = Structs(seed)
    definitions, by_gcc, by_script = "", "", ""
    for number in range(12):
        body, paths = structs.body()
        definitions += f"struct s{number} {{ {body} }}{structs.random.choice(['', '', PACKED])};\n"
        shown = structs.random.sample(paths, min(6, len(paths)))
        words = " %ld" * (1 + len(shown))
        size = f"sizeof(struct s{number})"
        casts = [f"(long)((struct s{number} *)memory)->{path}" for path in shown]
        by_gcc += f'printf("{number}{words}\\n", {", ".join([f"(long){size}", *casts])});\n'
        read = [f"$s{number}->{path}" for path in shown]
        by_script += f"$s{number} = (struct s{number} *)args.filename;\n"
        by_script += f'printf("{number}{words}\\n", {", ".join([size, *read])});\n'
    memory = ", ".join(map(str, MEMORY))
    source = f"#include <stdio.h>\n{definitions}unsigned char memory[] __attribute__((aligned(64))) = {{ {memory} }};\n"
    program = build_native(f"{source}int main(void) {{\n{by_gcc}}}\n", tmp_path / "program", "-w")
    wanted = subprocess.run([program], check=True, capture_output=True, text=True, timeout=60).stdout

    def events(kernel: Simulation) -> None:
        kernel.tracepoint("syscalls:sys_enter_openat", filename=MEMORY)

    assert printed(f"{definitions}{OPEN} {{\n{by_script}}}\n", events) == wanted
