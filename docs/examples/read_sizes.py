"""How many bytes read(2) returns, a histogram for each process name, for five seconds."""

import time

from pyebpf import BPF, char, comm

bpf = BPF()
sizes = bpf.log2_hist(key=char[16], label="process", unit="bytes")
failed = bpf.counter(key=char[16], label="process")


@bpf.tracepoint("syscalls:sys_exit_read")
def on_read(ret: int) -> None:
    if ret < 0:
        failed[comm()].add()
    else:
        sizes[comm()].add(ret)


with bpf:
    time.sleep(5)
    for name, histogram in sorted(sizes.items()):
        print(f"\n{histogram}\nfailed: {failed.get(name, 0)}")
