"""`struct pt_regs` as a probe sees it: arguments by position, the result, narrow integers without the junk above."""

from __future__ import annotations

from typing import Any

import pytest

from pyebpf.arch import architecture
from pyebpf.attach import registers
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.memory import Space
from pyebpf.builder.values.pointers import Pointer
from pyebpf.compiler.ir import Op
from pyebpf.errors import CompileError
from pyebpf.types import BOOL, S64, U16, U32, U64, CharFactory
from pyebpf.types.integers import S8, S32
from pyebpf.types.pointers import PointerFactory
from tests.builder.harness import Nothing, Probe

JUNK = 0xDEAD_BEEF_0000_0000
ptr = PointerFactory()
char = CharFactory()


class Machine(Nothing):
    """A target of one architecture."""

    def __init__(self, arch: str) -> None:
        self.arch = arch


def words(arch: str, **values: int) -> list[int]:
    """A `struct pt_regs` with these registers, the others junk."""
    machine = architecture(arch)
    found = [JUNK | index for index in range(machine.registers_size // 8 + 1)]
    for name, value in values.items():
        found[machine.register_offset(name) // 8] = value
    return found


@pytest.mark.parametrize(("arch", "names"), [("x86_64", "di si dx cx r8 r9"), ("aarch64", "x0 x1 x2 x3 x4 x5 x6 x7")])
def test_arguments_are_in_the_registers_of_the_calling_convention(arch: str, names: str) -> None:
    """Each position has its register."""
    for position, name in enumerate(names.split()):
        p = Probe(Machine(arch))
        p.b.ret(registers.argument(p, position, Space.KERNEL))
        assert p.run(*words(arch, **{name: 1009 + position})) == 1009 + position


@pytest.mark.parametrize(("arch", "offset"), [("x86_64", 16), ("aarch64", 8)])
def test_further_arguments_are_read_from_the_stack(arch: str, offset: int) -> None:
    """The second one beyond the registers: behind the return address on x86-64, at the stack pointer on arm64."""
    p = Probe(Machine(arch))
    p.b.ret(registers.argument(p, len(architecture(arch).arguments) + 1, Space.USER))
    asked = []

    def probe_read_user(evaluator: Any, destination: Any, size: int, address: int) -> int:
        asked.append((size, address))
        destination.region.store(destination.offset, (1019).to_bytes(size, "little"))
        return 0

    assert p.run(*words(arch, sp=0x7000), helpers={112: probe_read_user}) == 1019
    assert asked == [(8, 0x7000 + offset)]


@pytest.mark.parametrize(("arch", "name"), [("x86_64", "ax"), ("aarch64", "x0")])
def test_the_result_has_its_register(arch: str, name: str) -> None:
    """What a return probe reads."""
    p = Probe(Machine(arch))
    p.b.ret(registers.result(p))
    assert p.run(*words(arch, **{name: 1013})) == 1013


@pytest.mark.parametrize(
    ("annotation", "register", "value"),
    [
        (U32, JUNK | 0xFFFF_FFFF, 0xFFFF_FFFF),
        (S32, JUNK | 0xFFFF_FFFF, -1),
        (S8, JUNK | 0x80, -128),
        (U16, JUNK | 0x1_8001, 0x8001),
        (BOOL, JUNK | 1, 1),
        (S64, -7, -7),
    ],
)
def test_narrow_integers_leave_the_junk_above_them(annotation: Any, register: int, value: int) -> None:
    """Sign- or zero-extended from the width that the annotation gives."""
    p = Probe(Machine("x86_64"))
    found = registers.typed(p, registers.argument(p, 0, Space.KERNEL), annotation, "n", Space.KERNEL)
    assert isinstance(found, Int)
    p.ret(found)
    assert p.run(*words("x86_64", di=register)) == value


def test_a_pointer_knows_whose_memory_it_is_in() -> None:
    """The caller says: a process's in a uprobe, the kernel's in a kprobe."""
    p = Probe(Machine("x86_64"))
    found = registers.typed(p, registers.argument(p, 0, Space.USER), ptr[char], "name", Space.USER)
    assert isinstance(found, Pointer)
    assert found.space is Space.USER
    assert registers.typed(p, found.address, U64, "name", Space.USER).type == U64


@pytest.mark.parametrize(
    ("annotation", "part"),
    [(None, "annotate it"), (int, "int does not give its width"), (char[8], "an integer, a bool or a pointer")],
)
def test_what_no_register_holds_is_refused(annotation: Any, part: str) -> None:
    """Without a type, with one of no width, with one that is not a register's."""
    p = Probe(Machine("x86_64"))
    with pytest.raises(CompileError, match=part):
        registers.typed(p, registers.argument(p, 0, Space.USER), annotation, "n", Space.USER)


def test_attributes_are_registers() -> None:
    """By the architecture's names; another name gets the closest."""
    p = Probe(Machine("x86_64"))
    found = registers.named_register(p, "ip")
    assert found.type == U64
    assert p.b._block.instructions[-1].op is Op.LOAD
    with pytest.raises(CompileError, match="x86_64 has no register"):
        registers.named_register(p, "eip")
