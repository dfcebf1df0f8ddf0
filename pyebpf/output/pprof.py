"""Stacks as a profile of pprof's: the protocol buffer perftools.profiles.Profile, compressed by gzip.

Field numbers are those of profile.proto. A function is one location, wherever in it a stack was, and each of its lines
that is known another: stacks whose functions and lines are the same are one in all formats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.output.escape import json_text
from pyebpf.output.stacks import entries, merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyebpf.output.stack_files import Recording
    from pyebpf.output.stacks import Entry, Stack

# Profile
_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING_TABLE = 1, 2, 3, 4, 5, 6
_TIME_NANOS, _DURATION_NANOS, _PERIOD_TYPE, _PERIOD, _COMMENT = 9, 10, 11, 12, 13
_VALUE_TYPE_TYPE, _VALUE_TYPE_UNIT = 1, 2
_SAMPLE_LOCATION, _SAMPLE_VALUE, _SAMPLE_LABEL = 1, 2, 3
_LABEL_KEY, _LABEL_STR, _LABEL_NUM = 1, 2, 3
_MAPPING_ID, _MAPPING_FILENAME, _MAPPING_HAS_FUNCTIONS = 1, 5, 7
_LOCATION_ID, _LOCATION_MAPPING, _LOCATION_LINE, _LINE_FUNCTION, _LINE_LINE = 1, 2, 4, 1, 2
_FUNCTION_ID, _FUNCTION_NAME, _FUNCTION_SYSTEM_NAME, _FUNCTION_FILENAME = 1, 2, 3, 4

_VARINT, _LENGTH = 0, 2  # wire types
#: The kernel's image among the files, as perf calls it.
_KERNEL = "[kernel.kallsyms]"


def pprof(stacks: Sequence[Stack], recording: Recording) -> bytes:
    """The compressed file. Samples have the labels `comm` and, where processes are told apart, `pid`.

    Values are counts, or the time or the bytes that the tool adds up. Where stacks were sampled, a second value is the
    processor's time, by the sampling period: viewers show the last value, unless told otherwise.
    """
    import gzip

    profile = _Profile()
    profile.types(recording)
    period = recording.period
    for stack in sorted(merged(stacks), key=lambda stack: -stack.count):
        profile.sample(stack, [stack.count] if period is None else [stack.count, stack.count * period])
    profile.facts(recording)
    # Without the time of writing: equal profiles are equal files.
    return gzip.compress(profile.message(), mtime=0)


class _Profile:
    """A profile that grows: what samples refer to is numbered as it is first seen."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.strings = {"": 0}  # the table's first is the empty one
        self.mappings: dict[str, int] = {}
        self.functions: dict[tuple[str, str], int] = {}
        self.locations: dict[tuple[str, str], int] = {}

    def string(self, text: str) -> int:
        return self.strings.setdefault(json_text(text), len(self.strings))

    def value_type(self, what: str, unit: str) -> bytes:
        return _number(_VALUE_TYPE_TYPE, self.string(what)) + _number(_VALUE_TYPE_UNIT, self.string(unit))

    def types(self, recording: Recording) -> None:
        self.out += _bytes(_SAMPLE_TYPE, self.value_type(*recording.quantity))
        if recording.period is not None:
            cpu = self.value_type("cpu", "nanoseconds")
            self.out += _bytes(_SAMPLE_TYPE, cpu) + _bytes(_PERIOD_TYPE, cpu) + _number(_PERIOD, recording.period)

    def sample(self, stack: Stack, values: Sequence[int]) -> None:
        # From the outside in, so that the first file of all is the program's, which viewers put on top.
        locations = [self.location(entry) for entry in entries(stack)]
        label = _number(_LABEL_KEY, self.string("comm")) + _number(_LABEL_STR, self.string(stack.comm))
        out = _packed(_SAMPLE_LOCATION, reversed(locations)) + _packed(_SAMPLE_VALUE, values)
        out += _bytes(_SAMPLE_LABEL, label)
        if stack.pid is not None:
            number = _number(_LABEL_KEY, self.string("pid")) + _number(_LABEL_NUM, stack.pid)
            out += _bytes(_SAMPLE_LABEL, number)
        self.out += _bytes(_SAMPLE, out)

    def location(self, entry: Entry) -> int:
        key = entry.name, entry.module
        known = self.locations.get(key)
        if known is not None:
            return known
        number = self.locations[key] = len(self.locations) + 1
        function = entry.function
        line = _number(_LINE_FUNCTION, self.function(function.name, function.file))
        if function.line:
            line += _number(_LINE_LINE, function.line)
        out = _number(_LOCATION_ID, number) + _bytes(_LOCATION_LINE, line)
        if entry.module:
            out += _number(_LOCATION_MAPPING, self.mapping(_KERNEL if entry.module == "kernel" else entry.module))
        self.out += _bytes(_LOCATION, out)
        return number

    def function(self, name: str, file: str) -> int:
        known = self.functions.get((name, file))
        if known is not None:
            return known
        number = self.functions[name, file] = len(self.functions) + 1
        text = self.string(name)
        out = _number(_FUNCTION_ID, number) + _number(_FUNCTION_NAME, text) + _number(_FUNCTION_SYSTEM_NAME, text)
        if file:
            out += _number(_FUNCTION_FILENAME, self.string(file))
        self.out += _bytes(_FUNCTION, out)
        return number

    def mapping(self, file: str) -> int:
        known = self.mappings.get(file)
        if known is not None:
            return known
        number = self.mappings[file] = len(self.mappings) + 1
        out = _number(_MAPPING_ID, number) + _number(_MAPPING_FILENAME, self.string(file))
        # It has names already: nobody need look for the file.
        self.out += _bytes(_MAPPING, out + _number(_MAPPING_HAS_FUNCTIONS, 1))
        return number

    def facts(self, recording: Recording) -> None:
        self.out += _number(_TIME_NANOS, recording.start) + _number(_DURATION_NANOS, recording.duration)
        self.out += _number(_COMMENT, self.string(recording.title))

    def message(self) -> bytes:
        return bytes(self.out) + b"".join(_bytes(_STRING_TABLE, text.encode()) for text in self.strings)


def _varint(number: int) -> bytes:
    out = bytearray()
    number &= (1 << 64) - 1
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | _LENGTH) + _varint(len(data)) + data


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _bytes(field, b"".join(map(_varint, values)))
