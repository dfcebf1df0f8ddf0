"""Functions of the kernel that probes can be put on: what ftrace reaches, and what kprobes may not touch."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from pyebpf.kernel.descriptor import Descriptor
from pyebpf.kernel.syscall import address_of, syscall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.kernel.tracefs import Tracefs

#: Lines of available_filter_functions with a module have it in brackets; those of ..._addrs have an address before.
_LINE = rb"^(?:([0-9a-f]{16}) )?(%s)(?: \[(%s)\])?$"
_NAME = rb"[^ \n]+"
#: Bytes between a function's first and ftrace's own instruction: behind ENDBR64 (4), BTI and the like (4, 8).
_ENTRY_SIZES = (0, 4, 8)
_GLOB = re.compile(r"(\*+)|(\?)|\[(!?)([^\]]+)\]|(.)", re.DOTALL)


def is_pattern(name: str) -> bool:
    """Whether a name has one of the characters `*`, `?`, `[`, so that it stands for all names that match."""
    return any(character in name for character in "*?[")


def glob(pattern: str) -> bytes:
    """A shell's pattern as a regular expression that stays within a name: `*`, `?`, `[a-z]`, `[!a-z]`."""
    parts = []
    for star, one, negated, characters, plain in _GLOB.findall(pattern):
        if star:
            parts.append(r"[^ \n]*")
        elif one:
            parts.append(r"[^ \n]")
        elif characters:
            inside = characters.replace("\\", r"\\").replace("[", r"\[")
            try:
                re.compile(f"[{inside}]")
            except re.error:
                inside = r"\x00"  # a range from its end to its start has no character of any name
            parts.append(rf"[^ \n{inside}]" if negated else f"[{inside}]")
        else:
            parts.append(re.escape(plain))
    return "".join(parts).encode()


class Traceable:
    """`available_filter_functions` of tracefs: the functions that ftrace reaches, so fentry and kprobe.multi too.

    Read once, when first asked. Raises OSError (EPERM under lockdown) or FileNotFoundError (no ftrace).
    """

    def __init__(self, tracefs: Tracefs) -> None:
        self._tracefs = tracefs
        self._text: bytes | None = None

    @property
    def text(self) -> bytes:
        """The file's content behind a line's end, with addresses where there is such a file."""
        if self._text is None:
            try:
                # Since Linux commit 83f74441bcb1 ("tracing: Show all functions with their addresses") (v6.5).
                self._text = b"\n" + self._tracefs.read_top("available_filter_functions_addrs")
            except FileNotFoundError:
                self._text = b"\n" + self._tracefs.read_top("available_filter_functions")
        return self._text

    def matching(self, pattern: str, module: str = "") -> Iterator[tuple[str, str, int]]:
        """Name, module ("" for the kernel itself) and address (0 where not listed) of what matches, in its order.

        The module may be a pattern, or "vmlinux": the kernel itself.
        The address is the one of ftrace's own instruction, a few bytes into a function that begins with another.
        """
        itself = module == "vmlinux"
        names, modules = glob(pattern), glob(module) if module and not itself else _NAME
        for found in re.finditer(_LINE % (names, modules), self.text, re.MULTILINE):
            address, name, home = found.groups()
            if not module or bool(home) is not itself:
                yield name.decode(), (home or b"").decode(), int(address or b"0", 16)

    def names(self) -> frozenset[bytes]:
        """All their names."""
        return frozenset(re.findall(rb"^(?:[0-9a-f]{16} )?([^ \n]+)", self.text, re.MULTILINE))

    def name_at(self, address: int) -> str | None:
        """Name of the function that begins at `address`; None if it is not listed, or nothing was read."""
        if self._text is None or not address:
            return None
        for offset in _ENTRY_SIZES:
            start = b"\n%x " % (address + offset)
            at = self._text.find(start)
            if at >= 0:
                end = self._text.find(b"\n", at + 1)
                return self._text[at + len(start) : end].partition(b" ")[0].decode()
        return None


def kprobe_blacklist() -> frozenset[str] | None:
    """Functions that kprobes may not be put on, by debugfs `kprobes/blacklist`; None if that cannot be read.

    debugfs is looked at through a mount of our own that nobody else sees.
    """
    name = bytearray(b"debugfs\0")
    try:
        with Descriptor(syscall("fsopen", address_of(name), 1), "debugfs context") as context:
            syscall("fsconfig", context.fileno(), 6, 0, 0, 0)  # FSCONFIG_CMD_CREATE
            root = Descriptor(syscall("fsmount", context.fileno(), 1, 0), "debugfs mount")
        with root:
            fd = os.open("kprobes/blacklist", os.O_RDONLY | os.O_CLOEXEC, dir_fd=root.fileno())
            with Descriptor(fd, "kprobes/blacklist"), os.fdopen(fd, "rb", closefd=False) as file:
                lines = file.read().splitlines()
    except OSError:
        return None
    # 0xffffffff81000000-0xffffffff81000010<tab>name
    return frozenset(line.partition(b"\t")[2].decode(errors="replace") for line in lines)
