"""perf_event_open(2), also by the PMUs `kprobe` and `uprobe`, and the ioctls of its descriptors."""

from __future__ import annotations

import fcntl
from struct import Struct

from pyebpf.errors import NotSupported
from pyebpf.kernel.descriptor import Descriptor
from pyebpf.kernel.syscall import address_of, syscall
from pyebpf.uapi.perf_numbers import (
    PERF_EVENT_IOC_ENABLE,
    PERF_EVENT_IOC_PAUSE_OUTPUT,
    PERF_EVENT_IOC_SET_BPF,
    PERF_FLAG_FD_CLOEXEC,
)

_PMUS = "/sys/bus/event_source/devices"

# struct perf_event_attr (PERF_ATTR_SIZE_VER1):
#     __u32 type, size; __u64 config, sample_period /* or sample_freq */, sample_type, read_format, flags (bit-field);
#     __u32 wakeup_events, bp_type; __u64 config1, config2;
_ATTR = Struct("=IIQQQQQIIQQ")
# Bits of the flags.
_INHERIT, _FREQ, _BACKWARD, _INHERIT_THREAD = 1 << 1, 1 << 10, 1 << 27, 1 << 35
_ENABLE, _SET_BPF, _PAUSE = PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_SET_BPF, PERF_EVENT_IOC_PAUSE_OUTPUT


def perf_event_open(
    kind: int,
    config: int,
    *,
    pid: int = -1,
    cpu: int = 0,
    period: int = 0,
    frequency: int = 0,
    sample_type: int = 0,
    wakeup_events: int = 0,
    new_threads: bool = False,
    backward: bool = False,
    config1: int = 0,
    config2: int = 0,
    bp_type: int = 0,
    what: str = "perf event",
) -> Descriptor:
    """Open an event of `enum perf_type_id` (or PMU number) `kind`: one thread `pid` or all (-1), one CPU or all (-1).

    Sampled every `period` events or `frequency` times a second (EINVAL above kernel.perf_event_max_sample_rate).
    `new_threads`: also in threads that this thread starts from now on, not in processes (since Linux 5.13).
    `config1` and `config2` are the PMU's own (kprobe and uprobe: address of a name or path, and an offset). `bp_type`:
    what a breakpoint (PERF_TYPE_BREAKPOINT) stops at, HW_BREAKPOINT_R, _W, _X; its address and length are the configs.
    `backward`: records are written towards the start of the buffer, so that one mapped for reading is overwritten.
    ENOENT: the host lacks the event; EACCES: kernel.perf_event_paranoid; EINVAL: `pid` and `cpu` both -1.
    """
    flags = (_FREQ if frequency else 0) | (_INHERIT | _INHERIT_THREAD if new_threads else 0)
    flags |= _BACKWARD if backward else 0
    attribute = bytearray(
        _ATTR.pack(
            kind,
            _ATTR.size,
            config,
            frequency or period,
            sample_type,
            0,
            flags,
            wakeup_events,
            bp_type,
            config1,
            config2,
        )
    )
    fd = syscall("perf_event_open", address_of(attribute), pid, cpu, -1, PERF_FLAG_FD_CLOEXEC)
    return Descriptor(fd, what)


def pmu_type(name: str) -> int | None:
    """The number of the PMU `name` ("kprobe", "uprobe"), which differs from kernel to kernel; None without it."""
    try:
        with open(f"{_PMUS}/{name}/type", encoding="ascii") as file:
            return int(file.read())
    except FileNotFoundError:
        return None


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
    # `config`: bit 0 asks for the return, bits 32 to 63 are a uprobe's reference counter, as an offset in the file.
    # `config1` is the address of the name, `config2` the offset (kprobe_func, uprobe_path; probe_offset).
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


def set_bpf(event_fd: int, prog_fd: int) -> None:
    """Attach a program to an event. EEXIST: attached before; EINVAL: a program of another type."""
    fcntl.ioctl(event_fd, _SET_BPF, prog_fd)


def pause_output(event_fd: int, *, paused: bool) -> None:
    """Stop or resume writing to the event's buffer; what is sent meanwhile is lost."""
    fcntl.ioctl(event_fd, _PAUSE, int(paused))


def enable(event_fd: int) -> None:
    """Start counting."""
    fcntl.ioctl(event_fd, _ENABLE, 0)
