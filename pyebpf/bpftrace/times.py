"""Times as text: layouts of strftime(3), with the parts of a second that bpftrace adds to them."""

from __future__ import annotations

import re
from functools import lru_cache
from time import localtime, strftime

#: Micro-, milli- and nanoseconds, as `%` of Python's writes them.
_FRACTIONS = {"%f": "%(micro)06d", "%l": "%(milli)03d", "%k": "%(nano)09d"}


def time_text(layout: str, nanoseconds: int) -> str:
    """Nanoseconds since the epoch as a layout has them, in this machine's time zone."""
    seconds, nano = divmod(nanoseconds, 10**9)
    return _at(layout, seconds) % {"micro": nano // 1000, "milli": nano // 10**6, "nano": nano}


@lru_cache(maxsize=64)
def _at(layout: str, seconds: int) -> str:
    """A layout at a second, which most events share with the one before, but for the parts of the second."""
    time = localtime(seconds)
    pieces = re.split("(%[%flk])", layout)
    return "".join([_FRACTIONS.get(each) or strftime(each, time).replace("%", "%%") for each in pieces])
