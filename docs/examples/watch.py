"""Writes to a variable of this program, counted by the processor's debug registers."""

import ctypes
import os

from pyebpf import BPF, u64

variable = ctypes.c_uint64()
bpf = BPF()
writes = bpf.array(value=u64)


@bpf.breakpoint(ctypes.addressof(variable), 8, "w", pid=os.getpid())
def on_write() -> None:
    writes[0] += 1


with bpf:
    for number in range(17):
        variable.value = number
    print(f"written {writes[0]} times")
