"""tc where there is no tcx: a direct-action bpf filter of the clsact queue, which a guard process removes."""

from __future__ import annotations

import errno
import itertools
import re
from typing import TYPE_CHECKING

from pyebpf.errors import KernelError, NotSupported
from pyebpf.kernel.interfaces import interface_index
from pyebpf.kernel.owners import owned_name, owner_of
from pyebpf.link.creation import As, refused
from pyebpf.link.guarded import GuardedLink

if TYPE_CHECKING:
    from typing import Any

    from pyebpf.kernel.guard import Removal
    from pyebpf.link.base import Link
    from pyebpf.link.creation import Meanings
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs.attach.network import Clsact

__all__ = ["attach_clsact"]

#: ETH_P_ALL: packets of every protocol.
_ALL = 3
_numbers = itertools.count(1)
#: Names of filters in a queue that pyebpf made.
_MADE = re.compile(r"pyebpf_[a-z0-9]+_\d+q_")

_MEANINGS: Meanings = {
    errno.ENOENT: As(
        NotSupported, "the kernel lacks the clsact queue or bpf filters: load the modules sch_ingress and cls_bpf"
    ),
    errno.EINVAL: "the program is of another kind, or the priority is taken by other filters",
}


def attach_clsact(program: Program, target: Clsact, _: Host) -> Link:
    """Attach `program` as a filter whose name begins with pyebpf_<token>_.

    The queue is made if there is none, and removed with the last filter if it was. Ends, too, when the interface goes.
    """
    from pyebpf.kernel.rtnetlink import open_rtnetlink

    interface = interface_index(target.interface)
    netlink = open_rtnetlink()
    try:
        removal = _add_filter(program, target, interface, netlink.fileno())
    except OSError as error:
        netlink.close()
        if isinstance(error, KernelError):
            raise
        raise refused(error, program, target, _MEANINGS) from error
    except BaseException:
        netlink.close()
        raise
    return GuardedLink(str(target), "clsact filter", removal, program=program, held=[netlink])


def _add_filter(program: Program, target: Clsact, interface: int, netlink: int) -> Removal:
    from pyebpf.kernel.guard import guard
    from pyebpf.kernel.info import program_info
    from pyebpf.kernel.rtnetlink import CLSACT, bpf_filters, has_clsact
    from pyebpf.link.netlink import rtnetlink

    present = has_clsact(netlink, interface)
    # Whoever is the last to leave removes the queue, if it was not there before the first: each name tells the next.
    made = not present or any(
        _MADE.match(each.name) for direction in CLSACT for each in bpf_filters(netlink, interface, direction)
    )
    name = owned_name(f"{next(_numbers)}{'q' if made else ''}_{program.name}")
    number, descriptors = program_info(program.fileno()).id, [netlink, program.fileno()]
    removal = guard(
        "filter", interface, target.direction, name, number, made, descriptors=descriptors, owner=owner_of(name)
    )
    try:
        with rtnetlink() as requests:
            if not present:
                _make_queue(requests, interface)
            requests.tc(
                "add-filter",
                "bpf",
                interface,
                parent=CLSACT[target.direction],
                fd=program.fileno(),
                name=name,
                direct_action=True,
                prio=target.priority,
                protocol=_ALL,
            )
    except BaseException:
        removal.perform()
        raise
    return removal


def _make_queue(requests: Any, interface: int) -> None:
    """Add the clsact queue; another process may have been quicker."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        requests.tc("add", "clsact", interface)
    except NetlinkError as error:
        if error.code != errno.EEXIST:
            raise
