"""What compilation makes, as text to be compared: run as a program, for a process with hash seeds of its own.

python -m tests.support.compiled cases           # every case of the language, for a made-up kernel
python -m tests.support.compiled tools FACTS     # every tool, for the kernel whose facts the file holds
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.specs import ModuleSpec
    from pyebpf.target import Target

#: Each tool's options, beside the defaults: one set that turns on as much as goes together.
TOOLS: dict[str, list[dict[str, Any]]] = {
    "biolatency": [{}, {"by_disk": True, "by_flags": True}, {"queued": True, "linear": True}],
    "opensnoop": [{}, {"pid": 7, "tid": 8, "uid": 9, "failed": True}],
    "syscount": [{}],
    "tcplife": [{}, {"pid": 7}],
}


def described(spec: ModuleSpec) -> str:
    """Every byte that a module hands to the loader, as text."""
    from pyebpf.asm import listing

    lines = [f"map {m.name} {m.type.name} {m.key} {m.value} {m.max_entries} {m.flags} {m.initial!r}" for m in spec.maps]
    for program in spec.programs:
        lines.append(f"program {program.name} {program.type.name} {program.attach} {program.attach_btf}")
        lines.append(listing(program.code.instructions))
        lines += [f"{each.name} {each.start}" for each in program.code.subprograms]
    return "\n".join(lines)


def tools(target: Target) -> Iterator[str]:
    """The tools' modules compiled for a target."""
    for name, sets in TOOLS.items():
        module = importlib.import_module(f"pyebpf.programs.{name}")
        for options in sets:
            yield f"{name} {options}\n{described(module.build(module.Options(**options)).specs(target))}"


def cases() -> Iterator[str]:
    """The language's cases compiled for a kernel that exists nowhere."""
    from tests.language.harness import Case, Numbers
    from tests.language.test_control import CASES

    for text in CASES:
        case = Case(text.body, text.parameters, text.outside)
        yield described(case.bpf.compile(Numbers()))


if __name__ == "__main__":
    if sys.argv[1] == "cases":
        texts = cases()
    else:
        from pyebpf.target import RecordedTarget

        texts = tools(RecordedTarget.from_json(Path(sys.argv[2]).read_text(encoding="utf-8")))
    sys.stdout.write("\n".join(texts))
