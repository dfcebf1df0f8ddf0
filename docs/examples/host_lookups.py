"""Host-name look-ups and their latency: uprobe and uretprobe on the C library."""

from pyebpf import BPF, Struct, char, comm, field, now, pid, ptr, tid, u32, u64, user_string


class Lookup(Struct):
    """A look-up that has not returned."""

    started: u64
    host: str = field(char[80])


class Done(Struct):
    """A record for user space."""

    pid: u32
    ns: u64
    comm: str = field(char[16])
    host: str = field(char[80])


bpf = BPF()
pending = bpf.hash(key=u32, value=Lookup)
done = bpf.ringbuf(Done)
RESOLVER = ("getaddrinfo", "gethostbyname", "gethostbyname2")


@bpf.uprobe("libc.so.6", *RESOLVER)
def enter(node: ptr[char]) -> None:  # no names in an ELF file: bound by position, so annotated
    pending[tid()] = Lookup(started=now(), host=user_string(node))


@bpf.uretprobe("libc.so.6", *RESOLVER)
def leave() -> None:
    lookup = pending.get(tid())
    if lookup is None:  # leaving this out is an error with the line, before the verifier
        return
    done.emit(Done(pid=pid(), comm=comm(), ns=now() - lookup.started, host=lookup.host))
    del pending[tid()]


with bpf:
    print("PID     COMM             LAT(ms) HOST", flush=True)
    for found in done:
        print(f"{found.pid:<7} {found.comm:<16} {found.ns / 1e6:>7.3f} {found.host}", flush=True)
