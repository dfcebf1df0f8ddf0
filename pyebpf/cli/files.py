"""Files that a command writes in place of what it prints."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf.cli.report import note
from pyebpf.errors import InvalidValue
from pyebpf.tool.files import check_writable, write_file

if TYPE_CHECKING:
    from typing import TextIO

    from pyebpf.output.sink import Sink

STANDARD_OUTPUT = "-"


def check_file(path: str, *read: str) -> None:
    """Raise InvalidValue if a file cannot be written: before minutes of tracing, not after. None of `read` is."""
    if path == STANDARD_OUTPUT:
        return
    if not path:
        raise InvalidValue("name the file to write, or - for standard output")
    check_writable(path)
    for each in read:
        with suppress(OSError):  # one of them is no file, or not there
            if Path(path).samefile(each) and Path(path).is_file():
                raise InvalidValue(f"{path} is the file that is read: the output needs another name")


def open_file(path: str) -> TextIO:
    """Begin a file of text that is written as it comes. Raises InvalidValue."""
    try:
        return Path(path).open("w", encoding="utf-8")
    except OSError as error:
        raise InvalidValue(f"{path} cannot be written: {error.strerror}") from error


def write_content(path: str, content: str | bytes, sink: Sink) -> None:
    """Write a file; `-` is the sink. Raises InvalidValue if it cannot be written."""
    if path == STANDARD_OUTPUT:
        sink.write_bytes(content) if isinstance(content, bytes) else sink.write(content)
        return
    try:
        write_file(path, content)
    except OSError as error:
        reason = "nobody reads this FIFO" if error.errno == errno.ENXIO else error.strerror
        raise InvalidValue(f"{path} cannot be written: {reason}") from error


def write_whole(path: str, content: str | bytes, summary: str, sink: Sink) -> None:
    """Write a file, and say what is in it. Raises InvalidValue."""
    write_content(path, content, sink)
    if path != STANDARD_OUTPUT:
        note(f"{path}: {summary}")
