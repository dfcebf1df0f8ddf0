"""Names: sets of them, and those of objects; one of the author's may answer anything when asked for its name."""

from __future__ import annotations

from typing import Any

__all__ = ["text_of", "words"]


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


def text_of(value: Any, attribute: str = "__name__") -> str:
    """An attribute such as `__name__`, `__qualname__`, `__module__`; empty if it is no string, or cannot be read."""
    try:
        found = getattr(value, attribute, "")
    except Exception:  # noqa: BLE001 - the author's own code may raise anything
        return ""
    return found if type(found) is str else ""
