"""Iterators: a link that says what is walked; each pass is a descriptor that is read to its end."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any

from pyebpf.attach.iterators import CGROUP_ORDERS, KernelIterator
from pyebpf.errors import KernelError, NotFound, NotSupported
from pyebpf.kernel import bpf
from pyebpf.kernel.errors_in_words import kernel_error
from pyebpf.kernel.mounts import cgroup2_mounts
from pyebpf.kernel.syscall import address_of
from pyebpf.link.base import Link, attach_error
from pyebpf.uapi.attach_types import AttachType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.link.host import Host
    from pyebpf.objects import Program

# link_create: { __aligned_u64 iter_info; __u32 iter_info_len; } with union bpf_iter_link_info:
#   struct { __u32 map_fd; } map;
#   struct { enum bpf_cgroup_iter_order order; __u32 cgroup_fd; __u64 cgroup_id; } cgroup;
#   struct { __u32 tid, pid, pid_fd; } task;
_OPTIONS = Struct("=QI4x")
_MAP, _CGROUP, _TASK = Struct("=I"), Struct("=IIQ"), Struct("=III")

#: Bytes a read; the kernel's own buffer is half as long.
_CHUNK = 1 << 16


class IteratorLink(Link):
    """A link whose list can be read any number of times."""

    def __init__(self, target: KernelIterator, descriptor: Descriptor, program: str) -> None:
        super().__init__(str(target), "iterator link", [descriptor])
        self._record = target.record
        self._program = program

    def read(self) -> Iterator[Any]:
        """One pass: the records that the program wrote, as the kernel gives them. Raises KernelError."""
        record = self._record
        size, assemble, unpack = record.size, record.assemble, record.packer.iter_unpack
        left = b""
        with bpf.iter_create(self._links[0].fileno()) as instance:
            while chunk := self._chunk(instance):
                data = left + chunk
                whole = len(data) - len(data) % size
                for plain in unpack(memoryview(data)[:whole]):
                    yield assemble(iter(plain))
                left = data[whole:]

    def _chunk(self, instance: Descriptor) -> bytes:
        while True:
            try:
                return os.read(instance.fileno(), _CHUNK)
            except BlockingIOError:
                continue  # a million elements without a record: the kernel wants to be asked again
            except OSError as error:
                meanings: dict[int, str | KernelError] = {errno.E2BIG: "the records of one element fill its buffer"}
                raise kernel_error(error, f"reading {self.target} by {self._program}", meanings=meanings) from error


def attach_iterator(program: Program, target: KernelIterator, _: Host) -> IteratorLink:
    """Make a pass's link (kind TRACING, attach type BPF_TRACE_ITER). Raises NotFound, InvalidValue, KernelError."""
    task = target.pid or target.tid
    if task and not Path("/proc", str(task)).exists():
        # The kernel would give an empty list.
        raise NotFound(f"{target}: there is no {'process' if target.pid else 'thread'} {task}")
    cgroup = _open_cgroup(target.cgroup) if target.name == "cgroup" else -1
    try:
        info = bytearray(_limits(target, cgroup))
        options = _OPTIONS.pack(address_of(info), len(info)) if info else b""
        try:
            descriptor = bpf.link_create(program.fileno(), 0, AttachType.TRACE_ITER, options=options, what=str(target))
        except OSError as error:
            unlimited = NotSupported(f"{target}: limits to tasks and control groups need Linux 6.1 or later")
            meanings: dict[int, str | KernelError] = {
                errno.EINVAL: unlimited if info else "the kernel wants a limit: a map",
                errno.E2BIG: unlimited,  # kernels whose union bpf_iter_link_info is shorter
                errno.EBADF: "no directory of a cgroup2 file system, or no map",
                errno.EACCES: "the program reads beyond the map's keys or values, or writes to them",
            }
            raise attach_error(error, program.name, str(target), meanings=meanings) from error
    finally:
        if cgroup >= 0:
            os.close(cgroup)
    return IteratorLink(target, descriptor, program.name)


def _limits(target: KernelIterator, cgroup: int) -> bytes:
    if target.map_fd:
        return _MAP.pack(target.map_fd)
    if cgroup >= 0:
        return _CGROUP.pack(CGROUP_ORDERS[target.order], cgroup, 0)
    if target.pid or target.tid:
        return _TASK.pack(target.tid, target.pid, 0)
    return b""


def _open_cgroup(path: str) -> int:
    path = path or next(iter(cgroup2_mounts()), "/sys/fs/cgroup")
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise NotFound(f"no control group {path}: give a directory of the cgroup2 file system") from error


ATTACH = {
    KernelIterator: attach_iterator,
}
"""The function that attaches a program, by class of its attach spec."""
