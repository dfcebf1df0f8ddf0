"""Network interfaces and their queues by pyroute2: what programs are attached through, and what is listed for users.

pyroute2 takes a tenth of a second and twenty megabytes to import, so it is imported when something asks for it first.
`pyebpf.kernel.rtnetlink` has the few requests that the guard needs, which must not wait for that.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyebpf.kernel.rtnetlink import CLSACT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyroute2 import IPRoute

_ETH_P_ALL = 3
_XDP_ATTACHED_MULTI = 4


@contextmanager
def iproute() -> Iterator[IPRoute]:
    """An open `pyroute2.IPRoute`. What the kernel refuses within raises OSError with its errno and message."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        with IPRoute() as requests:
            yield requests
    except NetlinkError as error:
        raise OSError(error.code, str(error.args[-1])) from error


def has_clsact(requests: IPRoute, interface: int) -> bool:
    """Whether an interface has the clsact queue."""
    return any(each.get_attr("TCA_KIND") == "clsact" for each in requests.get_qdiscs(interface))


def add_clsact(requests: IPRoute, interface: int) -> None:
    """Make an interface's clsact queue, unless it has one. ENOENT: the kernel has no such queues."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        requests.tc("add", "clsact", interface)
    except NetlinkError as error:
        if error.code != errno.EEXIST:
            raise


def add_bpf_filter(
    requests: IPRoute, interface: int, direction: str, prog_fd: int, name: str, *, priority: int
) -> None:
    """Put a program into an interface's clsact queue, for packets of every protocol. ENOENT: there is no bpf filter.

    The program's result is the verdict.
    """
    requests.tc(
        "add-filter",
        "bpf",
        interface,
        parent=CLSACT[direction],
        fd=prog_fd,
        name=name,
        direct_action=True,
        prio=priority,
        protocol=_ETH_P_ALL,
    )


def xdp_programs(requests: IPRoute) -> dict[tuple[int, str], int]:
    """For each interface (index, name) with XDP, the program's id; 0 where it has one in each mode."""
    found = {}
    for link in requests.get_links():
        xdp = link.get_attr("IFLA_XDP")
        if xdp is not None and (mode := xdp.get_attr("IFLA_XDP_ATTACHED")):
            number = 0 if mode == _XDP_ATTACHED_MULTI else xdp.get_attr("IFLA_XDP_PROG_ID") or 0
            found[link["index"], link.get_attr("IFLA_IFNAME")] = number
    return found
