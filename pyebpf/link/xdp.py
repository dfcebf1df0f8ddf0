"""XDP: by a link (since Linux 5.9), else by netlink, whose attachments a guard process removes."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyebpf.errors import KernelError, NotLoaded
from pyebpf.kernel.diagnosis import diagnose
from pyebpf.kernel.interfaces import interface_index
from pyebpf.link.creation import NEEDS, As, make_link, refused
from pyebpf.link.guarded import GuardedLink

if TYPE_CHECKING:
    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.kernel.guard import Removal
    from pyebpf.link.base import Link
    from pyebpf.link.creation import Meanings
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs.attach.network import Xdp

__all__ = ["attach_xdp"]

#: XDP_FLAGS_UPDATE_IF_NOEXIST, XDP_FLAGS_SKB_MODE, XDP_FLAGS_DRV_MODE of linux/if_link.h.
_IF_NOEXIST = 1
_MODES = {"": 0, "generic": 2, "native": 4}

_MEANINGS: Meanings = {
    errno.EBUSY: "a program is attached there by a link: it has the interface until it ends",
    errno.EEXIST: "a program is attached there already, or in the other mode",
    # No other way to attach would help: no NotSupported.
    errno.EOPNOTSUPP: As(KernelError, 'the driver of {target.interface} has no XDP: write mode="generic"'),
    errno.ERANGE: "frames of {target.interface} may be too large for one piece: write @bpf.xdp(…, frags=True), or "
    "lower its MTU",
    errno.EINVAL: "the driver's settings don't allow it, or the kernel lacks such links",
}
_NETLINK: Meanings = {**_MEANINGS, errno.EBUSY: "a program is attached there already"}


def attach_xdp(program: Program, target: Xdp, _: Host) -> Link:
    """Attach `program` to an interface. Ends, too, when the interface goes.

    Raises NotFound for an unknown interface, KernelError where the driver or its settings don't allow it.
    """
    interface = interface_index(target.interface)
    flags = _MODES[target.mode]
    if not target.netlink:
        return make_link(program, target, interface, "xdp link", _MEANINGS, flags=flags)
    try:
        return _by_netlink(program, target, interface, flags)
    except OSError as error:
        if isinstance(error, KernelError):
            raise
        raise refused(error, program, target, _NETLINK) from error


def _by_netlink(program: Program, target: Xdp, interface: int, flags: int) -> Link:
    from pyebpf.kernel.rtnetlink import open_rtnetlink
    from pyebpf.link.netlink import rtnetlink

    netlink = open_rtnetlink()
    try:
        removal = _promise(interface, flags, program, netlink)
        try:
            attributes = [("IFLA_XDP_FD", program.fileno()), ("IFLA_XDP_FLAGS", flags | _IF_NOEXIST)]
            with rtnetlink() as requests:
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
            raise diagnose(
                error,
                f"updating {self.target} to {program.name}",
                needs=NEEDS,
                meanings={
                    errno.EEXIST: f"another owner has replaced {before.name} there",
                    errno.ENODEV: "what it was attached to is gone",
                },
            ) from error
        old.forget()
        self.program, self._removal = program, removal
