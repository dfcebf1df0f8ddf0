"""Call stacks by number: the call, what is kept under which number, the drops, the frames read back."""

from __future__ import annotations

from typing import Any

import pytest

from pyebpf.builder.drop_counters import DROPS_MAP
from pyebpf.builder.intrinsics.stacks import CLASSES, FULL, MISSED, NO_MEMORY, kstack, ustack
from pyebpf.builder.loops import ZERO_MAP
from pyebpf.compiler.checker import check_module
from pyebpf.compiler.evaluator import MapHandle, Pointer, Region
from pyebpf.errors import CompileError, InvalidValue, OnlyInProbe
from pyebpf.maps.stack_trace import StackTraceMap
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.flags import BPF_F_USER_STACK
from tests.builder.harness import Everything, Nothing, Probe

WORDS: dict[str, Any] = {"kstack": kstack, "ustack": ustack}
SHALLOW, DEEP = CLASSES
SCRATCH = ".stack"


class Newest(Everything):
    pid_namespace = None


class Oldest(Nothing):
    pid_namespace = None


#: The status of a map's operation: a long since Linux 6.4, an int before, whose upper half a direct call leaves 0.
LONG, INT = (1 << 64) - 1, (1 << 32) - 1


class Kernel:
    """The hidden maps, and the stack that the helper gives: frames, or an error below 0."""

    def __init__(self, name: str = "kstack", target: Any = None, status: int = LONG, **keywords: Any) -> None:
        self.status = status
        self.frames: list[int] | int = []
        self.maps: dict[str, dict[int, bytes]] = {SHALLOW.map: {}, DEEP.map: {}}
        self.told: dict[bytes, Region] = {}
        self.now = 0
        self.processes: list[int] = []
        self.scratch = Region.of("scratch", bytes(4 * 2048))
        self.lost = Region.of("lost", bytes(16))
        self.flags = -1
        self.update: Any = None
        p = Probe(target or Oldest())
        p.ret(WORDS[name].call(p, (), keywords))
        self.reasons = [str(reason) for reason in p.drop_counters.reasons]
        self.module = p.finish()
        check_module(self.module)

    def lookup(self, _run: Any, table: MapHandle, key: Pointer) -> Any:
        if table.name == SCRATCH:
            return Pointer(self.scratch, 0)
        if table.name == ".told":
            known = self.told.get(bytes(key.region.load(key.offset, 24)))
            return 0 if known is None else Pointer(known, 0)
        found = self.maps[table.name].get(int.from_bytes(key.region.load(key.offset, 4), "little"))
        return 0 if found is None else Pointer(Region.of("entry", found), 0)

    def insert(self, _run: Any, table: MapHandle, key: Pointer, value: Pointer, flags: int) -> int:
        if table.name == ".told":
            self.told[bytes(key.region.load(key.offset, 24))] = Region.of("told", value.region.load(value.offset, 16))
            return 0
        assert flags == 1
        number = int.from_bytes(key.region.load(key.offset, 4), "little")
        if self.update is not None:
            return int(self.update(table.name, number)) & self.status
        words = SHALLOW.words if table.name == SHALLOW.map else DEEP.words
        self.maps[table.name][number] = bytes(value.region.load(value.offset, words * 8))
        return 0

    def get_stack(self, _run: Any, _context: Any, to: Pointer, size: int, flags: int) -> int:
        self.flags = flags
        if isinstance(self.frames, int):
            to.region.store(to.offset, bytes(size))
            return self.frames
        raw = b"".join(frame.to_bytes(8, "little") for frame in self.frames)[:size]
        to.region.store(to.offset, raw.ljust(size, b"\0"))
        return len(raw)

    def get_comm(self, _run: Any, to: Pointer, size: int) -> int:
        to.region.store(to.offset, b"python3".ljust(size, b"\0"))
        return 0

    def tell(self, _run: Any, _ring: MapHandle, data: Pointer, size: int, _flags: int) -> int:
        self.processes.append(int.from_bytes(data.region.load(data.offset, size), "little"))
        return 0

    def helpers(self) -> dict[int, Any]:
        return {
            1: self.lookup,
            2: self.insert,
            5: lambda _: self.now,
            14: lambda _: 42 << 32 | 43,
            16: self.get_comm,
            67: self.get_stack,
            130: self.tell,
        }

    def run(self, frames: list[int] | int) -> int:
        self.frames = frames
        values = {DROPS_MAP: self.lost, ZERO_MAP: Region.of("zero", bytes(8))}
        answer = Probe.run_module(self.module, helpers=self.helpers(), values=values)
        for level in range(4):
            assert self.scratch.load(level * 2048, 8) == bytes(8), "a buffer was not given back"
        return answer

    def counted(self) -> dict[str, int]:
        counts = (int.from_bytes(self.lost.load(at, 8), "little") for at in (0, 8))
        return {reason: count for reason, count in zip(self.reasons, counts, strict=False) if count}


@pytest.mark.parametrize(
    ("name", "keywords", "flags"),
    [("kstack", {}, 0), ("ustack", {}, BPF_F_USER_STACK), ("kstack", {"skip": 3}, 3), ("ustack", {"skip": 255}, 0x1FF)],
)
@pytest.mark.parametrize("target", [Newest(), Oldest()])
def test_equal_stacks_have_one_number_and_others_another(
    name: str, keywords: dict[str, int], flags: int, target: Any
) -> None:
    """Whatever their length; frames to skip are in the low byte of the helper's flags, user space has one of them."""
    kernel = Kernel(name, target, **keywords)
    stacks = [list(range(9, 9 + length)) for length in (1, 2, 3, 4, 5, 54, 55, 56, 57, 126, 127)]
    numbers = [kernel.run(stack) for stack in stacks]
    assert kernel.flags == flags
    assert len(set(numbers)) == len(stacks)
    assert all(0 <= number < 1 << 31 for number in numbers)
    assert [bool(number >> 30) for number in numbers] == [len(stack) > 55 for stack in stacks]
    assert [kernel.run(stack) for stack in reversed(stacks)] == numbers[::-1]
    traces = StackTraceMap({key: Loaded(entries) for key, entries in kernel.maps.items()})
    assert [traces[number] for number in numbers] == stacks
    assert kernel.counted() == {}
    assert kernel.processes == ([42] if name == "ustack" else []), "told once"


def test_a_process_is_told_again_after_ever_longer_waits() -> None:
    """After one millisecond, two more, four more: libraries may be loaded meanwhile."""
    kernel = Kernel("ustack")
    told = []
    for tenths in range(200):
        kernel.now = 1_000_000_000 + tenths * 100_000
        before = len(kernel.processes)
        kernel.run([1, 2])
        if len(kernel.processes) > before:
            told.append(tenths)
    assert told == [0, 10, 30, 70, 150]
    assert set(kernel.processes) == {42}


def test_stacks_of_one_hash_are_kept_beside_each_other() -> None:
    """Each under the next free number; the fifth is lost. A place taken by an equal stack is that stack's."""
    kernel = Kernel()
    home = kernel.run([1, 2, 3])
    (entry,) = kernel.maps[SHALLOW.map].values()
    other = entry[:8] + (7).to_bytes(8, "little") + entry[16:]
    for taken in range(1, 5):
        kernel.maps[SHALLOW.map] = {home + i: other for i in range(taken)}
        found = kernel.run([1, 2, 3])
        assert found == (home + taken if taken < 4 else MISSED)
        assert kernel.run([1, 2, 3]) == found
    assert kernel.counted() == {f".stacks: {FULL}": 2}


def test_numbers_go_round_at_the_end() -> None:
    """The neighbour of the last number is the first one."""
    kernel = Kernel()
    home = kernel.run([1])
    (entry,) = kernel.maps[SHALLOW.map].values()
    highest = (1 << 30) - 1
    kernel.maps[SHALLOW.map] = {home: bytes(len(entry))}
    assert kernel.run([1]) == (home + 1) & highest


@pytest.mark.parametrize("status", [LONG, INT])
@pytest.mark.parametrize(
    ("error", "reason"), [(-7, FULL), (-12, NO_MEMORY), (-16, NO_MEMORY)], ids=["E2BIG", "ENOMEM", "EBUSY"]
)
def test_a_stack_that_cannot_be_kept_is_dropped_with_the_reason(error: int, reason: str, status: int) -> None:
    """A full map's names the remedy."""
    kernel = Kernel(status=status)
    kernel.update = lambda _name, _number: error
    assert kernel.run([1, 2]) == MISSED
    assert kernel.counted() == {f".stacks: {reason}": 1}


@pytest.mark.parametrize("status", [LONG, INT])
@pytest.mark.parametrize(("theirs", "distance"), [([1, 2], 0), ([3, 4], 1)])
def test_another_processor_may_be_faster(theirs: list[int], distance: int, status: int) -> None:
    """What it has kept under the number is compared: it is the same stack, or the next number is tried."""
    kernel = Kernel(status=status)
    home, other = kernel.run([1, 2]), kernel.run(theirs)
    found, kernel.maps[SHALLOW.map] = kernel.maps[SHALLOW.map][other], {}

    def race(name: str, number: int) -> int:
        kernel.maps[name][number], kernel.update = found, None
        return -17

    kernel.update = race
    assert kernel.run([1, 2]) == home + distance
    assert kernel.counted() == {}


@pytest.mark.parametrize("answer", [-14, 0, 7])
def test_a_stack_that_is_not_there_is_not_lost(answer: int) -> None:
    """EFAULT says so, as for a kernel thread in user space."""
    kernel = Kernel("ustack")
    assert kernel.run(answer) == -14
    assert kernel.counted() == {}


def test_programs_that_interrupt_each_other_have_buffers_of_their_own() -> None:
    """Four at a time; a fifth is dropped and counted."""
    kernel = Kernel()
    number = kernel.run([5, 6])
    for level in range(4):
        for busy in range(level):
            kernel.scratch.store(busy * 2048, (1).to_bytes(8, "little"))
        kernel.frames = [5, 6]
        values = {DROPS_MAP: kernel.lost, ZERO_MAP: Region.of("zero", bytes(8))}
        helpers = kernel.helpers()
        assert Probe.run_module(kernel.module, helpers=helpers, values=values) == number
        assert [kernel.scratch.load(each * 2048, 1)[0] for each in range(4)] == [each < level for each in range(4)]
    kernel.scratch.store(3 * 2048, (1).to_bytes(8, "little"))
    assert Probe.run_module(kernel.module, helpers=helpers, values=values) == MISSED
    assert kernel.counted() == {f".stacks: {NO_MEMORY}": 1}


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 54, 55, 56, 126, 127])
def test_depth_is_how_many_frames_count(depth: int) -> None:
    """Stacks that are equal in so many have one number; what differs behind them is forgotten."""
    kernel = Kernel(depth=depth)
    whole = list(range(1, 128))
    number = kernel.run(whole)
    for length in range(depth, min(depth + 5, 127)):
        assert kernel.run(whole[:length]) == number
        assert kernel.run([*whole[:depth], *[77] * (length - depth)]) == number
    traces = StackTraceMap({key: Loaded(entries) for key, entries in kernel.maps.items()})
    assert traces[number] == whole[:depth]
    if depth > 1:
        assert kernel.run(whole[: depth - 1]) != number
        assert kernel.run([*whole[: depth - 1], 77]) != number


def test_what_is_no_count_of_frames_is_refused() -> None:
    """It is known at compile time, and fits; and only tracing programs have a stack."""
    p = Probe()
    for skip in (256, -1, p.number(0), "x"):
        with pytest.raises(CompileError, match=r"kstack\(skip=…\) is a number known at compile time, 0 to 255"):
            kstack.call(p, (), {"skip": skip})  # type: ignore[attr-defined]  # a Word
    for depth in (0, 128, -1, p.number(0), "x"):
        with pytest.raises(CompileError, match=r"ustack\(depth\) is a number of frames known at comp.*127"):
            ustack.call(p, (depth,), {})  # type: ignore[attr-defined]  # a Word
    p.program_type = ProgramType.XDP
    with pytest.raises(CompileError, match="xdp programs have no call stack"):
        ustack.call(p, (), {})  # type: ignore[attr-defined]  # a Word
    with pytest.raises(OnlyInProbe):
        kstack()


class Loaded(dict[int, bytes]):
    """A loaded map of stacks."""

    def lookup_elem(self, key: bytes) -> bytes | None:
        return self.get(int.from_bytes(key, "little"))

    def lookup_batches(self) -> Any:
        return ((key.to_bytes(4, "little"), value, 1) for key, value in self.items())

    def delete_batch(self, keys: Any) -> int:
        return len([self.pop(int.from_bytes(key, "little")) for key in keys])


def entry(home: int, frames: list[int]) -> bytes:
    """What is stored of a stack."""
    header = home << 32 | len(frames)
    words = SHALLOW.words if home >> 30 == 0 else DEEP.words
    return b"".join(word.to_bytes(8, "little") for word in (header, *frames)).ljust(words * 8, b"\1")


def test_frames_are_as_many_as_the_header_says() -> None:
    """A negative number has no frames; others must be there."""
    full = list(range(1, 128))
    far = DEEP.bit | 4
    stacks = StackTraceMap({SHALLOW.map: Loaded({3: entry(3, [9, 8, 7])}), DEEP.map: Loaded({far: entry(far, full)})})
    assert dict(stacks) == {3: [9, 8, 7], far: full}
    assert len(stacks) == 2
    assert stacks[-14] == []
    for missing in (5, DEEP.bit | 5):
        assert stacks.frames(missing) == []
        with pytest.raises(KeyError):
            stacks[missing]
    with pytest.raises(InvalidValue):
        stacks[1 << 32]
    assert StackTraceMap({}).frames(3) == []


def test_a_release_keeps_what_shares_a_hash() -> None:
    """Else the second of two would take the first one's number when it comes again before it."""
    table = Loaded({7: entry(7, [1]), 8: entry(7, [2]), 20: entry(20, [3])})
    stacks = StackTraceMap({SHALLOW.map: table})
    assert stacks.release() == 1
    assert list(table) == [7, 8]
    assert [stacks[number] for number in (7, 8, 20)] == [[1], [2], [3]]
    assert stacks.release() == 0
    assert stacks.frames(20) == []
