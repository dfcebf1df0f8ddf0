"""A TCP congestion control written in Python, and a transfer that it carries."""

import socket
import threading

from pyebpf import BPF, KernelObject, u64

bpf = BPF()
acknowledged = bpf.array(value=u64)
reno = bpf.struct_ops("tcp_congestion_ops", name="py_reno")


@reno.member
def ssthresh(sk: KernelObject) -> int:
    return int(max(sk.snd_cwnd >> 1, 2))


@reno.member
def cong_avoid(sk: KernelObject, _ack: int, acked: int) -> None:
    if sk.snd_cwnd < sk.snd_ssthresh:  # slow start: as many more packets as have arrived
        sk.snd_cwnd = min(sk.snd_cwnd + acked, sk.snd_cwnd_clamp)
        return
    sk.snd_cwnd_cnt += acked
    if sk.snd_cwnd_cnt >= sk.snd_cwnd:  # one more for each window
        sk.snd_cwnd_cnt = 0
        sk.snd_cwnd = min(sk.snd_cwnd + 1, sk.snd_cwnd_clamp)


@reno.member
def undo_cwnd(sk: KernelObject) -> int:
    return int(max(sk.snd_cwnd, sk.prior_cwnd))


@reno.member
def release(sk: KernelObject) -> None:
    acknowledged[0] += sk.bytes_acked


def receive(connection: socket.socket, received: list[int]) -> None:
    """Count what comes until the other side has no more."""
    with connection:
        while data := connection.recv(1 << 16):
            received.append(len(data))


with bpf, socket.create_server(("127.0.0.1", 0)) as server:
    received: list[int] = []
    with socket.socket() as sender:
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"py_reno")
        sender.connect(server.getsockname())
        reader = threading.Thread(target=receive, args=(server.accept()[0], received))
        reader.start()
        sender.sendall(bytes(1_000_003))
        sender.shutdown(socket.SHUT_WR)
        reader.join()
    print(f"{sum(received)} bytes received")
