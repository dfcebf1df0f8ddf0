"""Objects that clang made, loaded with their maps and run."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

from pyebpf.btf import Btf
from pyebpf.elf import read_object
from pyebpf.kernel.btf_files import read_btf
from pyebpf.objects import Map, Program
from tests.support.needs import needs

SOURCE = """
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, type) __typeof__(type) *name
typedef unsigned int u32; typedef unsigned long long u64;
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_loop)(u32 count, void *function, void *context, u64 flags) = (void *)181;
struct { __uint(type, 1); __type(key, u32); __type(value, u64); __uint(max_entries, 31); } sums SEC(".maps");

u64 weight = 5;
u64 runs;
static const u32 primes[7] = {2, 3, 5, 7, 11, 13, 17};

static long add(u32 index, u64 *sum) { if (index < 7) *sum += primes[index] * weight; return 0; }
__attribute__((noinline)) u64 total(void) { u64 sum = 0; bpf_loop(7, add, &sum, 0); return sum; }

SEC("socket") int filter(void *context) {
    u32 key = 19;
    u64 *sum = bpf_map_lookup_elem(&sums, &key);
    runs++;
    if (!sum) return 1;
    __sync_fetch_and_add(sum, total());
    return 2;
}
char _license[] SEC("license") = "GPL";
"""


CORE = """
#define SEC(name) __attribute__((section(name), used))
typedef unsigned int u32; typedef unsigned long long u64;
#pragma clang attribute push (__attribute__((preserve_access_index)), apply_to = record)
struct task_struct { int tgid; char comm[16]; struct task_struct *group_leader; };
struct task_struct___imagined { int dreams; };
#pragma clang attribute pop
static struct task_struct *(*bpf_get_current_task_btf)(void) = (void *)158;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
SEC("raw_tp/task_newtask") int who(void *context) {
    struct task_struct *task = bpf_get_current_task_btf();
    struct task_struct___imagined *other = (void *)task;
    if (__builtin_preserve_field_info(other->dreams, 2)) return other->dreams;
    return (task->group_leader->tgid == (u32)(bpf_get_current_pid_tgid() >> 32)) * 100 + task->comm[0];
}
char _license[] SEC("license") = "GPL";
"""


def compiled(source, folder):
    """The object of a source."""
    needs("command:clang-19")
    path, target = folder / "source.c", folder / "source.o"
    path.write_text(source)
    subprocess.run(["clang-19", "-target", "bpf", "-O2", "-g", "-c", path, "-o", target], check=True)
    return read_object(target.read_bytes())


def test_an_object_runs_with_its_maps_and_data(tmp_path):
    """23 runs: a hash, writable and constant data, a function and a callback of .text, counted exactly."""
    module = compiled(SOURCE, tmp_path).module_spec()
    with contextlib.ExitStack() as stack:
        maps = {spec.name: stack.enter_context(Map(spec)) for spec in module.maps}
        (spec,) = module.programs
        program = stack.enter_context(Program(spec, maps))
        assert program.test_run(data=bytes(64)).retval == 1
        maps["sums"][19] = 100
        for _ in range(22):
            assert program.test_run(data=bytes(64)).retval == 2
        assert maps["sums"][19] == 100 + 22 * 5 * (2 + 3 + 5 + 7 + 11 + 13 + 17)
        assert int.from_bytes(maps[".bss"][0][:8], "little") == 23


def test_members_are_found_in_this_kernel(tmp_path):
    """CO-RE: the current task's process id and name by a struct of three members; a flavour that asks for a fourth."""
    program_spec = compiled(CORE, tmp_path).program_spec("who", Btf(read_btf()))
    with Program(program_spec, {}) as program:
        name = Path("/proc/thread-self/comm").read_bytes()
        assert program.test_run(context=bytes(16)).retval == 100 + name[0]
