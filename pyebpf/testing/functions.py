"""Functions that a test names: each has an address in the simulation, and call stacks are made of them."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyebpf.errors import InvalidValue
from pyebpf.symbols.frame import Frame
from pyebpf.symbols.kernel import KERNEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_KERNEL_TEXT = 0xFFFF_FFFF_8100_0000
_USER_TEXT = 0x5555_5540_0000
#: Between one function and the next: more than any function is long.
_SPACE = 1 << 20
#: "module:name+offset"; the colons of a C++ name part no module from it.
_FRAME = re.compile(r"(?:(?P<module>[^:]+):(?!:))?(?P<name>.+?)(?:\+(?P<offset>0x[0-9a-f]+|\d+))?", re.IGNORECASE)


class FunctionAddresses:
    """Functions of the kernel or of processes, each placed when it is first named."""

    def __init__(self, base: int, module: str) -> None:
        self._base = base
        self._module = module
        self._functions: dict[tuple[str, str], int] = {}
        self._frames: dict[int, Frame] = {}

    def place(self, text: str) -> int:
        """Address of "function", "function+0x1a" or "module:function+0x1a"."""
        found = _FRAME.fullmatch(text)
        if found is None:
            raise InvalidValue(
                f"{text!r} is not a place in a function: write it as function+0x1a or module:function+0x1a"
            )
        module, name, offset = found["module"] or self._module, found["name"], int(found["offset"] or "0", 0)
        if offset >= _SPACE:
            raise InvalidValue(f"{text!r}: an offset in a function is less than {_SPACE:#x}")
        start = self._functions.setdefault((module, name), self._base + _SPACE * len(self._functions))
        self._frames[start + offset] = Frame(name, offset, module, start + offset)
        return start + offset

    def addresses(self, frames: Iterable[int | str]) -> tuple[int, ...]:
        """A stack's addresses: text is placed, numbers stay."""
        return tuple(self.place(each) if isinstance(each, str) else each for each in frames)

    def resolve(self, address: int) -> Frame:
        """Return the frame of an address; without a name if the test has placed nothing there."""
        return self._frames.get(address) or Frame("", address, "", address)


class SimulatedSymbols:
    """Symbols for `bpf.stacks` and `bpf.function_name`: the functions that the test has named."""

    #: The reason that functions of the kernel have no names: empty, since they have.
    hidden = ""
    #: Files that were not read: none is.
    given_up: Mapping[str, str] = MappingProxyType({})

    def __init__(self) -> None:
        self.text = FunctionAddresses(_KERNEL_TEXT, KERNEL)
        self.user_text = FunctionAddresses(_USER_TEXT, "")

    @property
    def kernel(self) -> SimulatedSymbols:
        """The kernel's symbols, for `hidden`."""
        return self

    @property
    def processes(self) -> SimulatedSymbols:
        """The processes, for `see`."""
        return self

    def see(self, pid: int) -> bool:
        """Whether a process has mappings to be noted: all have the same."""
        return pid > 0

    def kernel_frames(self, addresses: Sequence[int]) -> tuple[Frame, ...]:
        """Frames of a stack in the kernel, as the test gave them."""
        return tuple(map(self.text.resolve, addresses))

    def user_frames(
        self,
        _pid: int,
        addresses: Sequence[int],
        *,
        source: bool = False,  # noqa: ARG002 - the interface's
    ) -> tuple[Frame, ...]:
        """Frames of a stack in a process, as the test gave them, who knows no source."""
        return tuple(map(self.user_text.resolve, addresses))

    def __getitem__(self, address: int) -> str:
        """Name of the kernel's function at an address; the address in hexadecimal where none was named."""
        return self.text.resolve(address).name or f"{address:#x}"
