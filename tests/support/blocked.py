"""A pytest plugin: the run has neither `pyebpf.kernel` nor `ctypes`, as on an operating system without them."""

from __future__ import annotations

import sys

# None in sys.modules makes every import of the name an ImportError, for the libraries of the tests too.
sys.modules["ctypes"] = None  # type: ignore[assignment]  # documented for this purpose; typeshed leaves it out
sys.modules["pyebpf.kernel"] = None  # type: ignore[assignment]  # the same
