"""Specifications as bcc's argdist and trace take them: text in, parts out, with their places for messages.

argdist: `{p,r,t,u}:{FILE,CATEGORY}:NAME(SIGNATURE)[:TYPE[,TYPE]:EXPRESSION[,EXPRESSION][:FILTER]][#LABEL]`
trace: `PROBE(SIGNATURE) (PREDICATE) "FORMAT", EXPRESSION[, EXPRESSION]`
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue, amount

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What the letter before the first colon stands for.
KINDS = {
    "p": "the entry of a function",
    "r": "the return of a function",
    "t": "a tracepoint",
    "u": "a USDT probe",
}
_USDT = "u:FILE:NAME() or u:FILE:PROVIDER:NAME()"
_FORMAT = 'a format of trace stands in double quotes, its values behind it: "%d", arg1'
_OPENING, _CLOSING = "([{", ")]}"
_FUNCTION_POINTER = re.compile(r".*\(\s*\*\s*(?P<name>\w+)\s*\)\s*\(.*\)", re.DOTALL)
_PARAMETER = re.compile(r"(?P<type>.*[\s*])(?P<name>\w+)\s*(?:\[\d*\])?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a signature: its C type and its name."""

    type: str
    name: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Where a specification is attached. `where` is a file, or a category; "" for functions of the kernel.

    The name of a USDT probe may have its provider before it. `parameters` is None without a signature.
    """

    kind: str
    where: str
    name: str
    parameters: tuple[Parameter, ...] | None = None


@dataclass(frozen=True, slots=True)
class Distribution:
    """A specification of argdist: types with as many expressions, a filter, and the heading of its output.

    Without an expression a return is what the function returns, an `int`; all else is counted as events.
    """

    text: str
    probe: Probe
    types: tuple[str, ...]
    expressions: tuple[str, ...]
    filter: str
    label: str


@dataclass(frozen=True, slots=True)
class Trace:
    """A specification of trace: a predicate, and what is printed."""

    text: str
    probe: Probe
    predicate: str
    format: str
    expressions: tuple[str, ...]


def refused(text: str, position: int, message: str) -> InvalidValue:
    """An error about a specification, with a caret at the place."""
    return InvalidValue(f"{message}\n    {text}\n    {' ' * position}^")


def place_of(text: str, probe: Probe, word: str, start: int = 0) -> int:
    """The place of a word from a start on behind the signature, or before; -1 if there is none."""
    before, behind = r"(?<![\w$])" if re.match(r"\w", word) else "", r"(?!\w)" if re.search(r"\w$", word) else ""
    places = [each.start() for each in re.finditer(before + re.escape(word) + behind, text)]
    start = max(start, behind_probe(text, probe))
    return next((each for each in places if each >= start), (places or [-1])[0])


def behind_probe(text: str, probe: Probe) -> int:
    """The place behind the name and the signature."""
    name = probe.name.rpartition(":")[2]
    opening = text.find(f"{name}(")
    if opening < 0:
        return text.find(name) + len(name)
    opening += len(name)
    return next((place for place, _ in marks(text, opening) if place > opening), len(text))


def _in_a_line(text: str) -> str:
    """The text with blanks for what parts lines, and takes more than a column: places in it are the same."""
    return re.sub(r"\s", " ", text)


def marks(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """The characters outside of brackets and quotes with their places. Raises InvalidValue for what is left open."""
    opened: list[int] = []
    position = start
    while position < len(text):
        character = text[position]
        if character in "\"'":
            end = _end_of_quote(text, position)
            if not opened:
                yield position, character
            position = end
            continue
        if not opened:
            yield position, character
        if character in _OPENING:
            opened.append(position)
        elif character in _CLOSING:
            if not opened or _OPENING.index(text[opened[-1]]) != _CLOSING.index(character):
                raise refused(text, position, f"this {character} closes nothing")
            opened.pop()
        position += 1
    if opened:
        raise refused(text, opened[-1], f"this {text[opened[-1]]} is not closed")


def _end_of_quote(text: str, start: int) -> int:
    position = start + 1
    while position < len(text) and text[position] != text[start]:
        position += 2 if text[position] == "\\" else 1
    if position >= len(text):
        raise refused(text, start, "this quotation is not closed")
    return position + 1


def split(text: str, separator: str, start: int = 0) -> list[tuple[int, str]]:
    """The parts between separators outside of brackets and quotes, with their places.

    The colon of `a ? b : c` is no separator.
    """
    parts, begin, questions = [], start, 0
    for position, character in marks(text, start):
        if character == "?":
            questions += 1
        elif character == ":" and questions:
            questions -= 1
        elif character == separator:
            parts.append((begin, text[begin:position]))
            begin = position + 1
    return [*parts, (begin, text[begin:])]


def _named(text: str, position: int, kind: str, where: str, function: str, hint: str = "") -> Probe:
    """A probe with its signature, where it has one; the hint is told with a name that is none."""
    name, bracket, signature = function.partition("(")
    name = name.strip()
    if not name:
        raise refused(text, position, f"name {KINDS[kind]}")
    blank = re.search(r"\s", name)
    if blank is not None:
        at = max(text.find(name, position), 0) + blank.end()
        raise refused(text, at, f"{name!r} is no name of {KINDS[kind]}{hint}")
    if kind == "u" and name.count(":") > 1:
        raise refused(text, position, f"a USDT probe is written {_USDT}")
    if kind in "tu" and not where:
        raise refused(text, position, "name the tracepoint's category" if kind == "t" else "name the file of the probe")
    if not bracket:
        return Probe(kind, where, name)
    given = [part.strip() for _, part in split(signature.rstrip().removesuffix(")"), ",")]
    if len(given) > 1 and given[-1] == "...":
        given.pop()
    parameters = []
    for each in given if given not in ([""], ["void"]) else []:
        if (function_pointer := _FUNCTION_POINTER.fullmatch(each)) is not None:
            parameters.append(Parameter("void *", function_pointer["name"]))
            continue
        found = _PARAMETER.fullmatch(each)
        if found is None:
            at = text.find(each, position + len(name)) if each else position
            raise refused(text, at, f"a parameter is a type and a name, and {each!r} is not")
        parameters.append(Parameter(found["type"].strip(), found["name"]))
    # `f()` says nothing of the parameters: bcc's users write it so.
    return Probe(kind, where, name, tuple(parameters) or None)


def parse_distribution(text: str) -> Distribution:
    """Parse a specification of argdist. Raises InvalidValue, with the place."""
    text = _in_a_line(text)
    body, label = text, ""
    for position, character in marks(text):
        if character == "#":
            body, label = text[:position], text[position + 1 :].strip()
            break
    parts = split(body, ":")
    kind = parts[0][1].strip()
    if kind not in KINDS or len(parts) < 3:
        raise refused(text, 0, f"write p:FILE:FUNCTION(), r:… for its return, t:CATEGORY:NAME(), {_USDT}")
    name = parts[2][1]
    if kind == "u" and len(parts) > 3 and "(" not in name and (len(parts) == 4 or "(" in parts[3][1]):
        name = f"{name.strip()}:{parts.pop(3)[1]}"  # with the provider
    probe = _named(text, parts[2][0], kind, parts[1][1].strip(), name)
    if len(parts) == 4:
        raise refused(text, parts[3][0], "write TYPE:EXPRESSION, such as int:$retval")
    types = tuple(part.strip() for _, part in split(parts[3][1], ",")) if len(parts) > 3 else ()
    expressions = tuple(part.strip() for _, part in split(parts[4][1], ",")) if len(parts) > 3 else ()
    if len(parts) == 3 and kind == "r":
        types, expressions = ("int",), ("$retval",)
    if len(types) != len(expressions):
        raise refused(text, parts[3][0], f"{amount(len(types), 'type')}, and {amount(len(expressions), 'expression')}")
    if "" in types or "" in expressions:
        raise refused(text, parts[3][0], "a type or an expression is empty")
    if len(parts) > 6:
        raise refused(text, parts[6][0] - 1, "nothing stands behind the filter: a label begins with #")
    filter_ = parts[5][1].strip() if len(parts) > 5 else ""
    if len(parts) > 5 and not filter_:
        raise refused(text, parts[5][0], "this filter is empty")
    return Distribution(text, probe, types, expressions, filter_, label)


def parse_trace(text: str) -> Trace:
    """Parse a specification of trace. Raises InvalidValue, with the place."""
    text = _in_a_line(text)
    end, predicate_at, format_at = len(text), -1, -1
    blank = False
    for position, character in marks(text):
        if character == '"':
            format_at = position
            break
        if character == "(" and blank:
            predicate_at = position if predicate_at < 0 else predicate_at
        blank = character.isspace()
    end = min(each for each in (len(text), predicate_at, format_at) if each >= 0)
    parts = split(text[:end].strip(), ":")
    words = [part.strip() for _, part in parts]
    if len(words) == 1:
        kind, where, name = "p", "", words[0]
    elif len(words) == 2:
        kind, where, name = ("p", *words)
        if where in ("t", "tracepoint"):
            raise refused(text, parts[1][0], f"a tracepoint has a category before its name: write t:CATEGORY:{name}")
    else:
        kind, where, name = words[0] or "p", words[1], ":".join(words[2:])
    if kind not in KINDS:
        if any(re.search(r"\s", word.partition("(")[0]) for word in words):
            raise refused(text, 0, f"this is no probe; {_FORMAT}")
        raise refused(text, 0, f"{kind!r} is no kind of probe: it is p, r, t or u")
    probe = _named(text, parts[-1][0], kind, where, name, f"; {_FORMAT}")
    stop = format_at if format_at >= 0 else len(text)
    predicate = text[predicate_at:stop].strip() if predicate_at >= 0 else ""
    if re.fullmatch(r"\(\s*\)", predicate):
        raise refused(text, predicate_at, "this predicate is empty: leave it out, or write (arg1 > 0)")
    behind = [place for place, _ in marks(text[:stop], predicate_at)][1:] if predicate else []
    if behind and re.match(r"\s*(?:%[A-Za-z]|['\w,])", text[behind[0] : stop]):
        place = next(each for each in behind if not text[each].isspace())
        raise refused(text, place, f"the predicate has ended before this; {_FORMAT}")
    if format_at < 0:
        return Trace(text, probe, predicate, "", ())
    (_, quoted), *rest = split(text, ",", format_at)
    expressions = tuple(part.strip() for _, part in rest)
    if "" in expressions:
        raise refused(text, rest[expressions.index("")][0], "an expression is missing here")
    quoted = quoted.strip()
    if _end_of_quote(quoted, 0) != len(quoted):
        raise refused(text, format_at, 'behind the text in quotes come values, each after a comma: "%d", arg1')
    return Trace(text, probe, predicate, quoted[1:-1], expressions)
