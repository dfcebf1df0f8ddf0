"""Objects of clang in the kernel: arenas with variables, maps filled by the source, given types, records as keys."""

from __future__ import annotations

import contextlib
import struct
import subprocess

import pytest

from pyebpf.objects import Program, make_map
from pyebpf.objfile import read_object
from pyebpf.uapi.bpf import ProgramType
from tests.support.needs import needs

SOURCE = """
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __ulong(name, value) enum { __made_##name = value } name
#define __type(name, type) __typeof__(type) *name
#define __array(name, ...) __typeof__(__VA_ARGS__) *name[]
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_tail_call)(void *context, void *map, u32 index) = (void *)12;
char _license[] SEC("license") = "GPL";

struct flow { u32 address; u16 port; char name[6]; };
struct { __uint(type, 1); __type(key, struct flow); __type(value, struct flow); __uint(max_entries, 7);
} flows SEC(".maps");
int last(void *);
struct { __uint(type, 3); __uint(key_size, 4); __uint(max_entries, 3); __array(values, int (void *));
} steps SEC(".maps") = { .values = { [2] = (void *)&last } };
struct { __uint(type, 2); __uint(max_entires, 3); } wrong SEC(".maps");

SEC("of my own") int count(void *context) {
    struct flow flow = {}, value = {};
    flow.address = 7; flow.port = 11; flow.name[0] = 'a';
    value.address = 13; value.name[1] = 'b';
    bpf_map_update_elem(&flows, &flow, &value, 0);
    bpf_tail_call(context, &steps, 2);
    return 5;
}
SEC("socket") int last(void *context) { return 23; }
"""
ARENA = """
#define __arena __attribute__((address_space(1)))
struct { __uint(type, 33); __uint(map_flags, 1024); __uint(max_entries, 2); ADDRESS } memory SEC(".maps");
int __arena numbers[5] = { 3, 5, 7, 11, 13 };
SEC("syscall") int sum(void *context) {
    int total = 0;
    for (int i = 0; i < 5; i++) { total += numbers[i]; numbers[i]++; }
    return total;
}
"""


def compiled(source, folder, *options):
    """The object of a source."""
    needs("command:clang-19")
    path, target = folder / "source.c", folder / "source.o"
    path.write_text(source)
    subprocess.run(["clang-19", "-target", "bpf", "-O2", "-g", *options, "-c", path, "-o", target], check=True)
    return read_object(target.read_bytes())


def test_maps_are_filled_and_types_given_by_who_loads(tmp_path):
    """What the source puts into a program array, a section that says no type, records as keys and values."""
    whole = compiled(SOURCE, tmp_path)
    module = whole.module_spec(program_types={"count": ProgramType.SOCKET_FILTER})
    with contextlib.ExitStack() as stack:
        maps = {spec.name: stack.enter_context(make_map(spec)) for spec in module.maps}
        programs = {spec.name: stack.enter_context(Program(spec, maps)) for spec in module.programs}
        for name, contents in whole.contents.items():
            for index, program in contents.items():
                maps[whole.maps.names[name]][index] = programs[program]
        assert programs["count"].test_run(data=bytes(64)).retval == 23
        ((key, value),) = maps["flows"].items()
        assert (key.address, key.port, key.name) == (7, 11, "a")
        assert value.name == "\0b"  # every byte of another program's char array
        assert maps["flows"][key].address == 13


@pytest.mark.parametrize("address", ["", "__ulong(map_extra, 1ull << 44);"])
def test_an_arena_holds_the_variables_of_the_source(tmp_path, address):
    """Both sides see the same five numbers, wherever the arena lies."""
    needs("isa:addr_space_cast")
    head = SOURCE[: SOURCE.index("struct flow {")]
    module = compiled(head + ARENA.replace("ADDRESS", address), tmp_path, "-mcpu=v4").module_spec()
    with contextlib.ExitStack() as stack:
        maps = {spec.name: stack.enter_context(make_map(spec)) for spec in module.maps}
        (program,) = [stack.enter_context(Program(spec, maps)) for spec in module.programs]
        assert program.test_run().retval == 39
        assert program.test_run().retval == 44
        assert struct.unpack_from("<5i", maps["memory"].window().memory) == (5, 7, 9, 13, 15)
