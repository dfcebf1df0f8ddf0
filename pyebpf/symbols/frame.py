"""An address with its name."""

from __future__ import annotations

from typing import NamedTuple


class Frame(NamedTuple):
    """A symbolized address.

    `name` is that of the function, "" if it has none; `offset` counts bytes from its start, or where no name is known
    from that of the module. `module` is "kernel" or a kernel module's name, the path of the file that is mapped,
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
        """The function's name, or `[FILE]` or `[unknown]` in place of it: equal for all addresses of one function."""
        if self.name:
            return f"{self.name} (inlined)" if self.inlined else self.name
        return f"[{self.module.rpartition('/')[2].strip('[]') or 'unknown'}]"

    @property
    def source(self) -> str:
        """File and line as `sort.c:42`, without the file's folder; "" where they are not known."""
        return f"{self.file.rpartition('/')[2]}:{self.line}" if self.line else ""

    def __str__(self) -> str:
        if self.inlined:
            return f"{self.label} {self.source}".rstrip()
        if self.name:
            return f"{self.name}+{self.offset:#x} {self.source}".rstrip()
        return (
            f"[{self.module.rpartition('/')[2].strip('[]')}+{self.offset:#x}]" if self.module else f"{self.address:#x}"
        )
