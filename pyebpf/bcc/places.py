"""Errors about a script that was made of specifications, told at their places in these."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.bcc.expressions import CURRENT
from pyebpf.bcc.scripts import spec_of_line
from pyebpf.bcc.specs import behind_probe, place_of, refused
from pyebpf.errors import closest, without_decorators

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.bcc.specs import Distribution, Trace
    from pyebpf.errors import CompileError, InvalidValue, PyebpfError, VerifierError

_WORD = re.compile(r"[A-Za-z_$]\w*")
_CALL = re.compile(r"([A-Za-z_]\w*)\(")
_ARGUMENT = re.compile(r"arg(\d+)")
_UNSAFE = "allow it by --unsafe, or Script(unsafe=True)"
#: In an error about a name that nothing explains; behind it the reason why it is no argument, either.
_NO_NAME = " is no builtin, and no constant of the kernel's"


def of_specification(error: CompileError | VerifierError, specs: Sequence[Distribution | Trace]) -> InvalidValue | None:
    """The error with a caret below the author's own word, or near it; None if it is about no specification."""
    place = error.location
    if place is None:
        return None
    marked = place.text[place.column : place.end_column]
    spec = spec_of_line(specs, place.line)
    if spec is None:
        return None
    word = _own_word(marked, spec)
    if word is not None:
        return refused(spec.text, place_of(spec.text, spec.probe, word), _message(error.message, word, spec))
    return refused(spec.text, _near(marked, place.text[: place.column], spec), _safe(error.message))


def of_probe(error: PyebpfError, specs: Sequence[Distribution | Trace]) -> InvalidValue | None:
    """The error with a caret below the name or the file that it is about; None if no specification has that."""
    message = without_decorators(error)
    for part in ("name", "where"):
        for spec in specs:
            word = re.compile(rf"(?<!\w){re.escape(getattr(spec.probe, part))}(?!\w)")
            place = word.search(spec.text)
            if place is not None and place[0] and "\n" not in message and word.search(message):
                return refused(spec.text, place.start(), message)
    return None


def _near(marked: str, before: str, spec: Distribution | Trace) -> int:
    """Where the specification has what is no word, such as an operator: behind the last own word before it."""
    # What stands before the probe's body, and what the script itself adds, is none of the author's.
    word = _own_word(before.partition("{")[2], spec)
    if word is None:
        return max(spec.text.find(marked, behind_probe(spec.text, spec.probe)) if marked.strip() else 0, 0)
    start = place_of(spec.text, spec.probe, word) + len(word)
    found = spec.text.find(marked, start) if marked.strip() else -1
    return found if found >= 0 else start - 1


def _own_word(marked: str, spec: Distribution | Trace) -> str | None:
    """The last word of what an error is about that the specification has, too: a member stands behind its struct."""
    call = _CALL.match(marked)
    if call is not None and place_of(spec.text, spec.probe, call[1]) >= 0:
        return call[1]
    words: list[str] = _WORD.findall(marked)
    for word in reversed(words):
        number = _ARGUMENT.fullmatch(word)
        if number is not None:
            parameters = spec.probe.parameters
            if parameters is not None and int(number[1]) < len(parameters):
                name: str = parameters[int(number[1])].name
                return name
            word = f"arg{int(number[1]) + 1}"  # noqa: PLW2901 - as bcc counts them
        for own in (word, *(name for name, current in [*CURRENT.items(), ("$retval", "retval")] if current == word)):
            if place_of(spec.text, spec.probe, own) >= 0:
                return own
    return None


def _safe(message: str) -> str:
    """The message without an option that these commands do not have."""
    return message.replace(_UNSAFE, "a script may, by pyebpf -e with --unsafe")


def _message(message: str, word: str, spec: Distribution | Trace) -> str:
    """The message; of a name that is unknown, the parameters that are like it."""
    message = _safe(message)
    message = message.replace("write arg0, arg1 and so on", "write arg1, arg2 and so on")  # as bcc counts them
    _, unknown, reason = message.partition(_NO_NAME)
    if not unknown:
        return message
    names = [each.name for each in spec.probe.parameters or ()]
    if reason and not names:
        gone = "are gone when" in reason
        if gone:
            return f"{word} is gone when the function returns: $entry({word}){closest(word, ['retval'])}"
        return reason.removeprefix("; ")
    of = f"no parameter of {spec.probe.name}" if names else f"nothing that {spec.probe.name}() names"
    like = closest(word, names)
    macro = "; macros of C headers are not in BTF: write the number" if word.isupper() and not like else ""
    return f"{word} is {of}, and no constant of the kernel's{like}{macro}"
