"""Probes for what only route netlink attaches: XDP without a link, and classifiers of the clsact queue."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyebpf.asm import encode
from pyebpf.errors import KernelError
from pyebpf.features.loading import finish
from pyebpf.features.support import Support, from_errno, from_refusal
from pyebpf.kernel import bpf
from pyebpf.kernel.iproute import add_bpf_filter, add_clsact, iproute
from pyebpf.kernel.rtnetlink import open_rtnetlink, set_xdp
from pyebpf.kernel.shortages import start_thread
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.btf import Btf

_XDP_FLAGS_SKB_MODE = 2
_LOOPBACK = 1
_NO_DESCRIPTOR = 0x7FFF_FFFF
_CLONE_NEWNET = 0x4000_0000


def xdp(_: Callable[[], Btf] | None) -> Support:
    """Whether netlink attaches XDP: a descriptor that is none gets EBADF, before the loopback interface changes."""
    with open_rtnetlink() as route:
        try:
            set_xdp(route.fileno(), _LOOPBACK, _NO_DESCRIPTOR, _XDP_FLAGS_SKB_MODE)
        except OSError as error:
            if error.errno == errno.EBADF:
                return Support.YES
            return from_refusal(error)
    return Support.NO  # such a request is not even read


def clsact(_: Callable[[], Btf] | None) -> Support:
    """Whether a classifier can be put on a clsact queue: one is, in a network namespace made for it.

    Making them loads the kernel's modules for both, where they are modules.
    """
    from threading import Thread

    answers: list[Support] = []
    thread = Thread(target=lambda: answers.append(_clsact_in_its_own_namespace()))
    try:
        start_thread(thread)
    except KernelError:
        return Support.UNKNOWN
    thread.join()
    return answers[0] if answers else Support.UNKNOWN


def _clsact_in_its_own_namespace() -> Support:
    from pyebpf.kernel.syscall import syscall

    try:
        syscall("unshare", _CLONE_NEWNET)  # for this thread, which ends with the question
    except OSError:
        return Support.UNKNOWN
    loaded = bpf.prog_load(ProgramType.SCHED_CLS, encode(finish()), name="probe")
    if loaded.descriptor is None:
        return from_errno(loaded.errno)
    with loaded.descriptor as program:
        try:
            with iproute() as requests:
                add_clsact(requests, _LOOPBACK)
                add_bpf_filter(requests, _LOOPBACK, "ingress", program.fileno(), "probe", priority=1)
        except OSError as error:
            return from_refusal(error)
    return Support.YES
