"""`@bpf.xdp`, `@bpf.tc`, `@bpf.netkit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.attach.decorators import Decorators, attachments, optional_arguments
from pyebpf.errors import InvalidValue
from pyebpf.module.probe import Candidate

if TYPE_CHECKING:
    from pyebpf.attach.decorators import VerdictDecorator

__all__ = ["NetworkDecorators"]


class NetworkDecorators(Decorators):
    """Programs at network interfaces. Each returns what is to become of the packet, on every path."""

    @optional_arguments
    def xdp(
        self, *interfaces: str, mode: str = "", frags: bool = False, hints: bool = False, by: str = ""
    ) -> VerdictDecorator:
        """Run on each frame that comes in at an interface, before the kernel makes an sk_buff of it.

        Returns XDP_PASS, XDP_DROP, XDP_TX (back out), XDP_REDIRECT (what `redirect` of a devmap or cpumap gave) or
        XDP_ABORTED. `mode` is "native" (the driver's), "generic" (any interface), or the better one that there is.
        `frags` takes frames in several pieces, which jumbo frames may be. Without an interface the program is only
        loaded: `probe.attach("eth0")`. With `hints` the program may ask the driver what it knows of a frame, by
        `kfunc("bpf_xdp_metadata_rx_hash")` and its like (since Linux 6.3).

        `by` is "link" or "netlink"; links where there are, by default. What netlink attached, others can replace.
        """
        from pyebpf.specs.attach.network import MODES, Xdp

        _check("xdp", interfaces, "mode", mode, MODES)
        _check("xdp", interfaces, "by", by, ("", "link", "netlink"))
        if hints and (not interfaces or mode == "generic"):
            raise InvalidValue("@bpf.xdp(hints=True): name the interface whose driver is asked, and no generic mode")
        places = interfaces or ("",)
        link = tuple(Xdp(interface, mode, frags, hints=hints) for interface in places)
        netlink = tuple(Xdp(interface, mode, frags, netlink=True, hints=hints) for interface in places)
        candidates = (
            Candidate("link", attachments(link), ("attach:xdp",)),
            Candidate("netlink", attachments(netlink)),
        )
        return self._one_of("xdp", interfaces, candidates, by)

    def tc(
        self, *where: str, by: str = "", first: bool = False, before: int = 0, after: int = 0, priority: int = 0
    ) -> VerdictDecorator:
        """Run on each sk_buff that comes in or goes out at an interface: `tc("eth0", "egress")`, or `tc("ingress")`.

        Several interfaces stand before the direction. Returns TCX_PASS (stop here, let it go), TCX_NEXT (let the next
        program decide), TCX_DROP or TCX_REDIRECT, the same numbers as TC_ACT_*. Without an interface the program is
        only loaded: `probe.attach("eth0")`.

        `by` is "tcx" (links, since Linux 6.6; the default where there are) or "clsact", a filter of the clsact queue
        that a guard process removes if this one is killed. Of several programs, tcx runs the `first` one first, and one
        `before` or `after` a program named by id; clsact the one with the lowest `priority`.
        """
        from pyebpf.specs.attach.network import DIRECTIONS, Clsact, Tcx

        *interfaces, direction = where or ("",)
        if direction not in DIRECTIONS:
            raise InvalidValue(f'@bpf.tc({", ".join(map(repr, where))}): write tc("eth0", "ingress") or "egress"')
        _check("tc", tuple(interfaces), "by", by, ("", "tcx", "clsact"))
        if (first or before or after) and not by:
            by = "tcx"
        elif priority and not by:
            by = "clsact"
        places = interfaces or [""]
        tcx = tuple(Tcx(interface, direction, before, after, first) for interface in places)
        clsact = tuple(Clsact(interface, direction, priority) for interface in places)
        candidates = (Candidate("tcx", attachments(tcx), ("attach:tcx",)), Candidate("clsact", attachments(clsact)))
        return self._one_of("tc", where, candidates, by)

    def netkit(self, *where: str) -> VerdictDecorator:
        """Run on what a netkit pair of interfaces passes on: `netkit("nk0", "primary")` or `"peer"` (Linux 6.7).

        Returns as tc does. The kernel drops by itself what a device without a program would have to pass on, if it was
        made so.
        """
        from pyebpf.specs.attach.network import Tcx

        *interfaces, end = where or ("",)
        if end not in ("primary", "peer"):
            raise InvalidValue(f'@bpf.netkit({", ".join(map(repr, where))}): write netkit("nk0", "primary") or "peer"')
        places = tuple(Tcx(interface, end, netkit=True) for interface in interfaces or [""])
        return self._verdict("netkit", where, places)

    def _one_of(
        self, decorator: str, targets: tuple[str, ...], candidates: tuple[Candidate, ...], by: str
    ) -> VerdictDecorator:
        # What the author insists on is tried: the kernel's refusal says more than a feature's name.
        chosen = tuple(Candidate(each.name, each.attachments) for each in candidates if each.name == by)
        made: Any = self._decorator(decorator, targets, chosen if by else candidates)
        return made  # type: ignore[no-any-return]  # as the class promises


def _check(decorator: str, interfaces: tuple[str, ...], name: str, value: str, known: tuple[str, ...]) -> None:
    for interface in interfaces:
        if not interface:
            raise InvalidValue(f'@bpf.{decorator}({interface!r}): give names of interfaces, such as "eth0"')
    if value not in known:
        choices = " or ".join(repr(each) for each in known if each)
        raise InvalidValue(f"@bpf.{decorator}({name}={value!r}): {name} is {choices}")
