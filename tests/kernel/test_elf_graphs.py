"""Linked lists and red-black trees of objects that programs allocate, in map values and in global data."""

from __future__ import annotations

import contextlib

import pytest

from pyebpf.btf import Btf, BtfBuilder
from pyebpf.errors import MalformedData
from pyebpf.kernel.btf_files import read_btf
from pyebpf.kernel.info import btf_id
from pyebpf.objects import Map, Program
from pyebpf.objects.btf import shared_btf
from tests.kernel.test_elf_in_kernel import compiled
from tests.support.needs import needs

HEAD = """
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, type) __typeof__(type) *name
#define __ksym __attribute__((section(".ksyms")))
#define __contains(name, node) __attribute__((btf_decl_tag("contains:" #name ":" #node)))
#define private(name) __attribute__((section(".bss." #name), visibility("hidden"), aligned(8)))
#define container(p, type, member) ((type *)((void *)(p) - __builtin_offsetof(type, member)))
#define allocate(type) ((type *)bpf_obj_new_impl(__builtin_btf_type_id(*(type *)0, 0), 0))
typedef unsigned int u32; typedef unsigned long long u64;
char _license[] SEC("license") = "GPL";
struct bpf_spin_lock { u32 val; };
struct bpf_list_head { u64 __opaque[2]; } __attribute__((aligned(8)));
struct bpf_list_node { u64 __opaque[3]; } __attribute__((aligned(8)));
struct bpf_rb_root { u64 __opaque[2]; } __attribute__((aligned(8)));
struct bpf_rb_node { u64 __opaque[4]; } __attribute__((aligned(8)));
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static void (*bpf_spin_lock)(struct bpf_spin_lock *) = (void *)93;
static void (*bpf_spin_unlock)(struct bpf_spin_lock *) = (void *)94;
extern void *bpf_obj_new_impl(u64 type, void *meta) __ksym;
extern void bpf_obj_drop_impl(void *object, void *meta) __ksym;
extern int bpf_list_push_back_impl(struct bpf_list_head *, struct bpf_list_node *, void *meta, u64 off) __ksym;
extern struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head) __ksym;
extern int bpf_rbtree_add_impl(struct bpf_rb_root *root, struct bpf_rb_node *node,
    _Bool (less)(struct bpf_rb_node *, const struct bpf_rb_node *), void *meta, u64 off) __ksym;
extern struct bpf_rb_node *bpf_rbtree_first(struct bpf_rb_root *root) __ksym;
extern struct bpf_rb_node *bpf_rbtree_remove(struct bpf_rb_root *root, struct bpf_rb_node *node) __ksym;
u64 given, taken;
"""
LISTS = (
    HEAD
    + """
struct item { u64 number; struct item *unused; struct bpf_list_node node; };
struct queue { struct bpf_spin_lock lock; struct bpf_list_head items __contains(item, node); u64 length; };
struct { __uint(type, 2); __type(key, u32); __type(value, struct queue); __uint(max_entries, 3); } queues SEC(".maps");
private(G) struct bpf_spin_lock guard;
private(G) u64 count;
private(G) struct bpf_list_head items __contains(item, node);

SEC("tc") int put(void *context) {
    u32 key = 1;
    struct queue *queue = bpf_map_lookup_elem(&queues, &key);
    struct item *item = allocate(struct item);
    if (!item) return 2;
    if (!queue) { bpf_obj_drop_impl(item, 0); return 3; }
    item->number = given;
    bpf_spin_lock(&queue->lock);
    bpf_list_push_back_impl(&queue->items, &item->node, 0, 0);
    queue->length++;
    bpf_spin_unlock(&queue->lock);
    return 1;
}
SEC("tc") int move(void *context) {  /* from the value of a map to global data */
    u32 key = 1;
    struct queue *queue = bpf_map_lookup_elem(&queues, &key);
    struct bpf_list_node *node;
    if (!queue) return 3;
    bpf_spin_lock(&queue->lock);
    node = bpf_list_pop_front(&queue->items);
    if (node) queue->length--;
    bpf_spin_unlock(&queue->lock);
    if (!node) return 0;
    bpf_spin_lock(&guard);
    bpf_list_push_back_impl(&items, &container(node, struct item, node)->node, 0, 0);
    count++;
    bpf_spin_unlock(&guard);
    return 1;
}
SEC("tc") int take(void *context) {
    struct bpf_list_node *node;
    struct item *item;
    bpf_spin_lock(&guard);
    node = bpf_list_pop_front(&items);
    bpf_spin_unlock(&guard);
    if (!node) return 0;
    item = container(node, struct item, node);
    taken = item->number;
    bpf_obj_drop_impl(item, 0);
    return 1;
}
"""
)
TREE = (
    HEAD
    + """
struct leaf { struct bpf_rb_node node; u64 number; };
private(A) struct bpf_spin_lock lock;
private(A) struct bpf_rb_root root __contains(leaf, node);

static _Bool less(struct bpf_rb_node *one, const struct bpf_rb_node *other) {
    return container(one, struct leaf, node)->number < container(other, struct leaf, node)->number;
}
SEC("tc") int put(void *context) {
    struct leaf *leaf = allocate(struct leaf);
    if (!leaf) return 2;
    leaf->number = given;
    bpf_spin_lock(&lock);
    bpf_rbtree_add_impl(&root, &leaf->node, less, 0, 0);
    bpf_spin_unlock(&lock);
    return 1;
}
SEC("tc") int take(void *context) {
    struct bpf_rb_node *node;
    struct leaf *leaf;
    bpf_spin_lock(&lock);
    node = bpf_rbtree_first(&root);
    if (!node) { bpf_spin_unlock(&lock); return 0; }
    node = bpf_rbtree_remove(&root, node);
    bpf_spin_unlock(&lock);
    if (!node) return 0;
    leaf = container(node, struct leaf, node);
    taken = leaf->number;
    bpf_obj_drop_impl(leaf, 0);
    return 1;
}
"""
)


@contextlib.contextmanager
def loaded(whole, *names):
    """Maps by name, then a function for each program that runs it and returns its result."""
    kernel = Btf(read_btf())
    with contextlib.ExitStack() as stack:
        maps = {spec.name: stack.enter_context(Map(spec)) for spec in whole.map_specs()}
        programs = [stack.enter_context(Program(whole.program_spec(name, kernel), maps)) for name in names]
        yield maps, *((lambda program=program: program.test_run(data=bytes(64)).retval) for program in programs)


def number(maps, place):
    """One of the two numbers in .bss: 0 is what to put, 1 what was taken."""
    return int.from_bytes(maps[".bss"][0][8 * place : 8 * place + 8], "little")


def give(maps, value):
    maps[".bss"][0] = value.to_bytes(8, "little") + maps[".bss"][0][8:]


def test_lists_in_values_and_global_data(tmp_path):
    """17 objects through the list of a map's value, then that of global data, in their order; one BTF for all."""
    needs("kfunc:bpf_list_push_back_impl")
    with loaded(compiled(LISTS, tmp_path), "put", "move", "take") as (maps, put, move, take):
        assert (move(), take()) == (0, 0)
        for value in range(100, 117):
            give(maps, value)
            assert put() == 1
        assert int.from_bytes(maps["queues"][1][24:], "little") == 17
        assert [move() for _ in range(18)] == [1] * 17 + [0]
        taken = []
        while take():
            taken.append(number(maps, 1))
        assert taken == list(range(100, 117))
        assert put() == 1  # what a map still holds is freed with it


def test_a_tree_sorts(tmp_path):
    """A callback compares; the smallest comes first."""
    needs("kfunc:bpf_rbtree_add_impl")
    with loaded(compiled(TREE, tmp_path), "put", "take") as (maps, put, take):
        values = [31, 7, 101, 2, 53, 7]
        for value in values:
            give(maps, value)
            assert put() == 1
        taken = []
        while take():
            taken.append(number(maps, 1))
        assert taken == sorted(values)


def test_a_key_without_a_type(tmp_path):
    """The kernel wants to know it where it looks into the value."""
    source = LISTS.replace(
        "__type(key, u32); __type(value, struct queue)", "__uint(key_size, 4); __type(value, struct queue)"
    )
    with pytest.raises(MalformedData, match="map queues: its key needs a type"):
        compiled(source, tmp_path).map_specs()


def test_equal_bytes_are_one_object_while_somebody_holds_it():
    """The kernel's number is the same for as long as it lasts; bytes that are no BTF are none."""
    builder = BtfBuilder()
    builder.add_int("int_of_this_test", 4, signed=True)
    data = builder.to_bytes()
    first, second = shared_btf(data), shared_btf(data)
    number = btf_id(first.fileno())
    assert btf_id(second.fileno()) == number
    first.close()
    third = shared_btf(data)
    assert btf_id(third.fileno()) == number
    second.close()
    third.close()
    fourth = shared_btf(data)
    assert btf_id(fourth.fileno()) != number
    fourth.close()
    assert shared_btf(b"no BTF") is None
