"""Expressions of bcc's specifications as those of bpftrace's language.

They are C's. What bcc adds to C, and what differs between the two languages, is replaced: `$retval`, `$entry(x)`,
`$latency`, names of parameters, `STRCMP`, and arguments' numbers, which bcc counts from 1.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING

from pyebpf.bcc.specs import behind_probe, place_of, refused, split
from pyebpf.dataclass import dataclass
from pyebpf.errors import closest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.bcc.specs import Probe
    from pyebpf.errors import InvalidValue

#: Attach points by kind: of the kernel, of a file.
_PROVIDERS = {"p": ("kprobe", "uprobe"), "r": ("kretprobe", "uretprobe"), "t": ("tracepoint", ""), "u": ("", "usdt")}
#: C's functions between network order and this machine's, with the types of their arguments.
_SWAPPED = {
    f"{before}{name}": f"uint{bits}"
    for before in ("", "bpf_")
    for bits, names in ((16, ("ntohs", "htons")), (32, ("ntohl", "htonl")), (64, ("be64_to_cpu", "cpu_to_be64")))
    for name in names
}
#: What bcc calls current values, by what bpftrace does. trace's `$pid` is the thread's, argdist's `$PID` the process's.
CURRENT = {
    "$uid": "uid",
    "$gid": "gid",
    "$pid": "tid",
    "$tgid": "pid",
    "$cpu": "cpu",
    "$comm": "comm",
    "$PID": "pid",
    "$TGID": "pid",
    "$UID": "uid",
    "$GID": "gid",
    "$COMM": "comm",
    "$ktime": "nsecs",
    "$task": "curtask",
    "NULL": "0",
}
RESULT = ("$retval", "retval")
_FLOATING = frozenset({"float", "double"})
#: What stands before the = of a comparison.
_OF_COMPARISONS = ("=", "!", "<", ">")
TOKEN = re.compile(
    r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\$?[A-Za-z_]\w*|->|\.|\d\w*|@user\b|@kernel\b|//|/\*|\s+|.', re.DOTALL
)
#: Parts of the other language that a specification has not.
_NOT_TAKEN = {"@": "a map", "//": "a comment", "/*": "a comment", ";": "a statement"}
#: Arguments that have numbers: as many as a USDT probe may have.
_ARGUMENTS = 12
#: A part of an attach point that needs no quotes.
_PLAIN = re.compile(r"[\w./*?+\[\]!-]+")
_QUOTED = r'"(?:\\.|[^"\\])*"'
#: What depends on the sign of a result, behind it or before it: its order, a quotient, a shift to the right.
_SIGNED_BEHIND = re.compile(r"\s*(?:(?:<(?!<)=?|>>?=?|/|%)\s*-?|[!=]=\s*-)\s*\w*", re.DOTALL)
_SIGNED_BEFORE = re.compile(r"(?:(?<!<)<=?|(?<![->])>=?|/|%)\s*$", re.DOTALL)
#: How many calls of a probed function may be under way at once; others are forgotten, those that never return too.
_UNDER_WAY = 10240


@dataclass(frozen=True, slots=True)
class Entry:
    """A value that the probe at a function's entry keeps: the map, and the expression."""

    map: str
    expression: str


class Expressions:
    """Expressions of one specification, translated; `entries` are those that its entry keeps.

    `result` is the type of what the function returns, a number's as bpftrace has it, any other as C does, "" where
    nothing tells it; `said` is the type that the specification gives it, of a number, which comes first.
    """

    def __init__(self, text: str, probe: Probe, number: int, result: str = "", said: str = "") -> None:
        self._text = text
        self._probe = probe
        self._number = number
        self._result, self._said = result, said
        self._begin = self._end = behind_probe(text, probe)
        self.entries: list[Entry] = []

    def part(self, text: str) -> str:
        """A part of the specification, behind the last one that was asked for: errors are told at words in it."""
        self._begin = max(self._text.find(text, self._end), self._end)
        self._end = self._begin + len(text)
        return text

    def number_type(self, type_: str) -> None:
        """The type of a value that is next in the specification: refuse one that probes do not read."""
        self.part(type_)
        if _FLOATING.intersection(type_.split()) and "*" not in type_:
            word = type_.rsplit(maxsplit=1)[-1]
            self._begin = self._end - len(type_)
            raise self._refused(word, f"probes read no floating-point numbers, as {type_}: give a type of integers")

    def condition(self, expression: str) -> str:
        """A filter or a predicate, translated."""
        return self.translated(self.part(expression))

    def value(self, expression: str) -> str:
        """A value, translated."""
        return self.translated(self.part(expression))

    def translated(self, expression: str, *, at_entry: bool = False) -> str:
        """An expression of bcc's as one of bpftrace's."""
        words = TOKEN.findall(expression)
        start = max(self._text.find(expression, self._begin), self._begin)
        places = list(accumulate(map(len, words), initial=start))
        found, position = [], 0
        while position < len(words):
            word = words[position]
            self._begin = places[position]
            before = next((each for each in reversed(words[:position]) if not each.isspace()), "")
            if word in ("@user", "@kernel"):
                pass
            elif word in ("$entry", "STRCMP") or word in _SWAPPED:
                end = self._bracket(words, position + 1)
                inner = "".join(words[position + 1 : end]).strip()[1:-1].strip()
                found.append(self._called(word, inner, at_entry=at_entry))
                position = end
                continue
            elif word == "$latency":
                found.append(f"(nsecs - {self._kept(word, 'nsecs', at_entry=at_entry)})")
            elif word in CURRENT:
                found.append(CURRENT[word])
            elif word == "$retval" or (word == "retval" and before not in ("->", ".")):
                found.append(self._returned(word, at_entry=at_entry, is_struct=_next(words, position) == "->"))
                if found[-1] == "retval" and not self._result:
                    self._check_sign("".join(words[:position]), word, "".join(words[position + 1 :]))
            elif word.startswith("$"):
                names = ["$retval", *(each for each in CURRENT if each[0] == "$"), "$latency", "$entry"]
                like = closest(word, names, likeness=0.7)
                raise self._refused(
                    word, f"there is no {word}{like}" if like else f"{word} is none of {', '.join(names)}(x)"
                )
            elif word in _NOT_TAKEN:
                raise self._refused(word, f"{word} begins {_NOT_TAKEN[word]}, which no specification has: leave it out")
            elif word == "=" and _next(words, position) != "=" and before not in _OF_COMPARISONS:
                raise self._refused(word, "= assigns, which no specification does: to compare, write `==`")
            elif word[0] == "'":
                found.append(self._character(word))
            elif re.match(r"[A-Za-z_]", word) and before not in ("->", "."):
                found.append(self._name(word, at_entry=at_entry, is_indexed=_next(words, position) == "["))
            else:
                found.append(word)
            position += 1
        return "".join(found)

    def _refused(self, word: str, message: str) -> InvalidValue:
        """An error with a caret below a word of the specification."""
        found = place_of(self._text[: self._end], self._probe, word, self._begin)
        return refused(self._text, max(found, 0), message)

    def _called(self, word: str, inner: str, *, at_entry: bool) -> str:
        """A word that stands like a call: `$entry(x)`, `STRCMP("text", x)`, `ntohs(x)`."""
        if word != "STRCMP" and [bool(value.strip()) for _, value in split(inner, ",")] != [True]:
            raise self._refused(word, f"{word} takes one value: {word}(x)")
        if word == "$entry":
            return self._kept(word, self.translated(inner, at_entry=True), at_entry=at_entry)
        if word == "STRCMP":
            return self._strcmp(inner, at_entry=at_entry)
        return f"bswap(({_SWAPPED[word]})({self.translated(inner, at_entry=at_entry)}))"

    def _bracket(self, words: Sequence[str], position: int) -> int:
        """The place behind the bracket that closes the one that comes next."""
        depth = 0
        for index in range(position, len(words)):
            depth += (words[index] == "(") - (words[index] == ")")
            if depth == 0 and not words[index].isspace():
                if words[index] == ")":
                    return index + 1
                break
        word = words[position - 1]
        value = '"a", path' if word == "STRCMP" else "x"
        raise self._refused(word, f"{word} takes a value in parentheses: {word}({value})")

    def _name(self, name: str, *, at_entry: bool, is_indexed: bool = False) -> str:
        """A bare name: a parameter, an argument by its number, or what the other language knows by it."""
        probe = self._probe
        argument = re.fullmatch(r"arg(\d+)", name)
        if argument is not None:
            if argument[1] not in map(str, range(1, _ARGUMENTS + 1)):
                raise self._refused(name, f"{name} is no argument: they are counted from 1, arg1 to arg{_ARGUMENTS}")
            self._is_there(name, at_entry=at_entry)
            return f"arg{int(argument[1]) - 1}"
        for position, parameter in enumerate(probe.parameters or ()):
            if parameter.name == name:
                self._is_there(name, at_entry=at_entry)
                # Characters have an address, as numbers: only what is indexed needs their type.
                type_ = cast(parameter.type) or ("(char *)" if is_indexed and "char" in parameter.type else "")
                return f"({type_}arg{position})"
        return name

    def _is_there(self, name: str, *, at_entry: bool) -> None:
        if self._probe.kind == "t":
            raise self._refused(name, f"{name} is for functions: write args->FIELD, the tracepoint's own field")
        if self._probe.kind == "r" and not at_entry:
            raise self._refused(name, f"{name} is gone when the function returns: $entry({name})")

    def _character(self, word: str) -> str:
        """A character of C's as its number."""
        try:
            found = word[1:-1].encode("ascii").decode("unicode_escape")
        except ValueError:
            found = ""
        if len(found) != 1:
            raise self._refused(word, f"{word} is not one character of ASCII, nor an escape such as '\\n'")
        return str(ord(found))

    def _returned(self, word: str, *, at_entry: bool, is_struct: bool) -> str:
        """The result of the function, of its type where that is known; a struct's address if it `is_struct`."""
        probe = self._probe
        if probe.kind == "t":
            raise self._refused(word, f"{word} is for the return of a function; of a system call write args->ret")
        if probe.kind == "u":
            raise self._refused(word, f"{word} is for the return of a function: r:FILE:FUNCTION")
        if probe.kind != "r":
            raise self._refused(word, f"{word} is not known at the entry: write r:{probe.where}:{probe.name}")
        if at_entry:
            raise self._refused(word, f"{word} is not known at the entry: $entry(x) is for parameters")
        if self._result == "void":
            raise self._refused(word, f"{probe.name} returns nothing: its type is void")
        if self._result.endswith("*"):
            return f"({cast(self._result)}retval)" if is_struct else "retval"
        if self._result and not re.fullmatch(r"u?int\d+", self._result):
            raise self._refused(
                word,
                f"{probe.name} returns a {self._result}, and probes read what is returned as an integer or a pointer",
            )
        type_ = cast(self._said or self._result)
        return f"({type_}retval)" if type_ else "retval"

    def _check_sign(self, before: str, word: str, behind: str) -> None:
        """Refuse an operation on a result of an unknown type that gives something else for an int than for 64 bits."""
        follows = _SIGNED_BEHIND.match(behind)
        is_cast = before.rstrip().endswith((")", "*"))
        if not self._probe.where or is_cast or not (follows or _SIGNED_BEFORE.search(before)):
            return
        shown = word + (follows[0] if follows else "")
        raise self._refused(
            shown,
            f"{shown}: nothing tells the type of what {self._probe.name} returns, and as 64 bits an int is never "
            f"negative: write (int){shown}, or (long){shown} if it returns 64 bits",
        )

    def _strcmp(self, inner: str, *, at_entry: bool) -> str:
        (_, text), *values = split(inner, ",")
        if len(values) != 1 or not re.fullmatch(_QUOTED, text.strip(), re.DOTALL):
            raise self._refused("STRCMP", 'write STRCMP("text", value)')
        return f"(str({self.translated(values[0][1].strip(), at_entry=at_entry)}) == {text.strip()})"

    def _kept(self, word: str, expression: str, *, at_entry: bool) -> str:
        """A value that the entry keeps for the return, of the call that returns."""
        if self._probe.kind != "r" or at_entry:
            place = "the return of a function" if at_entry else "the return of a function: r:FILE:FUNCTION"
            raise self._refused(word, f"$latency and $entry(x) are for {place}")
        kept = next((each for each in self.entries if each.expression == expression), None)
        if kept is None:
            kept = Entry(f"@entry{self._number}_{len(self.entries)}", expression)
            self.entries.append(kept)
        return f"{kept.map}[curtask, $depth]"

    def wrapped(self, body: str, condition: str) -> str:
        """The probes of the specification: `body` where the condition holds.

        A function may call itself: what is kept is found by the task, and by how many calls it is in. Calls that never
        return, by longjmp(3) or since the thread ended, are the first that the maps forget.
        """
        place = attach_point(self._probe)
        if not self.entries:
            return f"{place} {{ {guarded(condition, body)} }}\n"
        depth, call = f"@depth{self._number}", "(curtask, $depth)"
        kept = " ".join(f"{each.map}[curtask, $depth] = {each.expression};" for each in self.entries)
        names = (depth, *[each.map for each in self.entries])
        maps = "".join([f"let {name} = lruhash({_UNDER_WAY}); " for name in names])
        gone = " ".join(f"delete({each.map}, {call});" for each in self.entries)
        begun = " && ".join(f"has_key({each.map}, {call})" for each in self.entries)
        entry = place.replace("ret", "", 1)
        left = f"if ($depth > 1) {{ {depth}[curtask] = $depth - 1; }} else {{ delete({depth}, curtask); }}"
        return (
            f"{maps}{entry} {{ $depth = {depth}[curtask] + 1; {depth}[curtask] = $depth; {kept} }}\n"
            f"{place} {{ $depth = {depth}[curtask]; "
            f"if ({begun}) {{ {guarded(condition, body)} {gone} }} if ($depth > 0) {{ {left} }} }}\n"
        )


def _next(words: Sequence[str], position: int) -> str:
    """The word behind one, spaces left out; "" if none is."""
    return next((each for each in words[position + 1 :] if not each.isspace()), "")


def cast(type_: str) -> str:
    """The cast for a C type; "" for none, and for addresses of characters, and of nothing known, which are numbers."""
    words = [word for word in type_.replace("*", " * ").split() if word not in ("const", "volatile", "__user")]
    return "" if words in ([], ["char", "*"], ["void", "*"]) else f"({' '.join(words)})"


def guarded(condition: str, body: str) -> str:
    """Statements that run where a condition holds; "" is always."""
    return f"if ({condition}) {{ {body} }}" if condition else body


def attach_point(probe: Probe) -> str:
    """Where the probe is attached, as bpftrace writes it."""
    of_kernel, of_file = _PROVIDERS[probe.kind]
    provider = of_kernel if probe.kind == "t" or not probe.where else of_file
    names = [probe.where] if probe.where else []
    names += probe.name.split(":") if probe.kind == "u" else [probe.name]
    return ":".join([provider, *(each if _PLAIN.fullmatch(each) else quoted(each) for each in names)])


def quoted(text: str) -> str:
    """A text as the language writes it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
