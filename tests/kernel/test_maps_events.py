"""Perf buffers that overwrite, losses by processor, and records from user space to programs."""

from __future__ import annotations

import threading
from itertools import islice, pairwise

import pytest

from pyebpf.asm import Label, build, layout
from pyebpf.asm.build import R0, R1, R2, R3, R4, R5, R6, R10
from pyebpf.errors import InvalidValue, MalformedData, NotLoaded
from pyebpf.events import PerfBuffer, UserRingBuffer
from pyebpf.kernel.cpus import online_cpus
from pyebpf.objects import Map, Program, make_map
from pyebpf.specs import Code, FunctionStart, MapSpec, ProgramSpec
from pyebpf.types import U32, U64, Struct, u32, u64
from pyebpf.uapi.bpf import MapType, ProgramType
from tests.support import emitters
from tests.support.emitters import call, perf_program
from tests.support.needs import needs
from tests.support.processors import one_processor


class Drop(Struct):
    at: u64
    limit: u32


@pytest.fixture
def perf_rig():
    with emitters.perf_rig() as rig:
        yield rig


def test_an_overwriting_buffer_keeps_the_newest(perf_rig):
    """The last record is always there, what was overwritten is counted, and nothing comes twice."""
    array, program = perf_rig
    with PerfBuffer(array, Drop.layout, pages=1, overwrite=True) as events:
        for _ in range(3001):
            program.test_run()
        first = events.poll(0)
        assert events.lost > 0
        assert len(first) + events.lost == 3001
        numbers = [event.at for event in first]
        assert max(numbers) == 3000
        assert len(set(numbers)) == len(numbers)
        assert {event.limit for event in first} == {0x41}
        assert events.poll(0) == []
        lost = events.lost
        for _ in range(17):
            program.test_run()
        assert sorted(event.at for event in events.poll(0)) == list(range(3001, 3018))
        assert events.lost == lost


def test_an_overwriting_buffer_is_in_order_on_each_processor(perf_rig):
    """The oldest first, round after round."""
    array, program = perf_rig
    with PerfBuffer(array, Drop.layout, pages=1, overwrite=True) as events:
        for _ in range(13):
            for _ in range(211):
                program.test_run()
            numbers = [event.at for event in events.poll(0)]
            # As many rising runs as there are processors, at the most.
            falls = sum(one > other for one, other in pairwise(numbers))
            assert falls < len(online_cpus())


def test_losses_are_told_by_processor(perf_rig):
    """The sum over processors is what all lost."""
    array, program = perf_rig
    with PerfBuffer(array, Drop.layout, pages=1, overwrite=True) as events:
        for _ in range(1009):
            program.test_run()
        events.poll(0)
        assert sum(events.lost_per_cpu.values()) == events.lost > 0
        assert set(events.lost_per_cpu) == set(online_cpus())


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("overwrite", [True, False])
def test_loops_and_polls_share_what_a_large_buffer_holds(perf_rig, overwrite, typed):
    """More records than are copied or decoded at a time: each once, in order, whichever way is read."""
    array, program = perf_rig
    typed_as = Drop.layout if typed else None
    with one_processor(), PerfBuffer(array, typed_as, pages=256, overwrite=overwrite) as events:

        def number(event) -> int:
            return event.at if typed else int.from_bytes(event[:8], "little")

        for _ in range(9001):
            program.test_run()
        got = [number(event) for event in islice(events, 301)]
        program.test_run()
        got += map(number, events.poll(0))
        for _ in range(4999):
            program.test_run()
        got += [number(event) for event in islice(events, 4999)]
        assert events.poll(0) == []
        assert events.lost == 0
    assert got == list(range(9001 + 1 + 4999))


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_record_that_is_too_short_takes_no_others_with_it(perf_rig, overwrite):
    """The next call gives all the others, in order."""
    array, program = perf_rig
    with (
        one_processor(),
        perf_program(array, program.maps["serial"], 4, "emit_less") as short,
        PerfBuffer(array, Drop.layout, pages=16, overwrite=overwrite) as events,
    ):
        for number in range(13):
            (short if number == 7 else program).test_run()
        with pytest.raises(MalformedData, match=r"a record of 4 bytes, .*Drop has 16"):
            events.poll(0)
        program.test_run()
        assert [event.at for event in events.poll(0)] == [*range(7), *range(8, 14)]


def test_a_loop_passes_over_what_has_no_record(perf_rig):
    """Records that are too short are an error once; the next round has what came after, without a wait."""
    array, program = perf_rig
    with (
        one_processor(),
        perf_program(array, program.maps["serial"], 4, "emit_less") as short,
        PerfBuffer(array, Drop.layout, pages=16) as events,
    ):
        short.test_run()
        with pytest.raises(MalformedData, match="a record of 4 bytes"):
            next(iter(events))
        program.test_run()
        assert events._refill()
        assert next(iter(events)).at == 1


# --- user ring buffers ---


def drainer():
    """A run drains the buffer: each record's first eight bytes are added up, and records counted.

    r0 is what the helper returned.
    """
    main = layout([
        build.load_map(R1, "ring"), build.load_function(R2, "taken"), build.mov64(R3, 0), build.mov64(R4, 0),
        call("user_ringbuf_drain"), build.exit_(),
    ])  # fmt: skip
    callback = layout([
        build.mov64(R6, R1), build.st(8, R10, -16, 0),
        build.mov64(R1, R10), build.add64(R1, -16), build.mov64(R2, 8), build.mov64(R3, R6), build.mov64(R4, 0),
        build.mov64(R5, 0), call("dynptr_read"),
        build.st(4, R10, -4, 0), build.load_map(R1, "sums"), build.mov64(R2, R10), build.add64(R2, -4),
        call("map_lookup_elem"), build.jump_if("jeq", R0, 0, "end"),
        build.ldx(8, R1, R10, -16), build.atomic("add", 8, R0, 0, R1),
        build.mov64(R1, 1), build.atomic("add", 8, R0, 8, R1),
        Label("end"), build.mov64(R0, 0), build.exit_(),
    ])  # fmt: skip
    return Code((*main, *callback), (FunctionStart("drain", 0), FunctionStart("taken", len(main))))


class Sums(Struct):
    total: u64
    count: u64


@pytest.fixture
def user_rig():
    needs("map:user_ringbuf")
    ring = make_map(MapSpec("ring", MapType.USER_RINGBUF, None, None, 4096))
    sums = Map(MapSpec("sums", MapType.ARRAY, U32, Sums.layout, 1))
    program = Program(ProgramSpec("drain", ProgramType.RAW_TRACEPOINT, drainer()), {"ring": ring, "sums": sums})
    yield ring, sums, program
    for each in (program, sums, ring):
        each.close()


def test_a_program_takes_every_record_once(user_rig):
    """1,009 records through a page, across its end many times."""
    ring, sums, program = user_rig
    with UserRingBuffer(ring, Drop.layout) as writer:
        for number in range(1009):
            while not writer.send(Drop(number, 1)):
                assert program.test_run().retval == ring.max_entries // 24
                assert writer.wait(10)
        program.test_run()
        assert writer.waiting == 0
        assert sums[0] == Sums(sum(range(1009)), 1009)


def test_a_full_buffer_says_so(user_rig):
    """What fits is known: a header of 8 bytes each, rounded up to 8."""
    ring, sums, program = user_rig
    size = ring.max_entries  # a page: 4,096 bytes, or 4 or 16 times as many
    fit = size // 24
    with UserRingBuffer(ring) as writer:
        assert [writer.send(bytes(12)) for _ in range(fit + 1)] == [True] * fit + [False]
        assert writer.waiting == fit * 24
        assert writer.wait(0)
        assert writer.send(bytes(8))
        assert not writer.wait(0)
        assert not writer.send(b"")
        assert program.test_run().retval == fit + 1
        assert writer.waiting == 0
        assert sums[0].count == fit + 1
        with pytest.raises(InvalidValue, match=f"{size - 8} at the most"):
            writer.send(bytes(size - 7))
        assert writer.send(bytes(size - 8))
    with pytest.raises(NotLoaded):
        writer.send(b"")


def test_threads_share_a_writer(user_rig):
    """Four threads, 101 records each, drained meanwhile."""
    ring, sums, program = user_rig
    with UserRingBuffer(ring, U64) as writer:

        def send(start: int) -> None:
            for number in range(start, start + 101):
                while not writer.send(number):
                    writer.wait(0.01)

        threads = [threading.Thread(target=send, args=(start,)) for start in range(0, 404, 101)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            program.test_run()
        program.test_run()
        assert sums[0] == Sums(sum(range(404)), 404)


def test_only_user_ring_buffers_are_written_so():
    """The kind is in the message."""
    with (
        make_map(MapSpec("ring", MapType.RINGBUF, None, None, 4096)) as ring,
        pytest.raises(InvalidValue, match="RINGBUF"),
    ):
        UserRingBuffer(ring)
