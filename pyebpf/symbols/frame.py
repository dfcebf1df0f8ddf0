"""An address with its name."""

from __future__ import annotations

from typing import NamedTuple


class Frame(NamedTuple):
    """A symbolized address.

    `name` is that of the function, "" if it has none; `offset` counts bytes from its start, or where no name is known
    from that of the module. `module` is "kernel" or a kernel module's name, the path of the file that is mapped,
    "[vdso]" or the like; "" if nothing is there.
    """

    name: str
    offset: int
    module: str
    address: int

    @property
    def label(self) -> str:
        """The function's name, or `[FILE]` or `[unknown]` in place of it: equal for all addresses of one function."""
        if self.name:
            return self.name
        return f"[{self.module.rpartition('/')[2].strip('[]') or 'unknown'}]"

    def __str__(self) -> str:
        if self.name:
            return f"{self.name}+{self.offset:#x}"
        return (
            f"[{self.module.rpartition('/')[2].strip('[]')}+{self.offset:#x}]" if self.module else f"{self.address:#x}"
        )
