"""The part of a recording that is shown: times, and conditions about fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.cli.report import UsageError, note
from pyebpf.errors import InvalidValue, closest_or_all
from pyebpf.output.columns import TIME
from pyebpf.output.escape import visible
from pyebpf.output.stacks import first_slot
from pyebpf.recording.filters import Condition, holds_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.output.histogram import Histogram
    from pyebpf.output.stacks import Stack
    from pyebpf.recording.reader import Header
    from pyebpf.recording.tables import Table

_STACK_NUMBERS = ("pid", "count")
_STACK_FIELDS = ("comm", *_STACK_NUMBERS)
#: Values of a field that a note names at most, and characters of each.
_MOST_NAMED, _LONGEST_NAMED = 8, 40


class Filter:
    """Times since 1970 that are shown, and conditions; what these found is kept, for a note at the end."""

    def __init__(self, first: float, last: float, conditions: tuple[Condition, ...]) -> None:
        self.first, self.last, self.conditions = first, last, conditions
        #: Values of fields that were compared with another text, by the condition; None if one of them was equal.
        self._others: dict[Condition, set[str] | None] = {each: set() for each in conditions if each.comparison == "=="}
        self._labels: set[str] = set()

    @property
    def is_all(self) -> bool:
        """Whether everything is shown."""
        return not self.conditions and self.has_all_times

    @property
    def has_all_times(self) -> bool:
        """Whether nothing is left out for its time."""
        return (self.first, self.last) == (float("-inf"), float("inf"))

    def has_time(self, time: int) -> bool:
        """Whether a time is shown."""
        return self.first <= time <= self.last

    def wants(self, table: Table | None, values: tuple[Any, ...]) -> bool:
        """Whether a record is shown, for its values."""
        if not self.conditions or table is None:
            return True
        fields = table.fields
        return self._holds({each.name: values[fields[each.name]] for each in self.conditions if each.name in fields})

    def wanted_items(self, table: Table | None, items: list[Any]) -> list[Any]:
        """The rows or histograms of an interval that are shown."""
        if not self.conditions:
            return items
        if table is not None:
            return [item for item in items if self.wants(table, item)]
        self._labels.update(*(item.labels for item in items))
        return [item for item in items if self._holds(_labels_of(item))]

    def wanted_stacks(self, items: list[Stack], start: int) -> list[Stack]:
        """The stacks that are shown, with what was counted in that time. Raises InvalidValue if nobody knows when."""
        wanted = [each for each in items if self._holds({name: getattr(each, name) for name in _STACK_FIELDS})]
        if self.has_all_times:
            return wanted
        if items and not any(each.times for each in items):
            raise InvalidValue(
                "--from and --to: the recording has no times of its stacks, which `pyebpf profile --record` keeps: "
                "leave these options out"
            )
        # Times count from the beginning of a slot, as in the heat map of them.
        early = start - first_slot(start)
        within = (each.within(self.first - early, self.last - early) for each in wanted)
        return [each for each in within if each is not None]

    def check_labels(self, header: Header) -> None:
        """Raise UsageError for a condition about a label that no histogram had."""
        if not self._labels:
            return
        events = () if header.events is None else header.events.fields
        names = {_field(label) for label in self._labels} | {"unit", *events}
        for each in self.conditions:
            if each.name not in names:
                raise UsageError(
                    "pyebpf show", f"--where: no histogram has {each.name!r}{closest_or_all(each.name, names)}"
                )

    def tell_others(self) -> None:
        """Note the values of a field that was to have another one and never had it."""
        for condition, others in self._others.items():
            if others:
                more = ", …" if len(others) == _MOST_NAMED else ""
                named = ", ".join(visible(each) for each in sorted(others))
                wanted = visible(f"{condition.name} == {condition.value}")
                note(f"--where: no record has {wanted}: {condition.name} is {named}{more}")

    def _holds(self, values: Mapping[str, object]) -> bool:
        for condition, others in self._others.items():
            if others is None or condition.name not in values:
                continue
            value = values[condition.name]
            if condition.holds(value):
                self._others[condition] = None
            elif isinstance(value, str) and len(others) < _MOST_NAMED:
                others.add(value[:_LONGEST_NAMED])
        return holds_for(self.conditions, values)


def check_names(header: Header, conditions: tuple[Condition, ...], *, of_stacks: bool) -> None:
    """Raise UsageError for a condition about a field that no record has; `check_labels` does of histograms."""
    tables = [table for table in (header.events, header.summary) if table is not None]
    names = {*_STACK_FIELDS} if of_stacks else {name for table in tables for name in table.fields}
    if header.kind == "summary" and header.summary is None and not of_stacks:
        return
    for each in conditions:
        if each.name == TIME and TIME not in names:
            raise UsageError("pyebpf show", "--where is about what records hold: for their time write --from and --to")
        if each.name not in names:
            known = closest_or_all(each.name, sorted(names))
            raise UsageError("pyebpf show", f"--where: {header.tool} has no field {each.name!r}{known}")
        numbers = each.name in _STACK_NUMBERS if of_stacks else _are_numbers(tables, each.name)
        if numbers and not each.fits_numbers():
            raise UsageError(
                "pyebpf show",
                f"--where: {each.name} is a number, and {each.value!r} is none: write such as '{each.name} "
                f"{each.comparison} 7'",
            )


def _are_numbers(tables: list[Table], name: str) -> bool:
    """Whether each value of a field is a number or null."""
    kinds = [table.types.get(name) for table in tables if name in table.fields]
    return all(
        kind is not None and {*(kind if isinstance(kind, list) else [kind])} <= {"integer", "number", "null"}
        for kind in kinds
    )


def _field(label: str) -> str:
    return label.replace(" ", "_")


def _labels_of(histogram: Histogram) -> dict[str, object]:
    return {"unit": histogram.unit, **{_field(name): value for name, value in histogram.labels.items()}}
