"""Nobody opens one file, not even root, for as long as this runs."""

import errno
import os
import sys
import time
from pathlib import Path

from pyebpf import BPF, KernelObject, u64

path = Path(sys.argv[1])
inode, device = path.stat().st_ino, path.stat().st_dev
kernel_device = os.major(device) << 20 | os.minor(device)

bpf = BPF()
denied = bpf.array(value=u64)


@bpf.lsm("file_open")
def deny(file: KernelObject) -> int:
    if file.f_inode.i_ino == inode and file.f_inode.i_sb.s_dev == kernel_device:
        denied[0] += 1
        return -errno.EPERM
    return 0


with bpf:
    time.sleep(5)
    print(f"{denied[0]} openings of {path} were refused")
