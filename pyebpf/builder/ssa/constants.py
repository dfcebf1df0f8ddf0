"""Constants of a function: one value each, found from anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.ir import Instruction, ValueType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.compiler.ir import Op, Value
    from pyebpf.errors import Location


class Constants:
    """The constants that a function uses; `definitions` has them by their numbers, for its first block."""

    def __init__(self, new_value: Callable[[ValueType], Value]) -> None:
        self.definitions: dict[int, Instruction] = {}
        self._values: dict[tuple[Op, int, str], Value] = {}
        self._new_value = new_value

    def value(self, op: Op, type_: ValueType, imm: int, symbol: str, where: Location | None) -> Value:
        """Return the value of a constant, a new one where it is first asked for."""
        key = op, imm, symbol
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = self._new_value(type_)
            self.definitions[value.number] = Instruction(op, value, imm=imm, symbol=symbol, where=where)
        return value

    def none_of(self, *values: Value) -> set[int]:
        """The numbers of the values, if all are scalars and none a constant; else nothing."""
        for value in values:
            if value.type is not ValueType.SCALAR or value.number in self.definitions:
                return set()
        return {value.number for value in values}
