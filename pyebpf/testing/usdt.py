"""USDT probes of a program or library that a test fires."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pyebpf.attach.usdt import ARGUMENT, COUNT, NO_REGISTER, SPEC_SIZE, SPECS_MAP, Usdt, probe_name
from pyebpf.errors import InvalidValue, NotFound, closest
from pyebpf.maps import over
from pyebpf.testing.events import FunctionEvents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyebpf.testing.kernel_objects import Value
    from pyebpf.vm import Result

_WHOLE = 8


class UsdtEvents(FunctionEvents):
    """USDT probes."""

    def usdt(self, name: str, *arguments: Value, **named: Value) -> list[Result]:
        """The probe "provider:name" is reached: every program there runs.

        Arguments are in order, or by the names that the decorator's `args=` gives them; those not given are 0. Text is
        put into user memory, and a number is what it is, whatever size the place's argument has.
        """
        provider, probe = probe_name(name)
        known = {f"{attach.provider}:{attach.name}" for attach, _ in self._programs if isinstance(attach, Usdt)}
        if not any(fnmatchcase(name, each) for each in known):
            raise NotFound(f"no probe is at {name!r}{closest(name, known)}")
        results = []
        for attach, program in self._programs:
            if isinstance(attach, Usdt) and fnmatchcase(provider, attach.provider) and fnmatchcase(probe, attach.name):
                if attach.wanted:
                    self._place(self._given(attach, arguments, named))
                self.machine.cookie = 0
                results.append(self.machine.run(program, self._registers([], 0, user=True)))
        return results

    def _given(self, attach: Usdt, arguments: Sequence[Value], named: Mapping[str, Value]) -> list[int]:
        values: list[Value] = [*arguments, *[0] * (attach.wanted - len(arguments))]
        for key, value in named.items():
            if key not in attach.arguments:
                raise InvalidValue(
                    f"{attach.target} has no argument {key}{closest(key, attach.arguments)}: args= of the decorator "
                    "names them"
                )
            values[attach.arguments.index(key)] = value
        return [self._number(value, user=True) for value in values[: attach.wanted]]

    def _place(self, values: Sequence[int]) -> None:
        """Say, in the first slot of the hidden map, that the arguments stand nowhere and are these numbers."""
        signed = [value - (1 << 64) if value >> 63 else value for value in values]
        form = COUNT.pack(len(values) + 1) + b"".join(
            ARGUMENT.pack(value, NO_REGISTER, NO_REGISTER, 0, 0, _WHOLE - 1, 0) for value in signed
        )
        forms = over(self.maps[SPECS_MAP])
        forms[0] = form.ljust(SPEC_SIZE, b"\0") + bytes(forms[0])[SPEC_SIZE:]
