"""Objects that clang makes from C written for these tests."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.needs import needs

# What libbpf's headers give, as far as these sources need it: conventions, in our words.
PRELUDE = """
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __array(name, ...) __typeof__(__VA_ARGS__) *name[]
#define __type(name, type) __typeof__(type) *name
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static long (*bpf_loop)(u32 count, void *function, void *context, u64 flags) = (void *)181;
char _license[] SEC("license") = "GPL";
"""


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory):
    """A function from C to the bytes of an object; skips where clang-19 is not installed."""
    needs("command:clang-19")
    folder = tmp_path_factory.mktemp("objects")

    def compiled(source, *options, name="test"):
        path, target = folder / f"{name}.c", folder / f"{name}.o"
        path.write_text(PRELUDE + source)
        command = ["clang-19", "-target", "bpf", "-O2", "-g", *options, "-c", path.name, "-o", target.name]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return target.read_bytes()

    return compiled
