"""What no descriptor holds is removed when its owner is killed, at whatever moment; detaching removes it at once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pyebpf
from pyebpf.kernel.guard import guard
from pyebpf.kernel.interfaces import interface_index
from pyebpf.kernel.iproute import has_clsact, iproute, xdp_programs
from pyebpf.kernel.orphans import orphans
from pyebpf.kernel.owners import owned_name, owner_of
from pyebpf.kernel.rtnetlink import bpf_filters, open_rtnetlink
from tests.support.namespaces import namespace
from tests.support.needs import needs
from tests.support.python import ROOT
from tests.support.traffic import inside
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.machine(modules=("veth", "sch_ingress", "cls_bpf"))

KILLS = int(os.environ.get("PYEBPF_KILLS", "5"))


@pytest.fixture(scope="module")
def place():
    """A namespace with an interface, veth0."""
    with namespace() as here, namespace() as there:
        here.connect(there)
        yield here


def guards(session):
    """Guard processes of a session leader's children, by their command line."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                if b"guard_process" in (each / "cmdline").read_bytes() and each.name != str(session):
                    found.append(int(each.name))
            except OSError:
                continue
    return found


#: For each line that it reads a child that attaches and detaches in the ways given, over and over, in turn and at once.
OWNER = """
import os, sys
xdp, tc, name = sys.argv[1:]
from pyebpf import BPF, XDP_PASS, TCX_NEXT, XdpContext, SkBuff
bpf = BPF()
@bpf.xdp(by=xdp)
def take(ctx: XdpContext) -> int:
    return XDP_PASS
@bpf.tc("ingress", by=tc)
def look(ctx: SkBuff) -> int:
    return TCX_NEXT
take.__name__ = look.__name__ = name
bpf.load()
if xdp == "netlink":
    import pyroute2  # not in each child, which would be killed meanwhile
print("loaded", flush=True)
for _ in sys.stdin:
    child = os.fork()
    if child:
        print(child, flush=True)
        os.waitpid(child, 0)
        continue
    while True:
        first = take.attach("veth0")
        second = look.attach("veth0")
        third = look.attach("veth0" if tc == "clsact" else "lo")
        second.detach()
        first.detach()
        third.detach()
"""


@pytest.mark.parametrize("ways", [("netlink", "clsact"), ("link", "tcx")], ids=" and ".join)
def test_sigkill_at_any_moment_leaves_nothing(place, tmp_path, ways):
    """Killed at random moments of attaching and detaching: the interface is as it was before, each time."""
    needs("attach:xdp" if ways[0] == "link" else "attach:xdp_netlink", f"attach:{ways[1]}")
    chance = random.Random(20261)
    name = f"k{os.getpid()}"
    with inside(place), open_rtnetlink() as netlink, iproute() as requests:
        index = interface_index("veth0")

        def clean():
            left = [each for each in pyebpf.links() if each.program.startswith(name)]
            left += bpf_filters(netlink.fileno(), index, "ingress")
            return not (left or has_clsact(requests, index) or xdp_programs(requests))

        with owner(tmp_path / "owner.py", OWNER, *ways, name) as process:
            for _ in range(KILLS):
                process.stdin.write("\n")
                process.stdin.flush()
                child = int(process.stdout.readline())
                time.sleep(chance.uniform(0, 0.3))
                os.kill(child, signal.SIGKILL)
                wait_until(clean, "something is left at the interface")


@contextlib.contextmanager
def owner(script, text, *arguments):
    """A process that runs this text, once it has said that it is loaded; killed at the end."""
    script.write_text(text)
    with subprocess.Popen(
        [sys.executable, script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        try:
            assert process.stdout.readline() == "loaded\n"
            yield process
        finally:
            process.kill()


def test_ctrl_c_does_not_reach_the_guard(tmp_path):
    """SIGINT to the owner's whole process group, as a terminal sends it: the owner ends, its guard removes."""
    events = tmp_path / "events"
    events.touch()
    owner_code = (
        "import signal, sys, time\nfrom pyebpf.kernel.guard import guard\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # who started the tests may ignore it
        f"guard('event', {str(events)!r}, '-:group/name\\n')\nprint('held', flush=True)\ntime.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", owner_code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    ) as owner:
        assert owner.stdout.readline() == "held\n"
        assert events.read_text() == ""
        os.killpg(owner.pid, signal.SIGINT)
        owner.wait(PATIENCE)
    wait_until(lambda: events.read_text() == "-:group/name\n", "the guard has not removed the event")


def test_promises_are_kept_forgotten_and_handed_on(tmp_path):
    """Performed here once; a forgotten one never; a guard that somebody kills has a successor that knows all."""
    events = tmp_path / "events"
    events.touch()
    code = f"""
import os, signal
from pyebpf.kernel import guard as guards
first = guards.guard("event", {str(events)!r}, "first\\n")
second = guards.guard("event", {str(events)!r}, "second\\n")
third = guards.guard("event", {str(events)!r}, "third\\n")
second.forget()
first.perform()
first.perform()
dead = guards._state.guard.process
dead.kill()
dead.wait()
fourth = guards.guard("event", {str(events)!r}, "fourth\\n")
os.kill(os.getpid(), signal.SIGKILL)
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=PATIENCE, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    wait_until(lambda: events.read_text().count("\n") == 3, "the guard has not removed all")
    assert events.read_text() == "first\nfourth\nthird\n"


def test_a_child_does_not_keep_the_guard_waiting(tmp_path):
    """A child by fork() lives on when the owner is killed: what the owner made is removed all the same."""
    events = tmp_path / "events"
    events.touch()
    code = f"""
import os, signal, time
import pyebpf
from pyebpf.kernel.guard import guard
held = guard("event", {str(events)!r}, "mine\\n")
child = os.fork()
if child == 0:
    held.perform()  # not the child's: nothing happens
    time.sleep(600)
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    run = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with run:
        child = int(run.stdout.readline())
        try:
            wait_until(lambda: events.read_text() == "mine\n", "the guard waits for the child")
        finally:
            os.kill(child, signal.SIGKILL)


def test_the_guard_goes_with_the_last_promise(tmp_path):
    """No process and no descriptor stay once everything was detached (the descriptors are counted by the fixture)."""
    events = tmp_path / "events"
    events.touch()
    first = guard("event", str(events), "1\n")
    second = guard("event", str(events), "2\n")
    # Its command line is empty for a moment after exec.
    wait_until(_own_guards, "the guard starts")
    (pid,) = _own_guards()
    first.perform()
    assert Path(f"/proc/{pid}").exists()
    second.forget()
    assert not Path(f"/proc/{pid}").exists()
    assert events.read_text() == "1\n"


def _own_guards():
    return [pid for pid in guards(os.getpid()) if _parent(pid) == os.getpid()]


def _parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_names_say_whose_they_are():
    """The owner is read from a name, also one cut short; another process, forked or not, has names of its own."""
    name = owned_name("probes", most=15)
    assert len(name) <= 15
    assert owner_of(name) == owner_of(owned_name("a")) == owner_of(owned_name("b_c")) != ""
    assert owner_of("pyebpf_x_y") == owner_of("pyebpf_4711_probes") == owner_of("other_k3f9x2ab_x") == ""
    ours, theirs = os.pipe()
    if (child := os.fork()) == 0:
        os.write(theirs, owned_name().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(theirs)
    with os.fdopen(ours) as told:
        assert owner_of(told.read()) not in {"", owner_of(name)}


def test_what_nobody_guards_any_more_is_swept(place, tmp_path):
    """Owner and guard killed: a filter and an XDP program are listed with their owner, and removed with the queue."""
    needs("attach:clsact", "attach:xdp_netlink")
    with inside(place), iproute() as requests:
        before = {each.name for each in orphans()}
        text = OWNER.partition("for _ in")[0] + LAST
        with owner(tmp_path / "owner.py", text, "netlink", "clsact", "left") as process:
            assert process.stdout.readline() == "attached\n"
            assert {each.name for each in orphans()} == before  # its owner lives
            (mine,) = [pid for pid in guards(process.pid) if _parent(pid) == process.pid]
            os.kill(mine, signal.SIGKILL)
        left = [each for each in orphans() if each.name not in before]
        assert len({each.owner for each in left}) == 1
        assert sorted((each.kind, each.name.split(" pyebpf_")[0]) for each in left) == [
            ("XDP program", "veth0"),
            ("tc filter", "veth0 ingress"),
        ]
        for each in left:
            each.remove()
        assert {each.name for each in orphans()} == before
        assert not has_clsact(requests, interface_index("veth0"))
        assert xdp_programs(requests) == {}


LAST = """
take.attach("veth0")
look.attach("veth0")
print("attached", flush=True)
import time
time.sleep(600)
"""
