"""A run of the tests, told from all else on the machine: what it starts has `MARK` in its environment."""

from __future__ import annotations

import os
import time

MARK = f"PYEBPF_TESTS={os.getpid()}-{time.monotonic_ns()}"
