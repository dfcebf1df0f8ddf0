"""bcc's one-liners beside bcc's own tools: `PEERS="chroot FOLDER" python -m tests.peers.bcc [WORD…]`.

Each is started by bcc's tool and by pyebpf's, on one machine and one workload, and their counts are compared. `PEERS`
is what comes before a command of bcc's. Prints a row for each one-liner: the same counts, or what differs.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.peers.bcc.oneliners import BY_TIMERS, ONE_LINERS, OneLiner
from tests.peers.bcc.outputs import counts_of
from tests.peers.bcc.workloads import WORKLOADS

START, END = 300.0, 150.0  # seconds until a tool traces, and until it has ended
#: Seconds that argdist counts for, bcc's first: longer than the other tool takes to start, and the workload.
INTERVALS = (90, 20)


class Running:
    """A tool that was started."""

    def __init__(self, command: list[str]) -> None:
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(command, stdout=self._output, stderr=subprocess.STDOUT, env=environment)

    @property
    def output(self) -> str:
        """What it has printed so far."""
        place = os.lseek(self._output.fileno(), 0, os.SEEK_CUR)
        text = os.pread(self._output.fileno(), place, 0)
        return text.decode(errors="replace")

    def wait_until_it_traces(self) -> bool:
        """Whether it traces: it says so, or has attached perf events; False if it has ended."""
        until = time.monotonic() + START
        while time.monotonic() < until:
            if self.process.poll() is not None:
                return False
            if "Tracing" in self.output or "PID" in self.output or self._has_events():
                time.sleep(1)
                return True
            time.sleep(0.2)
        raise TimeoutError(f"it does not trace: {self.output}")

    def _has_events(self) -> bool:
        folder = Path(f"/proc/{self.process.pid}/fd")
        try:
            return any("perf_event" in str(each.readlink()) for each in folder.iterdir())
        except OSError:
            return False

    def end(self, *, interrupt: bool) -> str:
        """Its output when it has ended, by SIGINT or by itself."""
        if interrupt:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(END)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        text = self.output
        self._output.close()
        return text


def compare(each: OneLiner, peers: list[str]) -> str:
    """Run a one-liner by both, and say whether they count the same."""
    tool, *arguments = each.command
    by_itself = tool == "argdist"
    theirs = Running(
        [*peers, f"{tool}-bpfcc", *(["-i", str(INTERVALS[0]), "-n", "1"] if by_itself else []), *arguments]
    )
    there = theirs.wait_until_it_traces()
    ends = [str(INTERVALS[1]), "1"] if by_itself else []
    ours = Running([sys.executable, "-m", "pyebpf", tool, *arguments, *ends])
    here = ours.wait_until_it_traces()
    if here and there:
        WORKLOADS[each.workload]()
        time.sleep(1)  # the kernel frees sockets when nobody can be at them any more
    mine = ours.end(interrupt=here and not by_itself)
    their = theirs.end(interrupt=there and not by_itself)
    if not here and not there:
        return f"refused by both: {mine.strip().splitlines()[-1]}"
    found, expected = (
        {name: count for name, count in counts_of(each.form, text).items() if name not in BY_TIMERS}
        for text in (mine, their)
    )
    if found and found == expected:
        return f"the same: {sum(found.values())} in {len(found)}"
    return f"DIFFERENT\n--- pyebpf {found}\n{mine}\n--- bcc {expected}\n{their}"


def main() -> int:
    """Compare all, or those with a word; 1 if one differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.bcc", description=__doc__)
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    peers = shlex.split(os.environ.get("PEERS", ""))
    failed = 0
    for each in ONE_LINERS:
        text = shlex.join(each.command)
        if given.words and not any(word in text for word in given.words):
            continue
        told = compare(each, peers)
        failed += told.startswith("DIFFERENT")
        print(f"{text}\n    {told}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
