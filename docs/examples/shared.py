"""Counts in a map that other processes find: `shared.py count PATH`, meanwhile or afterwards `shared.py show PATH`.

PATH is a new file on a bpf file system (`mount -t bpf bpf /sys/fs/bpf`).
"""

import sys
import time

from pyebpf import BPF, char, comm, open_map, u64

if len(sys.argv) != 3 or sys.argv[1] not in {"count", "show"}:
    sys.exit("usage: shared.py count PATH, or shared.py show PATH")
task, path = sys.argv[1:]

if task == "count":
    bpf = BPF()
    forks = bpf.hash(key=char[16], value=u64, name="forks")

    @bpf.raw_tracepoint("sched_process_fork")
    def on_fork() -> None:
        forks[comm()] += 1

    with bpf:
        bpf.loaded_map("forks").pin(path)  # the map stays until the file is removed; counting ends with this process
        print("counting", flush=True)
        time.sleep(5)
else:
    with open_map(path, key=char[16], value=u64) as found:
        for name, count in found.items():
            print(f"{name:16} {count}")
