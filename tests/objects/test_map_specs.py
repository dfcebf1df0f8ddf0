"""Specs that no kernel takes: each error names the map, the kind and what to give instead. No kernel needed."""

from __future__ import annotations

import pytest

from pyebpf.errors import InvalidValue
from pyebpf.specs import MapSpec
from pyebpf.types import U8, U32, U64, array_of
from pyebpf.types.prefix import ipv4_prefix, prefix
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import (
    BPF_F_CLONE,
    BPF_F_MMAPABLE,
    BPF_F_NO_COMMON_LRU,
    BPF_F_NO_PREALLOC,
    BPF_F_NUMA_NODE,
    BPF_F_RDONLY,
    BPF_F_STACK_BUILD_ID,
    BPF_F_WRONLY,
)

INNER = MapSpec("inner", MapType.ARRAY, U32, U64, 1)
K = MapType


@pytest.mark.parametrize(
    ("kind", "key", "value", "size", "more", "fix"),
    [
        (K.HASH, None, U64, 1, {}, "give key=, the type of its keys"),
        (K.HASH, U32, None, 1, {}, "give value=, the type of its values"),
        (K.HASH, U32, U64, 0, {}, "a size of 0: give the number of entries"),
        (K.HASH, U32, U64, 1 << 32, {}, "give 1 to 4294967295"),
        (K.HASH, array_of(U8, 32769), U64, 1, {}, "a key of 32769 bytes: programs have room for at most 32768"),
        (K.HASH, U32, U64, 1, {"flags": BPF_F_MMAPABLE}, "does not take BPF_F_MMAPABLE: leave it out (it takes"),
        (K.HASH, U32, U64, 1, {"flags": BPF_F_RDONLY | BPF_F_WRONLY}, "exclude each other: give one"),
        (K.HASH, U32, U64, 1, {"flags": BPF_F_NUMA_NODE}, "give numa_node= instead of the flag"),
        (K.HASH, U32, U64, 1, {"inner_map": INNER}, "leave out inner_map="),
        (K.HASH, U32, U64, 1, {"extra": 3}, "leave it out"),
        (K.HASH, U32, U64, 1, {"struct_ops": "x"}, "leave out struct_ops="),
        (K.PERCPU_HASH, U32, U64, 1, {"numa_node": 0}, "leave out numa_node="),
        (K.ARRAY, U64, U64, 1, {}, "keys are `u32` index, not u64, 8 bytes: give key=u32"),
        (K.ARRAY, U32, U64, 1, {"flags": BPF_F_NO_PREALLOC}, "does not take BPF_F_NO_PREALLOC"),
        (K.STACK_TRACE, U32, array_of(U32, 3), 1, {}, "a frame has 8 bytes"),
        (K.STACK_TRACE, U32, array_of(U64, 3), 1, {"flags": BPF_F_STACK_BUILD_ID}, "a frame has 32 bytes"),
        (K.LRU_HASH, U32, U64, 1, {"flags": BPF_F_NO_PREALLOC}, "it takes BPF_F_NO_COMMON_LRU"),
        (K.LPM_TRIE, U32, U64, 1, {"flags": BPF_F_NO_PREALLOC}, "give key=ipv4_prefix or ipv6_prefix"),
        (K.LPM_TRIE, ipv4_prefix, U64, 1, {}, "needs BPF_F_NO_PREALLOC: add it to flags="),
        (K.ARRAY_OF_MAPS, None, None, 1, {}, "give inner_map=, the spec of the maps in it"),
        (
            K.HASH_OF_MAPS, U32, U64, 1, {"inner_map": INNER},
            "values are descriptor (`u32`), not u64, 8 bytes: leave out",
        ),
        (
            K.ARRAY_OF_MAPS, None, None, 1,
            {"inner_map": MapSpec("outer", K.ARRAY_OF_MAPS, None, None, 1, inner_map=INNER)},
            "maps nest one level deep",
        ),
        (K.QUEUE, U32, U64, 1, {}, "this kind has no keys: leave out key=u32"),
        (K.QUEUE, None, None, 1, {}, "give value="),
        (K.RINGBUF, None, U64, 4096, {}, "this kind has no values: leave out value=u64"),
        (K.RINGBUF, None, None, 5000, {}, "give a power of two from 4096 on, such as 262144"),
        (K.USER_RINGBUF, None, None, 2048, {}, "give a power of two"),
        (K.BLOOM_FILTER, None, U64, 1, {"extra": 16}, "give extra= 1 to 15"),
        (K.SK_STORAGE, None, U64, 0, {}, "needs BPF_F_NO_PREALLOC"),
        (K.SK_STORAGE, None, U64, 7, {"flags": BPF_F_NO_PREALLOC}, "7 entries: give 0, the kernel makes what"),
        (K.SK_STORAGE, U64, U64, 0, {"flags": BPF_F_NO_PREALLOC | BPF_F_CLONE}, "give key=s32"),
        (K.STRUCT_OPS, None, None, 1, {}, "give struct_ops="),
        (K.STRUCT_OPS, None, U64, 1, {"struct_ops": "x"}, "the kernel's BTF gives the value"),
        (K.STRUCT_OPS, None, None, 1, {"struct_ops": "x", "frozen": True}, "leave out frozen="),
        (K.ARENA, None, None, 1, {}, "needs BPF_F_MMAPABLE"),
        (K.DEVMAP, None, array_of(U8, 5), 1, {}, "leave out value="),
        (K.PROG_ARRAY, None, None, 1, {"with_btf": True}, "leave out with_btf="),
        (K.PERCPU_ARRAY, U32, U64, 1, {"flags": BPF_F_NO_COMMON_LRU}, "does not take BPF_F_NO_COMMON_LRU"),
    ],
)  # fmt: skip
def test_what_no_kernel_takes_is_refused_with_the_fix(kind, key, value, size, more, fix):
    """The name and the kind stand in front."""
    with pytest.raises(InvalidValue) as caught:
        MapSpec("odd", kind, key, value, size, **more).check()
    assert str(caught.value).startswith(f"map odd ({kind.name}): ")
    assert fix in str(caught.value)


@pytest.mark.parametrize("page_size", [4096, 16384, 65536])
def test_sizes_follow_the_kernels_page(page_size):
    """A ring is at least a page; an arena of 4 GiB has as many pages as fit, one more is refused with that number."""
    for size in (4096, 16384, 1 << 20):
        ring = MapSpec("ring", K.RINGBUF, None, None, size)
        ring.check(page_size)
        assert ring.entries(page_size) == max(size, page_size)
    assert MapSpec("counts", K.HASH, U32, U64, 3).entries(page_size) == 3
    most = (1 << 32) // page_size
    MapSpec("memory", K.ARENA, None, None, most, BPF_F_MMAPABLE).check(page_size)
    with pytest.raises(InvalidValue, match=f"give at most {most}, which are 4 GiB"):
        MapSpec("memory", K.ARENA, None, None, most + 1, BPF_F_MMAPABLE).check(page_size)


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_name_has_no_nul(name):
    """Of any other name the kernel gets what it takes of it."""
    with pytest.raises(InvalidValue, match="give a name without NUL"):
        MapSpec(name, MapType.HASH, U32, U64, 1).check()
    MapSpec("sixteen letters_ü", MapType.HASH, U32, U64, 1).check()


@pytest.mark.parametrize("size", [0, 257])
def test_prefixes_have_a_size(size):
    """As many bytes as the kernel's key has."""
    with pytest.raises(InvalidValue, match="1 to 256 bytes"):
        prefix(size)
