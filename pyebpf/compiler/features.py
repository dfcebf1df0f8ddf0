"""Features that the compiler asks a target for."""

from __future__ import annotations

from typing import Protocol


class Features(Protocol):
    """Answers whether the kernel has a feature, such as "isa:sdiv"."""

    def has(self, name: str, /) -> bool:
        """Whether the target has the feature `name`."""
        ...
