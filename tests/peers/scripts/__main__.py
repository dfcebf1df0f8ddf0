"""Scripts of others by pyebpf and by bpftrace, on one machine and one workload, and what each printed.

    PYEBPF_SCRIPTS=name=FOLDER:name=FOLDER PEERS="chroot FOLDER" python -m tests.peers.scripts [WORD…]

Both trace at once. Prints a line for each script: the same output up to times and addresses; alike, with other numbers;
more, where bpftrace, which begins before, has seen pyebpf's start; silent, where the workload has nothing for it;
different, with the lines of each; or who refuses it, and why. A script that includes the kernel's headers is given to
bpftrace without them, with the constants that it names.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from typing import TYPE_CHECKING

from pyebpf.bpftrace.translate.constants import CONSTANTS
from tests.peers.scripts.outputs import compare
from tests.script.attached import arguments_of, scripts

if TYPE_CHECKING:
    from pathlib import Path

#: Seconds until a script traces, that it goes on behind the workload, and until it has ended.
START, AFTER, END = 150.0, 2.5, 60.0
_ATTACHED = re.compile(r"^(?:Attached|Tracing) \d+ probe", re.MULTILINE)
_HEADERS = re.compile(r"^(?:#!|\s*#include\s*<).*$", re.MULTILINE)
_SHOWN = 6


class Tracer:
    """A tracer with a script."""

    def __init__(self, command: list[str]) -> None:
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._told = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as above
        self.process = subprocess.Popen(command, stdout=self._output, stderr=self._told, start_new_session=True)

    def traces(self) -> bool:
        """Whether all is attached; False if it has ended, or is not for long."""
        until = time.monotonic() + START
        while time.monotonic() < until and self.process.poll() is None:
            if _ATTACHED.search(_read(self._told)) or _ATTACHED.search(_read(self._output)):
                return True
            time.sleep(0.05)
        return False

    def interrupt(self) -> None:
        """Ctrl-C."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> tuple[str, str]:
        """Its output, and what it told on standard error."""
        try:
            self.process.wait(END)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        found = _read(self._output), _read(self._told)
        self._output.close()
        self._told.close()
        return found


def _read(file: object) -> str:
    return os.pread(file.fileno(), 1 << 24, 0).decode(errors="replace")  # type: ignore[attr-defined]  # a file


def _why(told: str) -> str:
    """The line of what a tracer told that says why it has ended."""
    lines = [line for line in told.splitlines() if not line.startswith("WARNING")]
    return next((line for line in lines if "ERROR" in line or "pyebpf" in line), lines[-1] if lines else "?")


def _without_headers(text: str) -> str:
    """A script for a machine without the kernel's headers."""
    without = _HEADERS.sub("", text)
    named = set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", without))
    defined = {name: number for name, number in CONSTANTS.items() if name in named}
    return "".join(f"#define {name} {number}\n" for name, number in defined.items()) + without


def verdict(path: Path, peers: list[str]) -> str:
    """Run one script by both."""
    text = path.read_text(errors="replace")
    arguments = arguments_of(text)
    theirs = Tracer([*peers, "bpftrace", "-e", _without_headers(text), *arguments])
    there = theirs.traces()
    ours = Tracer([sys.executable, "-m", "pyebpf", "run", str(path), *arguments])
    here = ours.traces()
    if here:
        subprocess.run([sys.executable, "-m", "tests.peers.scripts.workload"], check=False)
        time.sleep(AFTER)
    for each in (ours, theirs):
        each.interrupt()
    (mine, told), (their, told_there) = ours.end(), theirs.end()
    if not here or not there:
        reasons = {"pyebpf": (here, told), "bpftrace": (there, told_there)}
        return "refused by " + "; by ".join(f"{who}: {_why(text)}" for who, (ran, text) in reasons.items() if not ran)
    found = compare(mine, their)
    lines = [found.verdict]
    for who, forms in (("pyebpf", found.ours), ("bpftrace", found.theirs)):
        lines += [f"    {who} only: {form}" for form in forms[:_SHOWN]]
        if len(forms) > _SHOWN:
            lines.append(f"    {who}: {len(forms) - _SHOWN} more")
    return "\n".join(lines)


def main() -> None:
    """Compare all, or those with a word."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--part", default="0/1", help="which of how many parts of the scripts")
    given = parser.parse_args()
    part, parts = map(int, given.part.split("/"))
    peers = shlex.split(os.environ.get("PEERS", ""))
    counts: Counter[str] = Counter()
    files = [path for named in scripts(os.environ["PYEBPF_SCRIPTS"]).values() for path in named.values()]
    for path in files[part::parts]:
        if given.words and not any(word in str(path) for word in given.words):
            continue
        told = verdict(path, peers)
        counts[told.split(":")[0].split("\n")[0]] += 1
        sys.stdout.write(f"{path.parent.name}/{path.name}: {told}\n")
        sys.stdout.flush()
    sys.stdout.write("; ".join(f"{kind}: {number}" for kind, number in counts.most_common()) + "\n")


if __name__ == "__main__":
    main()
