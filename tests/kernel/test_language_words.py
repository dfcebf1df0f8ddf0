"""The friendly words, against what Python itself says of this process."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from pyebpf import BPF, Struct, char, comm, cpu, field, gid, now, pid, s64, tid, u64, uid, user_string
from tests.support.needs import needs
from tests.support.processors import one_processor

ROOT = Path(__file__).resolve().parents[2]
ME = os.getpid()


class Seen(Struct):
    """What the words said."""

    pid: s64
    tid: s64
    uid: s64
    gid: s64
    cpu: s64
    now: u64
    comm: str = field(char[16])


def test_words_tell_of_the_thread_that_runs():
    bpf = BPF()
    seen = bpf.array(value=Seen)

    @bpf.raw_tracepoint("sys_enter")
    def on_call() -> None:
        if pid() == ME:
            seen[0] = Seen(pid(), tid(), uid(), gid(), cpu(), now(), comm())

    with one_processor() as only, bpf:
        before = time.monotonic_ns()
        os.getppid()
        bpf.detach()
        after = time.monotonic_ns()
        found = seen[0]
    name = Path("/proc/thread-self/comm").read_text(encoding="utf-8").rstrip("\n")
    assert (found.pid, found.uid, found.gid, found.cpu, found.comm) == (ME, os.getuid(), os.getgid(), only, name)
    assert f"/{found.tid}" in str(Path("/proc/thread-self").readlink())
    assert before <= found.now <= after


SCRIPT = """
import os
from pyebpf import BPF, pid, tid, u32

bpf = BPF()
ids = bpf.hash(key=u32, value=u32)

@bpf.raw_tracepoint("sys_enter")
def on_call() -> None:
    if pid() == 1:
        ids[pid()] = tid()

with bpf:
    os.getppid()
    print(os.getpid(), dict(ids.items()))
"""


def test_in_a_pid_namespace_ids_are_the_namespaces(tmp_path):
    """Process 1 of a new namespace sees itself, and no other process is 1 there."""
    unshare = shutil.which("unshare")
    needs("command:unshare")
    script = tmp_path / "first.py"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [unshare, "--pid", "--fork", sys.executable, str(script)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "1 {1: 1}\n"


def test_a_string_at_an_address_that_cannot_be_read_is_empty():
    bpf = BPF()
    seen = bpf.array(value=Seen)

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_open(filename) -> None:
        if pid() == ME:
            text = user_string(filename, size=32)
            seen[0] = Seen(len(text), text == "", filename is None, 0, 0, filename, text)

    library = ctypes.CDLL(None)
    with bpf:
        assert library.openat(-100, ctypes.c_void_p(0x10000), 0) == -1
        bpf.detach()
        assert seen[0] == Seen(0, 1, 0, 0, 0, 0x10000, "")
