"""The table of docs/bpftrace-scripts.md: which scripts of others compile, and what they are told, by kernel.

    PYEBPF_SCRIPTS=name=FOLDER:name=FOLDER PYEBPF_KERNELS=FOLDER python -m tests.script.table > table.md

Each folder of scripts is searched for *.bt; a folder of kernels has one for each (see `btf_kernel`), named by its
release. Needs root, for the formats of this machine's tracepoints.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf.errors import PyebpfError
from pyebpf.runtime.loaded import Loaded
from pyebpf.script import Script
from tests.script.btf_kernel import BtfKernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyebpf.target import Target

UNCHANGED, TOLD, REFUSED = "yes", "told", "no"
#: A change that keeps a script from being attached: it is told before the kernel says so.
_NOT_ATTACHED = re.compile(r"no function |the compiler made ")


def outcome(text: str, file: str, target: Target) -> tuple[str, list[str]]:
    """What becomes of a script on a kernel, and what is said of it, a sentence each."""
    try:
        script = Script(text, file=file, unsafe=True)
        told = [_sentence(line) for line in script.kernel_changes(target)]
        script.specs(target)
    except PyebpfError as error:
        return REFUSED, [_sentence(str(error))]
    if any(_NOT_ATTACHED.match(each) for each in told):
        return REFUSED, [each for each in told if _NOT_ATTACHED.match(each)]
    return (TOLD if told else UNCHANGED), told


def _sentence(message: str) -> str:
    """The message without its place and its excerpt."""
    first = message.splitlines()[0]
    return re.sub(r"^[^ :]+\.bt:\d+: ", "", first)


def scripts(folders: str) -> dict[str, dict[str, Path]]:
    """Files by their names in the folder, by the name of their collection."""
    found = {}
    for each in folders.split(":"):
        name, _, folder = each.partition("=")
        files = sorted(Path(folder).rglob("*.bt"))
        found[name] = {str(file.relative_to(folder).with_suffix("")): file for file in files}
    return found


def table(files: Mapping[str, Mapping[str, Path]], kernels: Mapping[str, Target]) -> Iterator[str]:
    """The collections, each with its counts, the scripts that are the same everywhere, and a row for each other."""
    for name, paths in files.items():
        parts: list[str] = []
        rows, same = [], []
        counts: dict[str, Counter[str]] = {each: Counter() for each in kernels}
        for shown, path in paths.items():
            found = {
                release: outcome(path.read_text(errors="replace"), path.name, kernel)
                for release, kernel in kernels.items()
            }
            for release, (answer, _) in found.items():
                counts[release][answer] += 1
            sys.stderr.write(f"{path}: {' '.join(answer for answer, _ in found.values())}\n")
            if {answer for answer, _ in found.values()} == {UNCHANGED}:
                same.append(shown)
            else:
                rows.append(f"| {shown} | {' | '.join(each for each, _ in found.values())} | {_reasons(found)} |")
        parts.append(f"### {name}\n\n| | {' | '.join(kernels)} |\n|---{'|---:' * len(kernels)}|")
        parts += [
            f"| {answer} | {' | '.join(str(count[answer]) for count in counts.values())} |"
            for answer in (UNCHANGED, TOLD, REFUSED)
        ]
        parts.append(f"\n`yes` on all: {', '.join(same)}.\n" if same else "")
        if rows:
            parts.append(f"| script | {' | '.join(kernels)} | what |\n|---{'|---' * len(kernels)}|---|")
            parts += rows
        yield "\n".join([*parts, ""])


def _reasons(found: Mapping[str, tuple[str, list[str]]]) -> str:
    """What is said, each sentence once, with the kernels that it is said on unless those are all."""
    where: dict[str, list[str]] = {}
    for release, (_, told) in found.items():
        for each in told:
            short = each.partition(" (did you mean ")[0].partition("; since Linux ")[0].replace("|", "\\|")
            releases = where.setdefault(short, [])
            if release not in releases:
                releases.append(release)
    return "; ".join(
        short if len(releases) == len(found) else f"{', '.join(releases)}: {short}" for short, releases in where.items()
    )


def main() -> None:
    """Print the table."""
    files = scripts(os.environ["PYEBPF_SCRIPTS"])
    folders = [each for each in Path(os.environ["PYEBPF_KERNELS"]).iterdir() if each.is_dir()]
    folders.sort(key=lambda folder: [int(part) for part in folder.name.split(".")])
    with Loaded() as loaded:
        here = loaded.target()
        kernels = {each.name: BtfKernel(each, here, newest=each is folders[-1]) for each in folders}
        for part in table(files, kernels):
            sys.stdout.write(f"{part}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
