"""Packets that leave an interface, counted by a program and by its queue: `egress_queue.py NAME SECONDS`."""

import sys
import time

from pyroute2 import IPRoute

from pyebpf import BPF, TCX_NEXT, u64

if len(sys.argv) != 3:
    sys.exit("usage: egress_queue.py NAME SECONDS")
name, seconds = sys.argv[1], float(sys.argv[2])
bpf = BPF()
packets = bpf.array(value=u64)


@bpf.tc(name, "egress")
def count() -> int:
    packets[0] += 1
    return TCX_NEXT


with IPRoute() as route:
    (index,) = route.link_lookup(ifname=name)

    def queued() -> tuple[int, int]:
        """Packets that the root queue sent and dropped so far."""
        root = next(each for each in route.get_qdiscs(index) if each["parent"] == 0xFFFF_FFFF)
        statistics = root.get_attr("TCA_STATS2")
        return statistics.get_attr("TCA_STATS_BASIC")["packets"], statistics.get_attr("TCA_STATS_QUEUE")["drops"]

    with bpf:
        sent, dropped = queued()
        print("counting", flush=True)
        time.sleep(seconds)
        now_sent, now_dropped = queued()
        print(
            f"the program saw {packets[0]} packets; the queue sent {now_sent - sent}, dropped {now_dropped - dropped}"
        )
