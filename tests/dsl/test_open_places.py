"""Decorators whose place is named later: with and without parentheses."""

from __future__ import annotations

import pytest

from pyebpf import BPF, XDP_PASS
from pyebpf.errors import InvalidValue, NotLoaded
from pyebpf.module.probe import Probe

BARE = (
    "xdp", "socket_filter", "sk_reuseport", "sk_lookup", "flow_dissector", "sk_msg", "sk_skb_verdict",
    "cgroup_connect4", "cgroup_skb_egress",
)  # fmt: skip


def program() -> int:
    """Let everything pass."""
    return XDP_PASS


@pytest.mark.parametrize("name", BARE)
def test_parentheses_may_be_left_out(name):
    """`@bpf.xdp` asks for what `@bpf.xdp()` does."""
    one, other = BPF(), BPF()
    bare, called = getattr(one, name)(program), getattr(other, name)()(program)
    assert isinstance(bare, Probe)
    assert bare.requests == called.requests
    assert all(each.attach.is_deferred for each in bare.attachments)
    assert one.probes == [bare]


def test_bare_decorators_stack():
    """A bare decorator over another adds its request to the same probe."""
    bpf = BPF()
    probe = bpf.xdp(bpf.xdp("eth0")(program))
    assert [request.targets for request in probe.requests] == [("eth0",), ()]
    assert bpf.probes == [probe]


def test_attaching_before_loading_is_refused():
    """There is no program yet, and the message says when there will be."""
    probe = BPF().xdp(program)
    with pytest.raises(NotLoaded, match=r"program is not loaded: attach it inside `with bpf:`"):
        probe.attach("eth0")


def test_bare_decorators_want_functions():
    """Anything else is a place, which has to be one."""
    with pytest.raises(InvalidValue, match="names of interfaces"):
        BPF().xdp("")
