"""Raw tracepoints: BPF_RAW_TRACEPOINT_OPEN by name."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyebpf.errors import NotFound, NotSupported, closest
from pyebpf.kernel import bpf
from pyebpf.link.base import Link, attach_error
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs import RawTracepoint

__all__ = ["attach_raw_tracepoint"]

_SYSCALLS = ("sys_enter_", "sys_exit_")


def attach_raw_tracepoint(program: Program, target: RawTracepoint, _: Host) -> Link:
    """Attach `program` (kind RAW_TRACEPOINT) to `target`. Raises NotFound, NotPermitted, KernelError."""
    try:
        # A cookie came with Linux commit 68ca5d4eebb8 ("bpf: support BPF cookie in raw_tracepoint (raw_tp, tp_btf)
        # programs") (v6.10).
        descriptor = bpf.raw_tracepoint_open(program.fileno(), target.name, cookie=program.spec.cookie)
    except FileNotFoundError:
        raise NotFound(f"no raw tracepoint {target.name!r}{_hint(target.name)}") from None
    except OSError as error:
        meaning = (
            "the tracepoint is not writable, or not as far as the program writes"
            if program.spec.kind is ProgramType.RAW_TRACEPOINT_WRITABLE
            else "not a raw-tracepoint program"
        ) + (", or a kernel without cookies here" if program.spec.cookie else "")
        raise attach_error(error, program.name, str(target), meanings={errno.EINVAL: meaning}) from error
    return Link(str(target), "raw tracepoint", [descriptor])


def _hint(name: str) -> str:
    """What may have been meant."""
    for start in _SYSCALLS:
        if name.startswith(start):
            return f": system calls share {start[:-1]}; compare the number, or use tracepoint syscalls:{name}"
    from pyebpf.btf import Btf, raw_tracepoint_names
    from pyebpf.kernel.btf_files import read_btf

    try:
        return closest(name, raw_tracepoint_names(Btf(read_btf())))
    except NotSupported:  # no BTF, no list of names
        return ""
