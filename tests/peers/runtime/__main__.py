"""bpftrace's run-time tests by pyebpf: `BPFTRACE_TESTS=/path/to/bpftrace/tests python -m tests.peers.runtime`.

Prints a row a file of theirs: how many passed, failed, cannot be tried on this machine, need a test program of theirs
that is not built, and are explained: those that `explained.txt` has a line for. Words on the command line choose tests
by file or name; -v prints the output of those that failed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Lock

from tests.peers.runtime.cases import Case, read
from tests.peers.runtime.driver import Outcome, outcome
from tests.peers.runtime.explanations import explained

_COLUMNS = ("passed", "refused", "failed", "explained", "not here", "program")


def main() -> int:
    """Run the tests and print the table; 1 if one failed that is not explained."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.runtime", description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, help="write each test's outcome here, a JSON a line")
    given = parser.parse_args()
    folder = Path(os.environ["BPFTRACE_TESTS"])
    reasons = explained()
    cases = [each for each in read(folder) if not given.words or any(word in each.id for word in given.words)]
    counts: dict[str, Counter[str]] = {}

    shared = Lock()

    def done(case: Case) -> tuple[Case, Outcome]:
        with shared if "/tmp/" in case.text else nullcontext():  # several write one file of that name
            return case, outcome(case, folder)

    with ThreadPoolExecutor(given.jobs) as pool:
        for case, found in pool.map(done, cases):
            kind = "explained" if found.kind == "failed" and case.id in reasons else found.kind
            counts.setdefault(case.suite, Counter())[kind] += 1
            if kind == "failed":
                print(f"FAILED {case.id}: {found.why}", flush=True)
                if given.verbose:
                    print("    " + found.output.strip()[:2000].replace("\n", "\n    "), flush=True)
            if given.results:
                with given.results.open("a") as file:
                    line = {"id": case.id, "kind": kind, "why": found.why, "output": found.output[:2000]}
                    file.write(json.dumps({**line, "run": case.run or case.program}) + "\n")
    print(table(counts))
    return int(any(each["failed"] for each in counts.values()))


def table(counts: dict[str, Counter[str]]) -> str:
    """The counts, a row a file, and the share that passed of those that could be tried."""
    total: Counter[str] = sum(counts.values(), Counter())
    width = max(map(len, counts), default=0)
    lines = [" " * width + "".join(f"{name:>10}" for name in _COLUMNS)]
    for name, row in [*counts.items(), ("all", total)]:
        lines.append(f"{name:<{width}}" + "".join(f"{row[each]:>10}" for each in _COLUMNS))
    good = total["passed"] + total["refused"]
    tried = good + total["failed"] + total["explained"]
    share = f"{100 * good / tried:.1f} %" if tried else "none"
    return "\n".join([*lines, f"{good} of {tried} that need no test program: {share}"])


if __name__ == "__main__":
    sys.exit(main())
