"""One of bpftrace's run-time tests done with pyebpf: its commands run, its expectations looked for in the output."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.peers.runtime.bpftrace import ATTACHED
from tests.peers.runtime.possible import needs_program, why_not
from tests.support.python import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.peers.runtime.cases import Case

#: Python starts slower than bpftrace, and other processes are on the machine: seconds before a test has begun, and
#: how much longer than bpftrace it may take from then on.
START, SLOWER = 40, 3
#: The name of a script that is an argument, which bpftrace calls "stdin".
SCRIPT = "<script>"
_KILL = re.compile(r"pkill (-\w+) bpftrace")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a test: "passed", "refused" (by both, each in its own words), "failed", "program", "not here".

    `why` is the reason, `output` what was printed.
    """

    kind: str
    why: str = ""
    output: str = ""


def outcome(case: Case, folder: Path) -> Outcome:
    """Do a test."""
    why = why_not(case, folder)
    if why:
        return Outcome("not here", why)
    if needs_program(case, folder) or case.new_namespace:
        return Outcome("program")
    with tempfile.TemporaryDirectory() as scratch:
        return _done(case, folder, Path(scratch))


def _done(case: Case, folder: Path, scratch: Path) -> Outcome:
    command = scratch / "bpftrace"  # the name of the process, which some tests print
    command.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.peers.runtime.bpftrace import main\nsys.exit(main())\n"
    )
    command.chmod(0o755)
    number = scratch / "number"
    environment = {**os.environ, "PYEBPF_PEER_NUMBER": str(number), **case.environment}
    if case.setup:
        subprocess.run(case.setup, shell=True, cwd=folder, check=True, capture_output=True)
    befores = [subprocess.Popen(shlex.split(each), cwd=folder, start_new_session=True) for each in case.befores]
    try:
        text = _command(case, command)
        if befores:
            text = text.replace("{{BEFORE_PID}}", str(befores[0].pid))
        status, output = _run(text, case, folder, environment, number.read_text)
    finally:
        for each in befores:
            _end(each)
        if case.cleanup:
            subprocess.run(case.cleanup, shell=True, cwd=folder, check=True, capture_output=True)
    return _judged(case, folder, status, output)


def _command(case: Case, command: Path) -> str:
    if case.run:
        return case.run.replace("{{BPFTRACE}}", str(command))
    form = " -q -f json" if case.expects and case.expects[0][0] == "EXPECT_JSON" else ""
    return f"{command}{form} -e {shlex.quote(case.program)}"


def _run(
    text: str, case: Case, folder: Path, environment: dict[str, str], number: Callable[[], str]
) -> tuple[int | None, str]:
    """The status of a command, None if it had to be ended, and its output from when its probes were attached."""
    with tempfile.TemporaryFile() as out:

        def read() -> str:
            return os.pread(out.fileno(), 1 << 24, 0).decode("utf-8", "backslashreplace")

        process = subprocess.Popen(
            ["bash", "-c", text], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
        after = None
        try:
            begun = time.monotonic()
            while process.poll() is None and ATTACHED not in read() and time.monotonic() - begun < START:
                time.sleep(0.02)
            if process.poll() is None and case.after:
                command = _KILL.sub(lambda found: f"kill {found[1]} {number()}", case.after)
                if "pidof" in command:
                    command = command.replace("$(pidof bpftrace)", number())
                after = subprocess.Popen(
                    command, shell=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )  # fmt: skip
            end = time.monotonic() + case.timeout * SLOWER
            while process.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
            status = process.poll()
            if status is None:
                _signal(process, signal.SIGTERM)
                begun = time.monotonic()
                while process.poll() is None and time.monotonic() - begun < START / 4:
                    time.sleep(0.02)
        finally:
            _end(process)
            if after is not None:
                _end(after)
        output = read().replace(SCRIPT, "stdin")
    exact = case.expects and case.expects[0][0] in ("EXPECT_JSON", "EXPECT_FILE")
    if exact and ATTACHED in output:
        output = output.partition(ATTACHED)[2]
    return status, output.replace(f"{ATTACHED}\n", "")


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _end(process: subprocess.Popen[bytes]) -> None:
    _signal(process, signal.SIGKILL)
    process.wait()


def _judged(case: Case, folder: Path, status: int | None, output: str) -> Outcome:
    if status is not None:
        if case.will_fail and status == 0:
            return Outcome("failed", "status 0, where bpftrace refuses", output)
        if not case.will_fail and status != case.status:
            return Outcome("failed", f"status {status}", output)
    wrong = [text for kind, text in case.expects if not _is_met(kind, text, output, case, folder)]
    if not wrong:
        return Outcome("passed")
    if case.will_fail and re.match(r"pyebpf[^\n]*: ", output) and "internal error" not in output:
        return Outcome("refused", output=output)
    return Outcome("failed", f"expected {wrong[0]}", output)


def _is_met(kind: str, text: str, output: str, case: Case, folder: Path) -> bool:
    if kind in ("EXPECT", "EXPECT_NONE"):
        found = re.search(rf"^\s*{re.escape(text)}\s*$", output, re.MULTILINE)
        return (found is not None) == (kind == "EXPECT")
    if kind in ("EXPECT_REGEX", "EXPECT_REGEX_NONE"):
        return (re.search(text, output, re.MULTILINE) is not None) == (kind == "EXPECT_REGEX")
    wanted = (folder / text).read_text().strip()
    if kind == "EXPECT_FILE":
        if case.local_time is not None:
            wanted = time.strftime(wanted, time.localtime(case.local_time))
        return output.strip() == wanted
    try:
        lines = [json.loads(line) for line in output.strip().splitlines()]
    except ValueError:
        return False
    expected = [json.loads(line) for line in wanted.splitlines()] if text.endswith(".ndjson") else [json.loads(wanted)]
    return lines == expected
