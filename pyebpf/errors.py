"""The exception tree and source locations: everything pyebpf raises on purpose.

    PyebpfError
    ├── InvalidValue (ValueError)      a value outside what a field, type or option can hold
    │   └── AssemblyError              an instruction or an assembly text that means nothing
    ├── MalformedData (ValueError)     bytes or text from outside that do not follow their format
    │   ├── BtfError                   BTF
    │   └── FormatError                a tracepoint's `format` file
    ├── NotFound (LookupError)         a name the target does not have; the message has the closest ones
    ├── CompileError                   Python source outside the language; has a `location`
    ├── OnlyInProbe (TypeError)        a helper or probe called by Python itself
    ├── NotLoaded                      a map used before its program is loaded, or after it is closed
    ├── VmError                        an interpreted program did what the verifier would refuse; has `location`
    └── KernelError (OSError)          the kernel said no; has `errno`
        ├── NotPermitted               … for want of a privilege, or since a policy such as lockdown forbids it
        ├── NotSupported               … since it lacks the feature
        └── VerifierError              … since it could not prove a program safe; has `location` and `log`

`str()` of each is one line that names what is wrong and what to do; `CompileError` and `VerifierError` show the
source with a caret on the lines after it. Tracebacks show the decorator of a probe below other errors about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AssemblyError",
    "BtfError",
    "CompileError",
    "FormatError",
    "InvalidValue",
    "KernelError",
    "Location",
    "MalformedData",
    "NotFound",
    "NotLoaded",
    "NotPermitted",
    "NotSupported",
    "OnlyInProbe",
    "PyebpfError",
    "VerifierError",
    "VmError",
    "closest",
]


_AROUND = 120  # columns shown on either side of a place in a longer line


@dataclass(frozen=True, slots=True, guarded=False)
class Location:
    """A place in Python source: 1-based line, 0-based columns in characters, and the text of that physical line."""

    file: str
    line: int
    column: int = 0
    end_column: int | None = None
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def marked(self, message: str, place: str = "") -> str:
        """A message behind its place, above the excerpt if there is one."""
        excerpt = self.excerpt()
        return f"{place or self}: {message}" + (f"\n{excerpt}" if excerpt else "")

    def excerpt(self) -> str:
        """The source line with carets below the columns meant; of a very long one the part around them.

        Empty if the text is unknown.
        """
        if not self.text.strip():
            return ""
        text = self.text.rstrip("\n").expandtabs(1)
        begin = len(text) - len(text.lstrip())
        start = max(self.column, begin)
        end = max(min(start + 1 if self.end_column is None else self.end_column, len(text)), start + 1)
        if len(text) - begin > 2 * _AROUND:
            begin = max(begin, start - _AROUND)
            text = text[: start + _AROUND]
            end = min(end, max(len(text), start + 1))
        return f"    {text[begin:]}\n    {' ' * (start - begin)}{'^' * (end - start)}"


def most_like(name: str, candidates: Iterable[str], *, likeness: float = 0.6) -> list[str]:
    """Up to three candidates that are like `name`, the most like it first; of many, more `likeness` is wanted."""
    from difflib import get_close_matches

    # Of what is likened at 0.6, twice the shorter one's length is that part of both: others need not be kept.
    length = len(name)
    near = dict.fromkeys(each for each in candidates if 3 * len(each) <= 7 * length and 3 * length <= 7 * len(each))
    return get_close_matches(name, list(near), cutoff=likeness)


def closest(name: str, candidates: Iterable[str], *, likeness: float = 0.6) -> str:
    """End of a "not found" message: the candidates most like `name`, or nothing."""
    matches = most_like(name, candidates, likeness=likeness)
    return f" (did you mean {' or '.join(matches)}?)" if matches else ""


def closest_or_all(name: str, candidates: Iterable[str]) -> str:
    """As `closest`; where none is like `name`, all candidates: there are few."""
    candidates = list(candidates)
    return closest(name, candidates) or (f": it has {', '.join(candidates)}" if candidates else "")


def amount(count: int, noun: str) -> str:
    """A number of things: "1 value", "2 values"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


class PyebpfError(Exception):
    """Base of all errors that pyebpf raises on purpose.

    `location` is the line that it is about: in a probe, or its decorator, then `probe` is the probe's name; None and
    empty if there is none.
    """

    location: Location | None = None
    probe = ""

    def name_probe(self, probe: str, location: Location | None) -> None:
        """Say which probe could not be compiled or attached, unless that is known: tracebacks show it as a note."""
        if self.probe or self.location is not None:
            return
        self.probe, self.location = probe, location
        excerpt = location.excerpt() if location is not None else ""
        place = f"{location}: in probe {probe}" if location is not None else f"in probe {probe}"
        self.add_note(f"{place}\n{excerpt}" if excerpt else place)


class InvalidValue(PyebpfError, ValueError):
    """A value outside what a field, type or option can hold."""


def check_argument(name: str, value: object, kinds: type | tuple[type, ...], give: str) -> None:
    """Refuse an argument of another type: InvalidValue names it, and what to `give`. A path has no NUL."""
    if not isinstance(value, kinds):
        raise InvalidValue(f"{name}: give {give}, not {type(value).__name__}")
    if isinstance(value, str) and "\0" in value:
        raise InvalidValue(f"{name}: there is no NUL in it ({value[:80]!r})")


_MORE, _OPTION = ", or allow more with max_probes=", " (--max-probes)"


def without_decorators(error: PyebpfError, more: str = "") -> str:
    """The message of an error to who writes no decorators, and has not the option of tools that sets `max_probes`.

    `more` says instead how more places are allowed, with {} for their number.
    """
    message = getattr(error, "of_tool", "") or str(error)
    before, limited, behind = message.partition(_MORE)
    if not limited:
        return message
    number, _, rest = behind.partition(_OPTION)
    return before + more.format(number) + rest


class AssemblyError(InvalidValue):
    """An instruction or an assembly text that means nothing. `location` is the place in the text, if it has one."""

    def __init__(self, message: str, location: Location | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.location = location

    def __str__(self) -> str:
        if self.location is None:
            return self.message
        return self.location.marked(self.message, f"{self.location}:{self.location.column + 1}")


class MalformedData(PyebpfError, ValueError):
    """Bytes or text from outside that do not follow their format."""


class BtfError(MalformedData):
    """BTF that is truncated, garbled or contradicts itself."""


class FormatError(MalformedData):
    """A tracepoint `format` file that cannot be understood."""


class NotFound(PyebpfError, LookupError):
    """A name that the target does not have."""


class CompileError(PyebpfError):
    """Python source outside the language. `location` says where."""

    def __init__(self, message: str, location: Location | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.location = location

    def __str__(self) -> str:
        return self.message if self.location is None else self.location.marked(self.message)


class OnlyInProbe(PyebpfError, TypeError):
    """A helper or a probe called by Python itself."""


class NotLoaded(PyebpfError):
    """A map used before its program is loaded, or after it is closed."""


class VmError(PyebpfError):
    """An interpreted program did what the verifier would refuse, or called what the vm has no emulation of.

    `slot` and `instruction` (text) say where, `registers` what each initialised register held, by its name;
    `location` is the Python line, if the instruction knows one.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.location: Location | None = None
        self.slot: int | None = None
        self.instruction = ""
        self.registers: dict[str, int] = {}

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location is not None else ""
        lines = [place + self.message]
        if self.slot is not None:
            lines.append(f"  at slot {self.slot}: {self.instruction}")
        if self.registers:
            lines.append("  " + " ".join(f"{name}={value:#x}" for name, value in self.registers.items()))
        if self.location is not None and (excerpt := self.location.excerpt()):
            lines.append(excerpt)
        return "\n".join(lines)


class KernelError(PyebpfError, OSError):
    """The kernel said no. `errno` is what the system call returned."""

    def __init__(self, message: str, errno: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.errno = errno

    def __str__(self) -> str:
        return self.message


class NotPermitted(KernelError):
    """The kernel refused for want of a privilege, or since a policy such as lockdown forbids it (EPERM, EACCES)."""


class NotSupported(KernelError):
    """The kernel lacks the feature. `of_tool` says it to who runs a tool and has not written its decorators, or ""."""

    of_tool = ""


class VerifierError(KernelError):
    """The verifier could not prove a program safe. `log` is everything it printed."""

    def __init__(
        self, message: str, errno: int | None = None, *, location: Location | None = None, log: str = ""
    ) -> None:
        super().__init__(message, errno)
        self.location = location
        self.log = log

    def __str__(self) -> str:
        return self.message if self.location is None else self.location.marked(self.message)
