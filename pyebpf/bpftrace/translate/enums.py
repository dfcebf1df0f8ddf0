"""Enums that a script defines: their constants, each with the type that shows its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.translate.values import Integer, constant
from pyebpf.bpftrace.value_types import Enumeration
from pyebpf.errors import CompileError

if TYPE_CHECKING:
    from pyebpf.bpftrace.translate.body import Scope

#: What a constant may be: 32 bits with or without a sign.
_LEAST, _GREATEST = -(1 << 31), (1 << 32) - 1


class Enums:
    """A script's enums, read where a constant is first asked for: a value may name constants before it."""

    def __init__(self, program: ast.Program) -> None:
        self._nodes = [each for each in program.definitions if isinstance(each, ast.Enum)]
        self._waiting = bool(self._nodes)
        self._values: dict[str, int] = {}
        self._types: dict[str, Enumeration] = {}
        self._by_name: dict[str, Enumeration] = {}

    def constant(self, s: Scope, name: str) -> Integer | None:
        """A constant; None if there is none of that name."""
        self._read(s)
        value = self._values.get(name)
        if value is None:
            return None
        found = constant(s.p, value)
        found.type = self._types.get(name, found.type)
        return found

    def type(self, s: Scope, name: str) -> Enumeration | None:
        """The type `enum name`; None if the script has none."""
        self._read(s)
        return self._by_name.get(name)

    def _read(self, s: Scope) -> None:
        if not self._waiting:
            return
        self._waiting = False  # the values are read by this, too
        self._values.clear()
        try:
            self._read_all(s)
        except CompileError:
            self._waiting = True
            raise

    def _read_all(self, s: Scope) -> None:
        from pyebpf.bpftrace.translate.expressions import known_number

        for node in self._nodes:
            following, constants = 0, []
            for each in node.enumerators:
                if each.value is not None:
                    following = known_number(s, each.value)
                if not _LEAST <= following <= _GREATEST:
                    raise s.error(f"{each.name} is {following}: a constant of an enum has 32 bits", each)
                if each.name in self._values:
                    raise s.error(f"there is a constant {each.name} already", each)
                self._values[each.name] = following
                constants.append((following, each.name))
                following += 1
            made = Enumeration(signed=True, constants=tuple(constants))
            self._types |= dict.fromkeys([name for _, name in constants], made)
            if node.name:
                self._by_name[node.name] = made
