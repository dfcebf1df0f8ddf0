"""`@bpf.socket_filter`, `@bpf.sk_reuseport`, `@bpf.sk_lookup`, `@bpf.flow_dissector`, `@bpf.sk_msg`, `@bpf.sk_skb…`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.attach.decorators import Decorators, optional_arguments

if TYPE_CHECKING:
    import os

    from pyebpf.attach.decorators import VerdictDecorator
    from pyebpf.builder.values.map_pointers import MapPointer

__all__ = ["SocketDecorators"]


class SocketDecorators(Decorators):
    """Programs at sockets."""

    @optional_arguments
    def socket_filter(self) -> VerdictDecorator:
        """Run on what a socket receives, after `probe.attach(socket)`: how many bytes of it to keep, 0 to drop it.

        After `probe.attach(socket, reuseport=True)`: which of the sockets that share the port gets it, from 0 in the
        order of their bind().
        """
        from pyebpf.specs.attach.sockets import SocketFilter

        return self._verdict("socket_filter", (), (SocketFilter(),))

    @optional_arguments
    def sk_reuseport(self, *, migrate: bool = False) -> VerdictDecorator:
        """Choose among sockets that share a port, after `probe.attach(socket)` for any of them: SK_PASS or SK_DROP.

        `map.select(k)` of a reuseport_sockarray chooses. With `migrate`, also where the connections of a closed one go.
        """
        from pyebpf.specs.attach.sockets import SkReuseport

        return self._verdict("sk_reuseport", (), (SkReuseport(migrate=migrate),))

    @optional_arguments
    def sk_lookup(self, *namespaces: str | os.PathLike[str]) -> VerdictDecorator:
        """Choose the socket for new connections and datagrams in network namespaces: SK_PASS or SK_DROP.

        `map.assign(k)` of a sockmap chooses. A namespace is a file such as "/proc/self/ns/net", or a name under
        /run/netns; without one `probe.attach(namespace)` names it.
        """
        from pyebpf.specs.attach.sockets import SkLookup, namespace

        paths = tuple(namespace(each) for each in namespaces)
        return self._verdict("sk_lookup", paths, [SkLookup(path) for path in paths] or [SkLookup()])

    @optional_arguments
    def flow_dissector(self, *namespaces: str | os.PathLike[str]) -> VerdictDecorator:
        """Fill in `ctx.flow_keys` of each packet in network namespaces.

        Returns BPF_OK, BPF_DROP, or BPF_FLOW_DISSECTOR_CONTINUE for the kernel's own way.
        """
        from pyebpf.specs.attach.sockets import FlowDissector, namespace

        paths = tuple(namespace(each) for each in namespaces)
        return self._verdict("flow_dissector", paths, [FlowDissector(path) for path in paths] or [FlowDissector()])

    @optional_arguments
    def sk_msg(self, sockets: MapPointer | None = None) -> VerdictDecorator:
        """Run on what sockets of a sockmap or sockhash send: SK_PASS or SK_DROP; `map.redirect(k)` sends elsewhere.

        It is for sockets put into the map while it is attached. Without a map `probe.attach(map)` names it.
        """
        from pyebpf.specs.attach.sockets import SkMsg

        return self._verdict("sk_msg", _name(sockets), (SkMsg(sockets),))

    @optional_arguments
    def sk_skb_stream_parser(self, sockets: MapPointer | None = None) -> VerdictDecorator:
        """Cut what sockets of a map receive into messages: the length of the next one; 0 for more data, or an errno."""
        return self._stream("stream_parser", sockets)

    @optional_arguments
    def sk_skb_stream_verdict(self, sockets: MapPointer | None = None) -> VerdictDecorator:
        """Run on each message that sockets of a map receive: SK_PASS or SK_DROP; `map.redirect(k)` sends elsewhere."""
        return self._stream("stream_verdict", sockets)

    @optional_arguments
    def sk_skb_verdict(self, sockets: MapPointer | None = None) -> VerdictDecorator:
        """As `sk_skb_stream_verdict` where no parser is wanted: for UDP and Unix sockets, too."""
        return self._stream("verdict", sockets)

    def _stream(self, hook: str, sockets: MapPointer | None) -> VerdictDecorator:
        from pyebpf.specs.attach.sockets import SkSkb

        return self._verdict(f"sk_skb_{hook}", _name(sockets), (SkSkb(sockets, hook),))


def _name(sockets: Any) -> tuple[str, ...]:
    return () if sockets is None else (sockets.map_name,)
