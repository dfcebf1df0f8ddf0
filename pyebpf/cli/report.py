"""Input of commands, and their errors and notes on standard error: one line each, never a traceback."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

from pyebpf.errors import MalformedData, NotSupported, PyebpfError
from pyebpf.output.escape import visible
from pyebpf.output.sink import ReaderGone, name_stream, silence, waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

FAILED, USAGE, INTERRUPTED = 1, 2, 130
#: Bytes that are read of a file: a kernel with all its debugging information is larger, clang's objects are not.
MAX_INPUT = 64 << 20
TRACEBACK = "PYEBPF_TRACEBACK"
#: File systems that a container may lack, what mount(8) calls them, and a file that every one of them has.
_MOUNTS = {"/proc": ("proc", "/proc/self"), "/sys": ("sysfs", "/sys/kernel")}


class UsageError(Exception):
    """The command line makes no sense. `program` is what was called, with its tool; `see` a command that helps."""

    def __init__(self, program: str, message: str, see: str = "") -> None:
        super().__init__(message)
        self.program = program
        self.see = see or f"{program} --help"


def note(text: str) -> None:
    """Write to standard error; nobody listening there is no reason to fail."""
    if sys.stderr is None:
        return
    waiting.stream = sys.stderr
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)
    finally:
        waiting.stream = None


def standard_input() -> BinaryIO:
    """Standard input, as bytes. Raises UsageError if this process has none."""
    if sys.stdin is None:
        raise UsageError("pyebpf", "standard input is closed: name a file")
    return sys.stdin.buffer


def read_input(name: str) -> tuple[bytes, str]:
    """The bytes of a file, `-` for standard input, and what to call it. Raises OSError, MalformedData, UsageError."""
    if name == "-":
        name, data = "<stdin>", standard_input().read(MAX_INPUT + 1)
    else:
        with open(name, "rb") as file:  # noqa: PTH123 - pathlib reads whole files only
            data = file.read(MAX_INPUT + 1)
    if len(data) > MAX_INPUT:
        raise MalformedData(f"{name} has more than {MAX_INPUT >> 20} MiB, which no program or object has")
    return data, name


def describe(error: BaseException) -> str:
    """One line for an error; pyebpf's own may add the source and a caret below it."""
    if isinstance(error, PyebpfError):
        return "\n".join(map(visible, str(error).split("\n")))
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        # Of whichever file was next, its name says nothing.
        return f"{error.strerror}: raise the limit (ulimit -n)"
    if isinstance(error, MemoryError):
        return (
            "there is not enough memory: raise the limit (ulimit -v, or memory.max of the control group), or free some"
        )
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str):
        for place, (kind, file) in _MOUNTS.items():
            # Another file system may stand in its place: that something is mounted there says nothing.
            if error.filename.startswith(f"{place}/") and not os.path.lexists(file):
                return f"{place} is not mounted, so there is no {error.filename}: mount -t {kind} {kind} {place}"
    if isinstance(error, ImportError) and "ctypes" in str(error):
        return (
            f"this Python has no ctypes ({error}): use one that was built with libffi, such as the distribution's own"
        )
    if isinstance(error, OSError) and error.strerror:
        subject = f"{visible(os.fsdecode(error.filename))}: " if isinstance(error.filename, str | bytes) else ""
        return f"{subject}{error.strerror}"
    return visible(f"{type(error).__name__}: {error}")


def failed(program: str, error: BaseException) -> int:
    """Report an error that ended the command; the exit status."""
    if os.environ.get(TRACEBACK):
        from traceback import print_exception

        print_exception(error)
    known = isinstance(error, PyebpfError | OSError | MemoryError)
    if isinstance(error, NotSupported) and error.of_tool:
        note(f"{program}: {visible(error.of_tool)}")
    elif known or (isinstance(error, ImportError) and "ctypes" in str(error)):
        note(f"{program}: {describe(error)}")
    else:
        _tell_unexpected(program, error)
    return FAILED


def _tell_unexpected(program: str, error: BaseException) -> None:
    from pyebpf.tracebacks import place_outside  # not where descriptors are short, which is a known error

    if place := place_outside(error):
        note(f"{program}: {visible(place)}: {describe(error)} ({TRACEBACK}=1 shows the calls)")
    else:
        note(f"{program}: internal error, please report it with {TRACEBACK}=1 set: {describe(error)}")


def _flush() -> None:
    """Flush standard output; what cannot be written now is not tried again when the interpreter exits."""
    try:
        sys.stdout.flush()
    except OSError as error:
        silence(sys.stdout)
        name_stream(error, sys.stdout)
        raise


def guarded(command: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Run a command; whatever it raises becomes a line on standard error and an exit status."""
    try:
        if sys.stdout is None:
            note("pyebpf: standard output is closed")
            return FAILED
        try:
            return command(arguments)
        finally:
            _flush()
    except (ReaderGone, BrokenPipeError):
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except UsageError as error:
        note(f"{error.program}: {visible(str(error))}; see {error.see}")
        return USAGE
    except Exception as error:  # noqa: BLE001 - the last stop: a user gets a line, not a traceback
        tool = arguments[0] if arguments and not arguments[0].startswith("-") else ""
        return failed(f"pyebpf {visible(tool)}".rstrip(), error)
