"""Ring and perf buffers, written by programs and read by the readers."""

from __future__ import annotations

import asyncio
import select
import time
from threading import Thread

import pytest

from pyebpf.asm import Instruction, build, layout
from pyebpf.asm.build import R0, R1, R2, R3, R4, R10
from pyebpf.errors import InvalidValue, MalformedData, NotLoaded
from pyebpf.events import PerfBuffer, RingBuffer, UserRingBuffer
from pyebpf.kernel.cpus import online_cpus
from pyebpf.objects import KernelMap, Map, Program
from pyebpf.specs import Code, FunctionStart, MapSpec, ProgramSpec
from pyebpf.types import U32, U64, Struct, char, field, u32, u64
from pyebpf.uapi.bpf import MapType, ProgramType
from tests.support import emitters
from tests.support.emitters import call, end, numbered
from tests.support.needs import needs
from tests.support.processors import one_processor

SIZE = 1 << 16
NO_WAKEUP = 1


class Drop(Struct):
    at: u64
    limit: u32


class Named(Struct):
    at: u64
    name: str = field(char[16])


def emitter(length: int, flags: int = 0, *, discard: bool = False) -> tuple[Instruction, ...]:
    """The n-th run writes a record whose first eight bytes are n, the others 0x41 0 …; or one is discarded."""
    if discard:
        write = [
            build.mov64(R2, length), build.mov64(R3, 0), call("ringbuf_reserve"), build.jump_if("jeq", R0, 0, "end"),
            build.mov64(R1, R0), build.mov64(R2, flags), call("ringbuf_discard"),
        ]  # fmt: skip
    else:
        write = [
            build.mov64(R2, R10), build.add64(R2, -40), build.mov64(R3, length), build.mov64(R4, flags),
            call("ringbuf_output"),
        ]  # fmt: skip
    return layout([*numbered(), build.load_map(R1, "ring"), *write, *end()])


class Rig:
    """A ring buffer and programs that write to it."""

    def __init__(self, size: int = SIZE) -> None:
        self.ring = Map(MapSpec("ring", MapType.RINGBUF, None, None, size))
        self.serial = Map(MapSpec("serial", MapType.ARRAY, U32, U64, 1))
        self.programs: list[Program] = []

    def program(self, length: int, flags: int = 0, *, discard: bool = False) -> Program:
        code = Code(emitter(length, flags, discard=discard), (FunctionStart("emit", 0),))
        spec = ProgramSpec("emit", ProgramType.SOCKET_FILTER, code)
        self.programs.append(Program(spec, {"ring": self.ring, "serial": self.serial}))
        return self.programs[-1]

    def close(self) -> None:
        for each in (*self.programs, self.serial, self.ring):
            each.close()


def run(program: Program, times: int) -> None:
    program.test_run(data=bytes(64), repeat=times)


@pytest.fixture
def rig():
    made = Rig()
    yield made
    made.close()


def test_records_come_decoded_and_in_order(rig):
    """1,009 records of sixteen bytes, each with its serial number."""
    emit = rig.program(16)
    with RingBuffer(rig.ring, Drop.layout) as events:
        run(emit, 1009)
        got = events.poll(0)
        assert [event.at for event in got] == list(range(1009))
        assert {type(event) for event in got} == {Drop}
        assert {event.limit for event in got} == {0x41}
        assert events.poll(0) == []


def test_a_struct_class_is_a_type(rig):
    """As `bpf.ringbuf` takes it."""
    emit = rig.program(16)
    with RingBuffer(rig.ring, Drop) as events:
        run(emit, 23)
        got = events.poll(0)
        assert ([event.at for event in got], {type(event) for event in got}) == (list(range(23)), {Drop})


@pytest.mark.parametrize(
    ("reader", "kind", "size"),
    [
        (RingBuffer, MapType.RINGBUF, SIZE),
        (PerfBuffer, MapType.PERF_EVENT_ARRAY, 0),
        (UserRingBuffer, MapType.USER_RINGBUF, SIZE),
    ],
)
def test_each_buffer_takes_classes_and_types_and_nothing_else(reader, kind, size):
    """What is no type is refused by the argument's name."""
    needs(f"map:{kind.name.lower()}")
    with KernelMap(MapSpec("records", kind, None, None, size)) as ring:
        with pytest.raises(InvalidValue, match=r"^record=<class 'int'> is not a BPF type: give a Struct class, an int"):
            reader(ring, int)
        for record in (Drop, Drop.layout, u64, None):
            reader(ring, record).close()


def test_records_hold_strings(rig):
    """To the first NUL."""
    emit = rig.program(24)
    with RingBuffer(rig.ring, Named.layout) as events:
        run(emit, 2)
        assert events.poll(0) == [Named(at=0, name="A"), Named(at=1, name="A")]


def test_nothing_is_lost_over_many_rounds_of_the_buffer(rig):
    """The buffer goes round a hundred times; every record comes once, across its end too."""
    emit = rig.program(16)
    with RingBuffer(rig.ring, Drop.layout) as events:
        got = []
        for _ in range(100):
            run(emit, 2003)
            got += [event.at for event in events.poll(0)]
        assert got == list(range(200_300))


def test_without_a_type_records_are_bytes_of_any_length(rig):
    """Three lengths one after the other."""
    programs = [rig.program(length) for length in (8, 13, 24)]
    with RingBuffer(rig.ring) as events:
        for _ in range(5):
            for emit in programs:
                run(emit, 1)
        got = events.poll(0)
        assert [len(record) for record in got] == [8, 13, 24] * 5
        assert [int.from_bytes(record[:8], "little") for record in got] == list(range(15))


def test_tuples_are_the_fast_way(rig):
    """What struct unpacks, no field names."""
    emit = rig.program(16)
    with RingBuffer(rig.ring, Drop.layout) as events:
        run(emit, 3)
        assert events.tuples() == [(0, 0x41), (1, 0x41), (2, 0x41)]


def test_discarded_records_are_passed_over(rig):
    """Between those that were submitted."""
    emit, discard = rig.program(16), rig.program(16, discard=True)
    with RingBuffer(rig.ring, Drop.layout) as events:
        for _ in range(7):
            run(emit, 2)
            run(discard, 3)
        assert [event.at for event in events.poll(0)] == [n for n in range(35) if n % 5 < 2]
        assert events.unread == 0


def test_a_full_buffer_keeps_its_first_records(rig):
    """Nothing is overwritten; the room that is given back is used again."""
    emit = rig.program(16)
    with RingBuffer(rig.ring, Drop.layout) as events:
        run(emit, 10_007)
        first = [event.at for event in events.poll(0)]
        assert first == list(range(len(first)))
        assert SIZE // 24 - 1 <= len(first) <= SIZE // 24
        run(emit, 11)
        assert [event.at for event in events.poll(0)] == list(range(10_007, 10_018))


def test_a_record_of_another_size_is_an_error_once(rig):
    """Told in its turn: the records before it are given first, those after it later."""
    emit, other = rig.program(16), rig.program(8)
    with RingBuffer(rig.ring, Drop.layout) as events:
        run(emit, 2)
        run(other, 1)
        run(emit, 2)
        assert [event.at for event in events.poll(0)] == [0, 1]
        with pytest.raises(MalformedData, match="a record of 8 bytes"):
            events.poll(0)
        assert [event.at for event in events.poll(0)] == [3, 4]


def test_poll_waits_for_the_first_record(rig):
    """Another thread writes while it waits."""
    emit = rig.program(16)
    with RingBuffer(rig.ring, Drop.layout) as events:
        assert events.poll(0.01) == []
        writer = Thread(target=lambda: (time.sleep(0.05), run(emit, 1)))
        writer.start()
        got = events.poll(30)
        writer.join()
        assert len(got) == 1


def test_a_record_that_wakes_nobody_is_found_all_the_same(rig):
    """BPF_RB_NO_WAKEUP: the reader looks at the memory itself every now and then."""
    emit = rig.program(16, NO_WAKEUP)
    with RingBuffer(rig.ring, Drop.layout) as events:
        writer = Thread(target=lambda: (time.sleep(0.05), run(emit, 1)))
        writer.start()
        got = events.poll(30)
        writer.join()
        assert len(got) == 1


def test_iterating_ends_with_close(rig):
    """`for` blocks until there is more, and ends when the reader is closed."""
    emit = rig.program(16)
    events = RingBuffer(rig.ring, Drop.layout)
    run(emit, 5)
    got = []
    for event in events:
        got.append(event.at)
        if event.at == 4:
            events.close()
    assert got == [0, 1, 2, 3, 4]


def test_leaving_a_loop_loses_nothing(rig):
    """What was read and not given out is given by the next call."""
    emit = rig.program(16)
    with RingBuffer(rig.ring, Drop.layout) as events:
        run(emit, 10)
        for event in events:
            if event.at == 3:
                break
        for event in events:
            if event.at == 6:
                break
        assert [event.at for event in events.poll(0)] == [7, 8, 9]


def test_asynchronous_iteration(rig):
    """Beside another task, in asyncio's own loop."""
    emit = rig.program(16)

    async def collect() -> list[int]:
        got = []
        with RingBuffer(rig.ring, Drop.layout) as events:

            async def write() -> None:
                for _ in range(4):
                    await asyncio.sleep(0.01)
                    run(emit, 25)

            writing = asyncio.create_task(write())
            async for event in events:
                got.append(event.at)
                if len(got) == 100:
                    break
            await writing
        return got

    assert asyncio.run(collect()) == list(range(100))


def test_the_descriptor_is_readable_when_records_are_there(rig):
    """For loops of others."""
    emit = rig.program(16)
    with RingBuffer(rig.ring, Drop.layout) as events:
        assert select.select([events], [], [], 0)[0] == []
        run(emit, 1)
        assert select.select([events], [], [], 10)[0] == [events]
        events.poll(0)
        assert select.select([events], [], [], 0)[0] == []


def test_threads_share_a_reader_without_doubles_or_gaps(rig):
    """Each record goes to one of three threads."""
    emit = rig.program(16)
    with RingBuffer(rig.ring, Drop.layout) as events:
        got: list[list[int]] = [[], [], []]

        def read(mine: list[int]) -> None:
            while sum(map(len, got)) < 5003:
                mine += [event.at for event in events.poll(0.01)]

        readers = [Thread(target=read, args=(mine,)) for mine in got]
        for reader in readers:
            reader.start()
        written = 0
        while written < 5003:
            count = min(500, 5003 - written)
            run(emit, count)
            written += count
            while events.unread > SIZE // 2:
                time.sleep(0.001)
        for reader in readers:
            reader.join()
        assert sorted(number for mine in got for number in mine) == list(range(5003))


def test_a_closed_reader_says_so(rig):
    """NotLoaded."""
    events = RingBuffer(rig.ring, Drop.layout)
    events.close()
    events.close()
    with pytest.raises(NotLoaded, match="ring"):
        events.poll(0)
    with pytest.raises(NotLoaded, match="ring"):
        next(iter(events))


def test_only_ring_buffers_are_read_so(rig):
    """The message names the kind."""
    with pytest.raises(InvalidValue, match="ARRAY"):
        RingBuffer(rig.serial, Drop.layout)
    with pytest.raises(InvalidValue, match="ARRAY"):
        PerfBuffer(rig.serial, Drop.layout)


@pytest.fixture
def perf_rig():
    with emitters.perf_rig() as rig:
        yield rig


def test_perf_buffers_give_each_record_once(perf_rig):
    """101 records from whatever processors the test runs on."""
    array, program = perf_rig
    with PerfBuffer(array, Drop.layout) as events:
        for _ in range(101):
            program.test_run()
        got = events.poll(10)
        assert sorted(event.at for event in got) == list(range(101))
        assert {event.limit for event in got} == {0x41}
        assert events.lost == 0
        assert set(events.lost_per_cpu) == set(online_cpus())


def test_perf_buffers_count_what_found_no_room(perf_rig):
    """Read and lost together are all that was sent.

    The kernel tells of losses with the processor's next record: all of them come from one processor here.
    """
    array, program = perf_rig
    with one_processor(), PerfBuffer(array, Drop.layout, pages=1) as events:
        for _ in range(1009):
            program.test_run()
        first = events.poll(0)
        for _ in range(64):
            program.test_run()
        read = len(first) + len(events.poll(0))
        assert events.lost > 0
        assert read + events.lost == 1009 + 64


def test_perf_buffers_go_round(perf_rig):
    """Records across the end of the memory."""
    array, program = perf_rig
    with PerfBuffer(array, Drop.layout, pages=1) as events:
        got = []
        for _ in range(40):
            for _ in range(31):
                program.test_run()
            got += [event.at for event in events.poll(0)]
        assert sorted(got) == list(range(40 * 31))
        assert events.lost == 0


def test_perf_buffers_are_a_power_of_two_of_pages(perf_rig):
    """The kernel takes no other."""
    with pytest.raises(InvalidValue, match="power of two"):
        PerfBuffer(perf_rig[0], pages=3)
