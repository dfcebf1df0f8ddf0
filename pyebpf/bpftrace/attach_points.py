"""Attach points: from their text to their parts. Nothing is looked up: neither wildcards nor files nor functions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.cursor import shown
from pyebpf.bpftrace.lexer import skip_layout
from pyebpf.bpftrace.literals import LiteralError, integer, time_unit
from pyebpf.errors import closest, closest_or_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.bpftrace.source import Source

_SHORT = {
    "k": "kprobe",
    "kr": "kretprobe",
    "u": "uprobe",
    "ur": "uretprobe",
    "U": "usdt",
    "t": "tracepoint",
    "p": "profile",
    "i": "interval",
    "s": "software",
    "h": "hardware",
    "w": "watchpoint",
    "f": "fentry",
    "kfunc": "fentry",
    "fr": "fexit",
    "kretfunc": "fexit",
    "it": "iter",
    "rt": "rawtracepoint",
}
#: Names of kinds that libbpf and `pyebpf list` have, and scripts have others for.
OTHER_NAMES = {
    "tp": "tracepoint",
    **dict.fromkeys(("raw_tracepoint", "raw_tp", "tp_btf", "btf_tracepoint"), "rawtracepoint"),
}
#: Units of rates, with the greatest number of each: at most 2**63 - 1 nanoseconds, at least one.
_NANOSECONDS = (1 << 63) - 1
UNITS = {"hz": 10**9, "s": _NANOSECONDS // 10**9, "ms": _NANOSECONDS // 10**6, "us": _NANOSECONDS // 1000}
#: The greatest number of events after which a probe runs.
_MOST_EVENTS = (1 << 63) - 1
_WITH_PATHS = frozenset(("uprobe", "uretprobe", "usdt", "iter"))
_find_text = re.compile(r'(?:[^\s{,"]|"(?:[^"\\\n]|\\.)*")+', re.ASCII).match
_find_piece = re.compile(r'"((?:[^"\\\n]|\\.)*)"|\$(\d+)|([:@])|([^":@$]+|.)', re.ASCII | re.DOTALL).finditer


def attach_points(source: Source, position: int, parameters: Sequence[str]) -> tuple[list[ast.AttachPoint], int]:
    """The attach points before a block, and where its predicate or brace is."""
    text = source.text
    found: list[ast.AttachPoint] = []
    while True:
        match = _find_text(text, position)
        if text.startswith("}", position):
            raise source.error_at("this `}` has no `{`: leave it out", position, position + 1)
        if match is None:
            raise source.error_at(
                f"an attach point such as `kprobe:vfs_read` is expected, not {shown(text[position : position + 1])}",
                position,
                position + 1,
            )
        end = position + _length(match[0])
        found.append(attach_point(source, position, end, parameters))
        position = skip_layout(source, end)
        following = text[position : position + 1]
        if following == ",":
            position = skip_layout(source, position + 1)
            following = text[position : position + 1]
            if following not in ("/", "{"):  # it may be the last comma
                continue
        if following not in ("/", "{"):
            raise source.error_at(
                f"`,`, a predicate or `{{` is expected after an attach point, not {shown(following)}",
                position,
                position + 1,
            )
        return found, position


def _length(text: str) -> int:
    """The length of an attach point, which a predicate may follow without a space: only some kinds name files."""
    slash = text.find("/")
    if slash < 0:
        return len(text)
    provider, colon, _ = text[:slash].rpartition("=")[2].partition(":")
    if colon and ('"' in text[:slash] or "*" in provider or _long_name(provider) in _WITH_PATHS):
        return len(text)
    return slash or len(text)


def _long_name(provider: str) -> str:
    return _SHORT.get(provider) or _SHORT.get(provider.lower(), provider.lower())


def attach_point(source: Source, start: int, end: int, parameters: Sequence[str] = ()) -> ast.AttachPoint:
    """The attach point that these characters of a script are."""
    return _Reader(source, start, end, parameters).read()


class _Reader:
    """One attach point: its parts, and the place that complaints are about."""

    def __init__(self, source: Source, start: int, end: int, parameters: Sequence[str]) -> None:
        self.source = source
        self.start = start
        self.end = end
        self.text = source.text[start:end]
        self.provider = ""
        self.parts = self._split(self.text, parameters)

    def fail(self, message: str) -> NoReturn:
        raise self.source.error_at(message, self.start, self.end)

    def _split(self, text: str, parameters: Sequence[str]) -> list[str]:
        """The parts between colons; `@` separates, too, and is then a part itself."""
        parts, part = [], ""
        for match in _find_piece(text):
            quoted, parameter, separator, other = match.groups()
            if separator is not None:
                parts.append(part)
                part = ""
                if separator == "@":
                    parts.append("@")
            elif quoted is not None:
                part += re.sub(r"\\(.)", r"\1", quoted)
            elif parameter is not None:
                number = int(parameter) if len(parameter) < 10 else 0
                if number == 0:
                    self.fail("there is no such parameter: the first one is $1")
                value = parameters[number - 1] if number <= len(parameters) else "0"
                if match[0] == text:  # it is all of the attach point
                    return self._split(value, ())
                part += value
            elif other == "$":
                self.fail('`$` begins the number of a parameter, as in $1: put a name with a `$` into "quotes"')
            else:
                part += other
        return [*parts, part]

    def read(self) -> ast.AttachPoint:
        """The attach point."""
        first = self.parts[0]
        name, equals, written = first.partition("=")
        if not equals or not written:
            name, written = "", first
        parts = tuple(self.parts[1:])
        fields: dict[str, str | int]
        if "*" in written:
            self.provider, fields = written, {}
        else:
            self.provider = _long_name(written)
            read = _KINDS.get(self.provider)
            if read is None:
                if written in OTHER_NAMES:
                    meant = ":".join((OTHER_NAMES[written], *parts))
                    self.fail(f"there is no kind of probe {shown(written)}: write {meant}")
                likely = closest(self.provider, (*_KINDS, *[each for each in _SHORT if len(each) > 2]))
                self.fail(
                    f"there is no kind of probe {shown(written)}" + (likely or closest_or_all(self.provider, _KINDS))
                )
            fields = read(self, parts)
        return ast.AttachPoint(self.start, self.end, self.text, self.provider, parts, name, **fields)  # type: ignore[arg-type]  # each reader has the types of the fields it names

    def _number(self, text: str, what: str, instead: str = "") -> int:
        """A number that is no time; `instead` is what to write in place of one."""
        unit = time_unit(text)
        if unit:
            self.fail(f"{what} has no unit, and {shown(text)} has: write {instead or text.removesuffix(unit)}")
        return self._time(text, what)

    def _time(self, text: str, what: str) -> int:
        try:
            return integer(text)
        except LiteralError:
            self.fail(f"{what} is a number, not {shown(text)}" if text else f"{what} is missing")

    def _form(self, parts: Sequence[str], *counts: int) -> None:
        """Complain if there are not so many parts."""
        if len(parts) not in counts or "" in parts[-1:]:
            self.fail(f"{self.provider} is written {_FORMS[self.provider]}")

    def _nothing(self, parts: tuple[str, ...]) -> dict[str, str | int]:
        if parts not in ((), ("*",)):
            self.fail(f"`{self.provider}` stands alone, without colons behind it")
        return {}

    def _named(self, parts: tuple[str, ...]) -> dict[str, str | int]:
        self._form(parts, 1)
        return {"function": parts[0]}

    def _trigger(self, parts: tuple[str, ...]) -> dict[str, str | int]:
        self._form(parts, 2)
        return {"target": parts[0], "function": parts[1]}

    def _function_or_address(self, text: str, *, offsets: bool) -> dict[str, str | int]:
        """`f`, `f+0x10` or an address."""
        if text[:1].isdecimal():
            try:
                return {"address": integer(text)}
            except LiteralError:
                return {"function": text}
        function, plus, offset = text.rpartition("+")
        if not plus:
            return {"function": text}
        if not offsets:
            self.fail(f"{self.provider} takes a function without an offset: leave `+{offset}` out")
        return {"function": function, "offset": self._number(offset, "the offset in a function")}

    def _kernel_function(self, parts: tuple[str, ...]) -> dict[str, str | int]:
        self._form(parts, 1, 2)
        found = self._function_or_address(parts[-1], offsets=self.provider == "kprobe")
        return {"target": parts[0], **found} if len(parts) == 2 else found

    def _traced_function(self, parts: tuple[str, ...]) -> dict[str, str | int]:
        if parts[:1] != ("bpf",):
            self._form(parts, 1, 2)
            return {"target": parts[0] if len(parts) == 2 else "", "function": parts[-1]}
        self._form(parts, 2, 3)
        if len(parts) == 2:
            return {"target": "bpf", "function": parts[1]}
        if parts[1] != "*":
            self._number(parts[1], "the id of a program")
        return {"target": "bpf", "namespace": parts[1], "function": parts[2]}

    def _user_function(self, parts: tuple[str, ...]) -> dict[str, str | int]:
        if parts[1:2] == ("@",):
            return self._source_line(parts)
        self._form(parts, 1, 2, 3)
        name, plus, offset = parts[-1].rpartition("+")
        if parts[-2:-1] == ("cpp",) and not (plus and name and offset[:1].isdecimal()):
            found: dict[str, str | int] = {"function": parts[-1]}  # V::operator+
        else:
            found = self._function_or_address(parts[-1], offsets=self.provider == "uprobe")
        if len(parts) > 1:
            found["target"] = parts[0]
        if len(parts) > 2:
            found["namespace"] = parts[1]
        return found

    def _source_line(self, parts: tuple[str, ...]) -> dict[str, str | int]:
        """`file@source.c:line:column`."""
        if self.provider != "uprobe" or len(parts) not in (4, 5) or not parts[2]:
            self.fail(f"{self.provider} is written {_FORMS[self.provider]}")
        found: dict[str, str | int] = {
            "target": parts[0],
            "source_file": parts[2],
            "source_line": self._number(parts[3], "the line"),
        }
        if len(parts) == 5:
            found["source_column"] = self._number(parts[4], "the column")
        return found

    def _usdt(self, parts: tuple[str, ...]) -> dict[str, str | int]:
        self._form(parts, 1, 2, 3)
        found: dict[str, str | int] = {"function": parts[-1]}
        if len(parts) > 1:
            found["target"] = parts[0]
        if len(parts) > 2:
            found["namespace"] = parts[1]
        return found

    def _tracepoint(self, parts: tuple[str, ...]) -> dict[str, str | int]:
        self._form(parts, 2)
        return {"target": parts[0], "function": parts[1]}

    def _raw_tracepoint(self, parts: tuple[str, ...]) -> dict[str, str | int]:
        self._form(parts, 1, 2)
        return {"target": parts[0] if len(parts) == 2 else "", "function": parts[-1]}

    def _timed(self, parts: tuple[str, ...]) -> dict[str, str | int]:
        self._form(parts, 1, 2)
        if len(parts) == 2:
            plain = parts[1].removesuffix(time_unit(parts[1]))
            instead = f"{self.provider}:{parts[0]}:{plain} or {self.provider}:{parts[1]}"
            unit, count = parts[0], self._number(parts[1], f"the rate of {self.provider}", instead)
            if unit not in UNITS:
                self.fail(f"there is no unit {shown(unit)}" + closest_or_all(unit, UNITS))
        else:
            unit, count = "us", self._time(parts[0], f"the time of {self.provider}") // 1000
        if not count:
            least = "1" if len(parts) == 2 else "1us"
            meant = "hz" if self.provider == "profile" else "s"
            missing = f": its unit is missing, write {self.provider}:{meant}:{parts[0]}" if parts[0].isdecimal() else ""
            hint = missing if len(parts) == 1 and parts[0] != "0" else ""
            self.fail(f"the rate of {self.provider} is at least {least}, not {shown(parts[-1])}{hint}")
        if count > UNITS[unit]:
            most = f"{UNITS[unit]}" if len(parts) == 2 else f"{UNITS[unit]}us"
            self.fail(f"the rate of {self.provider} is at most {most}, not {shown(parts[-1])}")
        return {"target": unit, "count": count}

    def _counted(self, parts: tuple[str, ...]) -> dict[str, str | int]:
        if len(parts) == 2 and parts[1] in ("", "*"):
            parts = parts[:1]
        self._form(parts, 1, 2)
        if len(parts) == 1:
            return {"target": parts[0]}
        count = self._number(parts[1], f"the count of {self.provider}")
        if count > _MOST_EVENTS:
            self.fail(f"the count of {self.provider} is at most {_MOST_EVENTS}, not {shown(parts[1])}")
        return {"target": parts[0], "count": count}

    def _watchpoint(self, parts: tuple[str, ...]) -> dict[str, str | int]:
        self._form(parts, 3)
        address, length, mode = parts
        if not mode or set(mode) - set("rwx") or len(set(mode)) < len(mode):
            self.fail(f"the mode of a watchpoint is made of r, w and x, each once, not {shown(mode)}")
        found: dict[str, str | int] = {"address": self._number(address, "the address of a watchpoint"), "mode": mode}
        found["length"] = self._number(length, "the length of a watchpoint")
        if found["length"] not in (1, 2, 4, 8):
            self.fail(f"a watchpoint is 1, 2, 4 or 8 bytes long, not {shown(length)}")
        return found

    def _iterator(self, parts: tuple[str, ...]) -> dict[str, str | int]:
        self._form(parts, 1, 2)
        if "*" in "".join(parts):
            self.fail("iter takes no wildcards: write the name of one iterator")
        return {"function": parts[0], "pin": parts[1]} if len(parts) == 2 else {"function": parts[0]}


_KINDS: dict[str, Callable[[_Reader, tuple[str, ...]], dict[str, str | int]]] = {
    "begin": _Reader._nothing,
    "end": _Reader._nothing,
    "self": _Reader._trigger,
    "test": _Reader._named,
    "bench": _Reader._named,
    "kprobe": _Reader._kernel_function,
    "kretprobe": _Reader._kernel_function,
    "fentry": _Reader._traced_function,
    "fexit": _Reader._traced_function,
    "uprobe": _Reader._user_function,
    "uretprobe": _Reader._user_function,
    "usdt": _Reader._usdt,
    "tracepoint": _Reader._tracepoint,
    "rawtracepoint": _Reader._raw_tracepoint,
    "profile": _Reader._timed,
    "interval": _Reader._timed,
    "software": _Reader._counted,
    "hardware": _Reader._counted,
    "watchpoint": _Reader._watchpoint,
    "iter": _Reader._iterator,
}
_FORMS = {
    "self": "self:signal:SIGUSR1",
    "test": "test:name",
    "bench": "bench:name",
    "kprobe": "kprobe:function, kprobe:module:function or kprobe:function+offset",
    "kretprobe": "kretprobe:function or kretprobe:module:function",
    "fentry": "fentry:function, fentry:module:function or fentry:bpf:id:program",
    "fexit": "fexit:function, fexit:module:function or fexit:bpf:id:program",
    "uprobe": "uprobe:file:function, uprobe:file:function+offset or uprobe:file@source.c:line",
    "uretprobe": "uretprobe:file:function",
    "usdt": "usdt:file:probe or usdt:file:provider:probe",
    "tracepoint": "tracepoint:category:name",
    "rawtracepoint": "rawtracepoint:name or rawtracepoint:module:name",
    "profile": "profile:hz:99 or profile:10ms",
    "interval": "interval:s:1 or interval:1s",
    "software": "software:event:count",
    "hardware": "hardware:event:count",
    "watchpoint": "watchpoint:address:length:mode",
    "iter": "iter:name or iter:name:file",
}
