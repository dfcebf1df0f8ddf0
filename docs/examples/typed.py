"""Programs that are executed, by user and name, for five seconds: mypy --strict has nothing to say of it."""

import time

from pyebpf import BPF, Struct, char, comm, field, pid, u32, uid


class Started(Struct):
    """A program that was executed."""

    pid: u32
    path: str = field(char[64])


bpf = BPF()
started = bpf.ringbuf(Started)
users = bpf.counter(key=(u32, char[16]))


@bpf.tracepoint("sched:sched_process_exec")
def on_exec(filename: str) -> None:
    started.emit(Started(pid=pid(), path=filename))
    users[uid(), comm()].add()


with bpf:
    time.sleep(5)
    for (user, name), count in sorted(users.items()):
        print(user, name, count)
    for event in started.poll(0):
        print(event.pid, event.path)
