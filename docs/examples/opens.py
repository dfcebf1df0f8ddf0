"""Opens per process, for five seconds."""

import time

from pyebpf import BPF, char, comm, u64

bpf = BPF()
opens = bpf.hash(key=char[16], value=u64)


@bpf.tracepoint("syscalls:sys_enter_openat")
def on_open() -> None:
    opens[comm()] += 1


with bpf:  # compile, load, attach; leaving detaches and closes everything
    time.sleep(5)
    for name, count in sorted(opens.items(), key=lambda item: item[1]):
        print(f"{name:16} {count}")
