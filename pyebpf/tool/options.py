"""The fields of a tool's options dataclass: how each is written on the command line, and what it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pyebpf.dataclass import MISSING, dataclass, field
from pyebpf.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Kind",
    "Spelling",
    "argument",
    "failures_option",
    "flag",
    "milliseconds_option",
    "option",
    "pid_option",
    "tid_option",
    "uid_option",
]

#: The object that the number of an option names; "" for one that need not exist yet: a user, a port.
Kind = Literal["", "process", "thread", "processor"]

PID_MAX = 1 << 22  # PID_MAX_LIMIT of include/linux/threads.h, on 64 bits
U32_MAX = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Spelling:
    """How an option of a tool is written on the command line; `flags` is empty for a positional argument."""

    flags: tuple[str, ...]
    help: str
    metavar: str
    choices: tuple[str, ...]
    minimum: int | None
    maximum: int | None
    names: Kind = ""

    def check(self, name: str, value: object) -> None:
        """Raise InvalidValue for a value that the declaration excludes."""
        what = self.flags[-1] if self.flags else name
        for item in value if isinstance(value, tuple) else (value,):
            if self.choices and item is not None and item not in self.choices:
                raise InvalidValue(f"{what}: {item!r} is none of {', '.join(self.choices)}")
            if isinstance(item, int) and not isinstance(item, bool):
                if self.minimum is not None and item < self.minimum:
                    raise InvalidValue(f"{what}: {item} is below {self.minimum}")
                if self.maximum is not None and item > self.maximum:
                    raise InvalidValue(f"{what}: {item} is above {self.maximum}")


def option(
    *flags: str,
    default: object = None,
    help: str,  # noqa: A002 - argparse's word for it, which is what it is for
    metavar: str = "",
    choices: Sequence[str] = (),
    minimum: int | None = None,
    maximum: int | None = None,
    names: Kind = "",
) -> Any:
    """A field of an options dataclass that takes a value on the command line: `option("-c", "--cgroup", help=...)`.

    The field's annotation decides what is read: `int`, `float` or `str`, perhaps `| None`; `tuple[int, ...]` and the
    like read a list with commas. Bounds and choices hold for values given in Python, too. A number that `names` a
    process, thread or processor is refused when the tool starts on a machine that has none of that number.
    """
    return _field(default, Spelling(flags, help, metavar, tuple(choices), minimum, maximum, names))


def flag(*flags: str, help: str) -> Any:  # noqa: A002 - as above
    """A field of type `bool`, False unless the flag is there: `flag("-Q", "--queued", help=...)`."""
    return _field(False, Spelling(flags, help, "", (), None, None))  # noqa: FBT003 - a default, not a switch


def _field(default: object, spelling: Spelling) -> Any:
    if not spelling.flags or not all(flag.startswith("-") for flag in spelling.flags):
        raise InvalidValue("an option has at least one flag, such as '-m' or '--milliseconds'")
    return field(default=default, metadata={"spelling": spelling})


def argument(metavar: str, *, help: str, choices: Sequence[str] = (), default: object = MISSING) -> Any:  # noqa: A002 - as above
    """A positional argument of an options dataclass; one without default must be given."""
    declaration = {"spelling": Spelling((), help, metavar, tuple(choices), None, None)}
    return field(metadata=declaration) if default is MISSING else field(default=default, metadata=declaration)


def pid_option(help: str = "only this process") -> Any:  # noqa: A002 - as above
    """`-p PID`, None by default."""
    return option("-p", "--pid", metavar="PID", help=help, minimum=1, maximum=PID_MAX, names="process")


def tid_option(letter: str = "-t", help: str = "only this thread") -> Any:  # noqa: A002 - as above
    """`-t TID`, None by default; `letter` where the book's tool has another."""
    return option(letter, "--tid", metavar="TID", help=help, minimum=1, maximum=PID_MAX, names="thread")


def uid_option(help: str = "only this user") -> Any:  # noqa: A002 - as above
    """`-u UID`, None by default."""
    return option("-u", "--uid", metavar="UID", help=help, minimum=0, maximum=U32_MAX)


def milliseconds_option(help: str = "milliseconds instead of microseconds") -> Any:  # noqa: A002 - as above
    """`-m`, off by default."""
    return flag("-m", "--milliseconds", help=help)


def failures_option(help: str = "only failures") -> Any:  # noqa: A002 - as above
    """`-x`, off by default."""
    return flag("-x", "--failed", help=help)
