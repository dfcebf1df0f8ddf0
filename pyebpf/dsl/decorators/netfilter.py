"""`@bpf.netfilter("ipv4", "local_out")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.dsl.decorators.base import Decorators
from pyebpf.errors import InvalidValue, closest

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from pyebpf.dsl.decorators.base import VerdictDecorator

__all__ = ["NetfilterDecorators"]

#: Between NF_IP_PRI_FIRST and NF_IP_PRI_LAST, which are taken.
_FIRST, _LAST = -(1 << 31) + 1, (1 << 31) - 2


class NetfilterDecorators(Decorators):
    """Programs at netfilter's hooks."""

    def netfilter(
        self,
        family: str,
        hook: str,
        *,
        priority: int = 0,
        defragment: bool = False,
        namespace: str | os.PathLike[str] | None = None,
    ) -> VerdictDecorator:
        """Run on packets of "ipv4" or "ipv6" at "prerouting", "local_in", "forward", "local_out" or "postrouting".

        Returns NF_DROP (0) or NF_ACCEPT (1). In a network `namespace`, a file such as "/proc/PID/ns/net" or a name
        under /run/netns; without, in that of the thread that attaches. A smaller `priority` runs first. With
        `defragment` it sees whole packets.
        """
        from pyebpf.specs.attach import sockets
        from pyebpf.specs.attach.netfilter import FAMILIES, HOOKS, Netfilter

        _known("family", family, FAMILIES)
        _known("hook", hook, HOOKS)
        if not _FIRST <= priority <= _LAST:
            raise InvalidValue(f"@bpf.netfilter(priority={priority}): give {_FIRST} to {_LAST}")
        netns = "" if namespace is None else sockets.namespace(namespace)
        place = Netfilter(family, hook, priority, defragment, netns)
        return self._verdict("netfilter", (family, hook), (place,))


def _known(what: str, given: str, names: Iterable[str]) -> None:
    if given not in names:
        raise InvalidValue(f"@bpf.netfilter: no {what} {given!r}{closest(given, names)}: it is {' or '.join(names)}")
