"""How many reads this process made in each of three seconds, and how large they were."""

import os
import time
from pathlib import Path

from pyebpf import BPF, pid

bpf = BPF()
me = os.getpid()
sizes = bpf.log2_hist(unit="bytes")
summary = bpf.stats()


@bpf.tracepoint("syscalls:sys_exit_read")
def on_read(ret: int) -> None:
    if pid() == me and ret >= 0:
        sizes.add(ret)
        summary.add(ret)


with bpf:
    for size in (100, 1000, 1000):
        with Path("/dev/zero").open("rb", buffering=0) as zeros:
            zeros.read(size)
        time.sleep(1)
        print(f"{sizes.interval().total} more, {summary.snapshot().average:.0f} bytes on average")
    print(sizes.snapshot())
