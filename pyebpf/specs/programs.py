"""The spec of a program.

Instructions with names in place of maps, and what the kernel is told about them. Frozen data, no descriptor.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass
from pyebpf.uapi.flags import BPF_OBJ_NAME_LEN

if TYPE_CHECKING:
    from pyebpf.asm import Instruction
    from pyebpf.specs.attach_point import AttachSpec
    from pyebpf.specs.maps import MapSpec
    from pyebpf.uapi.bpf import ProgramType

#: Bytes of a name in the kernel, without the NUL.
LONGEST_NAME = BPF_OBJ_NAME_LEN - 1
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.]")


@dataclass(frozen=True, slots=True)
class FunctionStart:
    """A function of a program: its name and the index of its first instruction in `Code.instructions`."""

    name: str
    start: int


@dataclass(frozen=True, slots=True)
class GlobalFunction:
    """A function that another program may take the place of: its name, and those of its parameters, each a u64."""

    name: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CodeTypes:
    """BTF for BTF_LOAD, and the FUNC ids of a program's functions, in the order of `Code.subprograms`."""

    btf: bytes
    functions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """The code that the compiler makes of one module.

    Labels are resolved, maps are still names (`Instruction.symbol`), and each instruction knows the Python line that
    it came from (`Instruction.where`). The main function is `subprograms[0]`, at 0. The `global_functions` among them
    are verified by themselves, for any arguments. Of the kernel's functions and variables that are named, those that
    are `weak` may be missing: the variable's address is then 0, and the call one that no verifier takes.
    `btf` is the types that came with the code (an object file's), in place of those made for it.
    """

    instructions: tuple[Instruction, ...]
    subprograms: tuple[FunctionStart, ...]
    global_functions: tuple[GlobalFunction, ...] = ()
    weak: frozenset[str] = frozenset()
    btf: CodeTypes | None = None

    def __post_init__(self) -> None:
        """Take instructions that are written as bytes for what they are. Raises AssemblyError for other bytes."""
        if not all(hasattr(each, "op") for each in self.instructions):
            from pyebpf.asm import instructions_of  # compiled code has none, and does not wait for what reads text

            object.__setattr__(self, "instructions", instructions_of(self.instructions))


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """One program, ready to load.

    `attach_btf` is a BTF id to attach to (0 for none) and `expected_attach_type` enum bpf_attach_type's number, where
    the type wants them; `attach_module` the kernel module whose BTF has that id, empty for vmlinux. `cookie` is read
    back by the helper get_attach_cookie.
    """

    name: str
    type: ProgramType
    code: Code
    attach: AttachSpec | None = None
    expected_attach_type: int = 0
    attach_btf: int = 0
    license: str = "GPL"
    flags: int = 0
    cookie: int = 0
    attach_module: str = ""


#: In place of a candidate, where the kernel has none for an optional request.
LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidate that a probe's request takes, and the reasons against those before it.

    `probe` is the probe's name, `request` what its decorator was given, `number` which of the probe's requests it is;
    `rejected` has each candidate that comes before, with the reason. An `optional` request without a candidate is
    `LEFT_OUT`.
    """

    probe: str
    request: str
    number: int
    candidate: str
    rejected: tuple[tuple[str, str], ...] = ()
    is_last: bool = True
    optional: bool = False


@dataclass(frozen=True, slots=True)
class ModuleSpec:
    """Maps and programs that belong together.

    `choices` has one entry for each request of a probe; `chosen` for each program the index of its request's choice.
    """

    maps: tuple[MapSpec, ...]
    programs: tuple[ProgramSpec, ...]
    choices: tuple[Choice, ...] = ()
    chosen: tuple[int, ...] = ()


def kernel_name(name: str) -> str:
    """A name of a map or program as the kernel takes it: letters, digits, `_` and `.`, at most 15 bytes."""
    return _NOT_IN_NAMES.sub("_", name)[:LONGEST_NAME]
