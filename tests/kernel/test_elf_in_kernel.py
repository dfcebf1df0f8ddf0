"""Objects that clang made, loaded with their maps and run."""

from __future__ import annotations

import contextlib
import struct
import subprocess
from pathlib import Path

import pytest

from pyebpf.btf import Btf
from pyebpf.errors import NotFound
from pyebpf.kernel.btf_files import read_btf
from pyebpf.link import attach
from pyebpf.objects import Map, Program
from pyebpf.objfile import read_object
from tests.support.needs import needs
from tests.support.waiting import wait_until

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
    needs("helper:loop@socket_filter")
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
    needs("helper:get_current_task_btf@raw_tracepoint")
    program_spec = compiled(CORE, tmp_path).program_spec("who", Btf(read_btf()))
    with Program(program_spec, {}) as program:
        name = Path("/proc/thread-self/comm").read_bytes()
        assert program.test_run(context=bytes(16)).retval == 100 + name[0]


OWNED = """
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, type) __typeof__(type) *name
#define __kptr __attribute__((btf_type_tag("kptr")))
typedef unsigned int u32; typedef unsigned long long u64;
struct bpf_spin_lock { u32 val; };
struct bpf_timer { u64 __opaque[2]; } __attribute__((aligned(8)));
struct task_struct { int anything; struct task_struct *parent; } __attribute__((preserve_access_index));
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static void (*bpf_spin_lock)(struct bpf_spin_lock *) = (void *)93;
static void (*bpf_spin_unlock)(struct bpf_spin_lock *) = (void *)94;
static long (*bpf_timer_init)(struct bpf_timer *, void *map, u64 flags) = (void *)169;
static long (*bpf_timer_set_callback)(struct bpf_timer *, void *callback) = (void *)170;
static long (*bpf_timer_start)(struct bpf_timer *, u64 nsecs, u64 flags) = (void *)171;
static void *(*bpf_kptr_xchg)(void *map_value, void *ptr) = (void *)194;
extern struct task_struct *bpf_task_acquire(struct task_struct *p) SEC(".ksyms");
extern void bpf_task_release(struct task_struct *p) SEC(".ksyms");
extern const int bpf_prog_active SEC(".ksyms");
extern const void schedule_timeout SEC(".ksyms");
static struct task_struct *(*bpf_get_current_task_btf)(void) = (void *)158;
static void *(*bpf_this_cpu_ptr)(const void *) = (void *)154;

struct locked { struct bpf_spin_lock lock; u32 pad; u64 count, twice; };
struct timed { u64 fired; struct bpf_timer timer; };
struct kept { u64 runs; struct task_struct __kptr *task; };
struct { __uint(type, 2); __type(key, u32); __type(value, struct locked); __uint(max_entries, 1); } locks SEC(".maps");
struct { __uint(type, 1); __type(key, u32); __type(value, struct timed); __uint(max_entries, 3); } timers SEC(".maps");
struct { __uint(type, 2); __type(key, u32); __type(value, struct kept); __uint(max_entries, 1); } tasks SEC(".maps");
u64 address; int active;

SEC("tc") int lock(void *context) {
    u32 key = 0; struct locked *value = bpf_map_lookup_elem(&locks, &key);
    if (!value) return 0;
    bpf_spin_lock(&value->lock); value->count++; value->twice += 2; bpf_spin_unlock(&value->lock);
    return 1;
}
static int due(void *map, u32 *key, struct timed *value) { value->fired++; return 0; }
SEC("tc") int start(void *context) {
    u32 key = 7; struct timed *value = bpf_map_lookup_elem(&timers, &key);
    if (!value || bpf_timer_init(&value->timer, &timers, 1)) return 0;
    bpf_timer_set_callback(&value->timer, due);
    return bpf_timer_start(&value->timer, 1000, 0) == 0;
}
SEC("tp_btf/task_newtask") int keep(void *context) {
    u32 key = 0; struct kept *value = bpf_map_lookup_elem(&tasks, &key);
    if (!value) return 0;
    struct task_struct *task = bpf_task_acquire(bpf_get_current_task_btf());
    if (!task) return 0;
    task = bpf_kptr_xchg(&value->task, task);
    if (task) bpf_task_release(task);
    value->runs++;
    return 0;
}
SEC("raw_tp/task_newtask") int names(void *context) {
    address = (u64)&schedule_timeout;
    return 0;
}
SEC("raw_tp/task_newtask") int typed(void *context) {
    active = *(int *)bpf_this_cpu_ptr(&bpf_prog_active) + 100;
    return 0;
}
char _license[] SEC("license") = "GPL";
"""


def test_values_hold_locks_timers_and_kernel_objects(tmp_path):
    """What the kernel looks after in a map's value it finds in the BTF that the map is made with."""
    needs("helper:kptr_xchg@sched_cls")
    whole = compiled(OWNED, tmp_path)
    with contextlib.ExitStack() as stack:
        maps = {spec.name: stack.enter_context(Map(spec)) for spec in whole.module_spec().maps}
        lock, start = (stack.enter_context(Program(whole.program_spec(name), maps)) for name in ("lock", "start"))
        assert [lock.test_run(data=bytes(64)).retval for _ in range(17)] == [1] * 17
        assert maps["locks"][0][8:] == struct.pack("<QQ", 17, 34)
        assert start.test_run(data=bytes(64)).retval == 0
        maps["timers"][7] = bytes(24)
        assert start.test_run(data=bytes(64)).retval == 1
        wait_until(lambda: maps["timers"][7][:8] != bytes(8))
        assert maps["timers"][7][:8] == struct.pack("<Q", 1)


def test_kernel_objects_are_kept(tmp_path):
    """A reference in a map's value, taken and given back by functions of the kernel."""
    needs("kfunc:bpf_task_acquire")
    whole = compiled(OWNED, tmp_path)
    kernel = Btf(read_btf())
    spec = whole.program_spec("keep", kernel)
    with contextlib.ExitStack() as stack:
        maps = {each.name: stack.enter_context(Map(each)) for each in whole.module_spec(kernel).maps}
        program = stack.enter_context(Program(spec, maps))
        with attach(program, spec.attach):
            for _ in range(5):
                subprocess.run(["/bin/true"], check=True, timeout=30)
            assert struct.unpack_from("<Q", maps["tasks"][0])[0] >= 5


def symbols():
    """Names and addresses of the kernel."""
    lines = Path("/proc/kallsyms").read_text(encoding="utf-8").splitlines()
    return {name: int(address, 16) for address, _, name in (line.split()[:3] for line in lines)}


def test_names_of_the_kernel_are_addresses(tmp_path):
    """What BTF has no variable of is a number; one that the kernel has not is an error with its name."""
    needs("helper:kptr_xchg@sched_cls")
    whole = compiled(OWNED, tmp_path)
    with contextlib.ExitStack() as stack:
        maps = {each.name: stack.enter_context(Map(each)) for each in whole.module_spec(Btf(read_btf())).maps}
        program = stack.enter_context(Program(whole.program_spec("names"), maps))
        assert program.test_run(context=bytes(16)).retval == 0
        assert struct.pack("<Q", symbols()["schedule_timeout"]) in maps[".bss"][0]
        other = compiled(OWNED.replace("schedule_timeout", "no_such_thing_anywhere"), tmp_path)
        with pytest.raises(NotFound, match="the kernel has no variable no_such_thing_anywhere"):
            Program(other.program_spec("names"), maps)


def test_variables_of_the_kernel_are_read(tmp_path):
    """A processor's own, by BTF: a program is active while one runs."""
    needs("variable:bpf_prog_active", "helper:kptr_xchg@sched_cls")
    whole = compiled(OWNED, tmp_path)
    with contextlib.ExitStack() as stack:
        maps = {each.name: stack.enter_context(Map(each)) for each in whole.module_spec(Btf(read_btf())).maps}
        program = stack.enter_context(Program(whole.program_spec("typed"), maps))
        assert program.test_run(context=bytes(16)).retval == 0
        assert any(number in range(100, 110) for number in struct.unpack("<4I", maps[".bss"][0].ljust(16, b"\0")[:16]))
