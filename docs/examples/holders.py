"""Which processes hold a file open: every descriptor of every thread, read from the kernel in one pass."""

import sys
from pathlib import Path

from pyebpf import BPF, KernelObject, Struct, char, emit, field, u32


class Holder(Struct):
    """An open file of a process."""

    pid: u32
    descriptor: u32
    comm: str = field(char[16])


if len(sys.argv) != 2:
    sys.exit("usage: holders.py PATH")
path = sys.argv[1]
inode = Path(path).stat().st_ino

bpf = BPF()


@bpf.iter("task_file", Holder)
def holders(task: KernelObject, fd: int, file: KernelObject) -> None:
    if task is None or file is None:  # the run after the last descriptor
        return
    if task.pid == task.tgid and file.f_inode.i_ino == inode:
        emit(Holder(pid=task.tgid, descriptor=fd, comm=task.comm))


with bpf:
    for holder in holders.read():
        print(f"{holder.pid} {holder.comm} has {path} as descriptor {holder.descriptor}")
