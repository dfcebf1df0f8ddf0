"""Attach programs to network interfaces: XDP, tc by links (tcx and netkit), tc by a filter of the clsact queue.

What is attached through netlink stays when its owner dies, so a guard process removes it.
"""

from __future__ import annotations

import errno
import itertools
import re
from struct import Struct
from typing import TYPE_CHECKING

from pyebpf.attach.network import Clsact, Tcx, Xdp
from pyebpf.errors import InvalidValue, KernelError, NotLoaded, NotSupported
from pyebpf.kernel.errors_in_words import kernel_error
from pyebpf.kernel.interfaces import interface_index
from pyebpf.kernel.iproute import add_bpf_filter, add_clsact, has_clsact, iproute
from pyebpf.kernel.owners import owned_name, owner_of
from pyebpf.link.base import Link
from pyebpf.link.creation import NEEDS, SpecificError, link_error, make_link
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.flags import BPF_F_AFTER, BPF_F_BEFORE, BPF_F_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.kernel.guard import Removal
    from pyebpf.link.creation import ErrnoMessages
    from pyebpf.link.host import Host
    from pyebpf.objects import Program

#: XDP_FLAGS_UPDATE_IF_NOEXIST, XDP_FLAGS_SKB_MODE, XDP_FLAGS_DRV_MODE of linux/if_link.h.
_IF_NOEXIST = 1
_MODES = {"": 0, "generic": 2, "native": 4}

_XDP_MESSAGES: ErrnoMessages = {
    errno.EBUSY: "a program is attached there by a link: it has the interface until it ends",
    errno.EEXIST: "a program is attached there already, or in the other mode",
    # No other way to attach would help: no NotSupported.
    errno.EOPNOTSUPP: SpecificError(KernelError, 'the driver of {target.interface} has no XDP: write mode="generic"'),
    errno.ERANGE: "frames of {target.interface} may be too large for one piece: write @bpf.xdp(…, frags=True), or "
    "lower its MTU",
    errno.EINVAL: "the driver's settings don't allow it, or the kernel lacks such links",
}
_NETLINK: ErrnoMessages = {**_XDP_MESSAGES, errno.EBUSY: "a program is attached there already"}


class GuardedLink(Link):
    """An attachment that no descriptor holds; the guard process removes it if this one dies.

    `removal` was promised before the attachment was made; what else it needs open is `held`.
    """

    def __init__(
        self,
        target: str,
        how: str,
        removal: Removal,
        *,
        program: Program | None = None,
        held: Sequence[Descriptor] = (),
    ) -> None:
        super().__init__(target, how, (), held, program=program)
        self._removal: Removal | None = removal

    @property
    def detached(self) -> bool:
        return self._removal is None

    def detach(self) -> None:
        """Remove the attachment, if it is this one's still. A second call does nothing."""
        removal, self._removal = self._removal, None
        try:
            if removal is not None:
                removal.perform()
        finally:
            super().detach()


def attach_xdp(program: Program, target: Xdp, _: Host) -> Link:
    """Attach `program` to an interface. Ends, too, when the interface goes.

    Raises NotFound for an unknown interface, KernelError where the driver or its settings don't allow it.
    """
    interface = interface_index(target.interface)
    flags = _MODES[target.mode]
    if not target.netlink:
        return make_link(program, target, interface, "xdp link", _XDP_MESSAGES, flags=flags)
    try:
        return _by_netlink(program, target, interface, flags)
    except OSError as error:
        if isinstance(error, KernelError):
            raise
        raise link_error(error, program, target, _NETLINK) from error


def _by_netlink(program: Program, target: Xdp, interface: int, flags: int) -> Link:
    from pyebpf.kernel.rtnetlink import open_rtnetlink

    netlink = open_rtnetlink()
    try:
        removal = _promise(interface, flags, program, netlink)
        try:
            attributes = [("IFLA_XDP_FD", program.fileno()), ("IFLA_XDP_FLAGS", flags | _IF_NOEXIST)]
            with iproute() as requests:
                requests.link("set", index=interface, xdp={"attrs": attributes})
        except BaseException:
            removal.perform()
            raise
    except BaseException:
        netlink.close()
        raise
    return XdpByNetlink(target, interface, flags, removal, program, netlink)


def _promise(interface: int, flags: int, program: Program, netlink: Descriptor) -> Removal:
    from pyebpf.kernel.guard import guard
    from pyebpf.kernel.info import program_info
    from pyebpf.kernel.owners import owner_of

    # The name is that of the process that loaded it: this one, or one that forked it.
    owner = owner_of(program_info(program.fileno()).name)
    return guard("xdp", interface, flags, descriptors=[program.fileno(), netlink.fileno()], owner=owner)


class XdpByNetlink(GuardedLink):
    """An XDP program that anyone with the privilege can replace, as `ip link set … xdp off` does."""

    def __init__(
        self, target: Xdp, interface: int, flags: int, removal: Removal, program: Program, netlink: Descriptor
    ) -> None:
        super().__init__(str(target), "netlink", removal, program=program, held=[netlink])
        self._interface = interface
        self._flags = flags
        self._netlink = netlink

    def update(self, program: Program, *, force: bool = False) -> None:
        from pyebpf.kernel.rtnetlink import set_xdp

        before, old = self.program, self._removal
        assert before is not None
        if old is None:
            raise NotLoaded(f"{self.target} is detached")
        netlink = self._netlink.fileno()
        # Whichever of the two is there when this process dies, the guard removes it.
        removal = _promise(self._interface, self._flags, program, self._netlink)
        try:
            expected = None if force else before.fileno()
            set_xdp(netlink, self._interface, program.fileno(), self._flags, expected_fd=expected)
        except OSError as error:
            removal.forget()
            raise kernel_error(
                error,
                f"updating {self.target} to {program.name}",
                needs=NEEDS,
                meanings={
                    errno.EEXIST: f"another owner has replaced {before.name} there",
                    errno.ENODEV: "its target no longer exists",
                },
            ) from error
        old.forget()
        self.program, self._removal = program, removal


# struct { union { __u32 relative_fd, relative_id; }; __u64 expected_revision; } tcx; the same for netkit.
_OPTIONS = Struct("=I4xQ")
_TYPES = {
    "ingress": AttachType.TCX_INGRESS,
    "egress": AttachType.TCX_EGRESS,
    "primary": AttachType.NETKIT_PRIMARY,
    "peer": AttachType.NETKIT_PEER,
}

_TCX_MESSAGES: ErrnoMessages = {
    errno.ENOENT: "no program with id {relative} is attached there",
    errno.ERANGE: "there are already 64 programs, or the requested order is impossible",
    errno.ENXIO: "{target.interface} is not a netkit device",
}
_NETKIT: ErrnoMessages = {**_TCX_MESSAGES, errno.EINVAL: "{target.interface} is not a primary netkit device"}


def attach_tcx(program: Program, target: Tcx, _: Host) -> Link:
    """Attach `program` to an interface, in its place among others. Ends, too, when the interface goes."""
    relative, flags = target.before or target.after, 0
    if bool(target.before) + bool(target.after) + target.first > 1:
        raise InvalidValue(f"{target}: give one of first, before and after")
    if target.first or target.before:
        flags = BPF_F_BEFORE
    elif target.after:
        flags = BPF_F_AFTER
    if relative:
        flags |= BPF_F_ID
    return make_link(
        program,
        target,
        interface_index(target.interface),
        "netkit link" if target.netkit else "tcx link",
        _NETKIT if target.netkit else _TCX_MESSAGES,
        attach_type=_TYPES[target.direction],
        flags=flags,
        options=_OPTIONS.pack(relative, 0),
        relative=relative,
    )


_numbers = itertools.count(1)
#: Names of filters in a queue that pyebpf made.
_MADE = re.compile(r"pyebpf_[a-z0-9]+_\d+q_")

_CLSACT_MESSAGES: ErrnoMessages = {
    errno.ENOENT: SpecificError(
        NotSupported, "the kernel lacks the clsact queue or bpf filters: load the modules sch_ingress and cls_bpf"
    ),
    errno.EINVAL: "the program is of another type, or the priority is taken by other filters",
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
        raise link_error(error, program, target, _CLSACT_MESSAGES) from error
    except BaseException:
        netlink.close()
        raise
    return GuardedLink(str(target), "clsact filter", removal, program=program, held=[netlink])


def _add_filter(program: Program, target: Clsact, interface: int, netlink: int) -> Removal:
    from pyebpf.kernel.guard import guard
    from pyebpf.kernel.info import program_info
    from pyebpf.kernel.rtnetlink import CLSACT, bpf_filters

    with iproute() as requests:
        present = has_clsact(requests, interface)
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
        with iproute() as requests:
            if not present:
                add_clsact(requests, interface)
            add_bpf_filter(requests, interface, target.direction, program.fileno(), name, priority=target.priority)
    except BaseException:
        removal.perform()
        raise
    return removal


ATTACH = {
    Clsact: attach_clsact,
    Tcx: attach_tcx,
    Xdp: attach_xdp,
}
"""The function that attaches a program, by class of its attach spec."""
