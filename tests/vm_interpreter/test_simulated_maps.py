"""Maps of every kind in a simulation: Python reads and writes them as if they were the kernel's."""

from __future__ import annotations

import pytest

from pyebpf import BPF, KernelObject, Struct, u32, u64
from pyebpf.errors import InvalidValue, KernelError, NotLoaded
from pyebpf.testing import Simulation
from tests.dsl.fake_target import FakeTarget

OPENAT = "syscalls:sys_enter_openat"


class Pair(Struct):
    """Two numbers."""

    a: u32
    b: u32


@pytest.fixture
def bpf():
    return BPF()


@pytest.mark.parametrize(("kind", "order"), [("queue", [3, 5, 7]), ("stack", [7, 5, 3])])
def test_queues_and_stacks(bpf, kind, order):
    """Both sides push; a full one refuses, or gives up its oldest value."""
    values = getattr(bpf, kind)(u32, size=3)

    @bpf.tracepoint(OPENAT)
    def on_open(dfd: int) -> None:
        values.push(dfd)

    with Simulation(bpf, FakeTarget()) as kernel:
        assert (values.pop(), values.peek(), values.drain()) == (None, None, [])
        kernel.tracepoint(OPENAT, dfd=3)
        values.push(5)
        kernel.tracepoint(OPENAT, dfd=7)
        assert values.peek() == order[0]
        with pytest.raises(KernelError, match="it is full: it holds 3 entries"):
            values.push(9)
        kernel.tracepoint(OPENAT, dfd=9)
        assert list(bpf.dropped.values()) == [1]
        assert [values.pop(), *values.drain()] == order
        for number in range(4):
            values.push(number, make_room=True)
        assert sorted(values.drain()) == [1, 2, 3]
    with pytest.raises(NotLoaded):
        values.pop()


def test_bloom_filters(bpf):
    """What either side added is there."""
    known = bpf.bloom_filter(u32)

    @bpf.tracepoint(OPENAT)
    def on_open(dfd: int) -> None:
        known.add(dfd)

    with Simulation(bpf, FakeTarget()) as kernel:
        kernel.tracepoint(OPENAT, dfd=3)
        known.add(5)
        assert (3 in known, 5 in known, 7 in known) == (True, True, False)


def test_maps_of_maps(bpf):
    """A map that user space made is found by programs; the same one is opened again."""
    shape = bpf.hash(key=u32, value=u64, name="shape")
    other = bpf.hash(key=u64, value=u64, name="other")
    outer = bpf.array_of_maps(shape, size=2)

    @bpf.tracepoint(OPENAT)
    def on_open(dfd: int) -> None:
        found = outer.get(1)
        if found is not None:
            found[dfd] += 1
        shape[0] = 1
        other[0] = 1

    with Simulation(bpf, FakeTarget()) as kernel:
        kernel.tracepoint(OPENAT, dfd=3)
        inner = outer.make()
        outer[1] = inner
        for dfd in (3, 5, 3):
            kernel.tracepoint(OPENAT, dfd=dfd)
        assert dict(inner) == dict(outer[1]) == {3: 2, 5: 1}
        assert list(outer.ids()) == [1]
        outer[0] = shape
        assert outer[0][0] == 1
        with pytest.raises(InvalidValue, match="holds maps like shape, not other"):
            outer[0] = other
        with pytest.raises(InvalidValue, match="has indices 0 to 1, not 2"):
            outer[2] = inner
        with pytest.raises(InvalidValue, match=r"holds maps: \.ids"):
            outer.items()
        del outer[1]
        assert outer.get(1) is None
        with pytest.raises(KeyError):
            del outer[1]


def test_program_arrays(bpf):
    """What is put in is tail-called; what is read back is a number that stands for it."""
    steps = bpf.program_array(size=3)
    seen = bpf.array(value=u64, size=2)

    @bpf.tracepoint(OPENAT)
    def on_open(dfd: int) -> None:
        steps.tail_call(dfd)
        seen[0] += 1

    @steps.entry(1, like=on_open)
    def second() -> None:
        seen[1] += 1

    with Simulation(bpf, FakeTarget()) as kernel:
        for dfd in (0, 1, 2):
            kernel.tracepoint(OPENAT, dfd=dfd)
        assert list(seen.values()) == [2, 1]
        assert (list(steps), len(steps)) == ([1], 1)
        program = next(each for name, each in kernel.programs.items() if name.startswith("second@"))
        steps[2] = program
        assert steps[2] == steps[1]
        kernel.tracepoint(OPENAT, dfd=2)
        del steps[1]
        kernel.tracepoint(OPENAT, dfd=1)
        assert list(seen.values()) == [3, 2]
        with pytest.raises(InvalidValue, match="has indices 0 to 2, not 3"):
            steps[3] = program


def test_storage_of_kernel_objects(bpf):
    """Keys are the addresses that the simulation gives."""
    counts = bpf.sk_storage(value=u64)

    @bpf.btf_tracepoint("tcp_a")
    def on_tcp(sk: KernelObject) -> None:
        counts[sk] += 2

    with Simulation(bpf, FakeTarget()) as kernel:
        sock, other = (kernel.object("struct sock", sk_family=family) for family in (2, 10))
        kernel.raw_tracepoint("tcp_a", sk=sock)
        assert (counts[sock], counts.get(other), other in counts) == (2, None, False)
        counts[other] = 5
        kernel.raw_tracepoint("tcp_a", sk=other)
        assert (counts[other], counts.pop(sock)) == (7, 2)
        del counts[other]
        with pytest.raises(KeyError):
            counts[other]


def test_user_ring_buffers(bpf):
    """Records that find no room wait for a program to drain the buffer."""
    requests = bpf.user_ringbuf(Pair, size=4096)
    sums = bpf.array(value=u64)

    def take(pair: Pair) -> None:
        sums[0] += pair.a + pair.b

    @bpf.tracepoint(OPENAT)
    def on_open() -> None:
        requests.drain(take)

    with Simulation(bpf, FakeTarget()) as kernel:
        sent = 0
        while requests.send(Pair(sent, 1)):
            sent += 1
        assert sent == 4096 // 16
        assert requests.waiting == 4096
        kernel.tracepoint(OPENAT)
        assert (sums[0], requests.waiting) == (sum(range(sent)) + sent, 0)


def test_a_simulated_map_has_no_descriptor_and_no_memory_here(bpf):
    """Both say so."""
    cells = bpf.array(value=u64, mappable=True, name="cells")

    @bpf.tracepoint(OPENAT)
    def on_open() -> None:
        cells[0] += 1

    with Simulation(bpf, FakeTarget()):
        with pytest.raises(NotLoaded, match="map cells is simulated: it has no descriptor"):
            cells.fileno()
        with pytest.raises(NotLoaded, match="map cells is simulated: it has no memory in this process"):
            cells.window()


@pytest.mark.parametrize("page_size", [4096, 16384])
def test_arenas(bpf, page_size):
    """All pages are there, however large the target's are; Python and programs see each other's changes."""
    shared = bpf.arena(pages=3)

    @bpf.tracepoint(OPENAT)
    def on_open(dfd: int) -> None:
        if 0 <= dfd < 3 * page_size // 8:
            pair = shared.at(dfd * 8, Pair)
            pair.b += pair.a + 1

    with pytest.raises(NotLoaded):
        bytes(shared.memory)
    with Simulation(bpf, FakeTarget(page_size=page_size)) as kernel:
        last = 3 * page_size // 8 - 1
        shared.write(8 * last, Pair(5, 7))
        for dfd in (last, 0, last, last + 1):
            kernel.tracepoint(OPENAT, dfd=dfd)
        assert (shared.read(8 * last, Pair), shared.read(0, Pair)) == (Pair(5, 19), Pair(0, 1))
        assert len(shared.memory) == 3 * page_size
        with pytest.raises(InvalidValue, match="lie outside the arena"):
            shared.read(8 * last + 1, Pair)
