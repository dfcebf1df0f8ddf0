"""Filters of recorded records: the time, and fields by their names, compared with what somebody typed."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any

from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue
from pyebpf.output.columns import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONDITION = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(==|!=|<=|>=|<|>|~)\s*(.*?)\s*", re.DOTALL)
_NUMBER = re.compile(r"-?(0[xX][0-9a-fA-F]{1,32}|[0-9]{1,40}|[0-9]{0,20}\.[0-9]{1,20})")


@dataclass(frozen=True, slots=True)
class Condition:
    """A field's name, a comparison, and a value as text: `pid == 7`, `path ~ /etc`, `error != null`.

    `~` is for text within text. A number is compared with numbers as one, and with all else as text; `null` is the
    value of a field that has none. A list has what one of its items has.
    """

    name: str
    comparison: str
    value: str

    @classmethod
    def of(cls, text: str) -> Condition:
        """The condition that a text is. Raises InvalidValue."""
        found = _CONDITION.fullmatch(text)
        if found is None:
            raise InvalidValue(
                f"{text!r} is no condition: give NAME, then ==, !=, <, <=, >, >= or ~, then a value, such as 'pid == 7'"
            )
        name, comparison, value = found.groups()
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        return cls(name, comparison, value)

    def fits_numbers(self) -> bool:
        """Whether a number can be compared like this."""
        if self.comparison == "~" or _number(self.value) is not None:
            return True
        return self.value == "null" and self.comparison in {"==", "!="}

    def holds(self, found: object) -> bool:
        """Whether a field's value is such a one."""
        if isinstance(found, tuple | list):
            holds = any(self._is(item) for item in found)
            return not holds if self.comparison == "!=" else holds
        return self._is(found) != (self.comparison == "!=")

    def _is(self, found: object) -> bool:
        """Whether it is, or for != whether it is equal."""
        if found is None:
            return self.comparison in {"==", "!="} and self.value == "null"
        order = _ORDER.get(self.comparison)
        if isinstance(found, int | float) and not isinstance(found, bool):
            number = _number(self.value)
            if number is not None and self.comparison != "~":
                return (operator.eq if order is None else order)(found, number)
        shown = plain(found)
        text = ("true" if shown else "false") if isinstance(shown, bool) else str(shown)
        if self.comparison == "~":
            return self.value in text
        return (operator.eq if order is None else order)(text, self.value)


def _number(text: str) -> int | float | None:
    """A number as it is typed, decimal or hexadecimal."""
    if not _NUMBER.fullmatch(text):
        return None
    return float(text) if "." in text else int(text, 16 if "x" in text.lower() else 10)


def holds_for(conditions: tuple[Condition, ...], values: Mapping[str, object]) -> bool:
    """Whether all conditions hold; one about a field that is not there does not."""
    return all(each.name in values and each.holds(values[each.name]) for each in conditions)
