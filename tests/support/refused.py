"""Probes that verifiers refuse once something is taken away from them, and what it takes to provoke and find that.

Lines that a test expects in an error end with a comment `# <- tag`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from linecache import getline, getlines
from typing import TYPE_CHECKING, Any

import pytest

from pyebpf.asm import find_op
from pyebpf.asm.op import Form
from pyebpf.dataclass import replace
from pyebpf.errors import CompileError, Location, VerifierError
from pyebpf.runtime.loaded import Loaded
from pyebpf.specs import Code, ModuleSpec, ProgramSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyebpf.asm import Instruction
    from pyebpf.dsl.module import Module

MARK = "# <- "
NOTHING = find_op("ja", Form.JUMP)


def marked(file: str, tag: str) -> int:
    """The line of `file` that carries the tag."""
    lines = [number for number, line in enumerate(getlines(file), 1) if line.rstrip().endswith(MARK + tag)]
    assert len(lines) == 1, f"{tag!r} marks lines {lines} of {file}"
    return lines[0]


def here(depth: int = 1) -> Location:
    """The place of the expression that the caller (or one `depth` frames up) is running, as tracebacks underline it."""
    frame = sys._getframe(depth)
    position = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    line, end_line, column, end_column = position
    assert line is not None
    text = getline(frame.f_code.co_filename, line)
    return Location(
        frame.f_code.co_filename, line, column or 0, end_column if line == end_line else len(text.rstrip()), text
    )


# -- taking something away from a compiled program --------------------------------------------------------------------


@dataclass(frozen=True)
class Edit:
    """Change one instruction of a compiled program: the `nth` of those that come from the tagged line and fit.

    `name` is its operation's, or several with `|` between, where targets differ; `helper` the number of the helper
    called. `becomes` gives another operation's name and form, `opcode` a byte of its own; `changes` are fields. With
    `nothing` it does nothing any more.
    """

    tag: str
    name: str
    nth: int = 0
    helper: int | None = None
    becomes: tuple[str, Form] | None = None
    opcode: int | None = None
    nothing: bool = False
    changes: dict[str, Any] = field(default_factory=dict)

    def fits(self, instruction: Instruction, line: int) -> bool:
        where = instruction.where
        return (
            where is not None
            and where.line == line
            and instruction.op.name in self.name.split("|")
            and (self.helper is None or instruction.imm == self.helper)
        )

    def apply(self, code: Code, file: str) -> Code:
        line = marked(file, self.tag)
        found = [i for i, instruction in enumerate(code.instructions) if self.fits(instruction, line)]
        assert len(found) > self.nth, f"{self} finds {len(found)} in line {line}:\n" + "\n".join(
            f"{i.where and i.where.line}: {i!r}" for i in code.instructions
        )
        changed = list(code.instructions)
        old = changed[found[self.nth]]
        if self.nothing:
            # As many of them as the instruction has slots, so that no distance changes.
            assert old.slots == 1
            new = replace(old, op=NOTHING, dst=type(old.dst)(0), src=type(old.src)(0), offset=0, imm=0, symbol=None)
        else:
            op = find_op(*self.becomes) if self.becomes else old.op
            new = replace(old, op=op if self.opcode is None else replace(op, code=self.opcode), **self.changes)
        changed[found[self.nth]] = new
        return replace(code, instructions=tuple(changed))


def provoke(
    declare: Callable[[Module], None],
    *edits: Edit,
    program: dict[str, Any] | None = None,
    maps: dict[str, dict[str, Any]] | None = None,
) -> VerifierError | None:
    """Compile the probes that `declare` makes for this machine, edit the code, load it: the refusal.

    `program` and `maps` (by name) change fields of the specs.
    """
    from pyebpf import BPF

    bpf = BPF()
    declare(bpf)
    file = declare.__code__.co_filename
    with Loaded() as loaded:
        spec = bpf.compile(loaded.target())
        return refusal(loaded, edited(spec, edits, file, program or {}, maps or {}))


def edited(
    spec: ModuleSpec, edits: tuple[Edit, ...], file: str, program: dict[str, Any], maps: dict[str, dict[str, Any]]
) -> ModuleSpec:
    """`spec` with its code and fields changed."""

    def programs() -> Iterator[ProgramSpec]:
        for each in spec.programs:
            code = each.code
            for edit in edits:
                code = edit.apply(code, file)
            yield replace(each, code=code, **program)

    return ModuleSpec(tuple(replace(each, **maps.get(each.name, {})) for each in spec.maps), tuple(programs()))


def compile_error(compiling: Callable[[], object]) -> str:
    """The message of the error at a place that a compilation raises, such as `bpf.specs`."""
    with pytest.raises(CompileError) as caught:
        compiling()
    assert caught.value.location is not None
    return caught.value.message


def refusal(loaded: Loaded, spec: ModuleSpec) -> VerifierError | None:
    """What the verifier says to it; None if it takes it."""
    try:
        loaded.load(spec)
    except VerifierError as error:
        return error
    return None
