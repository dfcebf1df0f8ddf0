"""Data that processes send to sockets and receive from them: `Transfers`, whose probes call a tool's functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import BPF, KernelObject, NotFound
from pyebpf.endpoints import AF_INET
from pyebpf.programs._sockets import MSG_PEEK, is_ip
from pyebpf.programs._tcp import IPPROTO_TCP, IPPROTO_UDP

if TYPE_CHECKING:
    from collections.abc import Callable

    Counting = Callable[[Any, int], None]

FUNCTIONS = {
    IPPROTO_TCP: (("tcp_sendmsg",), ("tcp_recvmsg",)),
    IPPROTO_UDP: (("udp_sendmsg", "udpv6_sendmsg"), ("udp_recvmsg", "udpv6_recvmsg")),
}


class Transfers(BPF):
    """A module that calls `sent` and `received`, probe functions, with a `struct sock` and a number of bytes.

    They are called when the call of a process returns, in that process, for sockets of one protocol. What is received
    with MSG_PEEK is left out: it is received again. Since Linux 6.3 (6e6eda44b939, "sock: add tracepoint for send recv
    length") two tracepoints tell of both; before, the protocol's functions do. Splicing from TCP sockets passes these
    by: functions tell of it, where the kernel lets them be traced.
    """

    def __init__(self, protocol: int) -> None:
        super().__init__()
        self.protocol = protocol
        self.sent: Counting = _nothing
        self.received: Counting = _nothing
        self._declared = False

    def compile(self, target: Any, **options: Any) -> Any:
        """As every module's; the probes are those that the kernel has."""
        if not self._declared:
            self._declared = True
            try:
                target.raw_tracepoint("sock_send_length")
            except NotFound:
                sending, receiving = FUNCTIONS[self.protocol]
                for name in sending:
                    _follow_send(self, name, self.sent)
                for name in receiving:
                    _follow_receive(self, name, self.received)
            else:
                _follow_sockets(self, self.protocol, self.sent, self.received)
            if self.protocol == IPPROTO_TCP:
                _follow_splicing(self, self.sent, self.received)
        return super().compile(target, **options)


def _nothing(sk: Any, size: int) -> None:
    """In a probe: nothing."""


def _follow_sockets(bpf: BPF, protocol: int, sent: Counting, received: Counting) -> None:
    """The tracepoints of newer kernels."""

    @bpf.btf_tracepoint("sock_send_length")
    def on_send(sk: KernelObject, ret: int) -> None:
        if ret > 0 and sk.sk_protocol == protocol and is_ip(sk.__sk_common.skc_family):
            sent(sk, ret)

    @bpf.btf_tracepoint("sock_recv_length")
    def on_receive(sk: KernelObject, ret: int, flags: int) -> None:
        if ret > 0 and not flags & MSG_PEEK and sk.sk_protocol == protocol and is_ip(sk.__sk_common.skc_family):
            received(sk, ret)


def _follow_send(bpf: BPF, name: str, sent: Counting) -> None:
    """A function that sends."""

    @bpf.call(name, optional="v6" in name)
    def on_send(sk: KernelObject, retval: int) -> None:
        # For IPv4 through a socket of IPv6 one function calls the other.
        if retval > 0 and (name != "udp_sendmsg" or sk.__sk_common.skc_family == AF_INET):
            sent(sk, retval)


def _follow_receive(bpf: BPF, name: str, received: Counting) -> None:
    """A function that receives."""

    @bpf.call(name, optional="v6" in name)
    def on_receive(sk: KernelObject, flags: int, retval: int) -> None:
        if retval > 0 and not flags & MSG_PEEK:
            received(sk, retval)


def _follow_splicing(bpf: BPF, sent: Counting, received: Counting) -> None:
    """The functions of splice(2) and, before Linux 6.5, of sendfile(2): later kernels send pages as messages."""

    @bpf.call("tcp_sendpage", optional=True)
    def on_send_page(sk: KernelObject, retval: int) -> None:
        if retval > 0:
            sent(sk, retval)

    @bpf.call("tcp_splice_read", optional=True)
    def on_splice(sock: KernelObject, retval: int) -> None:
        if retval > 0:
            received(sock.sk, retval)
