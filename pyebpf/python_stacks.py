"""`PythonStacks`: Python's functions in the stacks of CPython processes, walked by the probe and named afterwards.

    from pyebpf.python_stacks import PythonStacks

    python = PythonStacks(bpf)

    @bpf.sample(frequency=99)
    def on_sample() -> None:
        counts[Place(pid=pid(), user=ustack(), python=python.here())] += 1

    frames = python.merged(place.python, place.pid, bpf.stacks.user(place.user, place.pid))

The probe finds the thread's PyThreadState by its native id, and follows the chain of its interpreter frames. The
thread is interrupted meanwhile, so what is read is what it was executing. Each call is a node of a tree that has the
innermost calls as its roots; the number of a stack is that of its outermost call, and equal stacks are one chain.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyebpf import Struct, pid, tid, u8, u32, u64, user
from pyebpf.elf.budget import Room
from pyebpf.symbols.mappings import running_program
from pyebpf.symbols.python import ROOM, PythonCall, PythonFunctions, Pythons, read_memory, with_python
from pyebpf.tool import flag
from pyebpf.tool.tracer import call_before_attaching

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf import BPF
    from pyebpf.symbols.frame import Frame
    from pyebpf.symbols.python_layout import Layout

__all__ = ["PythonStacks"]

#: Processes; threads of one that are looked through; calls of a stack; and calls of all stacks.
PROCESSES, THREADS, DEPTH, CALLS = 4096, 256, 96, 262_144
# An odd number of many bits: the golden ratio's fraction.
_MIX = 0x9E37_79B9_7F4A_7C15
# Objects are aligned; 3.14 has tags in the low bits of pointers to them.
_ALIGNED = 0xFFFF_FFFF_FFFF_FFF8
_ENTRY = 1
#: Seconds from a look to the next, of which it takes a part at most; those for a look at processes.
_PAUSE, _SHARE, _SECONDS = 1.0, 20, 5.0


class Interpreter(Struct):
    """Layout of a process, as far as the probe needs it."""

    runtime: u64
    interpreters: u32
    next_interpreter: u32
    threads: u32
    next_thread: u32
    native_id: u32
    cframe: u32
    current_frame: u32
    previous: u32
    executable: u32
    instruction: u32
    entry: u32
    entry_from: u32
    linetable: u32
    unused: u32


class Call(Struct):
    """A call, and the number of the one inside it; the code's lowest bit is set if it is the evaluator's outermost."""

    inner: u64
    code: u64
    table: u64
    instruction: u64
    pid: u64


class PythonStacks:
    """Stacks of Python's functions, of processes that run CPython 3.11 to 3.14 when the probes are attached.

    `pids` are those that are of interest, all by default. What they have called is read by `look`, while they live.
    """

    def __init__(self, bpf: BPF, pids: Sequence[int] = ()) -> None:
        self._pids = pids
        self._interpreters = bpf.hash(key=u32, value=Interpreter, size=PROCESSES, name="pythons")
        self._calls = bpf.hash(key=u64, value=Call, size=CALLS, name="python_calls")
        self._functions: dict[int, PythonFunctions] = {}
        self._programs: dict[int, tuple[bytes, bytes]] = {}  # that were looked at
        self._pythons, self._room = Pythons(), Room(ROOM)
        call_before_attaching(bpf, self._begin)
        _OF[bpf] = self

    def here(self) -> int:
        """In a probe: the number of the current thread's stack in Python; 0 if it has none."""
        one = self._interpreters.get(pid())
        if one is None:
            return 0
        thread = self._thread(one, tid())
        if thread == 0:
            return 0
        holder = thread
        if one.cframe != 0:
            holder = user(thread + one.cframe, u64)[0]
        frame = user(holder + one.current_frame, u64)[0]
        number: u64 = 0
        process: u64 = pid()
        for _ in range(DEPTH):
            if frame == 0:
                break
            code = user(frame + one.executable, u64)[0] & _ALIGNED
            instruction = user(frame + one.instruction, u64)[0]
            table = user(code + one.linetable, u64)[0]
            if user(frame + one.entry, u8)[0] >= one.entry_from:
                code |= _ENTRY
            mixed = ((((number ^ process) * _MIX) ^ code) * _MIX) ^ instruction
            mixed = (mixed ^ (mixed >> 32)) * _MIX
            mixed = mixed ^ (mixed >> 29)
            if self._calls.get(mixed) is None:
                self._calls[mixed] = Call(inner=number, code=code, table=table, instruction=instruction, pid=process)
            number = mixed
            frame = user(frame + one.previous, u64)[0]
        return number

    def _thread(self, one: Interpreter, native: int) -> Any:
        """In a probe: the address of the thread's PyThreadState; 0 if it runs no Python."""
        interpreter = user(one.runtime + one.interpreters, u64)[0]
        thread = user(interpreter + one.threads, u64)[0]
        for _ in range(THREADS):
            if thread == 0:
                interpreter = user(interpreter + one.next_interpreter, u64)[0]
                if interpreter == 0:
                    break
                thread = user(interpreter + one.threads, u64)[0]
            elif user(thread + one.native_id, u64)[0] == native:
                return thread
            else:
                thread = user(thread + one.next_thread, u64)[0]
        return 0

    def look(self) -> float:
        """Take note of the processes that run Python now, and of the functions that were called so far.

        In how many seconds to look again, so that this takes a twentieth of the time at most.
        """
        began = time.monotonic()
        self._look_at_processes()
        for call in self._calls.values():
            functions = self._functions.get(call.pid)
            if functions is not None:
                functions.see(_decoded(call))
        return max(_PAUSE, _SHARE * (time.monotonic() - began))

    def _begin(self) -> None:
        self.look()

    def _look_at_processes(self) -> None:
        living = self._pids or sorted(int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
        programs = {process: program for process in living if (program := running_program(process)) is not None}
        self._programs = {process: seen for process, seen in self._programs.items() if programs.get(process) == seen}
        until = time.monotonic() + _SECONDS
        for process in programs.keys() - self._programs.keys():
            if time.monotonic() > until:
                return  # the rest at the next look
            self._programs[process] = programs[process]
            found = self._pythons.find(process)
            if found is None:
                self._interpreters.pop(process, None)
            elif process in self._functions or len(self._functions) < PROCESSES:
                self._functions[process] = PythonFunctions(found.layout, _memory_of(process), self._room)
                self._interpreters[process] = _interpreter(found.runtime, found.layout)

    def merged(self, number: int, process: int, native: tuple[Frame, ...]) -> tuple[Frame, ...]:
        """The native frames of a stack with Python's functions of this number: `py::function:FILE:LINE`.

        Each evaluator of the native stack is replaced by the functions that it runs. Of a stack that is cut, what is
        left below the functions is the code that they have called.
        """
        functions = self._functions.get(process)
        if not number or functions is None:
            return native
        return with_python(native, self._stack(number), functions)

    def _stack(self, number: int) -> list[PythonCall]:
        """The calls of a stack, the innermost first."""
        found: list[PythonCall] = []
        while number and len(found) < DEPTH:
            call = self._calls.get(number)
            if call is None:
                break
            found.append(_decoded(call))
            number = call.inner
        return found[::-1]


#: Those of tracers that have any.
_OF: WeakKeyDictionary[BPF, PythonStacks] = WeakKeyDictionary()


def python_stacks(bpf: BPF) -> PythonStacks | None:
    """Stacks of Python of a tracer; None if it has none."""
    return _OF.get(bpf)


def python_option() -> Any:
    """`--python` of tools, which shows Python's functions."""
    return flag("--python", help="show Python's functions, of processes that run CPython 3.11 to 3.14")


def _memory_of(process: int) -> Callable[[int, int], bytes]:
    return lambda address, size: read_memory(process, address, size)


def _decoded(call: Call) -> PythonCall:
    return PythonCall(call.code & _ALIGNED, call.table, call.instruction, bool(call.code & _ENTRY))


def _interpreter(runtime: int, layout: Layout) -> Interpreter:
    offsets = {name: offset for name, offset in layout._asdict().items() if name in Interpreter.__annotations__}
    return Interpreter(runtime=runtime, unused=0, **offsets)
