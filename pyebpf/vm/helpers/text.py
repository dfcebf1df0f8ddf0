"""Helpers on text and foreign memory: probe_read and its kin, comparing, numbers in text, formatting."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.uapi.errno_table import EFAULT, EINVAL, ERANGE
from pyebpf.vm.helpers.registry import emulates
from pyebpf.vm.memory import USER_END

if TYPE_CHECKING:
    from pyebpf.vm.machine import Machine

_LOW = 0xFFFF_FFFF
_SIGN = 1 << 63
_MAX_TEXT = 512
_DIGITS = {8: rb"[0-7]*", 10: rb"[0-9]*", 16: rb"[0-9a-fA-F]*"}
_DIRECTIVE = re.compile(rb"%(?:%|(?P<flags>[-+ 0]*)(?P<width>\d*)(?P<size>ll|l)?(?P<type>[diuxXcsp])(?P<kind>[ks]?))")
_UNITS = {b"ll": 64, b"l": 64}


def _fault(address: int, *, user: bool | None) -> int:
    """The error of an address that cannot be read: x86-64's copy_from_kernel_nofault_allowed says -ERANGE."""
    is_kernels = address >> 47 == 0x1FFFF
    return -EFAULT if user or is_kernels or (user is None and address < USER_END) else -ERANGE


def _read(vm: Machine, to: int, size: int, source: int, *, user: bool | None) -> int:
    size &= _LOW
    found = vm.memory.peek(source, size, user=user)
    # What could not be read leaves zeros.
    vm.memory.write(to, bytes(size) if found is None else found)
    return _fault(source, user=user) if found is None else 0


@emulates("probe_read")
def probe_read(vm: Machine, to: int, size: int, source: int) -> int:
    """Copy memory of either kind."""
    return _read(vm, to, size, source, user=None)


@emulates("probe_read_kernel")
def probe_read_kernel(vm: Machine, to: int, size: int, source: int) -> int:
    """Copy kernel memory."""
    return _read(vm, to, size, source, user=False)


@emulates("probe_read_user", "copy_from_user")
def probe_read_user(vm: Machine, to: int, size: int, source: int) -> int:
    """Copy user memory."""
    return _read(vm, to, size, source, user=True)


@emulates("probe_write_user")
def probe_write_user(vm: Machine, to: int, source: int, size: int) -> int:
    """Change user memory that the caller has given."""
    size &= _LOW
    data = vm.memory.read(source, size)
    found = vm.memory.find(to) if vm.memory.peek(to, size, user=True) is not None else None
    if found is None:
        return -EFAULT
    found[0][found[1] : found[1] + size] = data
    return 0


def _read_string(vm: Machine, to: int, size: int, source: int, *, user: bool | None) -> int:
    size &= _LOW
    if not size:
        return 0
    raw = vm.memory.text(source, size, user=user)
    if raw is None:
        vm.memory.write(to, bytes(size))
        return _fault(source, user=user)
    out = bytearray(raw)
    out[-1] = 0
    length = len(out)
    if user is not False and source < USER_END:
        # lib/strncpy_from_user.c copies words of 8 while there is room for one, bytes behind the NUL as zeros.
        out = out.ljust(min(length + 7 & ~7, max(size & ~7, length)), b"\0")
    vm.memory.write(to, bytes(out))
    return length


@emulates("probe_read_str")
def probe_read_str(vm: Machine, to: int, size: int, source: int) -> int:
    """Copy text of either kind up to its NUL; how many bytes, the NUL included."""
    return _read_string(vm, to, size, source, user=None)


@emulates("probe_read_kernel_str")
def probe_read_kernel_str(vm: Machine, to: int, size: int, source: int) -> int:
    """Copy text of the kernel."""
    return _read_string(vm, to, size, source, user=False)


@emulates("probe_read_user_str")
def probe_read_user_str(vm: Machine, to: int, size: int, source: int) -> int:
    """Copy text of user space."""
    return _read_string(vm, to, size, source, user=True)


@emulates("strncmp")
def strncmp(vm: Machine, first: int, size: int, second: int) -> int:
    """Compare up to a NUL or `size` bytes: negative, 0 or positive."""
    for place in range(size & _LOW):
        a, b = vm.memory.read(first + place, 1)[0], vm.memory.read(second + place, 1)[0]
        if a != b:
            return -1 if a < b else 1
        if a == 0:
            break
    return 0


def _number(vm: Machine, text: int, length: int, flags: int, result: int, *, signed: bool) -> int:
    # Since Linux commit 4b3786a6c539 (in v6.12) an error leaves 0; before, what was there.
    vm.memory.write(result, bytes(8))
    base = flags & 0x1F
    if base not in (0, 8, 10, 16) or flags & ~0x1F or not length or not text:
        return -EINVAL
    raw = vm.memory.read(text, length).partition(b"\0")[0]
    # The kernel's isspace counts the Latin-1 no-break space among the blanks.
    match = re.match(rb"[ \t\n\v\f\r\xa0]*(-?)(0[xX])?", raw)
    assert match is not None
    negative, prefix, start = match[1] == b"-", match[2], match.end(1)
    if base == 0:
        # lib/kstrtox.c, _parse_integer_fixup_radix: "0x" means 16 only before a digit.
        hexadecimal = prefix and re.match(rb"[0-9a-fA-F]", raw[match.end() :])
        base = 16 if hexadecimal else 8 if raw[start : start + 1] == b"0" else 10
    if base == 16 and prefix:
        start = match.end()
    digits = re.match(_DIGITS[base], raw[start:])
    assert digits is not None
    if not digits[0]:
        return -EINVAL
    value = int(digits[0], base)
    if value >= 1 << 64:
        return -ERANGE
    if negative and not signed:
        return -EINVAL
    if signed and value > (_SIGN if negative else _SIGN - 1):
        return -ERANGE
    vm.memory.write(result, ((-value if negative else value) & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little"))
    return start + len(digits[0])


@emulates("strtol")
def strtol(vm: Machine, text: int, length: int, flags: int, result: int) -> int:
    """Read a signed number; how many bytes it took."""
    return _number(vm, text, length, flags, result, signed=True)


@emulates("strtoul")
def strtoul(vm: Machine, text: int, length: int, flags: int, result: int) -> int:
    """Read an unsigned number; how many bytes it took."""
    return _number(vm, text, length, flags, result, signed=False)


def _text(vm: Machine, address: int, kind: bytes) -> bytes:
    return (vm.memory.text(address, _MAX_TEXT, user=True if kind == b"u" else None) or b"").rstrip(b"\0")


def formatted(vm: Machine, text: bytes, values: list[int]) -> bytes | None:
    """Format as bpf_trace_printk and bpf_snprintf do; None for a format that they refuse."""
    out, place, given = b"", 0, iter(values)
    while (percent := text.find(b"%", place)) >= 0:
        out += text[place:percent]
        match = _DIRECTIVE.match(text, percent)
        if match is None:
            return None
        place = match.end()
        if match["type"] is None:
            out += b"%"
            continue
        value = next(given, None)
        if value is None:
            return None
        if match["type"] == b"s" or (match["type"] == b"p" and match["kind"] == b"s"):
            out += _text(vm, value, match["kind"])
            place -= len(match["kind"]) if match["type"] == b"s" else 0
            continue
        bits = _UNITS.get(match["size"], 32)
        place -= len(match["kind"])
        kind = match["type"].decode()
        spec = "%" + match["flags"].decode() + match["width"].decode()
        if kind == "p":
            out += b"%016x" % value
            continue
        value &= (1 << bits) - 1
        if kind in "di" and value >> (bits - 1):
            value -= 1 << bits
        out += chr(value & 0xFF).encode("latin-1") if kind == "c" else ((spec + kind) % value).encode()
    return out + text[place:]


@emulates("snprintf")
def snprintf(vm: Machine, to: int, size: int, text: int, data: int, length: int) -> int:
    """Format into memory, cut to `size` with its NUL; the length that it would have with its NUL."""
    if length % 8 or length > 96:
        return -EINVAL
    raw = (vm.memory.text(text, _MAX_TEXT) or b"").rstrip(b"\0")
    values = vm.memory.read(data, length & _LOW)
    words = [int.from_bytes(values[place : place + 8], "little") for place in range(0, len(values), 8)]
    line = formatted(vm, raw, words)
    if line is None:
        return -EINVAL
    if size:
        vm.memory.write(to, line[: size - 1] + b"\0")
    return len(line) + 1
