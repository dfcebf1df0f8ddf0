"""An address with its name."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

#: The name of what has none.
UNKNOWN = "[unknown]"


@lru_cache(maxsize=8192)
def _demangled(name: str) -> str:
    from pyebpf.symbols.demangle import demangled  # most programs are written in C

    return demangled(name)


def readable(name: str) -> str:
    """A symbol's name as people write it, without parameters, where it is a mangled one of C++ or Rust."""
    return _demangled(name) if name.startswith(("_Z", "_R")) else name


class Frame(NamedTuple):
    """A symbolized address.

    `name` is the symbol of the function, "" if it has none; `offset` counts bytes from its start, or where no name is
    known from that of the module. `module` is "kernel" or a kernel module's name, the path of the file that is mapped,
    "[vdso]" or the like; "" if nothing is there.

    Where the source was asked for and is known, `file` and `line` are where the instruction comes from: for all but
    the innermost frame, where the call stands. A function whose call was `inlined` has a frame of its own then, with
    the address of the function that it was inlined into, and no offset.
    """

    name: str
    offset: int
    module: str
    address: int
    file: str = ""
    line: int = 0
    inlined: bool = False

    @property
    def label(self) -> str:
        """The function's name, or `[FILE]` or `[unknown]` in place of it: equal for all addresses of one function.

        Names of C++ and Rust are demangled, without parameters.
        """
        if self.name:
            return f"{readable(self.name)} (inlined)" if self.inlined else readable(self.name)
        return f"[{self.module.rpartition('/')[2].strip('[]') or 'unknown'}]"

    @property
    def source(self) -> str:
        """File and line as `sort.c:42`, without the file's folder; "" where they are not known."""
        return f"{self.file.rpartition('/')[2]}:{self.line}" if self.line else ""

    def with_line(self) -> Frame:
        """The frame under a name that ends in file and line, as those of Python's functions do, if they are known."""
        return self._replace(name=f"{readable(self.name)}:{self.source}") if self.name and self.source else self

    def __str__(self) -> str:
        if self.inlined:
            return f"{self.label} {self.source}".rstrip()
        if self.name:
            return f"{readable(self.name)}+{self.offset:#x} {self.source}".rstrip()
        return (
            f"[{self.module.rpartition('/')[2].strip('[]')}+{self.offset:#x}]" if self.module else f"{self.address:#x}"
        )
