"""Helpers that tell who and when: everything they say is given by the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import VmError
from pyebpf.uapi.errno_table import EFAULT, EINVAL
from pyebpf.uapi.flags import BPF_F_USER_STACK
from pyebpf.vm.helpers.registry import emulates
from pyebpf.vm.maps.stack_trace import StackTraceMap

if TYPE_CHECKING:
    from pyebpf.vm.machine import Machine

_LOW = 0xFFFF_FFFF
_COMM = 16
_NANOSECONDS_A_JIFFY = 4_000_000


@emulates("ktime_get_ns", "ktime_get_boot_ns", "ktime_get_coarse_ns", "ktime_get_tai_ns")
def ktime_get_ns(vm: Machine) -> int:
    """The caller's time."""
    return vm.now()


@emulates("jiffies64")
def jiffies64(vm: Machine) -> int:
    """The caller's time in jiffies of 4 ms."""
    return vm.now() // _NANOSECONDS_A_JIFFY


@emulates("get_prandom_u32")
def get_prandom_u32(vm: Machine) -> int:
    """A number that follows from the seed."""
    return vm.random.getrandbits(32)


@emulates("get_smp_processor_id")
def get_smp_processor_id(vm: Machine) -> int:
    """The current processor."""
    return vm.cpu


@emulates("get_numa_node_id")
def get_numa_node_id(_vm: Machine) -> int:
    """All processors are of node 0."""
    return 0


@emulates("get_current_pid_tgid")
def get_current_pid_tgid(vm: Machine) -> int:
    """Process in the upper half, thread in the lower."""
    return vm.pid << 32 | vm.tid


@emulates("get_ns_current_pid_tgid")
def get_ns_current_pid_tgid(vm: Machine, _device: int, _inode: int, to: int, size: int) -> int:
    """Thread and process as the pid namespace of the program's maker sees them: the same ones."""
    if size & _LOW != 8:
        vm.memory.write(to, bytes(size & _LOW))
        return -EINVAL
    vm.memory.write(to, vm.tid.to_bytes(4, "little") + vm.pid.to_bytes(4, "little"))
    return 0


@emulates("get_current_uid_gid")
def get_current_uid_gid(vm: Machine) -> int:
    """Group in the upper half, user in the lower."""
    return vm.gid << 32 | vm.uid


@emulates("get_current_comm")
def get_current_comm(vm: Machine, to: int, size: int) -> int:
    """The thread's name: at most 15 bytes, the rest of the buffer zeros."""
    size &= _LOW
    name = vm.comm.encode("utf-8", "surrogateescape")[: min(size, _COMM) - 1]
    vm.memory.write(to, name.ljust(size, b"\0"))
    return 0


@emulates("get_current_task", "get_current_task_btf")
def get_current_task(vm: Machine) -> int:
    """Address of the caller's struct task_struct."""
    return vm.task


@emulates("get_current_cgroup_id")
def get_current_cgroup_id(vm: Machine) -> int:
    """The caller's control group."""
    return vm.cgroup_id


@emulates("get_attach_cookie")
def get_attach_cookie(vm: Machine, _context: int) -> int:
    """The program's cookie."""
    return vm.cookie


@emulates("seq_write")
def seq_write(vm: Machine, _file: int, data: int, size: int) -> int:
    """Bytes for whoever reads an iterator."""
    vm.sequence += vm.memory.read(data, size)
    return 0


@emulates("get_func_ip")
def get_func_ip(vm: Machine, _context: int) -> int:
    """Address of the function that the program is at: `machine.function_ip`."""
    return vm.function_ip


def _frames(vm: Machine, flags: int) -> tuple[int, ...]:
    frames = vm.user_stack if flags & BPF_F_USER_STACK else vm.kernel_stack
    return tuple(frames)[flags & 0xFF :]


@emulates("get_stackid")
def get_stackid(vm: Machine, _context: int, at: int, flags: int) -> int:
    """Number of the caller's stack; -EFAULT if there is none."""
    found = vm.map_at(at)
    if not isinstance(found, StackTraceMap):
        raise VmError(f"cannot pass map_type {found.spec.type} into func bpf_get_stackid ({found.name})")
    frames = _frames(vm, flags)
    return found.number(frames) if frames else -EFAULT


@emulates("get_stack")
def get_stack(vm: Machine, _context: int, to: int, size: int, flags: int) -> int:
    """Copy the caller's stack; how many bytes."""
    size &= _LOW
    if size % 8:
        vm.memory.write(to, bytes(size))
        return -EINVAL
    raw = b"".join(frame.to_bytes(8, "little") for frame in _frames(vm, flags))[:size]
    vm.memory.write(to, raw.ljust(size, b"\0"))
    return len(raw) if raw else -EFAULT
