"""Objects that clang made, loaded with their maps and run."""

from __future__ import annotations

import contextlib
import shutil
import subprocess

import pytest

from pyebpf.elf import read_object
from pyebpf.objects import Map, Program

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


@pytest.fixture
def compiled(tmp_path):
    """The object of SOURCE."""
    if shutil.which("clang-19") is None:
        pytest.skip("probe: clang-19 is not installed")
    source, target = tmp_path / "sums.c", tmp_path / "sums.o"
    source.write_text(SOURCE)
    subprocess.run(["clang-19", "-target", "bpf", "-O2", "-g", "-c", source, "-o", target], check=True)
    return target.read_bytes()


def test_an_object_runs_with_its_maps_and_data(compiled):
    """23 runs: a hash, writable and constant data, a function and a callback of .text, counted exactly."""
    module = read_object(compiled).module_spec()
    with contextlib.ExitStack() as stack:
        maps = {spec.name: stack.enter_context(Map(spec)) for spec in module.maps}
        (spec,) = module.programs
        program = stack.enter_context(Program(spec, maps))
        assert program.test_run(data=bytes(64)).retval == 1
        maps["sums"][19] = 100
        for _ in range(22):
            assert program.test_run(data=bytes(64)).retval == 2
        assert maps["sums"][19] == 100 + 22 * 5 * (2 + 3 + 5 + 7 + 11 + 13 + 17)
        (runs,) = (value for value in (maps[".bss"][0],))
        assert int.from_bytes(runs[:8], "little") == 23
