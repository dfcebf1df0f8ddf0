"""A pytest plugin: the run has neither `pyebpf.kernel` nor `ctypes`, as on an operating system without them.

It keeps every third test. The run asks which modules the tests make the library import, and neighbours import the same.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

# None in sys.modules makes every import of the name an ImportError, for the libraries of the tests too.
sys.modules["ctypes"] = None  # type: ignore[assignment]  # documented for this purpose; typeshed leaves it out
sys.modules["pyebpf.kernel"] = None  # type: ignore[assignment]  # the same


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep every third."""
    items[:] = items[::3]
