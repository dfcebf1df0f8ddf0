"""Several containers on one machine: what outlives a process is told apart by more than its number in its own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyebpf.kernel.orphans import orphans
from pyebpf.kernel.owners import hold, living_owners, owned_name, owner_of
from tests.support.needs import needs
from tests.support.python import ROOT
from tests.support.traffic import inside
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.machine(modules=("sch_ingress", "cls_bpf"))

OWNER = """
import os, sys
from pyebpf import BPF

bpf = BPF()


@bpf.tc("lo", "ingress", by="clsact")
def classify(ctx) -> int:
    return -1


if "xdp" in sys.argv:
    @bpf.xdp("lo", mode="generic", by="netlink")
    def passes(ctx) -> int:
        return 2


with bpf:
    print(os.getpid(), flush=True)
    sys.stdin.read()
print("detached", flush=True)
"""

#: A pid namespace of its own, and one inside another.
CONTAINER = ["unshare", "--pid", "--mount-proc", "--fork"]
NESTED = [*CONTAINER, *CONTAINER]


@contextlib.contextmanager
def container(place, script, *arguments, command=CONTAINER):
    """A process with filters attached that is number 1 of its pid namespace; killed with all in it at the end."""
    with subprocess.Popen(
        place.inside(*command, "--kill-child", sys.executable, str(script), *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout.readline() == "1\n"
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "owner.py"
    path.write_text(OWNER)
    return path


def kill_guard(ancestor):
    """Kill the guard process below this one, as the kernel kills all of a container whose number 1 has died."""
    parents, guards = {}, []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, rest = path.read_text().rsplit(")", 1)
            parents[int(path.parent.name)] = int(rest.split()[1])
            if name.endswith("(pyebpf-guard"):
                guards.append(int(path.parent.name))
    for guard in guards:
        above = guard
        while above > 1 and above != ancestor:
            above = parents.get(above, 0)
        if above == ancestor:
            os.kill(guard, signal.SIGKILL)
            return
    raise AssertionError("there is no guard")


def names(place):
    """Names of the filters of the namespace's loopback interface."""
    return re.findall(r"pyebpf_\w+", place.run("tc", "filter", "show", "dev", "lo", "ingress"))


def clean(place):
    done = subprocess.run(
        place.inside(sys.executable, "-m", "pyebpf", "doctor", "--clean"),
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_two_that_are_both_number_1_keep_their_own(make_namespace, script):
    """The end of one removes its filter and not the other's; the last one removes the queue."""
    needs("attach:clsact")
    place = make_namespace()
    with container(place, script) as first, container(place, script, command=NESTED) as second:
        both = names(place)
        assert len(set(both)) == 2
        first.stdin.close()
        assert first.stdout.readline() == "detached\n"
        assert names(place) in ([both[0]], [both[1]])
        second.stdin.close()
        assert second.stdout.readline() == "detached\n"
        assert "clsact" not in place.run("tc", "qdisc", "show", "dev", "lo")


def test_what_lives_in_a_container_is_not_swept(make_namespace, script):
    """By `doctor --clean` on the host, nor by that of another container; once all in it were killed it is, by both."""
    needs("attach:clsact", "attach:xdp_netlink")
    place = make_namespace()
    with container(place, script, "xdp", command=NESTED) as owner, inside(place):
        before = names(place)
        assert orphans() == []
        assert clean(place) == ""
        with container(place, script) as other:
            other.stdin.close()
            assert other.stdout.readline() == "detached\n"
        assert names(place) == before
        assert "xdp" in place.run("ip", "link", "show", "dev", "lo")
        kill_guard(owner.pid)
        assert clean(place) == ""
    out = wait_until(lambda: clean(place))
    assert out.replace("\n", " ").count("removed") == 2
    assert names(place) == []
    assert "xdp" not in place.run("ip", "link", "show", "dev", "lo")


def test_an_owner_lives_as_long_as_one_descriptor_of_its_lock():
    """Whoever has it: a copy counts, and so does one in another process; nothing else on the machine keeps it."""
    token = owner_of(owned_name("x"))
    with hold(token) as lock:
        assert token in living_owners()
        copy = os.dup(lock.fileno())
    try:
        assert token in living_owners()
    finally:
        os.close(copy)
    wait_until(lambda: token not in living_owners())


def test_who_may_not_see_all_owners_removes_nothing(make_namespace, script):
    """Root of a user namespace has CAP_SYS_ADMIN for no map of the machine: one line, and nothing is touched."""
    needs("attach:clsact")
    place = make_namespace()
    with container(place, script):
        before = names(place)
        command = ["setpriv", "--bounding-set=-sys_admin,-bpf", "--inh-caps=-sys_admin,-bpf"]
        run = place.inside(*command, sys.executable, "-m", "pyebpf", "doctor", "--clean")
        done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(
            "pyebpf doctor: whether the owner of an attachment has died can only be determined"
        )
        assert names(place) == before


def test_locks_go_with_the_last_attachment(make_namespace):
    """A process that has detached all holds no map for its name any more."""
    needs("attach:clsact")
    from pyebpf import BPF, SkBuff

    bpf = BPF()

    @bpf.tc("lo", "ingress", by="clsact")
    def classify(ctx: SkBuff) -> int:
        return -1

    place = make_namespace()
    mine = owner_of(owned_name())
    with inside(place):
        with bpf:
            assert mine in living_owners()
        assert bpf is not None
    wait_until(lambda: mine not in living_owners())
