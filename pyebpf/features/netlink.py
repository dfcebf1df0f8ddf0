"""What only route netlink attaches: XDP without a link, and classifiers of the clsact queue."""

from __future__ import annotations

import errno
import socket
from struct import Struct
from typing import TYPE_CHECKING

from pyebpf.asm import encode
from pyebpf.features.answers import UNDECIDED, Answer, from_errno
from pyebpf.features.loading import finish
from pyebpf.kernel import bpf
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.btf import Btf

__all__ = ["clsact", "xdp"]

_NETLINK_ROUTE = 0
_HEADER = Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence number, port
_ERROR = Struct("=i")
_ATTRIBUTE = Struct("=HH")  # struct nlattr: length, type
_TC = Struct("=BxHiIII")  # struct tcmsg: family, ifindex, handle, parent, info
_REQUEST, _ACK, _CREATE_NEW = 1, 4, 0x600  # NLM_F_*; NLM_F_CREATE | NLM_F_EXCL
_NESTED = 1 << 15
_RTM_NEWQDISC, _RTM_NEWTFILTER = 36, 44
_XDP_FLAGS_SKB_MODE = 2
_TCA_KIND, _TCA_OPTIONS, _TCA_BPF_FD, _TCA_BPF_NAME = 1, 2, 6, 7
_CLSACT, _INGRESS = 0xFFFF_0000, 0xFFFF_FFF2  # TC_H_MAKE(TC_H_CLSACT, 0 and TC_H_MIN_INGRESS)
_LOOPBACK = 1
_NO_DESCRIPTOR = 0x7FFF_FFFF
_CLONE_NEWNET = 0x4000_0000


def _attribute(kind: int, content: bytes) -> bytes:
    return (_ATTRIBUTE.pack(_ATTRIBUTE.size + len(content), kind) + content).ljust((4 + len(content) + 3) & ~3, b"\0")


def _answer_to(route: socket.socket, kind: int, flags: int, content: bytes) -> int:
    """The errno that the kernel acknowledges a request with."""
    route.send(_HEADER.pack(_HEADER.size + len(content), kind, _REQUEST | _ACK | flags, 1, 0) + content)
    (number,) = _ERROR.unpack_from(route.recv(65536), _HEADER.size)
    return -int(number)


def _route() -> socket.socket:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_ROUTE)


def xdp(_: Callable[[], Btf] | None) -> Answer:
    """Whether netlink attaches XDP: a descriptor that is none gets EBADF, before the loopback interface changes."""
    from pyebpf.kernel.rtnetlink import open_rtnetlink, set_xdp

    with open_rtnetlink() as route:
        try:
            set_xdp(route.fileno(), _LOOPBACK, _NO_DESCRIPTOR, _XDP_FLAGS_SKB_MODE)
        except OSError as error:
            if error.errno == errno.EBADF:
                return Answer.YES
            return Answer.UNKNOWN if error.errno in UNDECIDED else Answer.NO
    return Answer.NO  # such a request is not even read


def clsact(_: Callable[[], Btf] | None) -> Answer:
    """Whether a classifier can be put on a clsact queue: one is, in a network namespace made for it.

    Making them loads the kernel's modules for both, where they are modules.
    """
    from threading import Thread

    answers: list[Answer] = []
    thread = Thread(target=lambda: answers.append(_clsact_in_its_own_namespace()))
    thread.start()
    thread.join()
    return answers[0] if answers else Answer.UNKNOWN


def _clsact_in_its_own_namespace() -> Answer:
    from pyebpf.kernel.syscall import syscall

    try:
        syscall("unshare", _CLONE_NEWNET)  # for this thread, which ends with the question
    except OSError:
        return Answer.UNKNOWN
    loaded = bpf.prog_load(ProgramType.SCHED_CLS, encode(finish()), name="probe")
    if loaded.descriptor is None:
        return from_errno(loaded.errno)
    with loaded.descriptor as program, _route() as route:
        kind = _attribute(_TCA_KIND, b"clsact\0")
        number = _answer_to(
            route, _RTM_NEWQDISC, _CREATE_NEW, _TC.pack(0, 0, _LOOPBACK, _CLSACT, 0xFFFF_FFF1, 0) + kind
        )
        if not number:
            options = _attribute(_TCA_BPF_FD, program.fileno().to_bytes(4, "little"))
            options += _attribute(_TCA_BPF_NAME, b"probe\0")
            message = _TC.pack(0, 0, _LOOPBACK, 0, _INGRESS, 1 << 16 | socket.htons(3))  # priority 1, ETH_P_ALL
            message += _attribute(_TCA_KIND, b"bpf\0") + _attribute(_TCA_OPTIONS | _NESTED, options)
            number = _answer_to(route, _RTM_NEWTFILTER, _CREATE_NEW, message)
    if number in {0, errno.ENOENT}:  # ENOENT: no such kind of queue, or of classifier
        return Answer.NO if number else Answer.YES
    return Answer.UNKNOWN if number in UNDECIDED else Answer.NO
