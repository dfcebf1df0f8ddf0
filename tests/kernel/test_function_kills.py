"""Probes at functions of the kernel, killed at any moment: no program, no link and no hook at a function stays."""

from __future__ import annotations

import errno
import mmap
import os
import random
import signal
import time

import pytest

from pyebpf import BPF, pid, u64
from pyebpf.errors import KernelError
from pyebpf.kernel import bpf as kernel
from pyebpf.kernel.info import program_info
from pyebpf.kernel.tracefs import Tracefs
from tests.support.needs import needs
from tests.support.waiting import PATIENCE

KILLS = int(os.environ.get("PYEBPF_KILLS", "3"))
#: Functions that many processes call, and that every kernel has with this name.
FUNCTIONS = ("shmem_file_llseek", "__sys_listen")
#: Each way to attach that a descriptor holds, and the feature that it is.
WAYS = {
    "kprobe_multi": "kprobe_multi",
    "kretprobe": "kprobe",
    "kprobe": "kprobe",
    "fentry": "fentry",
    "fexit": "fentry",
}


def programs(name: str) -> int:
    """How many loaded programs have this name."""
    number, found = 0, 0
    while (following := kernel.prog_get_next_id(number)) is not None:
        number = following
        try:
            with kernel.prog_get_fd_by_id(number) as program:
                found += program_info(program.fileno()).name == name
        except (FileNotFoundError, KernelError):
            continue  # gone since it was listed
    return found


def hooked() -> list[str]:
    """Functions of ours that ftrace calls something at."""
    with Tracefs() as tracefs:
        lines = tracefs.read_top("enabled_functions").decode().splitlines()
    return [line for line in lines if line.split()[:1] and line.split()[0] in FUNCTIONS]


@pytest.mark.parametrize("how", WAYS)
def test_sigkill_at_any_moment_leaves_nothing(how: str) -> None:
    """Killed while it attaches, is attached or detaches, over and over: soon there is nothing, and the next counts."""
    needs(f"attach:{WAYS[how]}")
    bpf = BPF()
    name = f"k{os.getpid()}"
    counts = bpf.array(value=u64)
    me = os.getpid()

    def probe() -> None:
        if pid() == me:
            counts[0] += 1

    probe.__name__ = name
    getattr(bpf, how)(*FUNCTIONS)(probe)
    chance = random.Random(20263)
    attached = mmap.mmap(-1, 1)
    assert hooked() == []
    for number in range(KILLS):
        attached[0] = 0
        child = os.fork()
        if child == 0:
            try:
                bpf.load()
                while True:
                    bpf.attach()
                    attached[0] = 1
                    bpf.detach()
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        try:
            deadline = time.monotonic() + PATIENCE
            while not attached[0]:
                assert time.monotonic() < deadline, "it was never attached"
                assert os.waitpid(child, os.WNOHANG) == (0, 0), "it ended by itself"
                time.sleep(0.001)
            assert programs(name) > 0
            time.sleep(chance.uniform(0, 0.3) if number else 0)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        while programs(name) or hooked():
            assert time.monotonic() < deadline, f"kill {number}: {programs(name)} programs, hooks at {hooked()}"
            time.sleep(0.01)
    attached.close()
    with bpf:
        file = os.memfd_create("pyebpf")
        for _ in range(23):
            with pytest.raises(OSError, match="Invalid argument") as caught:
                os.lseek(file, -5, os.SEEK_CUR)
            assert caught.value.errno == errno.EINVAL
        os.close(file)
        assert counts[0] == 23
