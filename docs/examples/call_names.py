"""System calls of the whole machine for five seconds, the ten most frequent, by name: `sys_enter` tells numbers."""

import time

from pyebpf import BPF, RawTracepointContext, s64, syscall_name, u64

bpf = BPF()
calls = bpf.percpu_hash(key=s64, value=u64)


@bpf.raw_tracepoint("sys_enter")
def on_enter(ctx: RawTracepointContext) -> None:
    calls[ctx.id] += 1


with bpf:
    time.sleep(5)
    for number, count in sorted(calls.items(), key=lambda item: -item[1])[:10]:
        print(f"{syscall_name(number):24} {count}")
