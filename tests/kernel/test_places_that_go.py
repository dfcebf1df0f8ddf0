"""Places that vanish, before or while a program is attached, and programs that others replace: nothing is left."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest

import pyebpf
from pyebpf import BPF, SK_PASS, TCX_NEXT, XDP_PASS, KernelError, NotFound, NotSupported
from pyebpf.kernel import bpf as calls
from pyebpf.kernel.iproute import has_clsact, iproute, xdp_programs
from pyebpf.kernel.rtnetlink import bpf_filters, open_rtnetlink
from pyebpf.link import network
from tests.support.cgroups import cgroup
from tests.support.needs import needs
from tests.support.traffic import inside

pytestmark = pytest.mark.machine(modules=("veth", "sch_ingress", "cls_bpf"))

#: By feature: the decorator, its arguments, and what the program returns.
INTERFACES = {
    "attach:xdp": ("xdp", (), {}, XDP_PASS),
    "attach:xdp_netlink": ("xdp", (), {"by": "netlink"}, XDP_PASS),
    "attach:tcx": ("tc", ("egress",), {"by": "tcx"}, TCX_NEXT),
    "attach:clsact": ("tc", ("egress",), {"by": "clsact"}, TCX_NEXT),
}


@contextlib.contextmanager
def loaded(decorator, verdict, *where, **options):
    """Two probes that return `verdict`, for a place named later, and the second's program."""
    bpf = BPF()
    text = f"def {{}}() -> int:\n    return {verdict}\n"
    for name in ("first", "second"):
        bpf.define(f"@decorator\n{text.format(name)}", {"decorator": getattr(bpf, decorator)(*where, **options)})
    with bpf:
        first, second = bpf.probes
        yield first, second.program


@contextlib.contextmanager
def nothing_left(name):
    """No link of a program called `name` is in the kernel afterwards, nor XDP at an interface of this namespace."""
    yield
    assert not [link for link in pyebpf.links() if link.program == name]
    with iproute() as requests:
        assert not xdp_programs(requests)


def refuses_updates(link, program):
    """Wait until the kernel has let go of the place: updates are refused then."""
    deadline = time.monotonic() + 60

    def update() -> None:
        while time.monotonic() < deadline:
            link.update(program)
            time.sleep(0.01)

    gone = rf"^updating .* to {program.name}: its target no longer exists \(ENOLINK\)$"
    with pytest.raises(KernelError, match=gone):
        update()


@pytest.mark.parametrize("feature", INTERFACES)
def test_an_interface_that_goes(feature, make_namespace, monkeypatch):
    """While attached: an update says so, detaching does nothing. Between look-up and attaching: it has just gone."""
    needs(feature)
    decorator, where, options, verdict = INTERFACES[feature]
    here, there = make_namespace(), make_namespace()
    here.connect(there)
    with inside(there), nothing_left("first"), loaded(decorator, verdict, *where, **options) as (first, second):
        link = first.attach("veth0")
        index = network.interface_index("veth0")
        here.run("ip", "link", "delete", "veth0")
        if feature == "attach:clsact":
            with pytest.raises(NotSupported, match=r"^clsact veth0 egress cannot be updated: it is attached by clsact"):
                link.update(second)
        else:
            with pytest.raises(KernelError, match=r"^updating .* veth0.* to second: its target no longer exists"):
                link.update(second)
        link.detach()
        assert link.detached
        with pytest.raises(NotFound, match=r"^no network interface 'veth0' in this network namespace: there is lo$"):
            first.attach("veth0")
        monkeypatch.setattr(network, "interface_index", lambda _: index)
        with pytest.raises(NotFound, match=r"^attaching first to .* veth0.*: veth0 has just disappeared \(E\w+\)$"):
            first.attach("veth0")
        with open_rtnetlink() as netlink, iproute() as requests:
            assert not has_clsact(requests, index)
            assert not bpf_filters(netlink.fileno(), index, "egress")


def test_a_group_that_goes():
    """The link of a control group that was removed says so, and is detached without complaint; so does a new one."""
    with cgroup() as group, nothing_left("first"), loaded("cgroup_sock_create", 1) as (first, second):
        link = first.attach(group.path)
        folder = os.open(group.path, os.O_RDONLY)
        group.path.rmdir()
        refuses_updates(link, second)
        link.detach()
        with pytest.raises(NotFound, match=f"^no control group {group.path}: cgroup2 is mounted at "):
            first.attach(group.path)
        with pytest.raises(NotFound, match="is a control group that was removed"):
            first.attach(folder)
        os.close(folder)


def test_a_namespace_that_goes(make_namespace):
    """The same for a network namespace, which goes some time after its last process."""
    there = make_namespace()
    with nothing_left("first"), loaded("sk_lookup", SK_PASS) as (first, second):
        link = first.attach(there.path)
        os.kill(there.pid, signal.SIGKILL)
        os.waitid(os.P_PID, there.pid, os.WEXITED | os.WNOWAIT)
        refuses_updates(link, second)
        link.detach()
        with pytest.raises(NotFound, match=f"^no network namespace {there.path}: it does not exist"):
            first.attach(there.path)


#: By feature: the decorator and what its programs return.
UPDATED = {
    "attach:tcx": ("tc", ("egress",), {"by": "tcx"}, TCX_NEXT),
    "attach:cgroup_inet_sock_create": ("cgroup_sock_create", (), {}, 1),
    "attach:sk_lookup": ("sk_lookup", (), {}, SK_PASS),
}


@pytest.mark.parametrize("feature", UPDATED)
def test_a_program_that_another_owner_replaced(feature, make_namespace):
    """An update finds another program than it left there: refused with one line, done if forced."""
    needs(feature)
    decorator, where, options, verdict = UPDATED[feature]
    namespace = make_namespace()
    with (
        cgroup() as group,
        inside(namespace),
        loaded(decorator, verdict, *where, **options) as (first, second),
        loaded(decorator, verdict, *where, **options) as (other, _),
    ):
        place = {"tc": "lo", "sk_lookup": namespace.path}.get(decorator, group.path)
        with first.attach(place) as link:
            calls.link_update(link._links[0].fileno(), other.program.fileno())
            with pytest.raises(KernelError, match=r"to second: another owner has replaced first there \(EPERM\)$"):
                link.update(second)
            link.update(second, force=True)
            link.update(first.program)
            assert link.program is first.program
