"""LSM hooks: what a program denies fails with its errno, counted exactly; everything else goes on."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys

import pytest

from pyebpf import BPF, CompileError, NotFound, NotSupported, VerifierError, kernel_string, pid, u64
from pyebpf.features import Features, Support
from pyebpf.kernel.btf_files import read_btf
from tests.support.cgroups import cgroup
from tests.support.needs import needs
from tests.support.waiting import PATIENCE, wait_until


def openings(path, times):
    """The errno of each opening, 0 for one that succeeded."""
    found = []
    for _ in range(times):
        try:
            os.close(os.open(path, os.O_RDONLY))
            found.append(0)
        except OSError as error:
            found.append(error.errno)
    return found


def denial(path):
    """A module that refuses to open files of one name, and counts how often."""
    bpf = BPF()
    denied = bpf.array(value=u64)
    name = path.name

    @bpf.lsm("file_open")
    def deny(file, retval):
        if retval != 0:
            return retval
        if kernel_string(file.f_path.dentry.d_name.name, size=40) == name:
            denied[0] += 1
            return -errno.EKEYREJECTED
        return 0

    return bpf, denied


@pytest.mark.every_kernel
def test_a_file_is_denied(tmp_path):
    """19 openings of one file fail with the program's errno; other files, and afterwards this one, can be opened."""
    needs("attach:lsm")
    path, other = tmp_path / f"denied-{os.getpid()}", tmp_path / "other"
    path.touch()
    other.touch()
    bpf, denied = denial(path)
    with bpf:
        assert openings(path, 19) == [errno.EKEYREJECTED] * 19
        assert openings(other, 7) == [0] * 7
        assert denied[0] == 19
        assert bpf.attachments == ["deny: LSM file_open, by LSM link"]
        bpf.detach()
        assert openings(path, 3) == [0] * 3
        assert denied[0] == 19


def test_two_programs(tmp_path):
    """The newest program is asked first, and where it refuses no other: of 16 openings the older one sees 11."""
    needs("attach:lsm")
    path = tmp_path / f"denied-{os.getpid()}"
    path.touch()
    bpf, denied = denial(path)
    second = BPF()
    seen = second.array(value=u64, size=2)
    me = os.getpid()

    @second.lsm("file_open")
    def count(retval):
        if pid() == me:
            seen[0 if retval == 0 else 1] += 1
        return retval

    with second, bpf:
        own = seen[0]  # openings of this process while the second was attached
        assert openings(path, 5) == [errno.EKEYREJECTED] * 5
        assert denied[0] == 5
        assert (seen[0], seen[1]) == (own, 0)
        assert openings("/dev/null", 11) == [0] * 11
        assert seen[0] == own + 11


def test_a_hook_without_a_verdict():
    """A hook that asks for nothing is a probe that returns nothing: 13 programs that were started."""
    needs("attach:lsm")
    bpf = BPF()
    started = bpf.hash(key=u64, value=u64)

    @bpf.lsm("bprm_committed_creds")
    def on_exec(bprm):
        if bprm is not None:
            started[pid()] += 1

    with bpf:
        children = set()
        for _ in range(13):
            with subprocess.Popen(["true"]) as child:
                children.add(child.pid)
                child.wait(PATIENCE)
        assert {number: count for number, count in started.items() if number in children} == dict.fromkeys(children, 1)


def test_a_control_group():
    """In one control group binding a socket is refused with EPERM, 17 times; outside it goes on."""
    needs("attach:lsm_cgroup")
    bpf = BPF()
    refused = bpf.array(value=u64)

    @bpf.lsm_cgroup("socket_bind")
    def on_bind(sock):
        refused[0] += 1
        return 0

    def bind():
        found = []
        for _ in range(17):
            with socket.socket() as bound:
                try:
                    bound.bind(("127.0.0.1", 0))
                    found.append(0)
                except OSError as error:
                    found.append(error.errno)
        return found

    with cgroup() as group, bpf:
        assert group.run(bind) == [0] * 17
        with on_bind.attach(group.path):
            assert group.run(bind) == [errno.EPERM] * 17
            assert bind() == [0] * 17
        assert group.run(bind) == [0] * 17
        assert refused[0] == 17
        with pytest.raises(NotFound, match=r"^no control group /nowhere"):
            on_bind.attach("/nowhere")


def test_killed(tmp_path):
    """What a process denied is allowed again when it is killed."""
    needs("attach:lsm")
    path = tmp_path / f"denied-{os.getpid()}"
    path.touch()
    script = f"""
import sys, time
from pathlib import Path
sys.path.insert(0, ".")
from tests.kernel.test_lsm import denial
with denial(Path({str(path)!r}))[0]:
    print("attached", flush=True)
    time.sleep(100)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "attached\n"
            assert openings(path, 2) == [errno.EKEYREJECTED] * 2
        finally:
            process.kill()
    wait_until(lambda: openings(path, 1) == [0])


def test_where_it_is_forbidden(tmp_path):
    """A kernel without trampolines for programs says so in one line, or one that asks no programs at its hooks."""
    from pyebpf.btf import Btf

    if Features(lambda: Btf(read_btf())).ask("attach:lsm") is Support.YES:
        return  # the tests above have shown that it works
    path = tmp_path / "open"
    path.touch()
    bpf, _ = denial(path)
    # Where programs load and cannot be attached, as on arm64 before Linux 6.4, that is what it says.
    words = (
        r"this kernel (has no trampolines|loads programs for trampolines, but attaches none)|"
        r"bpf is not among the security modules"
    )
    with pytest.raises(NotSupported, match=words) as no, bpf:
        pass
    assert "\n" not in str(no.value)
    assert openings(path, 1) == [0]


def test_refusals():
    """No such hook, no such parameter, a number that is not a verdict: said by name, before the kernel is asked."""

    def compiled(function, hook="file_open", cgroup=False):
        bpf = BPF()
        (bpf.lsm_cgroup if cgroup else bpf.lsm)(hook)(function)
        with pytest.raises((CompileError, NotFound, VerifierError)) as refused:
            bpf.specs()
        return str(refused.value).splitlines()[0].partition(": ")[2] or str(refused.value)

    def fine():
        return 0

    bpf = BPF()
    bpf.lsm("flie_open")(fine)
    with pytest.raises(NotFound, match=r"^this kernel has no LSM hook 'flie_open' for programs: .*bpf_lsm_file_open"):
        bpf.specs()

    def parameter(fiel):
        return 0

    assert compiled(parameter) == "bpf_lsm_file_open() has no parameter fiel (did you mean file?): it has file"

    def positive():
        return 1

    assert compiled(positive) == "a program at LSM file_open returns -4095 to 0, not 1"

    def far():
        return -4096

    assert compiled(far) == "a program at LSM file_open returns -4095 to 0, not -4096"

    def unknown(file):
        return file.f_mode

    assert compiled(unknown).startswith("a program at LSM file_open returns 0 or the negative of an errno, and this")

    def nothing(file):
        pass

    assert compiled(nothing).startswith("nothing: every path of a program of this type returns a value")

    def two():
        return 2

    assert compiled(two, cgroup=True) == "a program at LSM file_open of a control group returns 0 or 1, not 2"
