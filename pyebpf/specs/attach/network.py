"""Network interfaces: XDP at the driver, tc (tcx or the clsact queue) at the stack's edge."""

from __future__ import annotations

from typing import Any

from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import InvalidValue
from pyebpf.specs.attach.base import AttachSpec, KernelRequirement
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType

__all__ = ["Clsact", "Tcx", "Xdp"]

#: BPF_F_XDP_HAS_FRAGS of PROG_LOAD: packets in several pieces.
HAS_FRAGS = 1 << 5
#: BPF_F_XDP_DEV_BOUND_ONLY of PROG_LOAD: loaded for one interface, whose driver's functions it calls.
DEV_BOUND_ONLY = 1 << 6

MODES = ("", "native", "generic")
DIRECTIONS = ("ingress", "egress")

#: Since Linux commits e420bed02507 ("bpf: Add fd-based tcx multi-prog infra with link support") (v6.6) and
#: 35dfaad7188c ("netkit, bpf: Add bpf programmable net device") (v6.7).
_TCX = KernelRequirement("attach:tcx", "tcx links", "6.6", "CONFIG_NET_XGRESS", '@bpf.tc(…, by="clsact") needs neither')
_NETKIT = KernelRequirement(
    "attach:netkit", "netkit links", "6.7", "CONFIG_NETKIT", "@bpf.tc at both ends of a veth pair sees the same packets"
)
#: Since Linux commits c2f2cdbeffda ("bpf: introduce BPF_F_XDP_HAS_FRAGS flag in prog_flags loading the ebpf program")
#: (v5.18) and 2b3486bc2d23 ("bpf: Introduce device-bound XDP programs") (v6.3).
_FRAGS = KernelRequirement(
    "program:xdp@frags", "XDP programs with frags=True", "5.18", "", "lower the interface's MTU, or use @bpf.tc"
)
_HINTS = KernelRequirement(
    "program:xdp@hints", "XDP programs with hints=True", "6.3", "", "do without what the driver knows of a frame"
)


def _interface(where: str, interface: object) -> str:
    if not isinstance(interface, str) or not interface:
        raise InvalidValue(f'{where}: give the name of an interface, such as "eth0", not {interface!r}')
    return interface


@dataclass(frozen=True, slots=True)
class Xdp(AttachSpec):
    """XDP on an interface, before the kernel makes an sk_buff of a frame.

    `mode` is "native" (the driver's), "generic" (the stack's, slower, any interface), or "": native where the driver
    can. With `frags` frames may lie in several pieces (jumbo frames). By `netlink`, the attachment has no link: others
    can replace and remove it. With `hints` the program is loaded for the interface, to ask what its driver knows of a
    frame.
    """

    interface: str = ""
    mode: str = ""
    frags: bool = False
    netlink: bool = False
    hints: bool = False

    kind = ProgramType.XDP

    def __str__(self) -> str:
        return f"xdp {self.interface or '(any interface)'}{f' ({self.mode})' if self.mode else ''}"

    @property
    def attach_type(self) -> int:
        return AttachType.XDP

    @property
    def load_flags(self) -> int:
        return (HAS_FRAGS if self.frags else 0) | (DEV_BOUND_ONLY if self.hints else 0)

    @property
    def device(self) -> str:
        return self.interface if self.hints else ""

    @property
    def requirement(self) -> KernelRequirement | None:
        if self.hints:
            return _HINTS
        return _FRAGS if self.frags else None

    @property
    def target(self) -> str:
        return self.interface

    @property
    def is_open(self) -> bool:
        return not self.interface

    @property
    def marks_owner(self) -> bool:
        return self.netlink

    def at(self, *place: Any, **options: Any) -> Xdp:
        """`attach("eth0", mode="generic")`."""
        mode = options.pop("mode", self.mode)
        if len(place) != 1 or options:
            raise InvalidValue(f'{self}: write attach("eth0"), or attach("eth0", mode="generic")')
        return replace(self, interface=_interface("attach", place[0]), mode=_one_of("mode", mode, MODES))


def _one_of(what: str, value: object, known: tuple[str, ...]) -> str:
    if value not in known:
        raise InvalidValue(f"{what}={value!r}: it is {' or '.join(repr(each) for each in known if each)}")
    return str(value)


@dataclass(frozen=True, slots=True)
class _Tc(AttachSpec):
    """A program for sk_buffs that come in at an interface ("ingress") or go out ("egress")."""

    interface: str = ""
    direction: str = "ingress"

    kind = ProgramType.SCHED_CLS

    def __str__(self) -> str:
        return f"tc {self.interface or '(any interface)'} {self.direction}"

    @property
    def target(self) -> str:
        return self.interface

    @property
    def is_open(self) -> bool:
        return not self.interface


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
        where = f"{self.interface or '(any interface)'} {self.direction}"
        return f"netkit {where}" if self.netkit else f"tcx {where}"

    @property
    def requirement(self) -> KernelRequirement:
        return _NETKIT if self.netkit else _TCX

    def at(self, *place: Any, **options: Any) -> Tcx:
        """`attach("eth0")`, `attach("eth0", first=True)`, `attach("eth0", before=id)`, `attach("eth0", after=id)`."""
        known = {name: options.pop(name) for name in ("before", "after", "first") if name in options}
        if len(place) != 1 or options:
            raise InvalidValue(f'{self}: write attach("eth0"), with first=True, before=id or after=id if you like')
        return replace(self, interface=_interface("attach", place[0]), **known)


@dataclass(frozen=True, slots=True)
class Clsact(_Tc):
    """tc by a direct-action filter of the clsact queue, for kernels without tcx. The lowest `priority` runs first."""

    priority: int = 0

    def __str__(self) -> str:
        return f"clsact {self.interface or '(any interface)'} {self.direction}"

    def at(self, *place: Any, **options: Any) -> Clsact:
        """`attach("eth0")`."""
        priority = options.pop("priority", self.priority)
        if len(place) != 1 or options:
            name = next(iter(options), "")
            how = f"{name}= is tcx's alone" if name in ("before", "after", "first") else 'write attach("eth0")'
            raise InvalidValue(f"{self}: {how}")
        return replace(self, interface=_interface("attach", place[0]), priority=priority)
