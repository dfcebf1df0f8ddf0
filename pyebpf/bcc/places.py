"""Errors about a script that was made of specifications, told at their places in these."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.bcc.scripts import attach_point
from pyebpf.bcc.specs import refused
from pyebpf.errors import closest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.bcc.specs import Distribution, Trace
    from pyebpf.errors import CompileError, InvalidValue

_WORD = re.compile(r"[A-Za-z_$]\w*")
_ARGUMENT = re.compile(r"arg(\d)")
#: In an error about a name that nothing explains; behind it the reason why it is no argument, either.
_NO_NAME = " is no builtin, and no constant of the kernel's"


def of_specification(error: CompileError, specs: Sequence[Distribution | Trace]) -> InvalidValue | None:
    """The error with a caret below the author's own word; None if no specification has it."""
    place = error.location
    if place is None:
        return None
    marked = place.text[place.column : place.end_column]
    for spec in specs:
        begins = {attach_point(spec.probe), attach_point(spec.probe).replace("ret", "", 1)}
        if not any(place.text.startswith(f"{each} {{") for each in begins):
            continue
        word = _own_word(marked, spec)
        if word is not None:
            return refused(spec.text, _position(spec.text, word), _message(error.message, word, spec))
    return None


def _own_word(marked: str, spec: Distribution | Trace) -> str | None:
    """The last word of what an error is about that the specification has, too: a member stands behind its struct."""
    words: list[str] = _WORD.findall(marked)
    for word in reversed(words):
        number = _ARGUMENT.fullmatch(word)
        if number is not None:
            parameters = spec.probe.parameters
            if parameters is not None and int(number[1]) < len(parameters):
                name: str = parameters[int(number[1])].name
                return name
            word = f"arg{int(number[1]) + 1}"  # noqa: PLW2901 - as bcc counts them
        if _position(spec.text, word) >= 0:
            return word
    return None


def _position(text: str, word: str) -> int:
    """The place of a word behind the signature, or in it; -1 if there is none."""
    places = [each.start() for each in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text)]
    behind = [each for each in places if each > text.find(")")]
    return (behind or places or [-1])[0]


def _message(message: str, word: str, spec: Distribution | Trace) -> str:
    """The message; of a name that is unknown, the parameters that are like it."""
    message = message.replace("write arg0, arg1 and so on", "write arg1, arg2 and so on")  # as bcc counts them
    _, unknown, reason = message.partition(_NO_NAME)
    if not unknown:
        return message
    names = [each.name for each in spec.probe.parameters or ()]
    if reason and not names:
        gone = "are gone when" in reason
        return f"{word} is gone when the function returns: $entry({word})" if gone else reason.removeprefix("; ")
    of = f"no parameter of {spec.probe.name}" if names else f"nothing that {spec.probe.name}() names"
    return f"{word} is {of}, and no constant of the kernel's{closest(word, names)}"
