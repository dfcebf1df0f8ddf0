"""`Unwinder`: call stacks of programs without frame pointers, walked by the probe with the rules of `.eh_frame`.

    from pyebpf.unwinding import Unwinder

    unwinder = Unwinder(bpf)

    @bpf.sample(frequency=99)
    def on_sample() -> None:
        counts[Place(pid=pid(), user=unwinder.ustack())] += 1

    with bpf:
        while not stop.wait(unwinder.look()):
            pass

`look` reads the rules of the files that processes have mapped, of those processes that events came from. Till then, and
where a file has none, as for code that a JIT compiler made, the walk follows frame pointers.
"""

from __future__ import annotations

import struct as structs
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from pyebpf import (
    BPF,
    Struct,
    array,
    cast,
    field,
    has_field,
    helpers,
    pid,
    s16,
    s32,
    s64,
    u32,
    u64,
    user,
    ustack,
    ustack_of,
)
from pyebpf.builder.intrinsics.stacks import DEPTH
from pyebpf.builder.loops import MANY_ITERATIONS
from pyebpf.elf.call_frame_program import (
    CFA_ABOVE_MEMORY,
    CFA_IN_MEMORY,
    CFA_OF_FP,
    CFA_OF_PLT,
    FP_AT_CFA,
    FP_AT_FP,
    FP_AT_SP,
    FP_LOST,
    NOT_HELD,
    OUTERMOST,
    RA_AT_SP,
    RA_IN_REGISTER,
    SIGNAL,
    UNKNOWN,
)
from pyebpf.elf.headers import bias as bias_of
from pyebpf.errors import NotSupported
from pyebpf.symbols.frame_rules import FrameRules
from pyebpf.symbols.mappings import MOST_MAPPINGS, read_mappings, running_program
from pyebpf.symbols.process import mount_namespace
from pyebpf.tool.tracer import call_before_attaching

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


__all__ = ["Unwinder"]

#: Rows of all files, 16 bytes each, mappings of all processes, 32 bytes each, and processes.
ROWS, MAPPINGS, PROCESSES = 1 << 21, 1 << 16, 4096
#: Steps of a search among them.
_ROW_STEPS, _MAPPING_STEPS = 22, 13
#: So many iterations are a loop that the verifier looks at once, since Linux 6.4, and not one by one.
_MANY = MANY_ITERATIONS + 1
#: Bytes of a frame that a frame pointer leads out of, and the bits of an address in a process.
_FARTHEST = 1 << 20
_ADDRESS = (1 << 48) - 1
_MAX_MAPPINGS = 1 << (_MAPPING_STEPS - 1)  # of one process
#: Seconds: of a look, before it returns; until the next, and if there is more to read; for `pids` before attaching.
_SLICE, _PAUSE, _SOON, _SECONDS = 0.2, 0.5, 0.01, 20.0
#: Seconds until the mappings of processes are read again, and of how many of them at a time.
_AGAIN, _REREAD = 1.0, 64


class Row(Struct):
    """A `pyebpf.elf.call_frame_program.Row`."""

    start: u32
    cfa: s32
    fp: s16
    ra: s16
    rules: u32


class CodeMapping(Struct):
    """Code of a process that lies in a file: `bias` is what its addresses are above the file's; and the file's rows."""

    start: u64
    end: u64
    bias: u64
    first: u32
    count: u32


class Space(Struct):
    """The mappings of a process, by address."""

    first: u32
    count: u32


class Wanted(Struct):
    """A process whose code is not known, or not all of it, and how many events came from it."""

    pid: u32
    events: u32


class Registers(Struct):
    """Those of a frame: `link` is arm64's register for the return address, where nobody has been called yet.

    `called` is 1 in a frame that is waiting for the return of a call: its instruction is the one before `ip`.
    """

    ip: u64
    sp: u64
    fp: u64
    link: u64
    called: u64


_WANTED = structs.Struct("=II")


class Frames(Struct):
    """A stack as far as it was walked."""

    addresses: list[int] = field(array(u64, DEPTH), default=[0] * DEPTH)


class Unwinder:
    """Stacks of the processes that events come from, by the rules of their files.

    Those of `pids` are read before the probes are attached, all others at a `look` after their first event.
    """

    def __init__(self, bpf: BPF, pids: Sequence[int] = ()) -> None:
        self._bpf, self._subprograms = bpf, dict[int, Any]()
        self._rows = bpf.array(Row, size=ROWS, mappable=True, name="unwind_rows")
        self._mappings = bpf.array(CodeMapping, size=MAPPINGS, mappable=True, name="unwind_mappings")
        self._spaces = bpf.hash(key=u32, value=Space, size=PROCESSES, name="unwind_spaces")
        self._wanted = bpf.array(Wanted, size=PROCESSES, mappable=True, name="unwind_wanted")
        rows, mappings = self._rows, self._mappings

        # The verifier looks at each of these once, and not in each iteration of the loop over frames.
        @bpf.replaceable
        def find_mapping(first: u32, count: u32, address: u64) -> u32:
            return _last_from(mappings, _MAPPING_STEPS, first, count, address)

        @bpf.replaceable
        def find_row(first: u32, count: u32, address: u64) -> u32:
            return _last_from(rows, _ROW_STEPS, first, count, address)

        self._find_mapping, self._find_row = find_mapping, find_row
        self._pids = pids
        self._rules, self._room = FrameRules(), _Room(MAPPINGS)
        self._memory: memoryview | None = None
        self._checked = 0.0
        self._known: dict[int, _Known] = {}
        self._queue: dict[int, Iterator[None]] = {}
        call_before_attaching(bpf, self._begin)
        bpf.before_compiling.append(_check_registers_are_told)
        _OF[bpf] = self

    @property
    def given_up(self) -> dict[str, str]:
        """Files whose rules are not read, since that would take too much, with the reasons."""
        return self._rules.given_up

    def subprogram(self, frames: int) -> Any:
        """`ustack(frames)` as a function that programs of any front end call."""
        if frames not in self._subprograms:

            def unwound() -> s64:
                return self.ustack(frames)

            self._subprograms[frames] = self._bpf.subprogram(unwound)
        return self._subprograms[frames]

    def ustack(self, frames: int = DEPTH) -> int:
        """In a probe: the number of the current stack in user space, as `pyebpf.ustack` gives it."""
        space = self._spaces.get(pid())
        if space is None:
            number = ustack(frames)
            if number >= 0:  # not a thread of the kernel's
                self._want()
            return number
        if space.count == 0:
            return ustack(frames)
        kernel = cast("struct pt_regs", helpers.task_pt_regs(helpers.get_current_task_btf()))
        found = Frames()
        if has_field("struct pt_regs", "pstate"):
            now = Registers(ip=kernel.pc, sp=kernel.sp, fp=kernel.regs[29], link=kernel.regs[30], called=0)
        else:
            now = Registers(ip=kernel.ip, sp=kernel.sp, fp=kernel.bp, link=0, called=0)
        count = 0
        for index in range(_MANY):
            if index >= frames:
                break
            found.addresses[index] = now.ip
            count = index + 1
            if not self._step(space, now):
                break
        return ustack_of(found.addresses, count)

    def _want(self) -> None:
        """In a probe: ask for the code of the current process."""
        # Of two with one place the other asks again.
        wanted = self._wanted[pid() & (PROCESSES - 1)]
        if wanted.pid != pid():
            wanted.pid = pid()
            wanted.events = 0
        wanted.events += 1

    def _step(self, space: Space, now: Registers) -> bool:
        """In a probe: go on to the caller; False if there is none, or its registers are not known."""
        address = now.ip - now.called
        code = self._mapping(space, address)
        row = None
        if code is not None:
            row = self._rows.get(self._find_row(code.first, code.count, address - code.bias))
        else:
            self._want()
        if row is None or row.rules & UNKNOWN:
            return self._by_frame_pointer(now)
        rules = row.rules
        if rules & (OUTERMOST | NOT_HELD):
            return False
        cfa: u64 = now.sp
        if rules & CFA_OF_FP:
            cfa = now.fp
        cfa += row.cfa
        if rules & CFA_OF_PLT:
            cfa = now.sp + (16 if now.ip & 15 >= 11 else 8)
        if rules & CFA_IN_MEMORY:
            cfa = user(cfa, u64)[0] + (8 if rules & CFA_ABOVE_MEMORY else 0)
        saved: u64 = cfa
        if rules & RA_AT_SP:
            saved = now.sp
        ip: u64 = now.link
        if not rules & RA_IN_REGISTER:
            ip = user(saved + row.ra, u64)[0]
        if rules & FP_AT_CFA:
            now.fp = user(cfa + row.fp, u64)[0]
        elif rules & FP_AT_SP:
            now.fp = user(now.sp + row.fp, u64)[0]
        elif rules & FP_AT_FP:
            now.fp = user(now.fp + row.fp, u64)[0]
        elif rules & FP_LOST:
            now.fp = 0
        # The stack grows down: a caller's is above, or the same where a function of arm64 has none. A signal may have
        # another.
        if cfa < now.sp and not rules & SIGNAL:
            return False
        return self._goes_on(now, ip, cfa, 0 if rules & SIGNAL else 1)

    def _by_frame_pointer(self, now: Registers) -> bool:
        """In a probe: go on to the caller that the frame pointer leads to."""
        fp = now.fp
        # In code without frame pointers it is any number.
        if fp < now.sp or fp - now.sp > _FARTHEST or fp & 7:
            return False
        ip = user(fp + 8, u64)[0]
        now.fp = user(fp, u64)[0]
        return self._goes_on(now, ip, fp + 16, 1)

    def _goes_on(self, now: Registers, ip: int, sp: int, called: int) -> bool:
        """In a probe: go on to a caller; False if there is none."""
        # arm64 may sign return addresses, in the bits above those of any address of a process.
        now.ip = ip & _ADDRESS
        now.sp = sp
        now.link = 0
        now.called = called
        return now.ip != 0

    def _mapping(self, space: Space, address: int) -> Any:
        """In a probe: the mapping that an address lies in; None if it lies in none."""
        found = self._mappings.get(self._find_mapping(space.first, space.count, address))
        if found is None or address < found.start or address >= found.end:
            return None
        return found

    # The files of processes ----------------------------------------------------------------------------------------

    def look(self) -> float:
        """Read the rules of the files of processes that events came from; in how many seconds to look again."""
        until = time.monotonic() + _SLICE
        if time.monotonic() >= self._checked + _AGAIN:
            self._forget_ended()
            self._checked = time.monotonic()
            # What has closed a library may have loaded another one in its place.
            for process in sorted(self._known, key=lambda process: self._known[process].looked)[:_REREAD]:
                self._read_next(process)
        for process in self._asked():
            self._read_next(process)
        while self._queue:
            process, reading = next(iter(self._queue.items()))
            for _ in reading:
                if time.monotonic() > until:
                    return _SOON
            del self._queue[process]
        return _PAUSE

    def _begin(self) -> None:
        self._rules.use(self._rows.window().memory)
        self._memory = self._mappings.window().memory
        until = time.monotonic() + _SECONDS
        for process in self._pids:
            self._read_next(process)
        while self._queue and time.monotonic() < until:
            self.look()

    def _asked(self) -> list[int]:
        """The processes whose code is wanted, those that most events came from first."""
        memory = self._wanted.window().memory
        found = [(events, process) for process, events in _WANTED.iter_unpack(memory) if process]
        if found:
            memory[:] = bytes(len(memory))
        return [process for _, process in sorted(found, reverse=True)]

    def _read_next(self, process: int) -> None:
        """Read the rules of a process next, unless that was done a moment ago."""
        known = self._known.get(process)
        program = running_program(process)
        if known is not None and known.program == program and time.monotonic() - known.looked < _AGAIN:
            return
        if process not in self._queue and len(self._queue) < PROCESSES:
            self._queue[process] = self._learn(process, program)

    def _learn(self, process: int, program: tuple[bytes, bytes] | None) -> Iterator[None]:
        """Have the probe know where the code of a process is."""
        if program is None:
            return  # it has ended
        try:
            mappings = read_mappings(process)
        except (OSError, ValueError):
            return
        known = self._known.get(process)
        if known is not None and known.mappings == hash(mappings):
            self._known[process] = known._replace(looked=time.monotonic())
            return
        if len(mappings) == MOST_MAPPINGS:
            reason = f"process {process} has more mappings of code than the {MOST_MAPPINGS} that are read"
            self._rules.given_up.setdefault(f"process {process}", reason)
        namespace = mount_namespace(process)
        packed: list[bytes] = []
        for mapping in mappings:
            rules = yield from self._rules.of(process, mapping, namespace)
            bias = bias_of(rules.segments, mapping.start, mapping.offset)
            if bias is not None and rules.size and len(packed) < _MAX_MAPPINGS:
                code = CodeMapping(mapping.start, mapping.end, bias % (1 << 64), rules.first, rules.size)
                packed.append(code.to_bytes())
        first = self._room.take(len(packed)) if known is not None or len(self._known) < PROCESSES else None
        if first is None:
            room = f"{PROCESSES} processes and {MAPPINGS} mappings of code"
            self._rules.given_up.setdefault("", f"process {process} is one too many: there is room for {room}")
            return
        assert self._memory is not None
        size = CodeMapping.layout.size
        self._memory[first * size : (first + len(packed)) * size] = b"".join(packed)
        self._spaces[process] = Space(first=first, count=len(packed))
        self._let_go(process)
        self._known[process] = _Known(program, hash(mappings), first, len(packed), time.monotonic())

    def _forget_ended(self) -> None:
        self._room.reuse()
        for process, known in list(self._known.items()):
            if running_program(process) != known.program:
                self._spaces.pop(process, None)
                self._let_go(process)

    def _let_go(self, process: int) -> None:
        known = self._known.pop(process, None)
        if known is not None:
            self._room.give_back(known.first, known.size)


class _Known(NamedTuple):
    """A process that the probe knows: what it runs, a hash of its mappings, their range, and when it was looked at."""

    program: tuple[bytes, bytes]
    mappings: int
    first: int
    size: int
    looked: float


class _Room:
    """Ranges of entries of an array. What was given back is taken again only after `reuse`: a probe may be there."""

    def __init__(self, size: int) -> None:
        self._free = [(0, size)]
        self._leaving: list[tuple[int, int]] = []

    def take(self, count: int) -> int | None:
        """The first of so many entries; None if they are not there."""
        for index, (first, size) in enumerate(self._free):
            if size >= count:
                self._free[index] = (first + count, size - count)
                return first
        return None

    def give_back(self, first: int, count: int) -> None:
        """Return entries."""
        self._leaving.append((first, count))

    def reuse(self) -> None:
        """Have what was given back, and join what lies side by side."""
        joined: list[tuple[int, int]] = []
        for first, size in sorted([*self._free, *self._leaving]):
            if joined and sum(joined[-1]) == first:
                joined[-1] = (joined[-1][0], joined[-1][1] + size)
            elif size:
                joined.append((first, size))
        self._free, self._leaving = joined, []


def _check_registers_are_told(target: Any) -> None:
    # Since Linux commit dd6e10fbd9fb ("bpf: Add bpf_task_pt_regs() helper") (in v5.15).
    if not target.has("helper:task_pt_regs"):
        raise NotSupported(
            "stacks without frame pointers are walked since Linux 5.15: this kernel does not tell a program with which "
            "registers a process left its own code; leave --unwind out, and write ustack() for dw_ustack()"
        )


def _last_from(table: Any, steps: int, first: int, count: int, address: int) -> int:
    """In a probe: of `count` entries from `first` on, the last that starts at an address or before it."""
    low: u32 = first
    high: u32 = first + count
    for _ in range(steps):
        if high - low <= 1:
            break
        middle: u32 = (low + high) >> 1
        at = table.get(middle)
        if at is None:
            break
        if at.start <= address:
            low = middle
        else:
            high = middle
    return low


#: Those of tracers that have one.
_OF: WeakKeyDictionary[BPF, Unwinder] = WeakKeyDictionary()


def unwinder_of(tracer: object) -> Unwinder | None:
    """The unwinder of a tracer; None if it has none."""
    return _OF.get(tracer) if isinstance(tracer, BPF) else None
