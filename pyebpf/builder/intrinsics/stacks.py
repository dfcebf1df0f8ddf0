"""`kstack()` and `ustack()`: the call stack of an event, kept once and named by a number.

The kernel writes the return addresses into a buffer (bpf_get_stack). The program hashes them, and keeps them in a
hidden hash map under that number, or under one of the next few if another stack is there already: equal numbers are
equal stacks, and no stack takes another's place (as with bpf_get_stackid, which has as many places as its map has
entries, one for each hash). Memory is taken as stacks come, up to a limit.

    struct { u64 header; u64 frames[55]; }      .stacks        header: the hash << 32 | the number of frames
    struct { u64 header; u64 frames[127]; }     .deep_stacks   numbers have bit 30 set

A number depends on the frames alone: the same stack has the same number after the maps were emptied.
"""

from __future__ import annotations

from errno import E2BIG, EEXIST, EFAULT
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.intrinsics.base import intrinsic
from pyebpf.builder.intrinsics.processes import tell_process
from pyebpf.builder.intrinsics.tracer_frames import own_frames
from pyebpf.builder.loops import opaque_zero, range_loop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.ssa.function import FunctionBuilder, Join
from pyebpf.builder.values.arrays import Array
from pyebpf.builder.values.entity import describe
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.operations import to_int
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.errors import OnlyInProbe
from pyebpf.specs import MapSpec
from pyebpf.types import S64, U32, U64, ArrayType
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.flags import BPF_F_NO_PREALLOC, BPF_F_USER_STACK, BPF_NOEXIST
from pyebpf.uapi.helper_ids import GET_STACK, MAP_LOOKUP_ELEM, MAP_UPDATE_ELEM

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.environment import Variable
    from pyebpf.compiler import ir
    from pyebpf.target import Target

#: Frames that are kept of a stack: PERF_MAX_STACK_DEPTH, the default of the sysctl kernel.perf_event_max_stack.
DEPTH = 127
#: Different stacks that are kept at most, of either class, unless a module says otherwise; and where the kernel cannot
#: allocate memory in a probe, so that all is taken at the start.
MAX_STACKS, MAX_STACKS_AT_ONCE = 131_072, 16_384

FULL = "stack not kept: the limit is reached, which bpf.max_stacks raises (profile --stack-storage-size)"
NO_MEMORY = "stack not kept: the kernel had no memory available"
#: The number of a stack that was not kept.
MISSED = -7

_WORD = 8
_GROUP = 4  # words hashed and compared in one iteration of a loop


class StackClass(NamedTuple):
    """Stacks of at most so many frames, in a map of their own: 55 fill 512 bytes of the kernel's memory.

    An entry is 8 bytes for the allocator, 48 for the table, 8 for the key, and the value.
    """

    map: str
    frames: int
    bit: int

    @property
    def words(self) -> int:
        """Length of a value: header and frames."""
        return 1 + self.frames


CLASSES = (StackClass(".stacks", 55, 0), StackClass(".deep_stacks", DEPTH, 1 << 30))
_HASH_MASK = (1 << 30) - 1

SCRATCH_MAP = ".stack"
#: A tracepoint's program may interrupt another, an interrupt's both, and an NMI's all of them.
_LEVELS = 4
#: A buffer: whether it is in use, then header, frames, and zeros behind them, where the first few are left out.
_BUFFER, _BUSY, _VALUE = 2048, 0, _WORD

#: The low byte of bpf_get_stack's flags: frames to skip.
MAX_SKIPPED = 0xFF
#: Of more stacks with one hash, or neighbouring ones, the last is missed: two are rare among a hundred thousand.
ATTEMPTS = 4
# An odd number of many bits, the fraction of the golden ratio, as in the kernel's hash_64.
_MULTIPLIER = 0x61C8864680B583EB

_KINDS = (
    ProgramType.TRACEPOINT,
    ProgramType.RAW_TRACEPOINT,
    ProgramType.TRACING,
    ProgramType.PERF_EVENT,
    ProgramType.KPROBE,
)


def limited(spec: MapSpec, limit: int) -> int:
    """How many entries a hidden map is to have, at a limit of stacks."""
    return limit if spec.name in {each.map for each in CLASSES} else spec.max_entries


def _spec(each: StackClass, target: Target) -> MapSpec:
    # Since Linux commit 34dd3bad1a6f ("bpf: Relax the requirement to use preallocated hash maps in tracing progs.")
    # (in v6.1).
    grows = target.has("map:growing_hash")
    return MapSpec(
        each.map,
        MapType.HASH,
        U32,
        ArrayType(U64, each.words),
        MAX_STACKS if grows else MAX_STACKS_AT_ONCE,
        BPF_F_NO_PREALLOC if grows else 0,
    )


def _scratch_spec() -> MapSpec:
    return MapSpec(SCRATCH_MAP, MapType.PERCPU_ARRAY, U32, ArrayType(U64, _LEVELS * _BUFFER // _WORD), 1)


def _stack(name: str, flags: int) -> Callable[..., Int]:
    def build(p: ProgramBuilder, depth: object = None, *, skip: object = 0) -> Int:
        if not isinstance(skip, int) or not 0 <= skip <= MAX_SKIPPED:
            p.fail(f"{name}(skip=…) is a number known at compile time, 0 to {MAX_SKIPPED}")
        if depth is not None and (not isinstance(depth, int) or not 1 <= depth <= DEPTH):
            p.fail(f"{name}(depth) is a number of frames known at compile time, 1 to {DEPTH}")
        if p.program_type not in _KINDS:
            p.fail(f"{name}() is for tracing: {p.program_type_name} programs have no call stack")
        if flags & BPF_F_USER_STACK:
            p.program_context.check_user_read(p)
        b = p.b
        answer = b.variable(hint=name)
        b.write(answer, b.const(MISSED))
        unclaimed, end = Join("no buffer"), Join("stack")
        buffer = _claim(p, unclaimed)
        start = b.emit(Op.OFFSET, buffer, b.const(_VALUE + _WORD))
        size = b.call(GET_STACK, p.context, start, b.const(DEPTH * _WORD), b.const(skip | flags), comment=f"{name}()")
        with b.if_(Compare(Relation.SGE, size, b.const(_WORD))):
            b.assume_bounds(size, _WORD, DEPTH * _WORD)
            count = b.binary(Op.LSHR, size, b.const(3))
            b.assume_bounds(count, 1, DEPTH)
            if flags & BPF_F_USER_STACK:
                tell_process(p)
            value = b.emit(Op.OFFSET, buffer, b.const(_VALUE))
            own = own_frames(p, start) if depth is not None and not flags & BPF_F_USER_STACK else None
            if own is None:
                b.write(answer, _kept(p, value, _cut(p, value, count, depth)))
            else:
                rest = b.binary(Op.SUB, count, own)
                with b.if_(Compare(Relation.SGE, rest, b.const(1))):
                    b.assume_bounds(rest, 1, DEPTH)
                    value = b.emit(Op.OFFSET, value, b.binary(Op.SHL, own, b.const(3)))
                    b.write(answer, _kept(p, value, _cut(p, value, rest, depth)))
        with b.else_():
            # There is no such stack, as of a kernel thread in user space, and nothing is lost.
            b.write(answer, b.const(-EFAULT))
        return _given_back(p, buffer, answer, unclaimed, end)

    return build


def _given_back(p: ProgramBuilder, buffer: ir.Value, answer: Variable, unclaimed: Join, end: Join) -> Int:
    """Give the buffer back; the answer, MISSED if there was no buffer."""
    b = p.b
    b.store(buffer, _BUSY, b.const(0), 8)
    b.jump(end)
    b.start(unclaimed)
    count_drop(p, NO_MEMORY, CLASSES[0].map)
    b.jump(end)
    b.start(end)
    found = b.read_final(answer)
    b.assume_bounds(found, -4095, (1 << 31) - 1)
    return Int(found, S64)


def _ustack_of(p: ProgramBuilder, frames: object, count: object) -> Int:
    what = "ustack_of()"
    if not isinstance(frames, Array) or frames.type.element != U64 or frames.type.length > DEPTH:
        p.fail(f"{what} takes an array of at most {DEPTH} u64 and how many of them are frames, not {describe(frames)}")
    if p.program_type not in _KINDS:
        p.fail(f"{what} is for tracing: {p.program_type_name} programs have no call stack")
    frames.check(p)
    b = p.b
    kept = b.variable(hint="count")
    given = to_int(p, count).value
    b.write(kept, given)
    with b.if_(Compare(Relation.UGT, given, b.const(frames.type.length))):
        b.write(kept, b.const(frames.type.length))
    number = b.read_final(kept)
    b.assume_bounds(number, 0, frames.type.length)
    answer = b.variable(hint="ustack_of")
    b.write(answer, b.const(MISSED))
    unclaimed, end = Join("no buffer"), Join("stack")
    buffer = _claim(p, unclaimed)
    with b.if_(Compare(Relation.EQ, number, b.const(0))):
        b.write(answer, b.const(-EFAULT))
    with b.else_():
        tell_process(p)
        value = b.emit(Op.OFFSET, buffer, b.const(_VALUE))
        start = frames.lvalue.exact(p)
        with range_loop(p, 0, frames.type.length, 1, []) as (copied, index):
            with b.if_(Compare(Relation.SGE, index.value, number)):
                b.break_(copied)
            distance = b.binary(Op.SHL, index.value, b.const(3))
            b.store(b.emit(Op.OFFSET, value, distance), _WORD, b.load(b.emit(Op.OFFSET, start, distance), 0, 8), 8)
        last = b.emit(Op.OFFSET, value, b.binary(Op.SHL, number, b.const(3)))
        for further in range(1, _GROUP):
            b.store(last, further * _WORD, b.const(0), 8)
        b.write(answer, _kept(p, value, number))
    return _given_back(p, buffer, answer, unclaimed, end)


def _claim(p: ProgramBuilder, unclaimed: Join) -> ir.Value:
    """A buffer of this processor that no program interrupted by this one is using; `unclaimed` if there is none."""
    b = p.b
    slot = b.slot_address(b.slot(4, 4, name="zero"))
    b.store(slot, 0, b.const(0), 4)
    base = b.call(MAP_LOOKUP_ELEM, b.emit(Op.MAP, symbol=p.use_map(_scratch_spec())), slot, result=ValueType.POINTER)
    there, claimed = Join("there"), Join("claimed")
    b.branch(Compare(Relation.NE, base, b.const(0), null_check=True), there, unclaimed)
    b.start(there)
    distance = b.variable(hint="distance")
    exchanges = p.target.has("isa:atomic")
    for level in range(_LEVELS):
        place = b.emit(Op.OFFSET, base, b.const(level * _BUFFER))
        if exchanges:
            busy = b.emit(Op.ATOMIC, place, b.const(1), result=ValueType.SCALAR, size=8, symbol="xchg")
        else:
            busy = b.load(place, _BUSY, 8)
        with b.if_(Compare(Relation.EQ, busy, b.const(0))):
            if not exchanges:
                # What interrupts between the two has given the buffer back when this goes on.
                b.store(place, _BUSY, b.const(1), 8)
            b.write(distance, b.const(level * _BUFFER))
            b.jump(claimed)
    b.jump(unclaimed)
    b.start(claimed)
    # To the verifier any of them: it would follow what comes for each.
    which = b.binary(Op.ADD, b.read_final(distance), opaque_zero(p))
    buffer = b.emit(Op.OFFSET, base, b.binary(Op.AND, which, b.const((_LEVELS - 1) * _BUFFER)))
    b.assume_non_null(buffer)
    return buffer


def _cut(p: ProgramBuilder, value: ir.Value, count: ir.Value, depth: int | None) -> ir.Value:
    """At most `depth` frames; zeros take the place of the next, up to where the group ends."""
    if depth is None or depth == DEPTH:
        return count
    b = p.b
    for index in range(depth, -(-(1 + depth) // _GROUP) * _GROUP - 1):
        b.store(value, _WORD + index * _WORD, b.const(0), 8)
    kept = b.variable(hint="count")
    b.write(kept, count)
    with b.if_(Compare(Relation.SGT, count, b.const(depth))):
        b.write(kept, b.const(depth))
    count = b.read_final(kept)
    b.assume_bounds(count, 1, depth)
    return count


def _kept(p: ProgramBuilder, value: ir.Value, count: ir.Value) -> ir.Value:
    """The number of the stack at `value`, after it was kept; MISSED if it cannot be."""
    b = p.b
    answer = b.variable(hint="number")
    shallow, deep = CLASSES
    if b.bounds(count)[1] <= shallow.frames:
        return _call_keep(p, shallow, value, count)
    with b.if_(Compare(Relation.SLE, count, b.const(shallow.frames))):
        b.write(answer, _call_keep(p, shallow, value, count))
    with b.else_():
        b.write(answer, _call_keep(p, deep, value, count))
    return b.read_final(answer)


def _call_keep(p: ProgramBuilder, each: StackClass, value: ir.Value, count: ir.Value) -> ir.Value:
    symbol = f"keep{each.map}"
    if symbol not in p.functions:
        p.functions.add(symbol)
        made = FunctionBuilder(symbol, (ValueType.POINTER, ValueType.SCALAR), p.b.where)
        with p.function(made):
            p.contextless.add(made)
            _build_keep(p, each)
    return p.b.emit(Op.CALL_LOCAL, value, count, result=ValueType.SCALAR, symbol=symbol)


def _build_keep(p: ProgramBuilder, each: StackClass) -> None:
    """A function of the stack's place (header, then frames) and the number of its frames."""
    b = p.b
    value, count = b.parameters
    b.assume_non_null(value)
    most = each.words // _GROUP
    b.assume_bounds(count, 1, each.frames)
    b.store(value, 0, count, 8)
    mixed = b.variable(hint="hash")
    b.write(mixed, b.const(_MULTIPLIER))
    with range_loop(p, 0, _groups(p, value, most), 1, [mixed]) as (_, index):
        place = _group(p, value, index)
        for offset in range(0, _GROUP * _WORD, _WORD):
            so_far = b.read(mixed)
            assert so_far is not None
            sum_ = b.binary(Op.MUL, b.binary(Op.XOR, so_far, b.load(place, offset, 8)), b.const(_MULTIPLIER))
            b.write(mixed, b.binary(Op.XOR, sum_, b.binary(Op.LSHR, sum_, b.const(32))))
    home = b.binary(Op.AND, b.read_final(mixed), b.const(_HASH_MASK))
    home = b.binary(Op.OR, home, b.const(each.bit)) if each.bit else home
    b.store(value, 0, b.binary(Op.OR, b.binary(Op.SHL, home, b.const(32)), count), 8)
    number, answer = b.variable(hint="number"), b.variable(hint="answer")
    b.write(number, home)
    b.write(answer, b.const(MISSED))
    key = b.slot_address(b.slot(4, 4, name="number"))
    handle = p.use_map(_spec(each, p.target))
    with range_loop(p, 0, ATTEMPTS, 1, [number, answer]) as (attempts, _):
        now = b.read(number)
        assert now is not None
        b.store(key, 0, now, 4)
        entry = b.call(MAP_LOOKUP_ELEM, b.emit(Op.MAP, symbol=handle), key, result=ValueType.POINTER)
        with b.if_(Compare(Relation.NE, entry, b.const(0), null_check=True)):
            equal = b.variable(hint="equal")
            b.write(equal, b.const(1))
            with (
                range_loop(p, 0, _groups(p, value, most), 1, [equal]) as (compared, index),
                b.if_(Compare(Relation.NE, _difference(p, value, entry, index), b.const(0))),
            ):
                b.write(equal, b.const(0))
                b.break_(compared)
            with b.if_(Compare(Relation.NE, b.read_final(equal), b.const(0))):
                b.write(answer, now)
                b.break_(attempts)
            following = b.binary(Op.AND, b.binary(Op.ADD, now, b.const(1)), b.const(_HASH_MASK))
            b.write(number, b.binary(Op.OR, following, b.const(each.bit)) if each.bit else following)
        with b.else_():
            # An int before Linux 6.4, whose upper half a direct call leaves 0: commit d7ba4cc900bf ("bpf: return long
            # from bpf_map_ops funcs").
            failed = b.call(MAP_UPDATE_ELEM, b.emit(Op.MAP, symbol=handle), key, value, b.const(BPF_NOEXIST))
            failed = b.emit(Op.SEXT, failed, size=4)
            with b.if_(Compare(Relation.EQ, failed, b.const(0))):
                b.write(answer, now)
                b.break_(attempts)
            # Another processor was faster: the next iteration finds what it has kept there.
            with b.if_(Compare(Relation.NE, failed, b.const(-EEXIST))):
                full = b.const(-E2BIG)
                with b.if_(Compare(Relation.EQ, failed, full)):
                    count_drop(p, FULL, CLASSES[0].map)
                with b.else_():
                    count_drop(p, NO_MEMORY, CLASSES[0].map)
                b.ret(b.const(MISSED))
    found = b.read_final(answer)
    with b.if_(Compare(Relation.SLT, found, b.const(0))):
        count_drop(p, FULL, CLASSES[0].map)
    b.ret(found)


def _groups(p: ProgramBuilder, value: ir.Value, most: int) -> Int:
    """How many groups a stack has, header included: read from memory, where the verifier does not keep track.

    Else it would follow all that comes after a loop once for each iteration that may have been the last.
    """
    b = p.b
    count = b.load(value, 0, 4)
    groups = b.binary(Op.LSHR, b.binary(Op.ADD, count, b.const(_GROUP)), b.const(2))
    b.assume_bounds(groups, 1, most)
    return Int(groups, S64)


def _group(p: ProgramBuilder, base: ir.Value, index: Int) -> ir.Value:
    """The address of a group of words."""
    return p.b.emit(Op.OFFSET, base, p.b.binary(Op.SHL, index.value, p.b.const(5)))


def _difference(p: ProgramBuilder, left: ir.Value, right: ir.Value, index: Int) -> ir.Value:
    """Not 0 where two stacks differ in a group."""
    b = p.b
    one, other = _group(p, left, index), _group(p, right, index)
    found: ir.Value | None = None
    for offset in range(0, _GROUP * _WORD, _WORD):
        differing = b.binary(Op.XOR, b.load(one, offset, 8), b.load(other, offset, 8))
        found = differing if found is None else b.binary(Op.OR, found, differing)
    assert found is not None
    return found


def frame_count(p: ProgramBuilder, number: ir.Value) -> Int:
    """How many frames the stack of a number has; 0 of one that was not kept."""
    b = p.b
    answer = b.variable(hint="frames")
    b.write(answer, b.const(0))
    key = b.slot_address(b.slot(4, 4, name="number"))
    b.store(key, 0, number, 4)
    shallow, deep = CLASSES
    for each, relation in ((shallow, Relation.EQ), (deep, Relation.NE)):
        with b.if_(Compare(relation, b.binary(Op.AND, number, b.const(deep.bit)), b.const(0))):
            handle = b.emit(Op.MAP, symbol=p.use_map(_spec(each, p.target)))
            entry = b.call(MAP_LOOKUP_ELEM, handle, key, result=ValueType.POINTER)
            with b.if_(Compare(Relation.NE, entry, b.const(0), null_check=True)):
                b.write(answer, b.load(entry, 0, 4))
    return Int(b.read_final(answer), S64)


@intrinsic(_stack("kstack", 0))
def kstack(depth: int = DEPTH, *, skip: int = 0) -> int:
    """Number of the current call stack in the kernel; negative if it has none.

    An s64 that fits an s32. `bpf.stacks` has its frames. `depth`: of its innermost frames only, so that stacks which
    are equal in those have one number. `skip` innermost frames are left out. A stack that cannot be kept is counted
    as dropped.
    """
    raise OnlyInProbe


@intrinsic(_stack("ustack", BPF_F_USER_STACK))
def ustack(depth: int = DEPTH, *, skip: int = 0) -> int:
    """Number of the current call stack in user space, as `kstack` has them; negative if it has none.

    The kernel follows frame pointers, which programs may have been built without: then it ends early.
    """
    raise OnlyInProbe


@intrinsic(_ustack_of)
def ustack_of(frames: Sequence[int], count: int) -> int:
    """Number of a call stack in user space that the probe has found itself: `count` addresses, the innermost first.

    Kept as those of `ustack`: what is equal has one number, and `bpf.stacks` has the frames. `frames`: an array of at
    most 127 u64; a `count` that is larger is taken for its length. Negative if there is no frame.
    """
    raise OnlyInProbe
