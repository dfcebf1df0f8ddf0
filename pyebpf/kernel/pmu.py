"""The perf PMUs `kprobe` and `uprobe`: an event at a function of the kernel, or at a place in a file.

struct perf_event_attr: `type` is the PMU's number; `config` bit 0 asks for the return, bits 32 to 63 are a uprobe's
reference counter, as an offset in the file; `config1` is the address of the name, `config2` an offset (kprobe_func and
probe_offset, uprobe_path and probe_offset).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import NotSupported
from pyebpf.kernel.perf import perf_event_open, pmu_type
from pyebpf.kernel.syscall import address_of

if TYPE_CHECKING:
    from pyebpf.kernel.descriptor import Descriptor

__all__ = ["open_probe"]


def open_probe(
    pmu: str,
    name: bytes,
    offset: int,
    *,
    returns: bool = False,
    pid: int = -1,
    ref_ctr_offset: int = 0,
    what: str = "probe",
) -> Descriptor:
    """Open an event at `name` + `offset`: a kernel function's (`kprobe`), a file's path (`uprobe`); `returns`: at exit.

    Without a name `offset` is an address (`kprobe`). One event serves all processors; `pid` limits a uprobe to a
    process (a kprobe's is no limit for BPF programs). Raises NotSupported without the PMU, else OSError: ENOENT no such
    function or file, EINVAL not a place for a probe, ESRCH no such process.
    """
    number = pmu_type(pmu)
    if number is None:
        raise NotSupported(f"this kernel has no {pmu}s: there is no /sys/bus/event_source/devices/{pmu}")
    text = bytearray(name + b"\0") if name else None
    event = perf_event_open(
        number,
        ref_ctr_offset << 32 | returns,
        pid=pid,
        cpu=0 if pid < 0 else -1,
        config1=address_of(text) if text is not None else 0,
        config2=offset,
        what=what,
    )
    del text  # the kernel read it by address until here
    return event
