"""Files that a command writes in place of what it prints."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pyebpf.cli.report import note
from pyebpf.errors import InvalidValue
from pyebpf.tool.files import check_writable, write_file
from pyebpf.written_files import failure, open_to_write

if TYPE_CHECKING:
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


def write_content(path: str, content: str | bytes, sink: Sink) -> None:
    """Write a file; `-` is the sink. Raises InvalidValue if it cannot be written."""
    if path == STANDARD_OUTPUT:
        sink.write_bytes(content) if isinstance(content, bytes) else sink.write(content)
        return
    try:
        write_file(path, content)
    except OSError as error:
        raise InvalidValue(f"{path} cannot be written: {failure(error)}") from error


def open_text(path: str) -> TextIO:
    """Open a file for text that is written to it as it comes. Raises InvalidValue if it cannot be written."""
    try:
        return os.fdopen(open_to_write(path), "w", encoding="utf-8")
    except OSError as error:
        raise InvalidValue(f"{path} cannot be written: {failure(error)}") from error


def write_whole(path: str, content: str | bytes, summary: str, sink: Sink) -> None:
    """Write a file, and say what is in it. Raises InvalidValue."""
    write_content(path, content, sink)
    if path != STANDARD_OUTPUT:
        note(f"{path}: {summary}")
