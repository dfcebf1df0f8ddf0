"""The two programs of a call: the entry notes what the probe takes, the return runs the probe with it.

What is noted is an entry of a hidden hash map, whose key tells one call from every other that is under way:

    trampolines       the address of the context, which lies in the call's own frame of the kernel's stack
    system calls      the thread: it makes one at a time
    uprobes           the thread, and where its stack pointer stood
    kprobes, USDT     the task, and how many calls it was in: a second map has their number

A session of kprobes is one program for both, and keeps the time by itself; it has no place for arguments.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any
from zlib import crc32

from pyebpf.attach import registers, sessions
from pyebpf.builder.context import ProgramContext, annotated
from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.entity import RunTimeValue, describe
from pyebpf.builder.values.integers import Int
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.dataclass import dataclass
from pyebpf.module.body import Body
from pyebpf.specs import MapSpec
from pyebpf.specs.programs import LONGEST_NAME
from pyebpf.types import U64, ArrayType
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_ANY
from pyebpf.uapi.helper_ids import (
    GET_CURRENT_PID_TGID,
    GET_CURRENT_TASK,
    KTIME_GET_NS,
    MAP_DELETE_ELEM,
    MAP_LOOKUP_ELEM,
    MAP_UPDATE_ELEM,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.errors import Location
    from pyebpf.specs import AttachSpec
    from pyebpf.uapi.bpf import ProgramType

#: Parameters of a probe that are known at the return: what the call gave, and the nanoseconds that it took.
RETVAL, RAW_RETVAL, ELAPSED = "retval", "raw_retval", "elapsed"
AT_RETURN = frozenset({RETVAL, RAW_RETVAL, ELAPSED})
#: Calls of one probe that may be under way at once.
MAX_CALLS = 65_536
_FULL = f"call not followed: {MAX_CALLS} were under way"


class CallKey(Enum):
    """The way to tell a call from others that are under way."""

    TRAMPOLINE = auto()
    THREAD = auto()
    USER_FRAME = auto()
    NESTED = auto()


@dataclass(frozen=True, slots=True)
class Entering:
    """The body of the entry's program, for a probe's. `keeps` says whether arguments are noted, or only the time."""

    key: CallKey
    keeps: bool = True

    def __call__(self, body: Body) -> Body:
        return _Entry(body, self.key, keeps=self.keeps)


@dataclass(frozen=True, slots=True)
class Returning:
    """The body of the return's program, for a probe's.

    `entry` gives the attach point of the entry, by whose types the arguments are read; None where the return has them
    itself. `result` is what the return's attach point calls the result, empty where there is none.
    """

    key: CallKey
    entry: Callable[[Any], AttachSpec] | None = None
    result: str = RETVAL

    def __call__(self, body: Body) -> Body:
        return _Return(body, self)


@dataclass(frozen=True, slots=True)
class InSession:
    """The body of a session's program, for that of a probe without arguments of the entry."""

    def __call__(self, body: Body) -> Body:
        return _Session(body)


class _Call(Body):
    """One of the two bodies, by the name and at the place of the probe's."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.name = body.name
        self.parameters = body.parameters
        self.wrapped = body.wrapped

    @property
    def where(self) -> Location | None:
        return self.body.where


class _Entry(_Call):
    def __init__(self, body: Body, key: CallKey, *, keeps: bool) -> None:
        super().__init__(body)
        self._calls = _Calls(body, key, keeps=keeps)

    def build(self, p: ProgramBuilder) -> None:
        values = []
        for position, name in enumerate(self._calls.kept):
            value = p.program_context.parameter(p, name, self.body.annotation(name), position)
            values.append(_number(p, name, value))
        self._calls.note(p, values)
        p.b.ret(_nothing(p))


class _Return(_Call):
    def __init__(self, body: Body, call: Returning) -> None:
        super().__init__(body)
        self._call = call
        self._calls = _Calls(body, call.key, keeps=call.entry is not None)

    def build(self, p: ProgramBuilder) -> None:
        began, *values = self._calls.take(p)
        took = p.b.binary(Op.SUB, p.b.call(KTIME_GET_NS), began) if ELAPSED in self.parameters else None
        kept = dict(zip(self._calls.kept, values, strict=True))
        with p.context_of(_ReturnContext(p.program_context, self._call, kept, took)):
            self.body.build(p)


class _Session(_Call):
    """At the entry the time becomes the session's cookie; at the return the probe runs."""

    def build(self, p: ProgramBuilder) -> None:
        b = p.b
        with b.if_(Compare(Relation.EQ, sessions.is_return(p).value, b.const(0))):
            sessions.set_cookie(p, Int(b.call(KTIME_GET_NS), U64))
            b.ret(b.const(0))
        began = sessions.cookie(p).value
        took = b.binary(Op.SUB, b.call(KTIME_GET_NS), began)
        with p.context_of(_SessionContext(p.program_context, Returning(CallKey.NESTED), {}, took)):
            self.body.build(p)


class _ReturnContext(ProgramContext[Any]):
    """The context of a call's return: arguments from its entry, all else from the attach point."""

    def __init__(
        self,
        returned: ProgramContext[Any],
        call: Returning,
        kept: Mapping[str, ir.Value],
        took: ir.Value | None,
    ) -> None:
        super().__init__(returned.attach)
        self.target, self.space, self.is_preemptible = returned.target, returned.space, returned.is_preemptible
        self._returned = returned
        self._call = call
        self._kept = kept
        self._took = took
        self._entry = None if call.entry is None else call.entry(returned.attach).program_context()

    def check_user_read(self, p: ProgramBuilder) -> None:
        self._returned.check_user_read(p)

    def default_return(self, program_type: ProgramType) -> int | None:
        return self._returned.default_return(program_type)

    def function_ip(self, p: ProgramBuilder) -> ir.Value:
        return self._returned.function_ip(p)

    def parameter(self, p: ProgramBuilder, name: str, annotation: object, position: int) -> object:
        if name == ELAPSED and self._took is not None:
            return annotated(p, Int(self._took, U64), annotation)
        if name == RETVAL:
            if not self._call.result:
                p.fail(f"{RETVAL}: a pair of USDT probes has no result: read it by @bpf.usdt at the second of them")
            return self._returned.parameter(p, self._call.result, annotation, position)
        if self._entry is None or name == RAW_RETVAL:
            return self._returned.parameter(p, name, annotation, position)
        position = list(self._kept).index(name)
        # Only the type is wanted here: the code that reads the argument is the entry's.
        with p.discarded():
            typed = self._entry.parameter(p, name, annotation, position)
        return typed.with_ssa_values((self._kept[name],))

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        if name == sessions.COOKIE and self._call.key is CallKey.USER_FRAME:
            return self._returned.attribute(p, name)  # the number of the function: the return has the entry's
        p.fail(f"ctx.{name}: of a call only parameters are kept from its entry: make {name} one, def probe({name}, …)")


class _SessionContext(_ReturnContext):
    """The return in a session, whose programs must give a result."""

    def default_return(self, program_type: ProgramType) -> int | None:
        return 0


class _Calls:
    """Calls of one probe that are under way: a hidden map, as the two programs use it."""

    def __init__(self, body: Body, key: CallKey, *, keeps: bool) -> None:
        self._key = key
        self.kept = tuple(name for name in body.parameters if name not in AT_RETURN) if keeps else ()

    def _spec(self, p: ProgramBuilder) -> MapSpec:
        # Threads die in a function of a library, and are never seen to return.
        type_ = MapType.LRU_HASH if self._key is CallKey.USER_FRAME else MapType.HASH
        key = ArrayType(U64, 2) if self._key in (CallKey.USER_FRAME, CallKey.NESTED) else U64
        value = ArrayType(U64, 1 + len(self.kept))
        return MapSpec(_map_name(p.name, ".c_"), type_, key, value, MAX_CALLS)

    def note(self, p: ProgramBuilder, values: Sequence[ir.Value]) -> None:
        """Note a call that begins, with its time; one that the map has no room for is counted as dropped."""
        b = p.b
        value = _words(p, [b.call(KTIME_GET_NS), *values], "call")
        if self._key is CallKey.NESTED:
            key = _words(p, _enter_nested(p), "key")
        else:
            key = _words(p, _key(p, self._key, returns=False), "key")
        spec = self._spec(p)
        failed = b.call(MAP_UPDATE_ELEM, b.emit(Op.MAP, symbol=p.use_map(spec)), key, value, b.const(BPF_ANY))
        failed = b.emit(Op.SEXT, failed, size=4)  # an int before Linux 6.4
        with b.if_(Compare(Relation.NE, failed, b.const(0))):
            count_drop(p, _FULL, spec.name)

    def take(self, p: ProgramBuilder) -> list[ir.Value]:
        """The note of the call that ends, its time first; without one the program ends here."""
        b = p.b
        words = _leave_nested(p) if self._key is CallKey.NESTED else _key(p, self._key, returns=True)
        key = _words(p, words, "key")
        handle = p.use_map(self._spec(p))
        call = b.call(MAP_LOOKUP_ELEM, b.emit(Op.MAP, symbol=handle), key, result=ValueType.POINTER)
        _end_without(p, call)
        found = [b.load(call, U64.size * index, U64.size) for index in range(1 + len(self.kept))]
        b.call(MAP_DELETE_ELEM, b.emit(Op.MAP, symbol=handle), key)
        return found


def _key(p: ProgramBuilder, key: CallKey, *, returns: bool) -> list[ir.Value]:
    if key is CallKey.TRAMPOLINE:
        return [p.context]
    thread = p.b.call(GET_CURRENT_PID_TGID)
    if key is CallKey.THREAD:
        return [thread]
    arch = registers.machine(p)
    stack = registers.register(p, arch.stack)
    # A return address on the stack is gone when the function has returned.
    return [thread, p.b.emit(Op.ADD, stack, p.b.const(-arch.stack_arguments)) if returns else stack]


def _depth_spec(p: ProgramBuilder) -> MapSpec:
    """By the address of a task: the thread that it was, and the number of calls that it is in."""
    return MapSpec(_map_name(p.name, ".d_"), MapType.HASH, U64, ArrayType(U64, 2), MAX_CALLS)


def _enter_nested(p: ProgramBuilder) -> list[ir.Value]:
    """One level deeper: the task, and the level."""
    b = p.b
    task, thread = b.call(GET_CURRENT_TASK), b.call(GET_CURRENT_PID_TGID)
    spec = _depth_spec(p)
    key = _words(p, [task], "task")
    entry = b.call(MAP_LOOKUP_ELEM, b.emit(Op.MAP, symbol=p.use_map(spec)), key, result=ValueType.POINTER)
    depth = b.variable(hint="depth")
    b.write(depth, b.const(0))
    with b.if_(Compare(Relation.NE, entry, b.const(0), null_check=True)):
        # A thread that died inside has left its depth to whoever has its task now.
        with b.if_(Compare(Relation.EQ, b.load(entry, 0, 8), thread)):
            b.write(depth, b.load(entry, 8, 8))
        b.store(entry, 0, thread, 8)
        found = b.read(depth)
        assert found is not None
        b.store(entry, 8, b.binary(Op.ADD, found, b.const(1)), 8)
    with b.else_():
        first = _words(p, [thread, b.const(1)], "first")
        failed = b.call(MAP_UPDATE_ELEM, b.emit(Op.MAP, symbol=spec.name), key, first, b.const(BPF_ANY))
        failed = b.emit(Op.SEXT, failed, size=4)  # an int before Linux 6.4
        with b.if_(Compare(Relation.NE, failed, b.const(0))):
            count_drop(p, _FULL, spec.name)
            b.ret(_nothing(p))
    return [task, b.read_final(depth)]


def _leave_nested(p: ProgramBuilder) -> list[ir.Value]:
    """One level up: the task, and the level that is left. The program ends for a task that is in no call."""
    b = p.b
    task, thread = b.call(GET_CURRENT_TASK), b.call(GET_CURRENT_PID_TGID)
    handle = p.use_map(_depth_spec(p))
    key = _words(p, [task], "task")
    entry = b.call(MAP_LOOKUP_ELEM, b.emit(Op.MAP, symbol=handle), key, result=ValueType.POINTER)
    _end_without(p, entry)
    with b.if_(Compare(Relation.NE, b.load(entry, 0, 8), thread)):
        b.ret(_nothing(p))
    level = b.binary(Op.SUB, b.load(entry, 8, 8), b.const(1))
    b.store(entry, 8, level, 8)
    with b.if_(Compare(Relation.EQ, level, b.const(0))):
        b.call(MAP_DELETE_ELEM, b.emit(Op.MAP, symbol=handle), key)
    return [task, level]


def _words(p: ProgramBuilder, values: Sequence[ir.Value], name: str) -> ir.Value:
    """The address of values of 8 bytes in a row, on the stack."""
    place = p.b.slot_address(p.b.slot(U64.size * len(values), name=name))
    for index, value in enumerate(values):
        p.b.store(place, U64.size * index, value, U64.size)
    return place


def _number(p: ProgramBuilder, name: str, value: object) -> ir.Value:
    values = value.ssa_values if isinstance(value, RunTimeValue) else ()
    if len(values) != 1:
        p.fail(f"{name}: {describe(value)} cannot be kept until the call returns: numbers and pointers can")
    return values[0]


def _end_without(p: ProgramBuilder, entry: ir.Value) -> None:
    with p.b.if_(Compare(Relation.EQ, entry, p.b.const(0), null_check=True)):
        p.b.ret(_nothing(p))
    p.b.assume_non_null(entry)


def _nothing(p: ProgramBuilder) -> ir.Value:
    """The result of a program that has nothing to say."""
    return p.b.const(p.program_context.default_return(p.program_type) or 0)


def _map_name(program: str, prefix: str) -> str:
    """A name of the program's own: programs of one module have different ones, whose ends may be all that differs."""
    name = prefix + program
    return name if len(name) <= LONGEST_NAME else f"{prefix}{crc32(program.encode()):08x}"
