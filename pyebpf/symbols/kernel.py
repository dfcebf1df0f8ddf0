"""The kernel's own symbols, those of its modules and of BPF programs, as /proc/kallsyms lists them."""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from fnmatch import translate
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

from pyebpf.symbols.frame import Frame

KERNEL = "kernel"
#: Types of symbols that are functions.
FUNCTIONS = b"tTwW"
# Space before a function for instructions that the kernel patches in: CONFIG_CALL_PADDING makes 50,000 symbols of it.
_PADDING = b"__pfx_"
# Symbols have no size; what lies further behind one than any function is long belongs to something else.
_LONGEST = 1 << 20
_LOWEST = 1 << 32  # below are offsets of per-CPU variables
_READ_AGAIN = 5.0  # seconds
_DIGITS = 16  # of an address
_PART = 1 << 10  # bytes that are looked at in one go
_ADDRESS = itemgetter(slice(_DIGITS))
_NOWHERE = b"0" * _DIGITS + b" A "


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
            if name and not name.startswith(_PADDING):
                found.append((address, rest[0], name, module.strip(b"[]")))
        return found

    @cached_property
    def hidden(self) -> str:
        """Reason why there are no addresses: one line with what to do. Empty where there are."""
        if not self._text:
            if shortage := _shortage():
                return f"/proc/kallsyms cannot be read: {shortage}"
            return "this kernel does not list its symbols: there is no readable /proc/kallsyms (CONFIG_KALLSYMS)"
        if any(address.strip(b"0") for address, _, _, _ in self._lines):
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
    def _parts(self) -> tuple[list[bytes], list[int]]:
        """Parts of the kernel's own lines: the first address of each, and where each begins, then where the last ends.

        These lines lie in the order of their addresses, so that they are looked up where they are: an object for each
        takes 20 MiB. If they do not, as in a test, there are no parts.
        """
        text = self._text
        module = text.find(b"\t")
        end = (text.rfind(b"\n", 0, module) if module >= 0 else text.rfind(b"\n")) + 1
        firsts: list[bytes] = []
        starts = [0]
        highest = b""
        while starts[-1] < end:
            start = starts[-1]
            part = text[start : text.rfind(b"\n", start, min(start + _PART, end)) + 1 or end]
            addresses = [highest, *map(_ADDRESS, part.splitlines())]
            if addresses != sorted(addresses):
                return [], [0]
            firsts.append(addresses[1])
            starts.append(start + len(part))
            highest = addresses[-1]
        return firsts, starts

    @cached_property
    def _others(self) -> list[bytes]:
        """The lines behind those, of modules and programs, by address."""
        return sorted(self._text[self._parts[1][-1] :].splitlines(), key=_ADDRESS)

    def read(self) -> None:
        """Read the file, if that has not been done."""
        _ = self._others

    def _nearest(self, address: bytes) -> bytes:
        """The line of the nearest symbol up to an address; of several names for one, the first.

        It is the kernel's own choice when it prints a stack.
        """
        firsts, starts = self._parts
        part = bisect_right(firsts, address)
        # With the part before: names of the address may begin there.
        lines = self._text[starts[max(part - 2, 0)] : starts[part]].splitlines()
        return max(_nearest(lines, address), _nearest(self._others, address), key=_ADDRESS)

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
        line = self._nearest(b"%016x" % address)
        offset = address - int(line[:_DIGITS], 16)
        if not 0 <= offset < _LONGEST or address - offset < _LOWEST:
            return Frame("", address, "", address)
        if line[_DIGITS + 1] not in FUNCTIONS:  # data ends a function
            return Frame("", address, "", address)
        name, _, module = _name(line).decode(errors="surrogateescape").partition("\t")
        return Frame(name, offset, module.strip("[]") or KERNEL, address)

    def refresh(self) -> None:
        """Forget what was read, so that the next question reads the file again. Nothing happens to a text given."""
        if self._given is None:
            for name in ("_text", "_lines", "_by_name", "_parts", "_others", "hidden"):
                self.__dict__.pop(name, None)
            self._frames = {address: frame for address, frame in self._frames.items() if frame.name}


def _nearest(lines: list[bytes], address: bytes) -> bytes:
    """The first of the lines of the last address up to one given, padding left out; without any one of address 0."""
    found = _NOWHERE
    for number in range(bisect_right(lines, address, key=_ADDRESS) - 1, -1, -1):
        line = lines[number]
        if found is not _NOWHERE and _ADDRESS(line) != _ADDRESS(found):
            break
        if not _name(line).startswith(_PADDING):
            found = line
    return found


def _name(line: bytes) -> bytes:
    """The name of a line, with a tab and [module] behind that of a module's."""
    return line[_DIGITS + 3 :]


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
