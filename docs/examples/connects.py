"""TCP connections as processes begin them, over IPv4 and IPv6: who connects where."""

from ipaddress import IPv6Address
from socket import IPPROTO_TCP

from pyebpf import BPF, Struct, TcpState, array, char, comm, field, pid, u8, u16, u32


class Connect(Struct):
    """A record for user space."""

    pid: u32
    port: u16
    comm: str = field(char[16])
    address: bytes = field(array(u8, 16))


def build(only_port: int | None = None) -> BPF:
    """The program; an option is an ordinary Python value."""
    bpf = BPF()
    connects = bpf.ringbuf(Connect, name="connects")

    @bpf.tracepoint("sock:inet_sock_set_state")
    def on_state(protocol: int, newstate: int, dport: int, daddr_v6: bytes) -> None:
        if protocol != IPPROTO_TCP or newstate != TcpState.SYN_SENT:
            return
        if only_port is None or dport == only_port:
            connects.emit(Connect(pid=pid(), port=dport, comm=comm(), address=daddr_v6))

    return bpf


def text(connect: Connect) -> str:
    """A line; an IPv4 address is mapped into an IPv6 one."""
    address = IPv6Address(connect.address)
    return f"{connect.pid:<7} {connect.comm:<16} {address.ipv4_mapped or address} port {connect.port}"


if __name__ == "__main__":
    with build() as bpf:
        print("PID     COMM             TO", flush=True)
        for connect in bpf["connects"]:
            print(text(connect), flush=True)
