"""Ways to attach: asked by attaching to nothing, since loading says little about them."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf.asm import encode
from pyebpf.features.answers import UNDECIDED, Answer, from_errno
from pyebpf.features.loading import LOADS, Load, attempt, finish, forbidden, target_of
from pyebpf.kernel import bpf
from pyebpf.uapi.bpf import AttachType, ProgramType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.btf import Btf

__all__ = ["ATTACHMENTS"]

_PMUS = Path("/sys/bus/event_source/devices")
_NO_INTERFACE = 0x7FFF_FFFF
_NO_DESCRIPTOR = 0xFFFF_FFFF


def _link(kind: ProgramType, attach_type: AttachType, target: int, options: bytes, yes: frozenset[int]) -> Answer:
    """Create a link whose target does not exist; an errno of `yes` says that the kernel came to look for it."""
    load = Load(attach_type if kind is ProgramType.KPROBE else None)
    result = bpf.prog_load(kind, encode(finish()), name="probe", expected_attach_type=load.attach_type or 0)
    if result.descriptor is None:
        return from_errno(result.errno)
    with result.descriptor as program:
        try:
            bpf.link_create(program.fileno(), target, attach_type, options=options).close()
        except OSError as error:
            if error.errno in yes:
                return Answer.YES
            return Answer.UNKNOWN if error.errno in UNDECIDED else Answer.NO
    return Answer.YES


def _perf(_: Callable[[], Btf] | None) -> Answer:
    return _link(ProgramType.TRACEPOINT, AttachType.PERF_EVENT, _NO_DESCRIPTOR, bytes(8), frozenset({errno.EBADF}))


def _tcx(_: Callable[[], Btf] | None) -> Answer:
    return _link(ProgramType.SCHED_CLS, AttachType.TCX_INGRESS, _NO_INTERFACE, bytes(16), frozenset({errno.ENODEV}))


def _xdp(_: Callable[[], Btf] | None) -> Answer:
    # EINVAL is also what a kernel without such links says, but those are older than Linux 5.9.
    return _link(ProgramType.XDP, AttachType.XDP, _NO_INTERFACE, b"", frozenset({errno.ENODEV, errno.EINVAL}))


def _kprobe_multi(_: Callable[[], Btf] | None) -> Answer:
    # { __u32 flags, cnt; __aligned_u64 syms, addrs, cookies; } with one name that no function has.
    from pyebpf.kernel.syscall import address_of

    name = bytearray(b"pyebpf_no_such_function\0")
    names = bytearray(address_of(name).to_bytes(8, "little"))
    options = bytes(4) + (1).to_bytes(4, "little") + address_of(names).to_bytes(8, "little") + bytes(16)
    return _link(ProgramType.KPROBE, AttachType.TRACE_KPROBE_MULTI, 0, options, frozenset({errno.ESRCH, errno.ENOENT}))


def _uprobe_multi(_: Callable[[], Btf] | None) -> Answer:
    # { __aligned_u64 path, offsets, ref_ctr_offsets, cookies; __u32 cnt, flags, pid; } with a directory as the file.
    from pyebpf.kernel.syscall import address_of

    path = bytearray(b"/\0")
    offsets = bytearray(8)
    options = (
        address_of(path).to_bytes(8, "little")
        + address_of(offsets).to_bytes(8, "little")
        + bytes(16)
        + (1).to_bytes(4, "little")
        + bytes(12)
    )
    return _link(ProgramType.KPROBE, AttachType.TRACE_UPROBE_MULTI, 0, options, frozenset({errno.EBADF}))


def _pmu(name: str) -> Callable[[Callable[[], Btf] | None], Answer]:
    def ask(_: Callable[[], Btf] | None) -> Answer:
        if not _PMUS.is_dir():
            return Answer.UNKNOWN
        return Answer.YES if (_PMUS / name / "type").exists() else Answer.NO

    return ask


def _btf_tracepoint(btf: Callable[[], Btf] | None) -> Answer:
    load = LOADS[ProgramType.TRACING]
    target = target_of(load, btf)
    if target is None:
        return Answer.UNKNOWN
    return from_errno(attempt(finish(), ProgramType.TRACING, load=load, target=target).errno)


def _fentry(_: Callable[[], Btf] | None) -> Answer:
    # BTF type 1 is no function: EINVAL and a message where there are trampolines. A kernel locked down against
    # them answers EPERM to whoever may load everything else.
    outcome = attempt(finish(), ProgramType.TRACING, load=Load(AttachType.TRACE_FENTRY), target=1)
    if outcome.errno in {0, errno.EINVAL}:
        return Answer.YES if outcome.log or not outcome.errno else Answer.NO
    return Answer.NO if forbidden(outcome) else Answer.UNKNOWN


def _raw_tracepoint_cookie(_: Callable[[], Btf] | None) -> Answer:
    result = bpf.prog_load(ProgramType.RAW_TRACEPOINT, encode(finish()), name="probe")
    if result.descriptor is None:
        return from_errno(result.errno)
    with result.descriptor as program:
        try:
            bpf.raw_tracepoint_open(program.fileno(), "pyebpf_no_such_tracepoint", cookie=1).close()
        except OSError as error:
            if error.errno == errno.ENOENT:
                return Answer.YES
            return from_errno(error.errno or 0)
    return Answer.YES


ATTACHMENTS: dict[str, Callable[[Callable[[], Btf] | None], Answer]] = {
    "perf": _perf,
    "tp_btf": _btf_tracepoint,
    "fentry": _fentry,
    "kprobe": _pmu("kprobe"),
    "uprobe": _pmu("uprobe"),
    "kprobe_multi": _kprobe_multi,
    "uprobe_multi": _uprobe_multi,
    "raw_tp_cookie": _raw_tracepoint_cookie,
    "tcx": _tcx,
    "xdp": _xdp,
}
"""By name: perf (BPF links of perf events), tp_btf, fentry, kprobe and uprobe (perf PMUs), kprobe_multi, …"""
