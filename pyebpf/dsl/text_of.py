"""Names of objects, for messages and decisions: an object of the author's may answer anything when asked for one."""

from __future__ import annotations

from typing import Any

__all__ = ["text_of"]


def text_of(value: Any, attribute: str = "__name__") -> str:
    """An attribute such as `__name__`, `__qualname__`, `__module__`; empty if it is no string, or cannot be read."""
    try:
        found = getattr(value, attribute, "")
    except Exception:  # noqa: BLE001 - the author's own code may raise anything
        return ""
    return found if type(found) is str else ""
