"""Enums: the constants of those that a script defines, and numbers that are printed by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.c_numbers import c_number
from pyebpf.bpftrace.translate.values import constant
from pyebpf.dataclass import replace
from pyebpf.target import KernelType
from pyebpf.types import INTEGERS, S64, U64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyebpf.bpftrace.source import Source
    from pyebpf.bpftrace.translate.values import Integer
    from pyebpf.builder.program import ProgramBuilder


class Enums:
    """A script's enums: each constant's value and enum, and the names of each enum's values."""

    def __init__(self, program: ast.Program) -> None:
        #: The constants of all, by their names.
        self.values: dict[str, int] = {}
        self._constants: dict[str, tuple[int, tuple[tuple[int, str], ...]]] = {}
        self._names: dict[str, tuple[tuple[int, str], ...]] = {}
        self._types: dict[str, KernelType] = {}
        self._by_place: dict[int, KernelType] = {}
        # Of those within structs, too, the constants are known everywhere.
        nodes = {each.start: each for each in ast.nodes(program.definitions) if isinstance(each, ast.Enum)}
        for node in nodes.values():
            self._take(program.source, node)

    def _take(self, source: Source, node: ast.Enum) -> None:
        if node.name and node.name in self._types:
            raise source.error(f"there is an enum {node.name} already", node)
        value = -1
        values: dict[str, int] = {}
        for each in node.enumerators:
            if each.name in self.values:
                raise source.error(f"there is a constant {each.name} already", each)
            if each.value is None:
                value += 1
            else:
                value = c_number(source, each.value, "the value of an enum's constant", self.values, self._size(source))
            if not S64.minimum <= value <= U64.maximum:
                raise source.error(f"{each.name} is {value}, and 64 bits do not hold that: give it a value", each)
            values[each.name] = self.values[each.name] = value
        names = tuple((value, name) for name, value in values.items())
        self._names[node.name] = names
        packed = ast.is_packed(node)
        least, greatest = min(values.values(), default=0), max(values.values(), default=0)
        signed = least < 0
        held = [INTEGERS[f"{'s' if signed else 'u'}{bits}"] for bits in ((8, 16, 32, 64) if packed else (32, 64))]
        size = next((each.size for each in held if each.minimum <= least and greatest <= each.maximum), 8)
        made = self._types[node.name] = KernelType("enum", size, node.name, signed=signed)
        self._by_place[node.start] = made
        self._constants |= {name: (value, names) for value, name in names}

    def _size(self, source: Source) -> Callable[[ast.Type], int]:
        """The size of a type that is known before structs are laid out."""
        from pyebpf.bpftrace.translate.casts import NUMBERS

        def size(operand: ast.Type) -> int:
            if isinstance(operand, ast.PointerType):
                return U64.size
            if isinstance(operand, ast.TypeName) and not operand.keyword and operand.name in NUMBERS:
                return NUMBERS[operand.name].size
            raise source.error("here sizeof() knows integers and pointers: write the number", operand)

        return size

    @property
    def names(self) -> Iterable[str]:
        """The names of all constants."""
        return self._constants

    def constant(self, p: ProgramBuilder, name: str) -> Integer | None:
        """A constant; None if no enum of the script has it."""
        if name not in self._constants:
            return None
        value, names = self._constants[name]
        return named(constant(p, value), names)

    def type(self, name: str) -> KernelType | None:
        """An enum's type, as large as C makes it; None if the script does not define it."""
        return self._types.get(name)

    def of_node(self, node: ast.Enum) -> KernelType:
        """The type of an enum that is defined here."""
        return self._by_place[node.start]

    def of(self, name: str) -> tuple[tuple[int, str], ...] | None:
        """An enum's constants; None if the script does not define it."""
        return self._names.get(name)


def named(value: Integer, names: tuple[tuple[int, str], ...]) -> Integer:
    """A number that is printed by a name."""
    value.type = replace(value.type, names=names)
    return value


def kernel_name(type_: KernelType) -> str:
    """The name of one of the kernel's enums; `#` and its number in vmlinux's BTF where only a typedef names it.

    `socket_state` is such a typedef. The numbers that are printed find their names by it.
    """
    return type_.name or ("" if type_.module else f"#{type_.id}")


def of_kernel(value: Integer, enum: str) -> Integer:
    """A number of one of the kernel's enums, which is printed by a name."""
    value.type = replace(value.type, enum=enum)
    return value
