"""Debug information of clang's objects: functions with the linkage and prototype of their own, and source lines."""

from __future__ import annotations

import struct
from pathlib import Path

from pyebpf.asm import slot_starts
from pyebpf.btf import Btf
from pyebpf.objects.debug_info import debug_info
from pyebpf.objfile import read_object
from tests.objfile.conftest import PRELUDE

FUNCTIONS = """
#define NOINLINE __attribute__((noinline))
struct pair { u64 first, second; };
u64 total;
static NOINLINE u64 own(u64 a) { total += a; return total; }
NOINLINE u64 shared(struct pair *pair, u32 by) { return pair ? pair->first * by + total : 0; }
__attribute__((weak)) NOINLINE u64 replaceable(u64 a) { return a + total; }
__attribute__((visibility("hidden"))) NOINLINE u64 hidden(u64 a) { return a * total; }
__attribute__((visibility("internal"))) NOINLINE u64 internal(u64 a) { return a ^ total; }
SEC("tc") int f(void *context) {
    struct pair pair = {3, 5};
    asm volatile("" :: "r"(&pair) : "memory");
    return own(1) + shared(&pair, 7) + replaceable(2) + hidden(3) + internal(4);
}
"""


def test_functions_have_their_own_linkage_and_prototype(compile_c):
    """Global and weak functions are global unless they are hidden, and each function's record names the right one."""
    code = read_object(compile_c(FUNCTIONS, name="linkage")).program_spec("f").code
    made = debug_info(code)
    types, starts = Btf(made.btf), slot_starts(code.instructions)
    named = {offset: types.type_by_id(number) for offset, number in struct.iter_unpack("=II", made.func_info)}
    assert {offset: node.name for offset, node in named.items()} == {starts[s.start]: s.name for s in code.subprograms}
    assert {node.name: node.linkage for node in named.values()} == {
        "f": 1, "shared": 1, "replaceable": 1, "own": 0, "hidden": 0, "internal": 0,
    }  # fmt: skip
    prototype = next(types.type_by_id(node.type) for node in named.values() if node.name == "shared")
    pointer, number = (types.type_by_id(each.type) for each in prototype.params)
    assert [each.name for each in prototype.params] == ["pair", "by"]
    assert (types.type_by_id(pointer.type).name, types.size_of(pointer.type), number.name) == ("pair", 16, "u32")


def test_source_lines_are_strings_of_the_objects_types(compile_c):
    """Each record of a place names a file and a line's text in the BTF that came with the code."""
    made = debug_info(read_object(compile_c(FUNCTIONS, name="lines")).program_spec("f").code)
    types = Btf(made.btf)
    places = [
        (Path(types.string(file)).name, place >> 10, types.string(text))
        for _, file, text, place in struct.iter_unpack("=4I", made.line_info)
    ]
    lines = (PRELUDE + FUNCTIONS).splitlines()
    assert len(places) > 6
    assert places == [("lines.c", line, lines[line - 1]) for _, line, _ in places]
