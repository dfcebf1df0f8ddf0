"""The table of kinds against the kernel: every kind made, every operation tried."""

from __future__ import annotations

import errno
from struct import pack

import pytest

from pyebpf.errors import InvalidValue, KernelError
from pyebpf.kernel import bpf, map_elements
from pyebpf.kernel.cpus import possible_cpus
from pyebpf.objects import KernelMap, make_map
from pyebpf.specs import MapSpec
from pyebpf.specs.map_traits import FLAG_NAMES, MAP_TRAITS, Entries, Key, MapOperation, Value
from pyebpf.types import U32, U64, array_of
from pyebpf.types.prefix import ipv4_prefix
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.errno_table import ENOTSUPP
from pyebpf.uapi.flags import BPF_F_NUMA_NODE
from tests.support.needs import needs
from tests.support.release import kernel_release
from tests.support.waiting import wait_until

pytestmark = pytest.mark.every_kernel

INNER = MapSpec("inner", MapType.ARRAY, U32, U64, 1)
#: Operations that Linux 5.10 lacks, with their releases.
_BATCHES = (MapOperation.BATCH_LOOKUP, MapOperation.BATCH_UPDATE, MapOperation.BATCH_DELETE, MapOperation.BATCH_TAKE)
LATER = {
    **{
        (kind, MapOperation.TAKE): (5, 14)
        for kind in (MapType.HASH, MapType.PERCPU_HASH, MapType.LRU_HASH, MapType.LRU_PERCPU_HASH)
    },
    **{(kind, each): (5, 13) for kind in (MapType.PERCPU_ARRAY, MapType.LPM_TRIE) for each in _BATCHES},
    **{(kind, each): (5, 19) for kind in (MapType.ARRAY_OF_MAPS, MapType.HASH_OF_MAPS) for each in _BATCHES},
}
REFUSALS = {ENOTSUPP, errno.EOPNOTSUPP}
SIZES = {Entries.COUNT: 8, Entries.PROCESSORS: 0, Entries.BYTES: 4096, Entries.PAGES: 16, Entries.ZERO: 0}


def spec(kind: MapType, **more) -> MapSpec:
    """A map of the kind, as small as may be."""
    traits = MAP_TRAITS[kind]
    key = {Key.ANY: U32, Key.PREFIX: ipv4_prefix}.get(traits.key)
    value = {Value.ANY: U64, Value.TRACE: array_of(U64, 10)}.get(traits.value)
    size = 1 if kind in {MapType.CPUMAP, MapType.STRUCT_OPS} else SIZES[traits.entries]
    operations = "tcp_congestion_ops" if kind is MapType.STRUCT_OPS else ""
    given = {"flags": traits.required, "inner_map": INNER if traits.needs_inner else None, "struct_ops": operations}
    return MapSpec("kind", kind, key, value, size, **{**given, **more})


def made(kind: MapType, **more) -> KernelMap:
    """The map, or a skip if a probe says that the kernel has no such kind."""
    needs(f"map:{kind.name.lower()}")
    return make_map(spec(kind, **more))


def every(kinds) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", list(kinds), ids=lambda kind: kind.name)


def test_the_table_has_every_kind_of_the_kernel_and_no_other():
    """All of enum bpf_map_type up to Linux 6.18."""
    assert list(MAP_TRAITS) == [kind for kind in MapType if kind]
    assert {kind.name for kind, traits in MAP_TRAITS.items() if traits.per_cpu} == {
        kind.name for kind in MapType if "PERCPU" in kind.name
    }


@every(MAP_TRAITS)
def test_every_kind_is_made_as_its_row_says(kind):
    """Kind, sizes and flags are what the kernel says of the map that was made."""
    with made(kind) as table:
        info = table.info()
        assert (info.type, info.name, info.id > 0) == (kind, "kind", True)
        assert info.key_size == (table.key_type.size if table.key_type else 0)
        assert info.value_size == (table.value_type.size if table.value_type else 0)
        assert info.flags & MAP_TRAITS[kind].required == MAP_TRAITS[kind].required
        assert kind.name in repr(table)


def errno_of(call, *arguments) -> int:
    try:
        call(*arguments)
    except OSError as error:
        return error.errno
    return 0


@every(kind for kind in MAP_TRAITS if kind is not MapType.STRUCT_OPS)
def test_operations_are_there_as_the_row_says(kind):
    """Each command is refused as not for this kind, or not; a missing object or key is not a refusal of the kind."""
    can = MAP_TRAITS[kind].operations
    with made(kind) as table:
        fd, slots = table.fileno(), possible_cpus() if MAP_TRAITS[kind].per_cpu else 1
        key = (ipv4_prefix.encode("10.0.0.0/8") if kind is MapType.LPM_TRIE else bytes(4)) if table.key_type else b""
        key = key.ljust(table.key_type.size, b"\0") if table.key_type else b""
        room, size = max(len(key), 4), max(table.value_type.size if table.value_type else 1, 8) * slots
        with make_map(INNER) as inner:
            value = pack("<I", inner.fileno()) if MAP_TRAITS[kind].needs_inner else bytes(size)
            found = {
                MapOperation.BATCH_LOOKUP: errno_of(map_elements.map_lookup_batch, fd, None, 64, room, size),
                MapOperation.BATCH_TAKE: errno_of(map_elements.map_lookup_and_delete_batch, fd, None, 64, room, size),
                MapOperation.BATCH_UPDATE: map_elements.map_update_batch(fd, key.ljust(room, b"\0"), value, 1)[1],
                MapOperation.BATCH_DELETE: map_elements.map_delete_batch(fd, key.ljust(room, b"\0"), 1)[1],
                MapOperation.ITERATE: errno_of(map_elements.map_get_next_key, fd, None, room),
            }
            if kind is not MapType.STACK_TRACE:  # in one step since some release after 6.12
                found[MapOperation.TAKE] = errno_of(map_elements.map_lookup_and_delete_elem, fd, key, size)
            if table.key_type:
                found[MapOperation.LOOKUP] = errno_of(map_elements.map_lookup_elem, fd, key, size)
        refused = REFUSALS | ({errno.EINVAL} if not table.key_type else set())
        # A batch over indices that hold nothing ends in EINTR before Linux 6.14.
        assert {what.name: number not in refused for what, number in found.items()} == {
            what.name: bool(can & what) and kernel_release() >= LATER.get((kind, what), (0, 0)) for what in found
        }, found


@every(kind for kind in MAP_TRAITS if kind not in {MapType.STRUCT_OPS, MapType.ARENA})
def test_flags_are_taken_as_the_row_says(kind):
    """Each flag of MAP_CREATE on its own: made, or refused by the kernel and by the check alike."""
    base = spec(kind)
    made(kind).close()
    for bit, name in FLAG_NAMES.items():
        if name in {"NUMA_NODE", "STACK_BUILD_ID", "LINK", "VTYPE_BTF_OBJ_FD", "SEGV_ON_FAULT"} or bit & base.flags:
            continue
        allowed = bool(MAP_TRAITS[kind].flags & bit)
        try:
            make_map(spec(kind, flags=base.flags | bit)).close()
            accepted = True
        except InvalidValue as error:
            assert name in str(error)  # noqa: PT017 - the other outcomes are facts, too
            accepted = False
        assert accepted == allowed, name


@every(kind for kind in MAP_TRAITS if MAP_TRAITS[kind].flags & BPF_F_NUMA_NODE)
def test_memory_on_a_numa_node(kind):
    """Node 0 exists everywhere; a node that does not exist is refused by the kernel, and named."""
    with made(kind, numa_node=0) as table:
        assert table.info().flags & BPF_F_NUMA_NODE
    with pytest.raises(KernelError, match="NUMA node 1000"):
        made(kind, numa_node=1000)


@every(kind for kind in MAP_TRAITS if kind is not MapType.STRUCT_OPS)
def test_every_kind_can_be_frozen_once(kind):
    """A second time says so. Struct_ops maps can't be, which the check says."""
    with made(kind) as table:
        table.freeze()
        with pytest.raises(KernelError, match="frozen already"):
            table.freeze()


@every(kind for kind in MAP_TRAITS if MAP_TRAITS[kind].operations & MapOperation.TYPED)
def test_kinds_that_take_btf_have_it(kind):
    """The ids of key and value are those of the map's own BTF."""
    key = {Key.ANY: U32}.get(MAP_TRAITS[kind].key)
    with made(kind, with_btf=True) as table:
        info = table.info()
        assert info.btf_id > 0
        assert info.value_btf_type > 0
        assert info.key_btf_type > 0 or key is None


@every(kind for kind in MAP_TRAITS if not MAP_TRAITS[kind].operations & MapOperation.TYPED)
def test_kinds_that_take_no_btf_say_so(kind):
    """The fix is in the message."""
    with pytest.raises(InvalidValue, match="leave out with_btf="):
        spec(kind, with_btf=True).check()


def test_ids_are_found_and_end_with_the_descriptor():
    """A map's id opens it while somebody holds it."""
    with make_map(INNER) as table:
        number = table.info().id
        bpf.map_get_fd_by_id(number).close()
    # It is freed some time after its last user is gone.
    wait_until(lambda: errno_of(lambda: bpf.map_get_fd_by_id(number).close()) == errno.ENOENT)
