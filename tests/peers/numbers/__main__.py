"""Random scripts about numbers by pyebpf and by bpftrace: `PEERS="chroot FOLDER" python -m tests.peers.numbers`.

Prints what differs, with the seed of the script; 1 if there was anything. `PEERS` is what stands before bpftrace's
command, if anything does.
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

from tests.peers.numbers.scripts import Scripts

if TYPE_CHECKING:
    from collections.abc import Sequence

PYEBPF = str(Path(sys.executable).with_name("pyebpf"))
#: Seconds that a script may take.
PATIENCE = 60


def printed(command: Sequence[str], script: str) -> list[str]:
    """The lines that a script prints that are not empty."""
    done = subprocess.run([*command, "-e", script], capture_output=True, text=True, timeout=PATIENCE, check=False)
    lines = [line for line in done.stdout.splitlines() if line]
    return lines if done.returncode == 0 else [*lines, f"status {done.returncode}: {done.stderr.strip()[-500:]}"]


def main() -> int:
    """Run scripts, and print where the two differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.numbers", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scripts", type=int, default=20)
    parser.add_argument("--statements", type=int, default=25)
    given = parser.parse_args()
    peer = [*shlex.split(os.environ.get("PEERS", "")), "bpftrace"]
    differing = 0
    for seed in range(given.seed, given.seed + given.scripts):
        script = Scripts(seed).script(given.statements)
        theirs, ours = printed(peer, script), printed([PYEBPF], script)
        if theirs != ours:
            differing += 1
            print(f"seed {seed}:", *unified_diff(theirs, ours, "bpftrace", "pyebpf", lineterm="", n=1), sep="\n")
    print(f"{given.scripts} scripts of {given.statements} statements from seed {given.seed}: {differing} differ")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
