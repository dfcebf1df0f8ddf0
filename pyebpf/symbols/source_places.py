"""Lines of source files as places for probes: `file.c:22`, by debugging information."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.errors import NotFound, closest
from pyebpf.kernel.roots import split_root
from pyebpf.symbols.debug import debug_info_of

if TYPE_CHECKING:
    from pyebpf.elf.symbols import ElfSymbols

_LINE = re.compile(r"(?P<file>[^:]+):(?P<line>[1-9][0-9]{0,8})")


def is_line(name: str) -> bool:
    """Whether a place is written as a file and a line."""
    return _LINE.fullmatch(name) is not None


def addresses_of_line(elf: ElfSymbols, name: str, binary: str) -> tuple[int, ...]:
    """The addresses at which the code of a line begins, in each function that has it.

    Raises NotFound for a file without debugging information, and for a line without code.
    """
    match = _LINE.fullmatch(name)
    assert match is not None
    file, line = match["file"], int(match["line"])
    info = debug_info_of(elf, root=split_root(elf.path)[0])
    if info is None:
        raise NotFound(
            f"{name}: {binary} has no debugging information, which tells lines: compile it with -g, or install its "
            "debug symbols"
        )
    found = info.code_of(file, line)
    if not found.files:
        raise NotFound(f"{binary} has no source file {file}{closest(file, found.names)}")
    if not found.addresses:
        following = f": the next line that has some is {found.following}" if found.following else ""
        raise NotFound(f"line {line} of {file} has no code in {binary}{following}")
    return found.addresses
