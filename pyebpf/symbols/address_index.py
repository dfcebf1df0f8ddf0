"""The lines of /proc/kallsyms by address, without an object for each: there are 120,000, and few are asked for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter

# Space before a function for instructions that the kernel patches in: CONFIG_CALL_PADDING makes 50,000 symbols of it.
PADDING = b"__pfx_"
DIGITS = 16  # of an address
_ADDRESS = itemgetter(slice(DIGITS))
#: Bytes of the text that are looked at together: some ninety lines.
_PIECE = 1 << 12


def name_of(line: bytes) -> bytes:
    """The name of a line, with a tab and [module] behind that of a module's."""
    return line[DIGITS + 3 :]


class AddressIndex:
    """The text in pieces of some lines, found by their first address.

    The kernel lists its own symbols by address, those of each module as they come. Pieces that are out of order are
    kept as lines, sorted.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._firsts: list[bytes] = []
        self._ends: list[tuple[int, int]] = []
        self._others: list[bytes] = []
        begin, last = 0, b""
        while begin < len(text):
            end = (text.find(b"\n", begin + _PIECE) + 1) or len(text)
            lines = text[begin:end].splitlines()
            addresses = [line[:DIGITS] for line in lines]
            if addresses[0] >= last and addresses == sorted(addresses):
                self._firsts.append(addresses[0])
                self._ends.append((begin, end))
                last = addresses[-1]
            else:
                self._others += lines
            begin = end
        self._others.sort(key=_ADDRESS)

    def at(self, address: int) -> bytes | None:
        """The line of the symbol that begins last at or before an address; None if none does.

        Of several names for one address, the first: the kernel's own choice when it prints a stack.
        """
        wanted = b"%016x" % address
        found = [line for lines in (self._near(wanted), self._others) if (line := _last(lines, wanted)) is not None]
        return max(found, key=_ADDRESS, default=None)

    def _near(self, wanted: bytes) -> list[bytes]:
        """The lines of the last piece that begins at or before an address, and of the one before that."""
        number = bisect_right(self._firsts, wanted)
        if number == 0:
            return []
        return self._text[self._ends[max(number - 2, 0)][0] : self._ends[number - 1][1]].splitlines()


def _last(lines: list[bytes], wanted: bytes) -> bytes | None:
    """The line that `at` means, of sorted lines."""
    index = bisect_right(lines, wanted, key=_ADDRESS) - 1
    while index >= 0 and name_of(lines[index]).startswith(PADDING):
        index -= 1
    if index < 0:
        return None
    first = bisect_left(lines, lines[index][:DIGITS], key=_ADDRESS)
    return next(line for line in lines[first : index + 1] if not name_of(line).startswith(PADDING))
