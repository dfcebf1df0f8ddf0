"""Random programs by pyebpf and by bpftrace: `PEERS="chroot FOLDER" python -m tests.peers.programs`.

Prints what differs, with the seed of the program; 1 if there was anything. Programs of odd seeds print JSON. Those
that bpftrace refuses are counted. `PEERS` is what stands before bpftrace's command, if anything does.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

from tests.peers.programs.outputs import ordered
from tests.peers.programs.scripts import Scripts

if TYPE_CHECKING:
    from collections.abc import Sequence

PYEBPF = str(Path(sys.executable).with_name("pyebpf"))
#: Seconds that a program may take.
PATIENCE = 60


def ran(command: Sequence[str], script: str, *, as_json: bool) -> tuple[int, list[str], str]:
    """The status of a program, the lines that it prints, and its errors."""
    options = ["-q", "-f", "json"] if as_json else []
    done = subprocess.run(
        [*command, *options, "-e", script], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    return done.returncode, ordered(done.stdout, as_json=as_json) if not done.returncode else [], done.stderr


def main() -> int:
    """Run programs, and print where the two differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.programs", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scripts", type=int, default=20)
    parser.add_argument("--statements", type=int, default=20)
    parser.add_argument("--show", action="store_true", help="print the program of the seed, and run nothing")
    parser.add_argument("--refused", action="store_true", help="print why bpftrace refuses programs")
    given = parser.parse_args()
    if given.show:
        print(Scripts(given.seed).script(given.statements))
        return 0
    peer = [*shlex.split(os.environ.get("PEERS", "")), "bpftrace"]
    differing = refused = 0
    for seed in range(given.seed, given.seed + given.scripts):
        script, as_json = Scripts(seed).script(given.statements), bool(seed % 2)
        status, theirs, errors = ran(peer, script, as_json=as_json)
        if status:
            refused += 1
            if given.refused:
                print(f"seed {seed}, refused:", *[line for line in errors.splitlines() if "ERROR" in line], sep="\n")
            continue
        status, ours, errors = ran([PYEBPF], script, as_json=as_json)
        if status:
            ours = [f"status {status}: {errors.strip()[-800:]}"]
        if theirs != ours:
            differing += 1
            print(f"seed {seed}:", *unified_diff(theirs, ours, "bpftrace", "pyebpf", lineterm="", n=1), sep="\n")
        sys.stdout.flush()
    print(f"{given.scripts} programs from seed {given.seed}: {differing} differ, bpftrace refused {refused}")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
