"""The kernel's own symbols, those of its modules and of BPF programs, as /proc/kallsyms lists them."""

from __future__ import annotations

import re
import time
from fnmatch import translate
from functools import cached_property
from typing import NamedTuple

from pyebpf.symbols.address_index import DIGITS, PADDING, AddressIndex, name_of
from pyebpf.symbols.frame import Frame

KERNEL = "kernel"
#: Types of symbols that are functions.
FUNCTIONS = b"tTwW"
# Symbols have no size; what lies further behind one than any function is long belongs to something else.
_LONGEST = 1 << 20
_LOWEST = 1 << 32  # below are offsets of per-CPU variables
_READ_AGAIN = 5.0  # seconds
#: A line whose address is not all zeros.
_ADDRESS = re.compile(rb"^0{0,15}[1-9a-f]", re.MULTILINE)


def read_kallsyms() -> bytes:
    """The content of /proc/kallsyms, where it can be read: 40 ms."""
    try:
        with open("/proc/kallsyms", "rb") as file:
            return file.read()
    except OSError:
        return b""


class KernelSymbol(NamedTuple):
    """A line of /proc/kallsyms. `address` is 0 where they are hidden; `type` as in nm(1): "t" and "T" are functions.

    `module` is "" for the kernel itself, "bpf" for BPF programs.
    """

    name: str
    address: int
    type: str
    module: str

    @property
    def is_function(self) -> bool:
        """Whether it is in a text section."""
        return ord(self.type) in FUNCTIONS


class KernelSymbols:
    """/proc/kallsyms, read when the first question is asked (40 ms for 120,000 symbols).

    Names, patterns and modules can be asked for without any privilege, addresses only where `hidden` is empty.
    Symbols that fill space before functions (`__pfx_...`) are left out. `text` is the file's content, for tests.
    """

    def __init__(self, text: bytes | None = None) -> None:
        self._given = text
        self._read_at = 0.0
        self._frames: dict[int, Frame] = {}

    # The file -------------------------------------------------------------------------------------------------------

    @cached_property
    def _text(self) -> bytes:
        self._read_at = time.monotonic()
        return self._given if self._given is not None else read_kallsyms()

    @cached_property
    def _lines(self) -> list[tuple[bytes, int, bytes, bytes]]:
        """Address in hexadecimal, type, name and module of each symbol that counts."""
        found = []
        for line in self._text.splitlines():
            # As in ffffffff81000000 T _stext, with a tab and [module] behind the name of a module's.
            address, _, rest = line.partition(b" ")
            name, _, module = rest[2:].partition(b"\t")
            if name and not name.startswith(PADDING):
                found.append((address, rest[0], name, module.strip(b"[]")))
        return found

    @cached_property
    def hidden(self) -> str:
        """Reason why there are no addresses: one line with what to do. Empty where there are."""
        if not self._text:
            if shortage := _shortage():
                return f"/proc/kallsyms cannot be read: {shortage}"
            return "this kernel does not list its symbols: there is no readable /proc/kallsyms (CONFIG_KALLSYMS)"
        if _ADDRESS.search(self._text):
            return ""
        level = _setting("/proc/sys/kernel/kptr_restrict")
        remedy = "set the sysctl kernel.kptr_restrict to 1 or 0" if level == "2" else "run as root, or with CAP_SYSLOG"
        return f"the kernel hides the addresses of its symbols (kernel.kptr_restrict is {level}): {remedy}"

    # Names ----------------------------------------------------------------------------------------------------------

    @cached_property
    def _by_name(self) -> dict[bytes, list[int]]:
        found: dict[bytes, list[int]] = {}
        for number, line in enumerate(self._lines):
            found.setdefault(line[2], []).append(number)
        return found

    def _symbol(self, number: int) -> KernelSymbol:
        address, kind, name, module = self._lines[number]
        return KernelSymbol(name.decode(errors="replace"), int(address, 16), chr(kind), module.decode(errors="replace"))

    def find(self, name: str, module: str | None = None) -> tuple[KernelSymbol, ...]:
        """All symbols of a name, functions and data: static ones may have the same in many files."""
        found = (self._symbol(number) for number in self._by_name.get(name.encode(), ()))
        return tuple(symbol for symbol in found if module in {None, symbol.module})

    def names(self) -> tuple[str, ...]:
        """Names of all functions, each once, sorted: what closest names are sought in."""
        return tuple(sorted({line[2].decode(errors="replace") for line in self._lines if line[1] in FUNCTIONS}))

    def functions(self, pattern: str = "*", module: str | None = None) -> tuple[KernelSymbol, ...]:
        """Functions whose name matches a pattern of `fnmatch`, duplicates too; of one module ("" is the kernel)."""
        match = re.compile(translate(pattern).encode()).match
        wanted = None if module is None else module.encode()
        return tuple(
            self._symbol(number)
            for number, (_, kind, name, owner) in enumerate(self._lines)
            if kind in FUNCTIONS and wanted in {None, owner} and match(name)
        )

    def modules(self) -> tuple[str, ...]:
        """Names of the modules that have symbols, sorted; among them "bpf" if programs are loaded."""
        return tuple(sorted({line[3].decode(errors="replace") for line in self._lines} - {""}))

    # Addresses ------------------------------------------------------------------------------------------------------

    @cached_property
    def _by_address(self) -> AddressIndex:
        return AddressIndex(self._text)

    def read(self) -> None:
        """Read the file, if that has not been done."""
        _ = self._by_address

    def resolve(self, address: int) -> Frame:
        """The function that has an address; a frame without a name if it is in none, or addresses are `hidden`.

        Modules loaded and BPF programs made since the list was read are found: it is read again, at most every five
        seconds.
        """
        frame = self._frames.get(address)
        if frame is None:
            frame = self._resolve(address)
            if not frame.name and address >= _LOWEST and time.monotonic() - self._read_at > _READ_AGAIN:
                self.refresh()
                frame = self._resolve(address)
            self._frames[address] = frame
        return frame

    def _resolve(self, address: int) -> Frame:
        line = self._by_address.at(address)
        offset = address - int(line[:DIGITS], 16) if line is not None else address
        if line is None or not 0 <= offset < _LONGEST or address - offset < _LOWEST:
            return Frame("", address, "", address)
        if line[DIGITS + 1] not in FUNCTIONS:  # data ends a function
            return Frame("", address, "", address)
        name, _, module = name_of(line).decode(errors="surrogateescape").partition("\t")
        return Frame(name, offset, module.strip("[]") or KERNEL, address)

    def refresh(self) -> None:
        """Forget what was read, so that the next question reads the file again. Nothing happens to a text given."""
        if self._given is None:
            for name in ("_text", "_lines", "_by_name", "_by_address", "hidden"):
                self.__dict__.pop(name, None)
            self._frames = {address: frame for address, frame in self._frames.items() if frame.name}


def _shortage() -> str:
    """The shortage that keeps the kernel's symbols from being read; empty if that is not why there are none."""
    from pyebpf.kernel.shortages import SHORTAGES  # here, since simulations have symbols, too

    try:
        with open("/proc/kallsyms", "rb"):
            return ""
    except OSError as error:
        return f"{error.strerror}, raise the limit" if error.errno in SHORTAGES else ""


def _setting(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "unknown"
