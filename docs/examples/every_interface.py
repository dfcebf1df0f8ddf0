"""Count what comes in at every interface, also at those that appear meanwhile, until interface NAME goes.

`every_interface.py NAME`; pyroute2 tells which interfaces there are, come and go.
"""

import sys
from typing import Any

from pyroute2 import IPRoute

from pyebpf import BPF, TCX_NEXT, SkBuff, u32, u64

if len(sys.argv) != 2:
    sys.exit("usage: every_interface.py NAME")
bpf = BPF()
packets = bpf.hash(key=u32, value=u64)


@bpf.tc("ingress")
def count(ctx: SkBuff) -> int:
    packets[ctx.ifindex] += 1
    return TCX_NEXT


names: dict[int, str] = {}


def changed(link: Any) -> bool:
    """Attach to a new interface; whether the one that ends the program has gone."""
    index, name = link["index"], link.get_attr("IFLA_IFNAME")
    if link["event"] == "RTM_NEWLINK" and index not in names:
        names[index] = name
        count.attach(name)
    return link["event"] == "RTM_DELLINK" and name == sys.argv[1]


with bpf, IPRoute() as route:
    route.bind()  # what happens from now on is told
    for link in route.get_links():
        changed(link)
    print("counting", flush=True)
    ended = False
    while not ended:
        for message in route.get():
            ended |= "LINK" in message["event"] and changed(message)
    for index, number in sorted(packets.items()):
        print(f"{names[index]}: {number} packets")
