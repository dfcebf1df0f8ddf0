"""Where write(2) is called from, for five seconds: the five most frequent stacks of functions."""

import time

from pyebpf import BPF, Struct, pid, s32, u32, u64, ustack

bpf = BPF()


class Place(Struct):
    """A stack of a process."""

    pid: u32
    stack: s32


writes = bpf.hash(key=Place, value=u64)


@bpf.tracepoint("syscalls:sys_enter_write")
def on_write() -> None:
    writes[Place(pid=pid(), stack=ustack())] += 1


with bpf:
    time.sleep(5)
    for place, count in sorted(writes.items(), key=lambda item: -item[1])[:5]:
        frames = bpf.stacks.user(place.stack, place.pid)
        print(f"{count:>7} {place.pid:>7} {' <- '.join(map(str, frames)) or 'no stack'}")
