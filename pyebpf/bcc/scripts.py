"""Scripts of bpftrace's language that do what specifications of argdist and trace ask for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.bcc.expressions import RESULT, TOKEN, Expressions, cast, quoted
from pyebpf.bcc.specs import Distribution, Trace, refused
from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from pyebpf.bcc.specs import Probe

    #: The type of what a function returns, as `Expressions` has it; "" where nothing tells it.
    ResultType: TypeAlias = Callable[[Probe], str]

#: Conversions of printf that the other language has not.
_NO_CONVERSIONS = "aAeEfFgGn"
#: What the entry of a function keeps for its return, in a probe and a line of its own.
_KEPT = frozenset({"$entry", "$latency"})
_CHARACTER_TYPES = frozenset({"char*", "const char*", "char *", "const char *"})
#: printf's letters by trace's: %K and %U are names of functions.
_SYMBOLS = {"K": "ksym", "U": "usym"}
_CONVERSION = re.compile(r"%(?P<flags>[-+ #0]*\d*(?:\.\d+)?)(?P<length>hh|h|ll|l|z|j|t)?(?P<letter>[A-Za-z%])")


def is_pattern(probe: Probe) -> bool:
    """Whether the name stands for several functions, or probes."""
    return any(each in probe.name for each in "*?[")


def _typed(type_: str, value: str) -> str:
    if value == "comm":  # a text, whatever type stands before it: bcc's own examples have u32
        return value
    if " ".join(type_.split()) in _CHARACTER_TYPES:
        return f"str({value})"
    is_whole = type_.split()[:1] in (["struct"], ["union"]) and "*" not in type_
    return f"({cast(type_)}({value}))" if cast(type_) and not is_whole else value


def distribution_script(
    specs: Sequence[tuple[str, Distribution]],
    *,
    pid: int | None = None,
    tid: int | None = None,
    strings: int | None = None,
    result: ResultType = lambda _: "",
) -> str:
    """A script for specifications of argdist, each with "hist" or "count": the maps are `@spec0`, `@spec1`, …."""
    parts = list(_settings(strings))
    for number, (function, spec) in enumerate(specs):
        said = (type_ for type_, each in zip(spec.types, spec.expressions, strict=True) if each in RESULT)
        of_result = _result(spec.probe, [*spec.expressions, spec.filter], result)
        expressions = Expressions(spec.text, spec.probe, number, of_result, next(said, ""))
        conditions = [f"{name} == {value}" for name, value in (("pid", pid), ("tid", tid)) if value is not None]
        values = []
        for each in spec.types:
            expressions.number_type(each)
        for type_, each in zip(spec.types, spec.expressions, strict=True):
            value = expressions.value(each)
            values.append(_typed(type_, "retval" if each in RESULT and spec.probe.kind == "r" else value))
        if spec.filter:
            conditions.append(f"({expressions.condition(spec.filter)})")
        if function == "hist":
            if len(values) != 1:
                raise refused(spec.text, 0, "-H takes one expression: TYPE:EXPRESSION")
            body = f"@spec{number} = hist({values[0]});"
        else:
            key = f"[{', '.join(values)}]" if values else ""
            body = f"@spec{number}{key} = count();"
        parts.append(expressions.wrapped(body, " && ".join(conditions)))
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """Options of trace: whose events, what is printed of each, after how many it ends.

    `name` is part of the thread's name, `but` a process that is left out. With `marks` messages are marked, for
    `Messages`.
    """

    pid: int | None = None
    tid: int | None = None
    uid: int | None = None
    name: str = ""
    but: int | None = None
    time: bool = False
    since: bool = False
    unix: bool = False
    cpu: bool = False
    kernel_stack: bool = False
    user_stack: bool = False
    most: int | None = None
    strings: int | None = None
    marks: bool = False

    def columns(self) -> Iterator[tuple[str, int, str, str]]:
        """The columns before a message: the heading, its width, the layout of the values, and these."""
        if self.time:
            yield "TIME", 8, "%-8s", 'strftime("%H:%M:%S", nsecs)'
        if self.unix:
            yield "TIME(s)", 17, "%-17s", 'strftime("%s.%f", nsecs)'
        elif self.since:
            yield "TIME(s)", 11, "%4d.%06d", "elapsed / 1000000000, elapsed % 1000000000 / 1000"
        if self.cpu:
            yield "CPU", 3, "%-3d", "cpu"
        yield from (("PID", 7, "%-7d", "pid"), ("TID", 7, "%-7d", "tid"), ("COMM", 15, "%-15s", "comm"))

    def conditions(self) -> Iterator[str]:
        """Conditions of an event, besides its own predicate."""
        for name, value in (("pid", self.pid), ("tid", self.tid), ("uid", self.uid)):
            if value is not None:
                yield f"{name} == {value}"
        if self.but is not None:
            yield f"pid != {self.but}"
        if self.name:
            yield f"strcontains(comm, {quoted(self.name)})"


def _result(probe: Probe, expressions: Sequence[str], result: ResultType) -> str:
    """The type of what the function returns, if an expression uses that."""
    uses = probe.kind == "r" and any("retval" in each for each in expressions)
    return result(probe) if uses and not is_pattern(probe) else ""


def trace_script(specs: Sequence[Trace], options: TraceOptions, result: ResultType = lambda _: "") -> str:
    """A script for specifications of trace: a line for each event."""
    parts = list(_settings(options.strings))
    columns = list(options.columns())
    # Words that are always the same are part of the layout: as strings they might be longer than -z allows.
    heading = " ".join(f"{name:<{width}}" for name, width, _, _ in columns)
    parts.append(f'BEGIN {{ printf("{heading} {"FUNC":<16} -\\n"); }}\n')
    row = " ".join(layout for _, _, layout, _ in columns)
    mark = "\\x1f" if options.marks else ""
    before = [values for _, _, _, values in columns]
    for number, spec in enumerate(specs):
        of_result = _result(spec.probe, [spec.predicate, *spec.expressions], result)
        expressions = Expressions(spec.text, spec.probe, number, of_result)
        conditions = list(options.conditions())
        if spec.predicate:
            conditions.append(expressions.condition(spec.predicate))
        expressions.part(f'"{spec.format}"')
        layout, given = _format(spec, expressions)
        if is_pattern(spec.probe):
            place, named = "%-16s", ["func" if spec.probe.kind in ("p", "r") else "probe"]
        else:
            place, named = quoted(f"{spec.probe.name:<16}")[1:-1].replace("%", "%%"), []
        body = f'printf("{row} {place} {mark}{layout}\\n", {", ".join([*before, *named, *given])});'
        if options.kernel_stack:
            body += ' printf("%s\\n", kstack);'
        if options.user_stack:
            body += ' printf("%s\\n", ustack);'
        if options.most is not None:
            body += f" @events++; if (@events == {options.most}) {{ exit(); }}"
        parts.append(expressions.wrapped(body, " && ".join(conditions)))
    return "".join(parts)


def _format(spec: Trace, expressions: Expressions) -> tuple[str, list[str]]:
    """The layout of a line's end and its values: `%s` reads a text, `%K` and `%U` are names of functions."""
    values = list(spec.expressions)
    given: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        letter = found["letter"]
        if letter == "%":
            return "%%"
        if letter in _NO_CONVERSIONS:
            raise refused(spec.text, max(spec.text.find(found[0]), 0), f"{found[0]} is none here: %d, %x, %s are")
        if len(given) >= len(values):
            raise refused(spec.text, max(spec.text.find('"'), 0), f"no value is left for {found[0]}")
        value = expressions.value(values[len(given)])
        if letter == "s":
            given.append(f"str({value})" if value != "comm" else value)
            return f"%{found['flags']}s"
        if letter in _SYMBOLS:
            given.append(f"{_SYMBOLS[letter]}({value})")
            return f"%{found['flags']}s"
        given.append(value)
        return found[0]

    layout = _CONVERSION.sub(replaced, spec.format)
    if len(given) < len(values):
        raise refused(spec.text, max(spec.text.rfind(values[-1]), 0), "nothing prints this value: give its %d, %s, …")
    return layout, given


def spec_of_line(specs: Sequence[Distribution | Trace], number: int) -> Distribution | Trace | None:
    """The specification that a line of the script was made of, counted from 1; None if it was made of none."""
    begin = 2  # behind the settings, and trace's heading
    for spec in specs:
        condition = spec.filter if isinstance(spec, Distribution) else spec.predicate
        begin += isinstance(spec, Trace) and spec is specs[0]
        words = TOKEN.findall(" ".join([condition, *spec.expressions]))
        end = begin + 1 + (spec.probe.kind == "r" and not _KEPT.isdisjoint(words))
        if begin <= number < end:
            return spec
        begin = end
    return None


def _settings(strings: int | None) -> Iterator[str]:
    settings = ["print_maps_on_exit = false"]
    if strings is not None:
        settings.append(f"max_strlen = {strings}")
    yield f"config = {{ {'; '.join(settings)} }}\n"
