"""Programs at netfilter's hooks: packets of a namespace counted and dropped."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pyebpf import BPF, CompileError, InvalidValue, KernelError, KernelObject, NotFound, u32, u64
from tests.support.needs import needs
from tests.support.traffic import inside

NF_DROP, NF_ACCEPT = 0, 1


@pytest.fixture(autouse=True)
def _wanted():
    needs("attach:netfilter")


def dropping(priority=0, namespace=None):
    """UDP datagrams of 5 bytes are dropped on their way out."""
    bpf = BPF()
    seen = bpf.hash(key=u32, value=u64, name="seen")
    hooks = bpf.hash(key=u32, value=u64, name="hooks")

    @bpf.netfilter("ipv4", "local_out", priority=priority, namespace=namespace)
    def leaves(skb: KernelObject, state: KernelObject) -> int:
        seen[skb.len] += 1
        hooks[state.hook] += 1
        return NF_DROP if skb.len == 20 + 8 + 5 else NF_ACCEPT

    return bpf, seen, hooks


def datagrams():
    """19 datagrams, 7 of them of 5 bytes: how many were refused, and what came."""
    refused, came = 0, []
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.1)
        for size in [5] * 7 + [3] * 12:
            try:
                client.sendto(b"x" * size, server.getsockname())
            except PermissionError:
                refused += 1
        try:
            while True:
                came.append(server.recv(99))
        except TimeoutError:
            return refused, came


def test_dropped(make_namespace):
    """Of 19 datagrams 7 are dropped; detached, all come and none is counted; other namespaces are not concerned."""
    bpf, seen, hooks = dropping()
    with inside(make_namespace()), bpf:
        assert datagrams() == (7, [b"xxx"] * 12)
        assert (dict(seen), dict(hooks)) == ({33: 7, 31: 12}, {3: 19})
        bpf.detach()
        assert datagrams() == (0, [b"xxxxx"] * 7 + [b"xxx"] * 12)
        bpf.attach()
        assert bpf.attachments == ["leaves: netfilter ipv4 local_out at 0, by netfilter link"]
        with inside(make_namespace()):
            assert datagrams() == (0, [b"xxxxx"] * 7 + [b"xxx"] * 12)
        assert (dict(seen), dict(hooks)) == ({33: 7, 31: 12}, {3: 19})


def test_another_namespace(make_namespace, tmp_path):
    """By its file, without going there: 7 of 19 datagrams are dropped there and none here; detached, none there."""
    there = make_namespace()
    bpf, seen, _ = dropping(namespace=there.path)
    with inside(make_namespace()):
        own = Path("/proc/thread-self/ns/net").readlink()
        with bpf:
            assert bpf.attachments == [f"leaves: netfilter ipv4 local_out at 0 of {there.path}, by netfilter link"]
            assert Path("/proc/thread-self/ns/net").readlink() == own
            assert datagrams() == (0, [b"xxxxx"] * 7 + [b"xxx"] * 12)
            assert not dict(seen)
            with inside(there):
                assert datagrams() == (7, [b"xxx"] * 12)
                bpf.detach()
                assert datagrams() == (0, [b"xxxxx"] * 7 + [b"xxx"] * 12)
            assert dict(seen) == {33: 7, 31: 12}
    (tmp_path / "file").touch()
    for wrong, message in (
        (
            "pyebpf-none",
            "^no network namespace /run/netns/pyebpf-none: it does not exist, or its process has ended(?m:$)",
        ),
        (
            tmp_path / "file",
            rf"^{tmp_path}/file is not a network namespace: give a file such as /proc/self/ns/net(?m:$)",
        ),
    ):
        with pytest.raises(NotFound, match=message), dropping(namespace=wrong)[0]:
            pass
    with pytest.raises(InvalidValue, match=r"namespace=3\.5\): give a text or a path or None, not float"):
        BPF().netfilter("ipv4", "local_out", namespace=3.5)


def test_places(make_namespace):
    """Two programs have priorities of their own; unknown places are one line."""
    busy = pytest.raises(KernelError, match="another program has that priority there")
    with inside(make_namespace()), dropping()[0], dropping(1)[0], busy, dropping()[0]:
        pass
    for arguments, message in (
        (("ipv5", "local_out"), r"no family 'ipv5' \(did you mean"),
        (("ipv4", "output"), r"no hook 'output'.*: it is prerouting or local_in or"),
    ):
        with pytest.raises(InvalidValue, match=message):
            BPF().netfilter(*arguments)
    with pytest.raises(InvalidValue, match="give -2147483647 to 2147483646"):
        BPF().netfilter("ipv4", "local_in", priority=1 << 31)


def test_what_it_may_not():
    """A verdict that is none, and a field that there is not."""
    for body, message in (
        ("return 2", "returns 0 or 1, not 2"),
        ("return ctx.packet", "has no field packet: it has state and skb"),
    ):
        bpf = BPF()
        bpf.define(f"@bpf.netfilter('ipv6', 'forward')\ndef wrong(ctx) -> int:\n    {body}\n")
        with pytest.raises(CompileError, match=message):
            bpf.specs()
