"""Who uses the processors: 99 samples a second on each, for five seconds."""

import time

from pyebpf import BPF, Struct, char, comm, cpu, field, pid, u32, u64

bpf = BPF()


class Where(Struct):
    """A process on a processor."""

    pid: u32
    cpu: u32
    comm: str = field(char[16])


samples = bpf.percpu_hash(key=Where, value=u64)


@bpf.sample(frequency=99)
def on_sample() -> None:
    if pid() != 0:  # the idle task
        samples[Where(pid=pid(), cpu=cpu(), comm=comm())] += 1


with bpf:
    time.sleep(5)
    for where, count in sorted(samples.items(), key=lambda item: -item[1])[:10]:
        print(f"{count:>5} CPU {where.cpu} {where.pid:>7} {where.comm}")
