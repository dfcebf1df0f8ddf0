"""The command: `python -m fuzz TARGET [--seconds N] [--seed S] [--corpus DIR]`."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import resource
import sys
from pathlib import Path

from fuzz.driver import Search, read_corpus
from fuzz.targets import NAMES, load

_MEMORY = 4 << 30  # bytes of address space: an input that fills memory is a finding, and no harm
_CORPUS = Path(__file__).resolve().parent / "corpus"


def _atheris(name: str, seconds: float, seed: int, folder: Path, findings: Path) -> None:
    """The same target under atheris: `seconds` are of the clock; findings, and what led to them, go to `findings`."""
    atheris = importlib.import_module("atheris")  # not a dependency: used where somebody installed it
    with atheris.instrument_imports(include=["pyebpf"]):
        target = load(name)
    grown = findings / f"{name}-corpus"  # atheris adds to the first folder and only reads the second
    grown.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={seconds:g}", f"-seed={seed}", "-timeout=10", f"-artifact_prefix={findings}/{name}-"]
    atheris.Setup([sys.argv[0], *options, str(grown), str(folder)], target.target)
    atheris.Fuzz()


def main() -> int:
    """Exit status 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Search for inputs that break a target.")
    parser.add_argument("target", choices=NAMES)
    parser.add_argument("--seconds", type=float, default=60, help="CPU time to spend (default 60)")
    parser.add_argument("--executions", type=int, default=math.inf, help="executions to end after (default: no limit)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--corpus", type=Path, help="folder of inputs to begin with (default: the target's own)")
    parser.add_argument(
        "--findings", type=Path, default=Path("fuzz-findings"), help="folder for what breaks the target"
    )
    parser.add_argument("--share", type=float, default=1.0, help="part of the executions that is traced (default: all)")
    parser.add_argument("--engine", choices=["auto", "own", "atheris"], default="auto")
    arguments = parser.parse_args()
    folder = arguments.corpus or _CORPUS / arguments.target
    if arguments.engine == "atheris" or (arguments.engine == "auto" and importlib.util.find_spec("atheris")):
        _atheris(arguments.target, arguments.seconds, arguments.seed, folder, arguments.findings)
        return 0
    search = Search(
        arguments.target,
        load(arguments.target),
        arguments.seconds,
        arguments.seed,
        arguments.share,
        arguments.executions,
        arguments.findings,
    )
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    search.run(read_corpus(folder))
    return 1 if search.findings else 0


if __name__ == "__main__":
    sys.exit(main())
