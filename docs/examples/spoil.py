"""Test runs of this process fail while a program at a writable tracepoint says so."""

import errno
import os

from pyebpf import BPF, KernelError, pid, u64

bpf = BPF()
spoilt = bpf.array(value=u64)
me = os.getpid()


@bpf.raw_tracepoint_writable("bpf_test_finish")
def spoil(err: list[int]) -> None:
    if pid() == me and err[0] == 0:
        spoilt[0] += 1
        err[0] = -errno.ECANCELED


@bpf.socket_filter()
def accept() -> int:
    return 1


with bpf:
    for _ in range(3):
        try:
            accept.program.test_run(data=bytes(64))
        except KernelError as error:
            print(error)
    bpf.detach()
    print(f"{spoilt[0]} spoilt; afterwards it returns {accept.program.test_run(data=bytes(64)).retval}")
