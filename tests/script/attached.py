"""Which scripts of others attach on the running kernel, and what they are told: a line of JSON for each.

    PYEBPF_SCRIPTS=name=FOLDER:name=FOLDER python -m tests.script.attached > 6.12.json

Each folder is searched for *.bt. Needs root. `python -m tests.script.table` makes a table of several kernels' lines.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.errors import NotFound, PyebpfError
from pyebpf.script import Script

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.target import Target

UNCHANGED, TOLD, REFUSED, ABSENT = "yes", "told", "no", "program"
#: A change that keeps a script from being attached: it is told before the kernel says so.
_NOT_ATTACHED = re.compile(r"no function |the compiler made ")
_OF_PROGRAMS = re.compile(r"^\s*(?:uprobe|uretprobe|usdt|u|ur|U):", re.MULTILINE)
_NUMBERED = re.compile(r"^[^/*#\n]*\$1\b", re.MULTILINE)
#: Seconds for one script, in an emulated machine.
_LIMIT = 180
#: A script that imports what most need, once for all processes.
_WARM = """kprobe:vfs_read { @[kstack, ustack, comm] = hist(((struct file *)arg0)->f_pos); printf("%s", str(arg1)); }
tracepoint:syscalls:sys_enter_openat { @[str(args.filename)] = count(); } interval:s:1 { print(@); }"""


class Outcome(NamedTuple):
    """The answer, and what is said of a script, a sentence each."""

    answer: str
    told: list[str]


def scripts(folders: str) -> dict[str, dict[str, Path]]:
    """Files by their names in the folder, by the name of their collection."""
    found = {}
    for each in folders.split(":"):
        name, _, folder = each.partition("=")
        files = sorted(Path(folder).rglob("*.bt"))
        found[name] = {str(file.relative_to(folder).with_suffix("")): file for file in files}
    return found


def arguments_of(text: str) -> list[str]:
    """An argument, for a script that reads one."""
    return ["1"] if _NUMBERED.search(text) else []


def attach(script: Script) -> None:
    """Attach and detach all of it."""
    with script:
        pass


def outcome(text: str, file: str, target: Target | None = None, attach: Callable[[Script], None] = attach) -> Outcome:
    """What becomes of a script; `target` is the running kernel by default."""
    told: list[str] = []
    try:
        script = Script(text, arguments_of(text), file=file, unsafe=True)
        told = [_sentence(line) for line in script.kernel_changes(target)]
        attach(script)
    except PyebpfError as error:
        if any(_NOT_ATTACHED.match(each) for each in told):
            return Outcome(REFUSED, [each for each in told if _NOT_ATTACHED.match(each)])
        missing = isinstance(error, NotFound) and _OF_PROGRAMS.search(text) is not None
        return Outcome(ABSENT if missing else REFUSED, [_sentence(str(error))])
    return Outcome(TOLD if told else UNCHANGED, told)


def _sentence(message: str) -> str:
    """The message without its place and its excerpt."""
    first = message.splitlines()[0]
    return re.sub(r"^[^ :]+\.bt:\d+: ", "", first)


def _in_a_process(path: Path) -> Outcome:
    """The outcome, found in a process of its own: what one script leaves behind is none of the next one's."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(_LIMIT)
        with os.fdopen(writer, "w", encoding="utf-8") as file:
            json.dump(outcome(path.read_text(errors="replace"), path.name), file)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as file:
        text = file.read()
    os.waitpid(child, 0)
    return Outcome(*json.loads(text)) if text else Outcome(REFUSED, [f"it took more than {_LIMIT} seconds"])


def main() -> None:
    """Print a line for each script."""
    outcome(_WARM, "warm.bt")
    for collection, files in scripts(os.environ["PYEBPF_SCRIPTS"]).items():
        for name, path in files.items():
            found = _in_a_process(path)
            line = {"collection": collection, "script": name, **found._asdict()}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
