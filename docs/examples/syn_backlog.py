"""Accept queue length by limit, and a record for each connection that finds the queue full."""

import sys
import time

from pyebpf import BPF, KernelObject, Struct, now, u32, u64

bpf = BPF()
backlog = bpf.log2_hist(key=u32, label="backlog limit")


class Drop(Struct):
    """A connection that found the queue full."""

    at: u64
    limit: u32


drops = bpf.ringbuf(Drop)


@bpf.function("tcp_v4_syn_recv_sock", "tcp_v6_syn_recv_sock")  # fentry, else kprobe.multi, else kprobe
def on_syn(sk: KernelObject) -> None:  # bound by the name that the kernel's BTF gives it
    limit, length = sk.sk_max_ack_backlog, sk.sk_ack_backlog
    backlog[limit].add(length)
    if length > limit:
        drops.emit(Drop(at=now(), limit=limit))


if __name__ == "__main__":
    with bpf:
        print("attached", flush=True)
        time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 5)
        for limit, histogram in sorted(backlog.items()):
            print(f"limit {limit}")
            print("\n".join(histogram.lines()))
        for drop in drops.poll(0):
            print(f"dropped at {drop.at}, limit {drop.limit}")
