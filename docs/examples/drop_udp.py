"""Drop UDP to one port at the driver. `port` is an ordinary Python value, baked into the bytecode."""

from pyebpf import BPF, XDP_DROP, XDP_PASS, XdpContext, u64
from pyebpf.packet import ETH_P_IP, IPPROTO_UDP, UDP, Ethernet, IPv4


def drop_udp(interface: str, port: int) -> BPF:
    bpf = BPF()
    dropped = bpf.percpu_array(value=u64)

    @bpf.xdp(interface)
    def drop(ctx: XdpContext) -> int:
        ethernet = ctx.packet.header(Ethernet, at=0)
        if ethernet is None or ethernet.protocol != ETH_P_IP:
            return XDP_PASS
        ip = ctx.packet.header(IPv4, at=14)
        if ip is None or ip.protocol != IPPROTO_UDP:
            return XDP_PASS
        udp = ctx.packet.header(UDP, at=14 + ip.header_length)
        if udp is None or udp.destination != port:
            return XDP_PASS
        dropped[0] += 1
        return XDP_DROP

    return bpf
