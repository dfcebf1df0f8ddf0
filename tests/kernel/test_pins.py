"""Links updated without a gap, pinned, listed, and taken up by the next process."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pyebpf
from pyebpf import BPF, XDP_DROP, XDP_PASS, InvalidValue, KernelError, NotFound, NotSupported, XdpContext, u64
from pyebpf.kernel import bpf as calls
from pyebpf.kernel.syscall import syscall
from pyebpf.packet import IPPROTO_UDP, IPv4
from tests.support.needs import needs
from tests.support.python import ROOT
from tests.support.traffic import inside, receiver, send, settled
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.machine(modules=("veth",))

PORT = 7933
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18


def counting(verdict, *where, size=1):
    """A program that counts UDP packets and gives them this verdict."""
    bpf = BPF()
    seen = bpf.percpu_array(value=u64, size=size, name="seen")

    @bpf.xdp(*where)
    def count(ctx: XdpContext) -> int:
        ip = ctx.packet.header(IPv4, at=14)
        if ip is None or ip.protocol != IPPROTO_UDP:
            return XDP_PASS
        seen[0] += 1
        return verdict

    return bpf


def test_a_link_is_updated(pair):
    """Another program takes over; if a third did so meanwhile, the update is refused with one line, unless forced."""
    here, there = pair
    with receiver(there, PORT) as arrived, inside(there), counting(XDP_DROP, "veth0") as first:
        passing, other = counting(XDP_PASS), counting(XDP_DROP)
        passing.load()
        other.load()
        with contextlib.closing(passing), contextlib.closing(other):
            (link,) = first.links
            (program,) = passing.programs.values()
            (third,) = other.programs.values()
            send(here, ("10.251.0.2", PORT), 7)
            assert settled(arrived, 0) == 0
            link.update(program)
            send(here, ("10.251.0.2", PORT), 13)
            assert settled(arrived, 13) == 13
            assert (first["seen"][0], passing["seen"][0]) == (7, 13)
            (found,) = [each for each in pyebpf.links() if each.id == link.id]
            assert (found.kind, found.target, found.program) == ("xdp", "xdp veth0", "count")
            with found.open() as same:
                same.update(third)
            with pytest.raises(KernelError, match="another owner has replaced count there") as caught:
                link.update(program)
            assert "\n" not in str(caught.value)
            link.update(program, force=True)
            send(here, ("10.251.0.2", PORT), 3)
            assert settled(arrived, 3) == 3


def test_a_program_attached_by_netlink_is_updated(pair):
    """The same by netlink: replaced only if it is there, and the newest is what detaching removes."""
    needs("attach:xdp_netlink")
    _, there = pair
    first, second = BPF(), BPF()
    for bpf in (first, second):

        @bpf.xdp(by="netlink")
        def drop(ctx: XdpContext) -> int:
            return XDP_PASS if len(ctx.packet) else XDP_DROP

        bpf.load()
    with inside(there), contextlib.closing(first), contextlib.closing(second):
        (one,), (two,) = first.programs.values(), second.programs.values()
        link = first.probes[0].attach("veth0")
        link.update(two)
        link.update(one)
        there.run("ip", "link", "set", "veth0", "xdp", "off")
        with pytest.raises(KernelError, match="another owner has replaced drop there"):
            link.update(two)
        with pytest.raises(NotSupported, match="cannot be pinned: it is attached by netlink, not by one link"):
            link.pin("/sys/fs/bpf/x")
        link.detach()


@pytest.fixture
def bpffs(tmp_path):
    """A bpf file system of the test's own, in a mount namespace of this thread's own."""
    own = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY)
    working = Path.cwd()
    syscall("unshare", CLONE_NEWNS)
    try:
        subprocess.run(["mount", "--make-rprivate", "/"], check=True, timeout=PATIENCE)
        subprocess.run(["mount", "-t", "bpf", "bpf", tmp_path], check=True, timeout=PATIENCE)
        yield tmp_path
    finally:
        syscall("setns", own, CLONE_NEWNS)
        os.chdir(working)
        os.close(own)


OWNER = """
import os, sys
from pyebpf import BPF, XDP_DROP, XDP_PASS, XdpContext, u64
from pyebpf.packet import IPPROTO_UDP, IPv4

def build(*where):
    bpf = BPF()
    seen = bpf.percpu_array(value=u64, name="seen")

    @bpf.xdp(*where)
    def count(ctx: XdpContext) -> int:
        ip = ctx.packet.header(IPv4, at=14)
        if ip is None or ip.protocol != IPPROTO_UDP:
            return XDP_PASS
        seen[0] += 1
        return XDP_DROP

    return bpf

if __name__ == "__main__":
    with build("veth0") as bpf:
        bpf.pin(sys.argv[1])
        print("pinned", flush=True)
        sys.stdin.read()
"""


def test_what_a_process_left_is_taken_up_by_the_next(pair, bpffs, tmp_path_factory):
    """Pinned by a process that is killed; packets are dropped and counted on; the next process reads, then ends it."""
    here, there = pair
    script = tmp_path_factory.mktemp("owner") / "owner.py"
    script.write_text(OWNER)
    path = f"{bpffs}/counter"
    with receiver(there, PORT) as arrived, inside(there):
        with subprocess.Popen(
            [sys.executable, script, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ) as owner:
            assert owner.stdout.readline() == "pinned\n"
            send(here, ("10.251.0.2", PORT), 5)
            os.kill(owner.pid, signal.SIGKILL)
        send(here, ("10.251.0.2", PORT), 11)
        assert settled(arrived, 0) == 0
        namespace_of: dict = {"__name__": "owner", "__file__": str(script)}
        exec(compile(OWNER, str(script), "exec"), namespace_of)
        with namespace_of["build"]("veth0").reopen(path) as bpf:
            assert bpf["seen"][0] == 16
            assert bpf.attachments == ["count: xdp veth0, by xdp link"]
            send(here, ("10.251.0.2", PORT), 2)
            assert settled(arrived, 0) == 0
            assert bpf["seen"][0] == 18
        send(here, ("10.251.0.2", PORT), 3)
        assert settled(arrived, 0) == 0  # it was not unpinned
        with namespace_of["build"]("veth0").reopen(path) as bpf:
            assert bpf["seen"][0] == 21
            bpf.unpin()
            assert not Path(path).exists()
            send(here, ("10.251.0.2", PORT), 1)
            assert settled(arrived, 0) == 0
        send(here, ("10.251.0.2", PORT), 7)
        assert settled(arrived, 7) == 7


def test_refusals_of_pins(pair, bpffs, tmp_path_factory):
    """No bpf file system, nothing there, something else there: one line each, and nothing half pinned."""
    _, there = pair
    plain = tmp_path_factory.mktemp("plain")
    with inside(there), counting(XDP_DROP, "veth0") as bpf:
        with pytest.raises(KernelError, match=r"that is on no bpf file system \(mount -t bpf bpf DIRECTORY\)"):
            bpf.pin(f"{plain}/here")
        assert list(plain.iterdir()) == []
        with pytest.raises(KernelError, match="there is no such directory"):
            bpf.pin(f"{bpffs}/none/here")
        bpf.pin(f"{bpffs}/here")
        with pytest.raises(KernelError, match="something is pinned there already"):
            bpf.pin(f"{bpffs}/here")
        names = sorted(
            re.sub(r"_[0-9a-f]{16}$", "_DIGEST", re.sub(r"_\d+(?=_|$)", "_N", each.name))
            for each in Path(bpffs, "here").iterdir()
        )
        assert names == ["link_N_N", "map_N_seen", "program_N_count_DIGEST"]
        with pytest.raises(NotFound, match="nothing is pinned at"):
            counting(XDP_DROP, "veth0").reopen(f"{bpffs}/nothing")
        with pytest.raises(InvalidValue, match=r"the map seen pinned at .* has 1 entries, not 3"):
            counting(XDP_DROP, "veth0", size=3).reopen(f"{bpffs}/here")
        other = BPF()

        @other.xdp("veth0")
        def another(ctx: XdpContext) -> int:
            return XDP_PASS if len(ctx.packet) else XDP_DROP

        with pytest.raises(InvalidValue, match="has other declarations: it lacks program_0_another_"):
            other.reopen(f"{bpffs}/here")
        with pytest.raises(InvalidValue, match="this is already loaded"):
            bpf.reopen(f"{bpffs}/here")
        bpf.unpin()
        with pytest.raises(InvalidValue, match="no part of this is pinned"):
            bpf.unpin()
    assert [each for each in Path(bpffs).iterdir() if each.suffix != ".debug"] == []  # the kernel's own


def test_a_link_outlives_its_process_by_its_own_pin(pair, bpffs):
    """Link.pin() keeps the attachment; removing the file ends it."""
    here, there = pair
    with receiver(there, PORT) as arrived, inside(there):
        with counting(XDP_DROP, "veth0") as bpf:
            number = bpf.links[0].id
            bpf.links[0].pin(f"{bpffs}/link")
        send(here, ("10.251.0.2", PORT), 3)
        assert settled(arrived, 0) == 0
        with calls.obj_get(f"{bpffs}/link"):
            Path(bpffs, "link").unlink()
        wait_until(lambda: all(each.id != number for each in pyebpf.links()))
        send(here, ("10.251.0.2", PORT), 5)
        assert settled(arrived, 5) == 5
