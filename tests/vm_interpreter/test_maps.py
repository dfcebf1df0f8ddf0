"""Maps: flags, capacity, what full ones answer; each kind's own rules."""

from __future__ import annotations

import pytest

from pyebpf.asm import parse
from pyebpf.asm.build import R0, R1, R2, R3, R4, R10, add64, call, exit_, load_map, mov64, st
from pyebpf.errors import VmError
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64, ArrayType
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.helpers import HELPER_IDS
from pyebpf.vm import Machine, run
from pyebpf.vm.maps import CLASSES

ENOENT, E2BIG, EAGAIN, EEXIST, EINVAL, ENOSPC, EOPNOTSUPP = 2, 7, 11, 17, 22, 28, 95
ANY, NOEXIST, EXIST = 0, 1, 2
CPUS = 3


def machine(kind, *, size=3, key=U32, value=U64, **more):
    """A machine with the one map `m`."""
    vm = Machine([MapSpec("m", kind, key, value, size, **more)], cpus=CPUS)
    return vm, vm.maps["m"]


def key(number):
    return number.to_bytes(4, "little")


def value(number):
    return number.to_bytes(8, "little")


HASHES = [MapType.HASH, MapType.PERCPU_HASH, MapType.LRU_HASH, MapType.LRU_PERCPU_HASH]


@pytest.mark.parametrize("kind", HASHES, ids=lambda kind: kind.name)
def test_flags_of_hashes(kind):
    """NOEXIST refuses what is there, EXIST what is not; others are invalid; removed keys are gone."""
    _, m = machine(kind)
    assert m.update(key(1), value(5), EXIST, 0) == -ENOENT
    assert m.update(key(1), value(5), NOEXIST, 0) == 0
    assert m.update(key(1), value(6), NOEXIST, 0) == -EEXIST
    assert m.update(key(1), value(7), EXIST, 0) == 0
    assert m.update(key(1), value(7), 3, 0) == -EINVAL
    assert m.lookup_elem(key(1))[:8] == value(7)
    assert (m.delete(key(1)), m.delete(key(1)), m.lookup(key(1), 0)) == (0, -ENOENT, 0)


@pytest.mark.parametrize("kind", HASHES[:2], ids=lambda kind: kind.name)
def test_a_full_hash(kind):
    """Takes no new key, but new values of those it has."""
    _, m = machine(kind)
    assert [m.update(key(n), value(n), ANY, 0) for n in range(5)] == [0, 0, 0, -E2BIG, -E2BIG]
    assert m.update(key(1), value(9), ANY, 0) == 0
    assert m.delete(key(0)) == 0
    assert m.update(key(4), value(4), ANY, 0) == 0


@pytest.mark.parametrize("kind", HASHES[2:], ids=lambda kind: kind.name)
def test_a_full_lru_table_gives_up_what_was_not_used(kind):
    """Looking up is use."""
    _, m = machine(kind)
    for n in range(3):
        m.update(key(n), value(n), ANY, 0)
    m.lookup(key(0), 0)
    assert m.update(key(3), value(3), ANY, 0) == 0
    assert sorted(m.entries()) == [key(0), key(2), key(3)]


def test_per_cpu_values_are_the_processors_own():
    """A new key begins with zeros on the others; user space sees all of them, padded to 8 bytes."""
    vm, m = machine(MapType.PERCPU_HASH, value=U32)
    m.update(key(1), (5).to_bytes(4, "little"), ANY, 2)
    assert m.entries() == {key(1): value(0) + value(0) + value(5)}
    assert vm.memory.read(m.lookup(key(1), 2), 4) == key(5)
    assert m.write(key(1), value(1) + value(2) + value(3)) == 0
    assert vm.memory.read(m.lookup(key(1), 1), 4) == key(2)


@pytest.mark.parametrize("kind", [MapType.ARRAY, MapType.PERCPU_ARRAY], ids=lambda kind: kind.name)
def test_arrays(kind):
    """Every index exists and none can be removed or added."""
    _, m = machine(kind)
    assert m.lookup(key(3), 0) == 0
    assert m.update(key(3), value(1), ANY, 0) == -E2BIG
    assert m.update(key(2), value(1), NOEXIST, 0) == -EEXIST
    assert m.update(key(2), value(1), EXIST, 0) == 0
    assert m.delete(key(2)) == -EINVAL
    assert [each[:8] for each in m.entries().values()] == [value(0), value(0), value(1)]


def test_a_pointer_to_a_removed_entry():
    """Sees what the next new entry is, as in the kernel's preallocated tables."""
    vm, m = machine(MapType.HASH)
    m.update(key(1), value(1), ANY, 0)
    pointer = m.lookup(key(1), 0)
    m.delete(key(1))
    m.update(key(2), value(7), ANY, 0)
    assert vm.memory.read(pointer, 8) == value(7)


def test_tries_match_the_longest_prefix():
    """Up to the length that is asked for; a full trie has no space."""
    _, m = machine(MapType.LPM_TRIE, key=U64, flags=1)

    def prefix(length, *octets):
        return key(length) + bytes(octets).ljust(4, b"\0")

    assert m.update(prefix(8, 10), value(1), ANY, 0) == 0
    assert m.update(prefix(16, 10, 1), value(2), ANY, 0) == 0
    assert m.update(prefix(33, 1), value(2), ANY, 0) == -EINVAL
    assert m.update(prefix(0), value(3), ANY, 0) == 0
    assert m.update(prefix(9, 9), value(3), ANY, 0) == -ENOSPC
    found = [m.lookup_elem(prefix(32, *octets)) for octets in ((10, 1, 2, 3), (10, 2, 0, 1), (9, 9, 9, 9))]
    assert found == [value(2), value(1), value(3)]
    assert m.lookup_elem(prefix(12, 10, 1)) == value(1)
    assert (m.delete(prefix(12, 10)), m.delete(prefix(8, 10, 77))) == (-ENOENT, 0)


@pytest.mark.parametrize(("kind", "order"), [(MapType.QUEUE, [1, 2]), (MapType.STACK, [3, 2])], ids=["queue", "stack"])
def test_queues_and_stacks(kind, order):
    """A full one takes no more, or with EXIST gives up the oldest."""
    _, m = machine(kind, key=None)
    assert [m.push(value(n), ANY) for n in range(1, 5)] == [0, 0, 0, -E2BIG]
    assert m.push(value(1), NOEXIST) == -EINVAL
    assert [m.take(remove=True) for _ in order] == [value(n) for n in order]
    assert m.push(value(8), ANY) == m.push(value(9), ANY) == m.push(value(10), EXIST) == 0
    assert m.take(remove=False) == (value(8) if kind is MapType.QUEUE else value(10))


def test_ring_buffers_fill_up_as_the_kernels():
    """4096 bytes hold 4096 - 8 bytes of records with their headers, until they are read."""
    _, m = machine(MapType.RINGBUF, key=None, value=None, size=4096)
    records = [m.reserve(24) for _ in range(128)]
    for record in records:
        if record is not None:
            m.finish(record, keep=True)
    assert sum(record is not None for record in records) == 127
    assert len(m.poll()) == 127
    assert m.reserve(4088 + 1) is None
    assert m.reserve(4080) is not None


def test_records_come_in_the_order_of_their_reservation():
    """One that is not submitted holds up those behind it; a discarded one is passed over."""
    _, m = machine(MapType.RINGBUF, key=None, value=None, size=4096)
    first, second, third = (m.reserve(8) for _ in range(3))
    second.data[:] = value(2)
    m.finish(second, keep=True)
    assert (m.poll(), m.events) == ([], [value(2)])
    m.finish(first, keep=False)
    assert m.poll() == [value(2)]
    m.finish(third, keep=True)
    assert m.poll() == [value(0)]


def output(flags):
    """A program that sends 8 bytes to the perf event array `m`."""
    data = [st(8, R10, -8, 7), load_map(R2, "m"), mov64(R3, flags), mov64(R4, R10), add64(R4, -8)]
    from pyebpf.asm.build import R5

    return [*data, mov64(R5, 8), call(HELPER_IDS["perf_event_output"]), exit_()]


def test_perf_event_arrays():
    """The current processor's event only."""
    vm, m = machine(MapType.PERF_EVENT_ARRAY, key=None, value=None, size=0)
    vm.cpu = 1
    results = [vm.run(output(flags), b"").value for flags in (-1 & 0x7FFF_FFFF, 1, 2, 3)]
    assert [value - (1 << 64) if value >> 63 else value for value in results] == [-E2BIG, 0, -EOPNOTSUPP, -E2BIG]
    assert m.events == [(1, value(7))]


def test_every_kind_of_the_specs_has_an_emulation():
    """Also those that only user space looks into."""
    assert {kind.name for kind in MapType if kind and kind not in CLASSES} == set()


def test_maps_of_maps():
    """Looking up gives the inner map, which helpers take."""
    vm, outer = machine(MapType.HASH_OF_MAPS)
    inner = vm.add_map(MapSpec("inner", MapType.ARRAY, U32, U64, 1))
    outer.inner[key(5)] = inner
    program = [st(4, R10, -4, 5), mov64(R2, R10), add64(R2, -4), load_map(R1, "m"), call(1), mov64(R1, R0)]
    program += [st(4, R10, -4, 0), mov64(R2, R10), add64(R2, -4), call(1), exit_()]
    assert vm.run(program).value == inner.lookup(key(0), 0)


def test_the_wrong_kind_is_refused():
    """As the verifier says it."""
    ring = MapSpec("m", MapType.RINGBUF, None, None, 4096)
    with pytest.raises(VmError, match="cannot pass map_type 27 into func bpf_map_lookup_elem"):
        run([st(4, R10, -4, 0), mov64(R2, R10), add64(R2, -4), load_map(R1, "m"), call(1), exit_()], maps=[ring])


def test_stacks_are_numbered():
    """Equal stacks have one number; no stack is -EFAULT."""
    vm, m = machine(MapType.STACK_TRACE, value=ArrayType(U64, 127), size=2)
    program = [load_map(R2, "m"), mov64(R3, 1), call(HELPER_IDS["get_stackid"]), exit_()]
    numbers = []
    for frames in ((1, 2, 3), (9, 4), (7, 2, 3), ()):
        vm.kernel_stack = frames
        numbers.append(vm.run(program, b"", program_type=ProgramType.PERF_EVENT).value)
    assert numbers == [0, 1, 0, (1 << 64) - 14]
    assert m.lookup_elem(key(0))[:24] == value(2) + value(3) + value(0)


def test_control_groups_are_asked_by_index():
    """Whether the machine's own is there; empty and outside are errors."""
    vm, groups = machine(MapType.CGROUP_ARRAY)
    groups.groups.update({0: 5, 1: 6})
    vm.cgroup_id = 6
    programs = [parse(f"r1 = map[m]\nr2 = {n}\ncall bpf_current_task_under_cgroup\nexit") for n in range(4)]
    assert [vm.run(each).value for each in programs] == [0, 1, -11 % (1 << 64), -7 % (1 << 64)]


def test_each_processor_has_its_value_of_a_group():
    """BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE."""
    vm, _ = machine(MapType.PERCPU_CGROUP_STORAGE, key=None, size=0)
    program = parse(
        "r1 = map[m]\nr2 = 0\ncall bpf_get_local_storage\nr1 = 1\nlock *(u64 *)(r0 + 0) += r1\n"
        "r0 = *(u64 *)(r0 + 0)\nexit"
    )
    results = []
    for cpu in (0, 1, 0):
        vm.cpu = cpu
        results.append(vm.run(program).value)
    assert results == [1, 1, 2]
