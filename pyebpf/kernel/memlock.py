"""The limit of locked memory, to which kernels before Linux 5.11 charge maps and programs.

Since Linux commit d5299b67dd59 ("bpf: Memcg-based memory accounting for bpf maps") and its neighbours (v5.11) control
groups account for that memory. A full limit answers EPERM, as a missing privilege does.
"""

from __future__ import annotations

import errno
import resource
from typing import TYPE_CHECKING

from pyebpf.errors import NotPermitted

if TYPE_CHECKING:
    from collections.abc import Callable

_LIMIT = resource.RLIMIT_MEMLOCK
_NONE = resource.RLIM_INFINITY


def again_without_limit(make: Callable[[], int], refusal: PermissionError) -> int:
    """Call `make`, just refused with EPERM, without the limit. Raises `refusal` if that changes nothing.

    The limit stays raised if it was the reason, since more maps follow; else it is put back. To raise it beyond what
    the process was given takes CAP_SYS_RESOURCE.
    """
    soft, hard = resource.getrlimit(_LIMIT)
    if soft == _NONE:
        raise refusal
    try:
        resource.setrlimit(_LIMIT, (_NONE, _NONE))
    except (ValueError, OSError):
        if soft == hard:
            raise refusal from None
        resource.setrlimit(_LIMIT, (hard, hard))
    try:
        return make()
    except PermissionError:
        resource.setrlimit(_LIMIT, (soft, hard))
        raise refusal from None


def shortage(doing: str) -> NotPermitted | None:
    """The error for EPERM while `doing`, if a full limit can be the reason: this kernel charges to it."""
    from pyebpf.kernel import bpf
    from pyebpf.kernel.privileges import has_capability

    _, hard = resource.getrlimit(_LIMIT)
    if hard == _NONE or not has_capability("CAP_BPF") or has_capability("CAP_SYS_RESOURCE"):
        return None
    # call bpf_ktime_get_coarse_ns; r0 = 0; exit. No file tells what is charged, but the helper is of the same release:
    # commit d05512618056 ("bpf: Add bpf_ktime_get_coarse_ns helper") (v5.11). A full limit refuses the program as well.
    with_helper = bytes.fromhex("85000000a0000000b7000000000000009500000000000000")
    loaded = bpf.prog_load(1, with_helper, name="probe")  # BPF_PROG_TYPE_SOCKET_FILTER
    if loaded.descriptor is not None:
        loaded.descriptor.close()
        return None
    return NotPermitted(
        f"{doing}: the limit of locked memory ({hard >> 10} KiB), to which Linux before 5.11 charges "
        "maps and programs, is full: raise it (`ulimit -l unlimited`, LimitMEMLOCK=infinity), or give this process "
        "CAP_SYS_RESOURCE (EPERM)",
        errno.EPERM,
    )
