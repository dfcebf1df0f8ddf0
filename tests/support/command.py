"""The command `pyebpf` as a process of its own: begun when its probes are attached, ended as a user would."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import signal
import subprocess
import tempfile
from typing import IO, TYPE_CHECKING, Any

from pyebpf.cli.catalogue import find
from pyebpf.cli.parser import parse
from pyebpf.cli.schema import schema_of
from tests.support.json_schema import faults
from tests.support.python import ROOT, finished, python
from tests.support.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def pyebpf(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `pyebpf` to its end; status, standard output, standard error."""
    return finished("-m", "pyebpf", *arguments, **options)


class Running:
    """A tool that has said that it traces. `out` and `err` are complete after `stop`."""

    def __init__(
        self, process: subprocess.Popen[bytes], out: IO[bytes], err: IO[bytes], schema: dict[str, Any] | None = None
    ) -> None:
        self.process = process
        self.schema = schema
        self._files = {"out": out, "err": err}
        self._last: dict[str, str] = {}

    @property
    def out(self) -> str:
        """What it wrote to standard output so far."""
        return self._read("out")

    @property
    def err(self) -> str:
        """What it wrote to standard error so far."""
        return self._read("err")

    def _read(self, name: str) -> str:
        file = self._files[name]
        if not file.closed:
            self._last[name] = os.pread(file.fileno(), 1 << 26, 0).decode("utf-8", "surrogateescape")
        return self._last[name]

    def keep(self) -> None:
        """Keep what was written beyond the life of the files."""
        self._read("out")
        self._read("err")

    def await_start(self) -> None:
        """Return once the line with the word Tracing is there."""
        self.await_text("Tracing", lambda: self.err)

    def await_text(self, text: str, where: Any = None) -> None:
        """Return once `text` was written to standard output (or what `where` returns)."""
        read = where or (lambda: self.out)

        def told() -> str:
            return f"no {text!r}: status {self.process.poll()}, {self.err}"

        # It may have been written before it ended, but after the first look.
        wait_until(lambda: text in read() or self.process.poll() is not None, told)
        assert text in read(), told()

    def stop(self, number: int = signal.SIGINT) -> None:
        """Ask it to end, as Ctrl-C does, and see that it does so with status 0."""
        self.process.send_signal(number)
        assert self.wait() == 0, self.err

    def wait(self) -> int:
        """Its exit status."""
        return self.process.wait(PATIENCE)

    def objects(self) -> list[dict[str, Any]]:
        """What `--json` printed of records; JSON as strict as the standard, and as the tool's schema has it."""
        return [line for line in self._lines() if "dropped" not in line]

    def losses(self) -> list[dict[str, int]]:
        """What `--json` printed of events that were dropped: totals by reason, each time they grew."""
        return [line["dropped"] for line in self._lines() if "dropped" in line]

    @property
    def dropped(self) -> int:
        """How many events it has said on standard error that it has dropped so far."""
        totals = re.findall(r"^Dropped (\d+) events? so far", self.err, re.MULTILINE)
        return int(totals[-1]) if totals else 0

    def _lines(self) -> list[dict[str, Any]]:
        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is not a JSON")

        lines = [json.loads(line, parse_constant=refuse) for line in self.out.splitlines()]
        wrong = [] if self.schema is None else [each for line in lines for each in faults(self.schema, line)]
        assert not wrong, wrong[:10]
        return lines

    def rows(self) -> list[dict[str, str]]:
        """What `--csv` printed."""
        return list(csv.DictReader(io.StringIO(self.out)))


def _schema(arguments: Sequence[str]) -> dict[str, Any] | None:
    """The schema of what a tool prints, None for what is no tool or prints no JSON."""
    if "--json" not in arguments or arguments[0] == "run":
        return None
    tool = find(arguments[0])
    options, _ = parse(tool, [str(each) for each in arguments[1:]])
    return schema_of(tool, options)


@contextlib.contextmanager
def running(*arguments: str, prefix: Sequence[str] = (), **options: Any) -> Iterator[Running]:
    """Run `pyebpf` with these arguments; inside, its probes are attached. Killed if it still runs at the end.

    `prefix` is a command that runs it, such as unshare(1).
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = python(
            *("-m", "pyebpf", *arguments),
            prefix=prefix,
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stdout=options.pop("stdout", out),
            stderr=err,
            cwd=ROOT,
            **options,
        )
        tool = Running(process, out, err, _schema(arguments))
        try:
            tool.await_start()
            yield tool
        finally:
            process.kill()
            process.wait()
            tool.keep()
