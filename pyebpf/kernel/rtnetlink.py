"""The few requests of rtnetlink(7) that take an attachment off again, small enough for the guard process to hold ready.

Everything else goes through pyroute2 (`pyebpf.kernel.iproute`), which takes a tenth of a second to import: too long for
who waits for a death.

`netlink` is the descriptor of a socket, which belongs to the network namespace where it was made.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.kernel.descriptor import Descriptor

if TYPE_CHECKING:
    from collections.abc import Iterator

# struct nlmsghdr { __u32 len; __u16 type, flags; __u32 seq, pid; }; struct nlattr { __u16 len, type; };
_HEADER, _ATTRIBUTE = Struct("=IHHII"), Struct("=HH")
# struct ifinfomsg { __u8 family, pad; __u16 type; __s32 index; __u32 flags, change; };
_LINK = Struct("=BxHiII")
# struct tcmsg { __u8 family, pad[3]; __s32 ifindex; __u32 handle, parent, info; };
_TC = Struct("=BxxxiIII")
_U32, _S32 = Struct("=I"), Struct("=i")

_REQUEST, _ACK, _DUMP = 1, 4, 0x300
_ERROR, _DONE = 2, 3
_SETLINK, _DELQDISC = 19, 37
_NEWTFILTER, _DELTFILTER, _GETTFILTER = 44, 45, 46
_NESTED = 0x8000
_IFLA_XDP = 43
# enum of IFLA_XDP: IFLA_XDP_FD, …
_XDP_FD, _XDP_FLAGS, _XDP_EXPECTED_FD = 1, 3, 8
_XDP_REPLACE = 1 << 4
_TCA_KIND, _TCA_OPTIONS, _TCA_BPF_NAME, _TCA_BPF_ID = 1, 2, 7, 11

#: Handle of the clsact queue, and for each direction the parent of its filters (linux/pkt_sched.h).
_CLSACT_HANDLE, _CLSACT_PARENT = 0xFFFF_0000, 0xFFFF_FFF1
CLSACT = {"ingress": 0xFFFF_FFF2, "egress": 0xFFFF_FFF3}


class BpfFilter(NamedTuple):
    """A bpf filter: `info` is its priority << 16 and protocol; `program` its program's id."""

    interface: int
    handle: int
    parent: int
    info: int
    name: str
    program: int


def _attribute(kind: int, payload: bytes) -> bytes:
    size = _ATTRIBUTE.size + len(payload)
    return _ATTRIBUTE.pack(size, kind) + payload + bytes(-size % 4)


def _attributes(data: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while at + _ATTRIBUTE.size <= len(data):
        size, kind = _ATTRIBUTE.unpack_from(data, at)
        found[kind & 0x3FFF] = data[at + _ATTRIBUTE.size : at + size]
        at += -(-size // 4) * 4 or len(data)
    return found


def open_rtnetlink() -> Descriptor:
    """A socket to the network namespace that this thread is in now, wherever it is used later."""
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    made.bind((0, 0))
    return Descriptor(made.fileno(), "rtnetlink socket", made.close)


def _request(netlink: int, kind: int, flags: int, payload: bytes) -> Iterator[tuple[int, bytes]]:
    """Send one request; type and payload of each answer until the last. Raises OSError for what the kernel refuses."""
    # A guard takes over its owner's socket, where an answer to the dead may lie: only this request's are read.
    number = time.monotonic_ns() & 0xFFFF_FFFF
    os.write(netlink, _HEADER.pack(_HEADER.size + len(payload), kind, _REQUEST | flags, number, 0) + payload)
    last = False
    while not last:
        data = os.read(netlink, 1 << 16)
        at = 0
        while at + _HEADER.size <= len(data):
            size, answer, _, sequence, _ = _HEADER.unpack_from(data, at)
            body = data[at + _HEADER.size : at + size]
            at += -(-size // 4) * 4
            if sequence != number:
                continue
            if answer == _ERROR and (number := -_S32.unpack_from(body)[0]):
                raise OSError(number, os.strerror(number))
            last = answer in (_ERROR, _DONE)
            if not last:
                yield answer, body


def set_xdp(netlink: int, interface: int, prog_fd: int, flags: int, *, expected_fd: int | None = None) -> None:
    """Put a program on an interface's XDP hook, or take it off (-1), if `expected_fd` is there now.

    `flags` are XDP_FLAGS_SKB_MODE (2), XDP_FLAGS_DRV_MODE (4) and XDP_FLAGS_UPDATE_IF_NOEXIST (1).
    EEXIST: another program is there.
    """
    if expected_fd is not None:
        flags |= _XDP_REPLACE
    inside = _attribute(_XDP_FD, _S32.pack(prog_fd)) + _attribute(_XDP_FLAGS, _U32.pack(flags))
    if expected_fd is not None:
        inside += _attribute(_XDP_EXPECTED_FD, _S32.pack(expected_fd))
    payload = _LINK.pack(0, 0, interface, 0, 0) + _attribute(_IFLA_XDP | _NESTED, inside)
    for _ in _request(netlink, _SETLINK, _ACK, payload):
        pass


def bpf_filters(netlink: int, interface: int, direction: str) -> list[BpfFilter]:
    """The bpf filters of an interface's clsact queue; none if it has no such queue, or is gone."""
    found = []
    try:
        for kind, body in _request(netlink, _GETTFILTER, _DUMP, _TC.pack(0, interface, 0, CLSACT[direction], 0)):
            attributes = _attributes(body[_TC.size :])
            _, index, handle, parent, info = _TC.unpack_from(body)
            if kind != _NEWTFILTER or attributes.get(_TCA_KIND) != b"bpf\0" or not handle:
                continue
            options = _attributes(attributes.get(_TCA_OPTIONS, b""))
            name = options.get(_TCA_BPF_NAME, b"").rstrip(b"\0").decode(errors="replace")
            program = _U32.unpack(options[_TCA_BPF_ID])[0] if _TCA_BPF_ID in options else 0
            found.append(BpfFilter(index, handle, parent, info, name, program))
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENODEV, errno.ENOENT):
            raise
    return found


def _any_filter(netlink: int, interface: int) -> bool:
    """Whether a clsact queue has filters of any kind."""
    for parent in CLSACT.values():
        for kind, _ in _request(netlink, _GETTFILTER, _DUMP, _TC.pack(0, interface, 0, parent, 0)):
            if kind == _NEWTFILTER:
                return True
    return False


def remove_clsact_filter(
    netlink: int, interface: int, direction: str, name: str, program: int, *, made_queue: bool
) -> None:
    """Remove the bpf filter called `name` of the program with this id, by the handle that it has.

    The queue goes, too, if `made_queue` and nothing else is in it.
    """
    try:
        for each in bpf_filters(netlink, interface, direction):
            if (each.name, each.program) == (name, program):
                payload = _TC.pack(0, interface, each.handle, each.parent, each.info) + _attribute(_TCA_KIND, b"bpf\0")
                for _ in _request(netlink, _DELTFILTER, _ACK, payload):
                    pass
        if made_queue and not _any_filter(netlink, interface):
            for _ in _request(netlink, _DELQDISC, _ACK, _TC.pack(0, interface, _CLSACT_HANDLE, _CLSACT_PARENT, 0)):
                pass
    except OSError as error:
        # The interface or the queue is gone, and all filters with it.
        if error.errno not in (errno.EINVAL, errno.ENODEV, errno.ENOENT):
            raise
