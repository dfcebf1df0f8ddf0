"""Change the source in one place at a time and see whether the tests notice.

    tools/mutate.py                     all changes of tools/mutations.txt; prints the score and the survivors
    tools/mutate.py --only passes       those whose file or text contains this (several with | between them)
    tools/mutate.py --check             only whether each still applies: its text stands in the file exactly once

The tests run in a copy of the tree in a temporary directory, each with a time limit: running out of it counts as
noticed. A survivor of which the list says that it is the same program is no fault; one that is noticed although the
list says so is one of the list.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tools" / "mutations.txt"
ARROW = " => "
OPTIONS = (
    "-x",
    "-q",
    "--no-header",
    "--tb=no",
    "-p",
    "no:cacheprovider",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)
COPIED = ("pyebpf", "tests", "tools", "docs", "fuzz", "pyproject.toml", "README.md", "CHANGELOG.md")


@dataclass(frozen=True)
class Mutation:
    """One change: `find`, which stands once in `file`, becomes `replacement`. `same` explains an equivalent one."""

    file: str
    tests: tuple[str, ...]
    find: str
    replacement: str
    same: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {self.find}{ARROW}{self.replacement}"


def read_list(text: str) -> list[Mutation]:
    """The changes of a list. ValueError for a line that is none."""
    mutations: list[Mutation] = []
    file = ""
    tests: tuple[str, ...] = ()
    for line in text.splitlines():
        if line.startswith("## "):
            file, _, named = line[3:].partition(" | ")
            tests = tuple(named.split())
        elif line.startswith("same: "):
            last = mutations.pop()
            mutations.append(Mutation(last.file, last.tests, last.find, last.replacement, line[6:]))
        elif file and line.strip():
            find, arrow, replacement = line.partition(ARROW)
            if not arrow or find == replacement:
                raise ValueError(f"no change: {line!r}")
            mutations.append(Mutation(file, tests, find.replace("\\n", "\n"), replacement.replace("\\n", "\n")))
    return mutations


def rotten(mutations: list[Mutation]) -> list[str]:
    """The changes whose text does not stand in its file exactly once, with how often it does."""
    texts = {name: (ROOT / name).read_text() for name in {each.file for each in mutations}}
    return [f"{each} ({count} times)" for each in mutations if (count := texts[each.file].count(each.find)) != 1]


def noticed(tree: Path, mutation: Mutation, limit: float) -> str:
    """How the tests noticed the change; empty if they did not."""
    path = tree / mutation.file
    original = path.read_text()
    path.write_text(original.replace(mutation.find, mutation.replacement))
    try:
        return run_tests(tree, mutation.tests, limit)
    finally:
        path.write_text(original)


def run_tests(tree: Path, tests: tuple[str, ...], limit: float) -> str:
    """The first failure of the tests; empty if there is none. `limit` is in seconds of CPU time.

    They run in a fork of this process, which has imported pytest and hypothesis but nothing of the tree.
    """
    output = tree / "output.txt"
    child = os.fork()
    if not child:
        _run_in_child(tree, tests, limit, output)
    _, status = os.waitpid(child, 0)
    if status == 0:
        return ""
    lines = [line for line in output.read_text(errors="replace").splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0] if lines else f"status {status:#x}"


def _run_in_child(tree: Path, tests: tuple[str, ...], limit: float, output: Path) -> NoReturn:
    import pytest

    status = 99
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
        os.chdir(tree)
        os.environ["CI"] = "1"
        sys.path[:] = [
            str(tree),
            *(entry for entry in sys.path if Path(entry or ".").resolve() not in (ROOT, ROOT / "tools")),
        ]
        sys.dont_write_bytecode = True
        with output.open("w") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        status = pytest.main([*OPTIONS, *tests], [_FirstFailure()])
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - a fork must not return into its parent's code
        traceback.print_exc()
    finally:
        os._exit(int(status))


class _FirstFailure:
    """A plugin of pytest: hypothesis neither makes a failure small nor looks for others, which takes minutes."""

    def pytest_sessionstart(self) -> None:
        from hypothesis import Phase, settings

        phases = [phase for phase in settings().phases if phase not in (Phase.shrink, Phase.explain)]
        settings.register_profile("mutate", settings(), phases=phases, report_multiple_bugs=False)
        settings.load_profile("mutate")


def main() -> int:
    """Exit status 1 if a change survived that is not explained, or does not apply."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only whether each change still applies")
    parser.add_argument(
        "--only", default="", help="changes whose file or text contains one of these, with | between them"
    )
    parser.add_argument("--limit", type=float, default=120, help="seconds of CPU time for the tests of one change")
    arguments = parser.parse_args()
    mutations = read_list(LIST.read_text())
    mutations = [each for each in mutations if any(part in str(each) for part in arguments.only.split("|"))]
    gone = rotten(mutations)
    if gone or arguments.check:
        print(f"{len(mutations)} changes, {len(gone)} do not apply", *gone, sep="\n")
        return 1 if gone else 0
    survivors, wrong = [], []
    with tempfile.TemporaryDirectory(prefix="pyebpf-mutate-") as folder:
        tree = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy(source, tree / name)
        import hypothesis  # noqa: F401 - imported once, for all forks
        import pytest  # noqa: F401 - as above

        passing: set[tuple[str, ...]] = set()
        for number, mutation in enumerate(mutations, 1):
            if mutation.tests not in passing:
                failure = run_tests(tree, mutation.tests, arguments.limit)
                if failure:
                    print(f"{' '.join(mutation.tests)} fails without any change: {failure}")
                    return 1
                passing.add(mutation.tests)
            failure = noticed(tree, mutation, arguments.limit)
            word = "killed" if failure else "same" if mutation.same else "SURVIVED"
            print(f"{number}/{len(mutations)} {word} {mutation}  [{failure[:120]}]", flush=True)
            if failure and mutation.same:
                wrong.append(mutation)
            elif not failure and not mutation.same:
                survivors.append(mutation)
    same = sum(bool(each.same) for each in mutations)
    print(f"{len(mutations)} changes, {same} of them the same program: {len(mutations) - same - len(survivors)} killed")
    print(*(f"survived: {each}" for each in survivors), *(f"not the same: {each}" for each in wrong), sep="\n")
    return 1 if survivors or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
