"""pyroute2, imported when the first attachment needs it: a tenth of a second, twenty megabytes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["rtnetlink"]


@contextmanager
def rtnetlink() -> Iterator[Any]:
    """An open `pyroute2.IPRoute`. What the kernel refuses within raises OSError with its errno and message."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        with IPRoute() as requests:
            yield requests
    except NetlinkError as error:
        raise OSError(error.code, str(error.args[-1])) from error
