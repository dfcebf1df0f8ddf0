"""Nobody opens files of one name, not even root, for as long as this runs."""

import errno
import sys
import time

from pyebpf import BPF, KernelObject, kernel_string, u64

if len(sys.argv) != 2:
    sys.exit("usage: deny_open.py NAME")
name = sys.argv[1]

bpf = BPF()
denied = bpf.array(value=u64)


@bpf.lsm("file_open")
def deny(file: KernelObject) -> int:
    if kernel_string(file.f_path.dentry.d_name.name, size=256) == name:
        denied[0] += 1
        return -errno.EPERM
    return 0


with bpf:
    time.sleep(5)
    print(f"{denied[0]} openings of {name} were refused")
