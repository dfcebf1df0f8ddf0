"""Every hook of control groups, one by one: calls counted, refused, and no longer counted once the link is detached."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from pyebpf import BPF, NotFound, u32, u64
from pyebpf.attach.cgroups import HOOKS
from pyebpf.uapi.flags import BPF_SOCK_OPS_TCP_CONNECT_CB
from tests.support.needs import needs

#: An address on which nobody listens, for datagrams and what needs a peer's name only.
NOBODY = {socket.AF_INET: ("127.0.0.1", 9), socket.AF_INET6: ("::1", 9)}
HERE = {family: (host, 0) for family, (host, _) in NOBODY.items()} | {socket.AF_UNIX: ""}


@pytest.fixture
def listener():
    """The name of a Unix listener that belongs to no group of the test's."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("")
        server.listen(64)
        yield server.getsockname()


def made(family):
    return socket.socket(family, socket.SOCK_DGRAM)


def sends_itself(family, receive=None):
    """A datagram from a socket to itself."""
    with made(family) as one:
        one.bind(HERE[family])
        one.settimeout(0.2 if receive is None else 20)
        one.sendto(b"x", one.getsockname())
        one.recvfrom(9)


def makes(family):
    made(family).close()


def binds(family):
    with made(family) as one:
        one.bind(HERE[family])


def connects(family):
    with made(family) as one:
        one.connect(NOBODY[family])


def sends(family):
    with made(family) as one:
        one.sendto(b"x", NOBODY[family])


def asks_peer(family):
    with made(family) as one:
        one.connect(NOBODY[family])
        one.getpeername()


def asks_name(family):
    with made(family) as one:
        one.bind(HERE[family])
        one.getsockname()


def tries_tcp(family):
    with socket.socket(family) as one:
        one.connect_ex(NOBODY[family])


def option(set_, family=socket.AF_INET):
    with made(family) as one:
        if set_:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        else:
            one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def reads(path):
    number = os.open(path, os.O_RDONLY)
    try:
        os.read(number, 9)
    finally:
        os.close(number)


def unix_call(call, listener):
    """One call of a Unix socket, made and closed around it."""
    kind = socket.SOCK_STREAM if call in ("connect", "getpeername") else socket.SOCK_DGRAM
    with socket.socket(socket.AF_UNIX, kind) as one:
        if call in ("connect", "getpeername"):
            one.connect(listener)
        if call == "getpeername":
            one.getpeername()
        if call in ("sendmsg", "recvmsg", "getsockname"):
            one.bind("")
        if call == "getsockname":
            one.getsockname()
        if call in ("sendmsg", "recvmsg"):
            one.sendto(b"x", one.getsockname())
            one.recvfrom(9)


V4, V6 = socket.AF_INET, socket.AF_INET6
#: What calls a hook exactly once.
CALLS = {
    "skb_ingress": lambda: sends_itself(V4),
    "skb_egress": lambda: sends(V4),
    "sock_create": lambda: makes(V4),
    "sock_release": lambda: makes(V6),
    "sysctl": lambda: reads("/proc/sys/kernel/ostype"),
    "device": lambda: os.close(os.open("/dev/null", os.O_RDONLY)),
    "getsockopt": lambda: option(False),
    "setsockopt": lambda: option(True),
    "sock_ops": lambda: tries_tcp(V4),
    **{
        f"{hook}{version}": lambda call=call, family=family: call(family)
        for hook, call in {
            "post_bind": binds,
            "bind": binds,
            "connect": connects,
            "sendmsg": sends,
            "recvmsg": lambda family: sends_itself(family, receive=True),
            "getpeername": asks_peer,
            "getsockname": asks_name,
        }.items()
        for version, family in ((4, V4), (6, V6))
    },
}
#: Hooks whose 0 is taken and refuses nothing.
POWERLESS = {"sock_release", "sock_ops"}


@pytest.mark.parametrize("hook", HOOKS)
def test_hook(hook, group, listener):
    """7 calls are counted, 3 more refused where the hook can refuse; detached, 5 more are neither."""
    row = HOOKS[hook]
    needs(f"attach:{row.attach_type.name.lower()}")
    if hook.endswith("6"):
        needs("setting:/proc/sys/net/ipv6")
    call = CALLS.get(hook) or (lambda: unix_call(hook.removesuffix("_unix"), listener))
    refuses = row.results[0] == 0 and hook not in POWERLESS
    bpf = BPF()
    calls, verdict = bpf.array(value=u64, name="calls"), bpf.array(value=u32, name="verdict")
    condition = f"ctx.op == {BPF_SOCK_OPS_TCP_CONNECT_CB}" if hook == "sock_ops" else "True"
    result = "1 if verdict[0] == 1 else 0" if refuses else "1"
    body = f"    if {condition}:\n        calls[0] += 1\n    return {result}\n"
    bpf.define(
        f"@bpf.cgroup_{hook}()\ndef counts(ctx) -> int:\n{body}",
        {"bpf": bpf, "calls": calls, "verdict": verdict},
    )
    (probe,) = bpf.probes

    def work(times):
        answers = []
        for _ in range(times):
            try:
                call()
            except (PermissionError, TimeoutError):
                answers.append(False)
            else:
                answers.append(True)
        return answers

    with bpf:
        verdict[0] = 1
        link = probe.attach(group.path)
        assert group.run(lambda: work(7)) == [True] * 7
        assert calls[0] == 7
        work(2)  # of this process, which is in another group
        verdict[0] = 0
        assert group.run(lambda: work(3)) == [not refuses] * 3
        assert calls[0] == 10
        link.detach()
        assert group.run(lambda: work(5)) == [True] * 5
        assert calls[0] == 10
        missing = Path(group.path, "missing")
        with pytest.raises(NotFound, match=rf"^no control group {missing}: cgroup2 is mounted at "):
            probe.attach(missing)
