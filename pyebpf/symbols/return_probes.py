"""Programs that a probe at a function's return can end.

The kernel puts an address of its own in place of the return address. Whoever walks the stack to unwind or to move it
finds that address, and no code of the program behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.elf.symbols import ElfSymbols

#: Symbols that code with handlers for exceptions needs, and what ends a program where such a handler is sought.
_PERSONALITIES = {
    "__gxx_personality_v0": "a C++ exception",
    "rust_eh_personality": "a panic of Rust",
}
#: The sections of tables that Go's runtime walks stacks by; the second in position-independent programs.
_GO_TABLES = frozenset({".gopclntab", ".data.rel.ro.gopclntab"})


def hazards_of_returns(elf: ElfSymbols, binary: str) -> Iterator[str]:
    """Yield a line on each way in which a probe at a return of this file's functions can end a program.

    A file without a symbol that says so, such as a stripped one of Rust, has none.
    """
    if not _GO_TABLES.isdisjoint(section.name for section in elf.sections):
        yield (
            f'{binary}: its Go runtime ends a program ("unexpected return pc") when it moves or scans the stack of a '
            "function with a probed return: probe entries alone"
        )
    for personality, thrown in _PERSONALITIES.items():
        if elf.mentions(personality):
            end = "that passes a function with a probed return ends the program"
            yield f"{binary}: {thrown} {end}: probe entries alone"
