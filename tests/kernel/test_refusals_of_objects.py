"""Refusals of what clang compiles about fields that the kernel keeps: each one's cause, at the line of the C source."""

from __future__ import annotations

import re

import pytest

from pyebpf.btf import Btf
from pyebpf.errors import KernelError, VerifierError
from pyebpf.kernel.btf_files import read_btf
from pyebpf.objects import Map, Program
from pyebpf.verifier.messages import VERIFIER_MESSAGES
from tests.kernel.test_elf_in_kernel import compiled
from tests.support.needs import lacks, needs, unless

SOURCE = """
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, type) __typeof__(type) *name
#define __kptr __attribute__((btf_type_tag("kptr")))
#define __kptr_untrusted __attribute__((btf_type_tag("kptr_untrusted")))
typedef unsigned int u32; typedef unsigned long long u64;
char _license[] SEC("license") = "GPL";
struct task_struct { int tgid; } __attribute__((preserve_access_index));
struct bpf_timer { u64 __opaque[2]; } __attribute__((aligned(8)));
struct bpf_dynptr { u64 __opaque[2]; } __attribute__((aligned(8)));
struct kept { struct task_struct __kptr *task; struct task_struct __kptr_untrusted *other; u64 numbers[2]; };
struct timed { struct bpf_timer timer; u64 count; };
struct { __uint(type, 2); __type(key, u32); __type(value, struct kept); __uint(max_entries, 3); } tasks SEC(".maps");
struct { __uint(type, 2); __type(key, u32); __type(value, struct timed); __uint(max_entries, 3); } timers SEC(".maps");
struct { __uint(type, 27); __uint(max_entries, 4096); } ring SEC(".maps");
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u32 (*bpf_get_prandom_u32)(void) = (void *)7;
static long (*bpf_get_current_comm)(void *, u32) = (void *)16;
static long (*bpf_timer_init)(struct bpf_timer *, void *map, u64 flags) = (void *)169;
static void *(*bpf_kptr_xchg)(void *place, void *pointer) = (void *)194;
static long (*bpf_ringbuf_reserve_dynptr)(void *, u32, u64, struct bpf_dynptr *) = (void *)198;
static void (*bpf_ringbuf_submit_dynptr)(struct bpf_dynptr *, u64) = (void *)199;
#define FOUND(type, map) u32 key = 0; type *found = bpf_map_lookup_elem(&map, &key); if (!found) return 0

SEC("tc") int kptr_store(void *context) {
    FOUND(struct kept, tasks);
    *(volatile u64 *)&found->task = 1;  // <- kptr-store
    return 0;
}
SEC("tc") int kptr_access(void *context) {
    FOUND(struct kept, tasks);
    return *(volatile u32 *)&found->task;  // <- kptr-access
}
SEC("tc") int kptr_copied(void *context) {
    FOUND(struct kept, tasks);
    return bpf_get_current_comm(found, 16);  // <- kptr-access
}
SEC("tc") int kptr_unreferenced(void *context) {
    FOUND(struct kept, tasks);
    if (found->other && found->other->tgid == 7) return 1;  // else clang leaves out what the structure has
    return !!bpf_kptr_xchg(&found->other, 0);  // <- kptr-unreferenced
}
SEC("tc") int special_absent(void *context) {
    FOUND(struct kept, tasks);
    return !!bpf_kptr_xchg(&found->numbers, 0);  // <- special-absent
}
SEC("tc") int special_offset(void *context) {
    FOUND(struct kept, tasks);
    u64 at = bpf_get_prandom_u32() & 1;
    asm volatile("" : "+r"(at));
    return !!bpf_kptr_xchg((void *)found + 8 * at, 0);  // <- special-offset
}
SEC("tracepoint/sched/sched_switch") int special_kind(void *context) {
    FOUND(struct timed, timers);
    return bpf_timer_init(&found->timer, &timers, 0);
}
SEC("tc") int special_access(void *context) {
    FOUND(struct timed, timers);
    return *(volatile u64 *)&found->timer;  // <- special-access
}
SEC("tc") int special_map(void *context) {
    FOUND(struct timed, timers);
    return bpf_timer_init(&found->timer, &tasks, 0);  // <- special-absent special-map
}
SEC("tc") int dynptr_missing(void *context) {
    struct bpf_dynptr record;
    bpf_ringbuf_submit_dynptr(&record, 0);  // <- dynptr-missing release
    return 0;
}
SEC("tc") int dynptr_changed(void *context) {
    struct bpf_dynptr record;
    bpf_ringbuf_reserve_dynptr(&ring, 8, 0, &record);
    *(volatile u64 *)&record = 1;  // <- dynptr-changed
    bpf_ringbuf_submit_dynptr(&record, 0);
    return 0;
}
"""
#: What older kernels take or refuse otherwise: `__kptr` meant an unreferenced pointer before Linux 6.4, a dynptr that a
#: program writes over was noticed at its next use before 6.3, and tc programs had no helper to copy a pointer with.
NEEDS = {
    "kptr_store": "kernel:6.4",
    "kptr_access": "kernel:6.4",
    "kptr_unreferenced": "kernel:6.4",
    "dynptr_changed": "kernel:6.3",
    "kptr_copied": "helper:get_current_comm@sched_cls",
}
NAMES = re.findall(r"SEC\(\"[^)]*\"\) int (\w+)", SOURCE)


@pytest.fixture(scope="module")
def object_file(tmp_path_factory):
    """The object, compiled once."""
    return compiled(SOURCE, tmp_path_factory.mktemp("kept"))


def test_a_kernel_that_keeps_no_pointers_says_so(object_file):
    """Its BTF lacks the kind of types that marks them: named, with its release."""
    lacks("helper:kptr_xchg@sched_cls")
    (spec,) = (each for each in object_file.map_specs() if each.name == "tasks")
    with pytest.raises(KernelError, match=r"has no BTF types of kind TYPE_TAG \(needs Linux 5\.17 or later\)"):
        Map(spec)


@pytest.mark.parametrize("name", NAMES)
def test_a_field_that_the_kernel_keeps_is_refused_at_its_line(object_file, name):
    """The kernel's own words, what they mean, and the line that is marked in the source."""
    needs("helper:kptr_xchg@sched_cls")
    if name in NEEDS:
        needs(NEEDS[name])
    kernel = Btf(read_btf())
    body = SOURCE[SOURCE.index(f"int {name}(") :].partition("\n}\n")[0]
    line, _, wanted = body.partition("  // <- ")
    specs = {spec.name: spec for spec in object_file.map_specs()}
    maps = {each: Map(specs[each]) for each in specs}
    error = None
    try:
        Program(object_file.program_spec(name, kernel), maps, btf=lambda: kernel).close()
    except VerifierError as found:
        error = found
    finally:
        for used in maps.values():
            used.close()
    if name == "special_kind":
        unless(error, "verifier:no_timers_in_tracing")  # Linux 7.3 lets them run anywhere
    assert error is not None
    names = wanted.partition("\n")[0].split() or [name.replace("_", "-")]
    rows = [row for row in VERIFIER_MESSAGES if row.name in names]
    assert any(row.cause in error.message and re.search(row.pattern, error.message) for row in rows), str(error)
    if wanted:
        assert error.location is not None
        assert (
            error.location.text.strip()
            == f"{line.rpartition(chr(10))[2].strip()}  // <- {wanted.partition(chr(10))[0]}"
        )
