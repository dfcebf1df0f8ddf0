"""Network interfaces: XDP, and tc by tcx or clsact, with what programs there see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.attach.decorators import Decorators, attachments, optional_arguments
from pyebpf.attach.skb import META_ENDS, SkBuffProgramContext
from pyebpf.builder.context import ProgramContext
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.packets import Packet, metadata
from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import InvalidValue, closest
from pyebpf.module.probe import Candidate
from pyebpf.specs.attach_point import AttachSpec, KernelRequirement
from pyebpf.types import S64, U32
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.flags import BPF_F_XDP_DEV_BOUND_ONLY, BPF_F_XDP_HAS_FRAGS

if TYPE_CHECKING:
    from pyebpf.attach.decorators import VerdictDecorator
    from pyebpf.builder.program import ProgramBuilder


MODES = ("", "native", "generic")
DIRECTIONS = ("ingress", "egress")

#: Since Linux commits c2f2cdbeffda ("bpf: introduce BPF_F_XDP_HAS_FRAGS flag in prog_flags loading the ebpf program")
#: (v5.18) and 2b3486bc2d23 ("bpf: Introduce device-bound XDP programs") (v6.3).
_FRAGS = KernelRequirement(
    "program:xdp@frags", "XDP programs with frags=True", "5.18", "", "lower the interface's MTU, or use @bpf.tc"
)
_HINTS = KernelRequirement(
    "program:xdp@hints", "XDP programs with hints=True", "6.3", "", "do without what the driver knows of a frame"
)
#: Since Linux commits e420bed02507 ("bpf: Add fd-based tcx multi-prog infra with link support") (v6.6) and
#: 35dfaad7188c ("netkit, bpf: Add bpf programmable net device") (v6.7).
_TCX = KernelRequirement("attach:tcx", "tcx links", "6.6", "CONFIG_NET_XGRESS", '@bpf.tc(…, by="clsact") needs neither')
_NETKIT = KernelRequirement(
    "attach:netkit", "netkit links", "6.7", "CONFIG_NETKIT", "@bpf.tc at both ends of a veth pair sees the same packets"
)


def _interface(where: str, interface: object) -> str:
    if not isinstance(interface, str) or not interface:
        raise InvalidValue(f'{where}: give the name of an interface, such as "eth0", not {interface!r}')
    return interface


@dataclass(frozen=True, slots=True)
class OnInterface(AttachSpec):
    """A program on packets of a network interface; without its name, one named later."""

    interface: str = ""

    @property
    def target(self) -> str:
        return self.interface

    @property
    def is_deferred(self) -> bool:
        return not self.interface

    @property
    def shown(self) -> str:
        """The interface, for messages."""
        return self.interface or "(any interface)"


@dataclass(frozen=True, slots=True)
class Xdp(OnInterface):
    """XDP on an interface, before the kernel makes an sk_buff of a frame.

    `mode` is "native" (the driver's), "generic" (the stack's, slower, any interface), or "": native where the driver
    can. With `frags` frames may lie in several pieces (jumbo frames). By `netlink`, the attachment has no link: others
    can replace and remove it. With `hints` the program is loaded for the interface, to ask what its driver knows of a
    frame.
    """

    mode: str = ""
    frags: bool = False
    netlink: bool = False
    hints: bool = False

    program_type = ProgramType.XDP
    attach_type = AttachType.XDP

    def __str__(self) -> str:
        return f"xdp {self.shown}{f' ({self.mode})' if self.mode else ''}"

    @property
    def load_flags(self) -> int:
        return (BPF_F_XDP_HAS_FRAGS if self.frags else 0) | (BPF_F_XDP_DEV_BOUND_ONLY if self.hints else 0)

    @property
    def device(self) -> str:
        return self.interface if self.hints else ""

    @property
    def requirement(self) -> KernelRequirement | None:
        if self.hints:
            return _HINTS
        return _FRAGS if self.frags else None

    @property
    def named_after_owner(self) -> bool:
        return self.netlink

    def with_target(self, *place: object, **options: object) -> Xdp:
        """`attach("eth0", mode="generic")`."""
        mode = options.pop("mode", self.mode)
        if len(place) != 1 or options:
            raise InvalidValue(f'{self}: write attach("eth0"), or attach("eth0", mode="generic")')
        return replace(self, interface=_interface("attach", place[0]), mode=_one_of("mode", mode, MODES))

    def program_context(self) -> XdpProgramContext:
        return XdpProgramContext(self)


def _one_of(what: str, value: object, known: tuple[str, ...]) -> str:
    if value not in known:
        raise InvalidValue(f"{what}={value!r}: it is {' or '.join(repr(each) for each in known if each)}")
    return str(value)


@dataclass(frozen=True, slots=True)
class _Tc(OnInterface):
    """A program for sk_buffs that come in at an interface ("ingress") or go out ("egress")."""

    direction: str = "ingress"

    program_type = ProgramType.SCHED_CLS

    def __str__(self) -> str:
        return f"tc {self.shown} {self.direction}"


@dataclass(frozen=True, slots=True)
class Tcx(_Tc):
    """tc by a link (tcx, since Linux 6.6). `before` and `after` name a program, by id, to run before or after.

    Without one it runs after those that are there; `first` puts it before all of them.
    """

    before: int = 0
    after: int = 0
    first: bool = False
    netkit: bool = False

    def __str__(self) -> str:
        where = f"{self.shown} {self.direction}"
        return f"netkit {where}" if self.netkit else f"tcx {where}"

    @property
    def requirement(self) -> KernelRequirement:
        return _NETKIT if self.netkit else _TCX

    def with_target(self, *place: object, **options: object) -> Tcx:
        """`attach("eth0")`, `attach("eth0", first=True)`, `attach("eth0", before=id)`, `attach("eth0", after=id)`."""
        known = {name: options.pop(name) for name in ("before", "after", "first") if name in options}
        if len(place) != 1 or options:
            raise InvalidValue(f'{self}: write attach("eth0"), with first=True, before=id or after=id if you like')
        return replace(self, interface=_interface("attach", place[0]), **known)

    def program_context(self) -> TcProgramContext:
        return TcProgramContext(self)


@dataclass(frozen=True, slots=True)
class Clsact(_Tc):
    """tc by a direct-action filter of the clsact queue, for kernels without tcx. The lowest `priority` runs first."""

    priority: int = 0

    def __str__(self) -> str:
        return f"clsact {self.shown} {self.direction}"

    def with_target(self, *place: object, **options: object) -> Clsact:
        """`attach("eth0")`."""
        priority = options.pop("priority", self.priority)
        if len(place) != 1 or options:
            name = next(iter(options), "")
            how = f"{name}= is tcx's alone" if name in ("before", "after", "first") else 'write attach("eth0")'
            raise InvalidValue(f"{self}: {how}")
        return replace(self, interface=_interface("attach", place[0]), priority=priority)

    def program_context(self) -> TcProgramContext:
        return TcProgramContext(self)


#: struct xdp_md: offsets of `data` and `data_end`, of `data_meta` and `data`, and of the fields that are numbers. The
#: verifier takes loads of 4 bytes only.
XDP_ENDS, XDP_META_ENDS = (0, 4), (8, 0)
XDP_FIELDS = {"ingress_ifindex": 12, "rx_queue_index": 16}


class XdpProgramContext(ProgramContext[Xdp]):
    """`ctx.packet`, the metadata in front of it, and where the frame came in."""

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        if name == "packet":
            return Packet(XDP_ENDS, None, writable=True)
        if name == "data_meta":
            return metadata(XDP_META_ENDS)
        return self.field(p, name)

    def field(self, p: ProgramBuilder, name: str) -> object:
        offset = XDP_FIELDS.get(name)
        if offset is None:
            known = ("packet", "data_meta", *XDP_FIELDS)
            p.fail(
                f"the context of an XDP program has no field {name}{closest(name, known)}: it has {', '.join(known)}"
            )
        return Int(p.b.load(p.context, offset, 4), S64, U32)


class TcProgramContext(SkBuffProgramContext[Tcx | Clsact]):
    """tc: everything may be read and written, also what XDP left in front of the frame."""

    changes = True

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return metadata(META_ENDS) if name == "data_meta" else super().attribute(p, name)


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
