"""Processes as they end: how long each lived and how it ended, one record each through a ring buffer."""

from pyebpf import BPF, KernelObject, Struct, char, comm, current_task, field, now, pid, tid, u32, u64

bpf = BPF()


class Exit(Struct):
    """A record for user space."""

    lived: u64  # nanoseconds
    pid: u32
    code: u32
    comm: str = field(char[16])


exits = bpf.ringbuf(Exit)


@bpf.btf_tracepoint("sched_process_exit")
def on_exit(p: KernelObject) -> None:  # bound by the name that the kernel's BTF gives it
    if tid() == pid():  # the last of a process, not one of its other threads
        task = current_task()
        exits.emit(Exit(lived=now() - task.start_time, pid=pid(), code=p.exit_code, comm=comm()))


with bpf:
    print("PID     COMM             LIVED(ms) STATUS", flush=True)
    for process in exits:
        status = f"signal {process.code & 0x7F}" if process.code & 0x7F else process.code >> 8
        print(f"{process.pid:<7} {process.comm:<16} {process.lived / 1e6:>9.2f} {status}", flush=True)
