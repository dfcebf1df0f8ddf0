"""Right and wrong uses of the public API, for a type checker.

Every wrong line says which error it is to get; nothing runs this file.
"""

from __future__ import annotations

from pyebpf import (
    BPF,
    XDP_DROP,
    XDP_PASS,
    KernelObject,
    SpinLock,
    Struct,
    Timer,
    XdpContext,
    char,
    comm,
    emit,
    field,
    has_field,
    kfunc,
    loop,
    now,
    pid,
    ptr,
    spin_lock,
    tid,
    timer,
    u32,
    u64,
    unroll,
    user_string,
)
from pyebpf.packet import Ethernet, IPv4
from pyebpf.programs import opensnoop, syscount

bpf = BPF()


class Drop(Struct):
    at: u64
    limit: u32 = 0


class Lookup(Struct):
    started: u64
    host: str = field(char[80])


opens = bpf.hash(key=char[16], value=u64)
lookups = bpf.hash(key=u32, value=Lookup)
slots = bpf.percpu_array(value=u64, size=8)
drops = bpf.ringbuf(Drop)
backlog = bpf.log2_hist(key=u32, label="backlog limit")
calls = bpf.counter()
by_pair = bpf.counter(key=(u32, char[16]))
latency_of_pair = bpf.log2_hist(key=(u32, char[16]), unit="us", sums=True)
steps_of_pair = bpf.linear_hist(0, 10, key=(u32, u32))
finer_of_pair = bpf.log_linear_hist(key=(u32, u32))
sums_of_pair = bpf.total(key=(u32, u32))
least_of_pair = bpf.minimum(key=(u32, u32))
most_of_pair = bpf.maximum(key=(u32, u32))
stats_of_pair = bpf.stats(key=(u32, u32))
table_of_pairs = bpf.hash(key=(u32, char[16]), value=u64)
recent_pairs = bpf.lru_hash((u32, u32), Drop)
pairs_by_number = bpf.percpu_hash(u32, (u32, u64))
pairs_of_pairs = bpf.lru_percpu_hash((u32, u32), (u32, u64))
pair = bpf.array((u32, u64))
pair_of_each = bpf.percpu_array((u32, u64))


@bpf.tracepoint("syscalls:sys_enter_openat")
def right(filename: ptr[char], dfd: u64) -> None:
    opens[comm()] += 1
    slots[0] += dfd
    calls.add()
    lookups[tid()] = Lookup(started=now(), host=user_string(filename))
    lookup = lookups.get(tid())
    if lookup is None:
        return
    drops.emit(Drop(at=now() - lookup.started, limit=pid()))
    drops.emit(Drop(now()))
    backlog[pid()].add(lookup.started)
    for i in unroll(range(4)):
        slots[i] += 1
    del lookups[tid()]


@bpf.raw_tracepoint("sched_wakeup")
def pairs() -> None:
    table_of_pairs[pid(), comm()] += 1
    by_pair[pid(), comm()].add()
    latency_of_pair[pid(), comm()].add(3)
    recent_pairs[pid(), tid()] = Drop(1)
    pairs_by_number[1] = (1, 2)
    pairs_of_pairs[1, 2] = (1, 2)
    steps_of_pair[1, 2].add(finer_of_pair[1, 2].total)
    pair[0] = pair_of_each[0]
    recent_pairs[1] = Drop(1)  # wrong: one number for a tuple
    table_of_pairs[1, "a"] = "a"  # wrong: value under a tuple


@bpf.raw_tracepoint("sched_switch")
@bpf.btf_tracepoint("sched_switch")
def kernel_object(prev: KernelObject) -> None:
    if has_field("struct task_struct", "pid"):
        calls.add(prev.pid)


@bpf.function("tcp_v4_syn_recv_sock")
def best(sk: KernelObject) -> None:
    calls.add(sk.sk_ack_backlog)


@bpf.uretprobe("libc.so.6", "getaddrinfo")
def returned(retval: u32) -> None:
    calls.add(retval)


@bpf.xdp
def no_target(ctx: XdpContext) -> int:
    return XDP_PASS


@bpf.cgroup_bind6
@bpf.cgroup_bind4("/sys/fs/cgroup/some")
def binds() -> int:
    return 1


@bpf.socket_filter
def kept() -> int:
    return 0


@bpf.xdp("eth0", mode="native")
def packets(ctx: XdpContext) -> int:
    ethernet = ctx.packet.header(Ethernet, at=0)
    if ethernet is None or ethernet.protocol != 0x0800:
        return XDP_PASS
    ip = ctx.packet.header(IPv4, at=14)
    return XDP_DROP if ip is not None and ip.ttl < 2 else XDP_PASS


@bpf.xdp()
def unchecked(ctx: XdpContext) -> int:
    return ctx.packet.header(IPv4, at=14).ttl  # wrong: header may be missing


@bpf.cgroup_connect4()  # wrong: returns nothing
def silent() -> None:
    return


@bpf.subprogram
def twice(x: u64) -> u64:
    return 2 * x


class Guarded(Struct):
    lock: SpinLock = field(spin_lock, default=None)
    clock: Timer = field(timer, default=None)
    count: u64 = 0


guarded = bpf.hash(key=u32, value=Guarded)
shared = bpf.arena(pages=2)
table = bpf.struct_ops("tcp_congestion_ops", name="typed")


def each(key: u32, entry: Guarded) -> None:
    with entry.lock:
        entry.count += key
    entry.clock.start(each, 1_000_000)


@bpf.iter("task", Drop)
def tasks(task: KernelObject) -> None:
    if task is not None:
        emit(Drop(at=task.pid))


@bpf.lsm("file_open")
def allowed(file: KernelObject, retval: int) -> int:
    return retval if file.f_mode else -1


@bpf.lsm("bprm_committed_creds")
def without_verdict(bprm: KernelObject) -> None:
    opens[comm()] += bprm.argc


@bpf.raw_tracepoint("sched_process_exit")
def walked_in_a_probe() -> None:
    most, name = 0, comm()
    for key, count in opens.items():
        if key == name or key.startswith("x"):
            most = max(most, count)
    for key in opens:
        if most > len(key):
            del opens[key]
    for count in opens.values():
        most += count


@table.member
def release(sk: KernelObject) -> None:
    sk.snd_cwnd = 10


@bpf.syscall(Drop)
def examine(ctx: Drop) -> int:
    with kfunc("bpf_task_from_pid")(ctx.limit) as task:
        if task is None:
            return -1
    cell = shared.at(16, Drop)
    cell.limit += 1
    return guarded.for_each(each) + loop(3, lambda _: None)


def user_space(seen: list[object]) -> None:
    answer: int = examine.run(Drop(at=1)).value + examine.run(Drop(at=1)).record.limit
    walked: list[Drop] = list(tasks.read(pid=1))
    seen.append((answer, walked, shared.read(0, Drop).at))
    with bpf:
        total: int = sum(opens.values())
        for name, count in sorted(opens.items(), key=lambda item: item[1]):
            total += len(name.upper()) + count
        one: int = opens["bash"]
        some: int | None = opens.get("bash")
        other: int = opens.get("bash", 0)
        for (number, command), times in table_of_pairs.items():
            total += number + len(command) + times
        for key_pair, histogram in latency_of_pair.snapshot().items():
            total += len(key_pair) + histogram.total
        total += sums_of_pair[1, 2] + least_of_pair[1, 2] + most_of_pair[1, 2] + stats_of_pair[1, 2].count
        for drop in drops:
            total += drop.at + drop.limit + one + other
        each: list[int] = slots.per_cpu[0]
        seen.append((each, some, total, opens.interval()["bash"]))


def wrong() -> None:
    bpf.xdp("eth0", mode=3)  # wrong: option
    opens[3] += 1  # wrong: key
    opens["a"] = "b"  # wrong: value
    opens.get(3)  # wrong: key of get
    a = lookups.get(1).started  # wrong: may be None
    lookups[1].host + 1  # wrong: field's type
    b = lookups[1].hosts  # wrong: no such field
    Lookup.from_bytes(b"").ended + 1  # wrong: no such field of what is decoded
    Lookup(started=1)  # wrong: a value is missing
    Lookup(started="a", host="b")  # wrong: value's type
    drops.emit(Lookup(started=1, host="a"))  # wrong: another record
    backlog["a"].add(1)  # wrong: key of an aggregation
    right("a", 1)  # wrong: called
    twice("a")  # wrong: argument of a subprogram
    bpf.hash(key=3, value=u64)  # wrong: no type
    bpf.ringbuf(Drop, key=u32)  # wrong: no such parameter
    user_string()  # wrong: argument is missing
    drops.emit(Drop(a, b))


@bpf.tracepoint("syscalls:sys_enter_openat")  # wrong: returns something
def returns() -> int:
    return 1


def library() -> None:
    with opensnoop.open(pid=1, failed=True) as calls, opensnoop.open(pid=1, buffer=1 << 20) as more:
        paths: list[str] = [each.path for each in (*calls, *more.poll(0.5), next(calls))]
        dropped: int = sum(calls.dropped.values()) + len(paths)
    with syscount.open(top=dropped) as snapshot:
        counts: list[int] = [each.count for each in snapshot()]
        snapshot.poll(counts[0])  # wrong: summaries are called
    opensnoop.open(pid="bash")  # wrong: option of a tool
