"""Fuzzing: targets that take any bytes, and a driver that looks for bytes which break them.

`python -m fuzz TARGET` searches; `tests/fuzz` replays what was found and what the search starts from.
"""

from __future__ import annotations
