"""Messages that processes send and receive through sockets: one probe function for every call that does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import BPF, KernelObject, NotFound
from pyebpf.programs._sockets import MSG_PEEK

if TYPE_CHECKING:
    from collections.abc import Callable

READ, WRITE = 0, 1


class Messages(BPF):
    """A module whose `handler`, a probe function, is called for each message: direction, `struct sock`, result.

    The result is the number of bytes, or an error number negated. Received data that stays in the queue (MSG_PEEK) is
    left out.
    """

    def trace(self, handler: Callable[[int, Any, int], None], *, sent: bool = True) -> None:
        """Declare the probes, without `sent` those of reads alone. The kernel decides which of them are compiled."""
        declared = list(self.probes)

        # Since Linux commit 6e6eda44b939 ("sock: add tracepoint for send recv length") (in v6.3). They see each message
        # of sendmmsg(2) and recvmmsg(2), too.
        if sent:

            @self.btf_tracepoint("sock_send_length")
            def on_sent(sk: KernelObject, ret: int) -> None:
                handler(WRITE, sk, ret)

        @self.btf_tracepoint("sock_recv_length")
        def on_received(sk: KernelObject, ret: int, flags: int) -> None:
            if flags & MSG_PEEK == 0:
                handler(READ, sk, ret)

        tracepoints = self.probes[len(declared) :]

        # Since Linux commit 86a7e0b69bd5 ("net: prevent rewrite of msg_name in sock_sendmsg()"), which stable kernels
        # have too, system calls pass through the former alone.
        @self.call("__sock_sendmsg")
        def on_send(sock: KernelObject, retval: int) -> None:
            handler(WRITE, sock.sk, retval)

        @self.call("sock_sendmsg")
        def on_send_before(sock: KernelObject, retval: int) -> None:
            handler(WRITE, sock.sk, retval)

        @self.call("sock_recvmsg")
        def on_receive(sock: KernelObject, flags: int, retval: int) -> None:
            if flags & MSG_PEEK == 0:
                handler(READ, sock.sk, retval)

        self._declared, self._tracepoints, self._reads = declared, tracepoints, on_receive
        self._sends = (on_send, on_send_before) if sent else ()

    def compile(self, target: Any, **options: Any) -> Any:
        """As every module's, with tracepoints where the kernel has them, else with functions."""
        try:
            target.raw_tracepoint("sock_send_length")
        except NotFound:
            # The one that the kernel has; a name that is gone says so by itself.
            sends = self._sends[:1] if target.has_function("__sock_sendmsg") else self._sends[1:]
            self.probes = [*self._declared, *sends, self._reads]
        else:
            self.probes = [*self._declared, *self._tracepoints]
        return super().compile(target, **options)


def direction_name(direction: int) -> str:
    """A direction, `read` or `write`."""
    return "write" if direction == WRITE else "read"
