"""Numbers and strings as a script writes them."""

from __future__ import annotations

import re

_MAX = (1 << 64) - 1
_LONGEST = 100
_NUMBER = (
    r"(?:0[xX]([0-9a-fA-F_]+)|(\d[\d_]*)(?:[eE](\d[\d_]*))?)"
    r"(ns|us|ms|[smhd]|[uU][lL]{0,2}|[lL]{1,2})?"
)
# The largest value of each suffix of C's, and nanoseconds of each of time's.
_LIMITS = {"u": (1 << 32) - 1, "l": (1 << 63) - 1, "ll": (1 << 63) - 1}
_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
_ESCAPE = r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|([\s\S]))"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


class LiteralError(ValueError):
    """A literal that means nothing: the message, and the characters of the literal that it is about."""

    def __init__(self, message: str, start: int = 0, end: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end


def integer(text: str) -> int:
    """The value of a number: decimal, octal, hexadecimal or with an exponent; with a suffix of C's or of time's."""
    if len(text) <= 3 and text.isdecimal() and text.isascii() and (text[0] != "0" or text == "0"):
        return int(text)
    if len(text) > _LONGEST:
        raise LiteralError("this number is too long for 64 bits")
    match = re.fullmatch(_NUMBER, text, re.ASCII)
    if match is None:
        raise LiteralError("this is not a number: decimal, octal (010), hexadecimal (0x10) and 1e6 are, also 10ms")
    hexadecimal, digits, exponent, suffix = match.groups()
    if (hexadecimal or digits).endswith("_") or (exponent or "").endswith("_"):
        raise LiteralError("a number can't end with `_`")
    if hexadecimal is not None:
        value = int(hexadecimal.replace("_", ""), 16)
    else:
        value = _decimal(digits.replace("_", ""), exponent)
    suffix = suffix or ""
    value *= _NANOSECONDS.get(suffix, 1)
    largest = _LIMITS.get(suffix.lower(), _MAX)
    if value > largest:
        raise LiteralError(f"this number is greater than {largest}, the largest that it can be")
    return value


def time_unit(text: str) -> str:
    """The suffix of a number that is a time, such as `ms`; "" of any other."""
    match = re.fullmatch(_NUMBER, text, re.ASCII)
    suffix: str = (match and match[4]) or ""
    return suffix if suffix in _NANOSECONDS else ""


def _decimal(digits: str, exponent: str | None) -> int:
    if exponent is not None:
        power = int(exponent.replace("_", ""))
        if len(digits) > 1 or digits == "0":
            raise LiteralError("a number with an exponent begins with one digit, 1 to 9, as in 2e6")
        scale: int = 10 ** min(power, 20)
        return int(digits) * scale
    if digits[0] == "0" and len(digits) > 1:
        if "8" in digits or "9" in digits:
            raise LiteralError("a number that begins with 0 is octal, with digits up to 7: leave the 0 out")
        return int(digits, 8)
    return int(digits)


def string(text: str) -> bytes:
    """The bytes of a string in its quotes."""
    body = text[1:-1]
    if "\\" not in body:
        return body.encode()
    found, position = [], 0
    for match in re.finditer(_ESCAPE, body):
        octal, hexadecimal, letter = match.groups()
        found.append(body[position : match.start()].encode())
        position = match.end()
        if letter is not None:
            if letter not in _ESCAPES:
                message = r"this escape sequence means nothing: \n, \t, \r, \", \\, \101 and \x41 do"
                raise LiteralError(message, match.start() + 1, match.end() + 1)
            found.append(_ESCAPES[letter].encode())
            continue
        value = int(octal, 8) if octal is not None else int(hexadecimal, 16)
        if value > 255:
            raise LiteralError(
                "this is more than a byte: octal numbers go to \\377", match.start() + 1, match.end() + 1
            )
        found.append(bytes([value]))
    return b"".join([*found, body[position:].encode()])
