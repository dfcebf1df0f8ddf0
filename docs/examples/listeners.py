"""TCP sockets that listen, as the kernel's own list has them and as sock_diag(7) tells: `listeners.py`."""

import socket

from pyroute2 import DiagSocket

from pyebpf import BPF, KernelObject, Struct, emit, u16


class Listener(Struct):
    """A socket's port."""

    port: u16


LISTEN = 10
bpf = BPF()


@bpf.iter("tcp", Listener)
def listeners(sk_common: KernelObject) -> None:
    if sk_common is not None and sk_common.skc_family == 2 and sk_common.skc_state == LISTEN:
        emit(Listener(port=sk_common.skc_num))


with bpf:
    ports = sorted(each.port for each in listeners.read())
with DiagSocket() as diag:
    diag.bind()
    found = diag.get_sock_stats(family=socket.AF_INET, states=1 << LISTEN)
    told = sorted(each["idiag_sport"] for each in found)
print(ports, "the same" if ports == told else told)
