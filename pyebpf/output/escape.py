"""Text from the kernel made safe to show: names of processes and files are whatever bytes somebody chose."""

from __future__ import annotations

# `surrogateescape` turns the undecodable byte B into the code point U+DC00 + B.
_ESCAPED_BYTE = range(0xDC80, 0xDD00)


def text_of(value: bytes | str) -> str:
    """Bytes as text: UTF-8, with each undecodable byte kept as a lone surrogate."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _escape(character: str) -> str:
    code = ord(character)
    if code in _ESCAPED_BYTE:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible(value: bytes | str) -> str:
    r"""Text that a terminal shows as it is: whatever is not printable is escaped.

    Undecodable bytes and ASCII control characters become `\xNN`, other control, formatting and line-breaking
    characters (C1, bidirectional overrides, U+2028) `\uNNNN`. A backslash stays one backslash: for messages, which may
    have escapes already. Names are `escaped`.
    """
    text = text_of(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def escaped(value: bytes | str) -> str:
    r"""A name as tools print it: as `visible`, and a backslash as two, so that no two names look alike."""
    text = text_of(value)
    return visible(text.replace("\\", "\\\\") if "\\" in text else text)


def json_text(value: bytes | str) -> str:
    r"""A name as a JSON string has it: as `escaped`, but with the characters that JSON can have as they are.

    JSON has an escape for every control character; lone surrogates it has not: strict parsers refuse them.
    """
    text = text_of(value)
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if text.isascii():
        return text
    return "".join(_escape(c) if 0xD800 <= ord(c) < 0xE000 else c for c in text)


def display_width(text: str) -> int:
    """Terminal columns that printable text takes: wide East Asian characters take 2, combining ones 0."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def fit(text: str, width: int, *, right: bool = False, cut: bool = False) -> str:
    """Printable `text` padded to `width` terminal columns; cut down to them if `cut`."""
    used = display_width(text)
    if cut:
        while used > width:
            text = text[: width if used == len(text) else -1]
            used = display_width(text)
    padding = " " * (width - used)
    return padding + text if right else text + padding
