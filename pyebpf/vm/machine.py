"""`Machine`: maps, memory and the surroundings of programs; `run` for one program alone."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyebpf.asm import Instruction, Label, Raw, decode, instructions_of, link
from pyebpf.asm.instruction import check_items
from pyebpf.dataclass import dataclass, field
from pyebpf.errors import InvalidValue, NotFound, VmError, check_argument, closest
from pyebpf.specs import MapSpec, ProgramSpec
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.helpers import helper
from pyebpf.vm.contexts import Packet, plain_context
from pyebpf.vm.loaded import MAX_STEPS, LoadedProgram
from pyebpf.vm.maps import VmMap, make_map
from pyebpf.vm.maps.perf_event_array import PerfEventArrayMap
from pyebpf.vm.maps.prog_array import ProgramArrayMap
from pyebpf.vm.maps.ringbuf import RingBufferMap
from pyebpf.vm.memory import Memory, Region
from pyebpf.vm.routes import Routes
from pyebpf.vm.sockets import Sockets
from pyebpf.vm.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.asm import Op
    from pyebpf.vm.helpers.dynptr import Dynptr
    from pyebpf.vm.helpers.tunnels import TunnelKey
    from pyebpf.vm.sockets import Socket

Code = ProgramSpec | Sequence[Instruction | Label | Raw] | bytes


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a run.

    value    R0 at the end, all 64 bits
    maps     every map of the machine by name, as they are now: `maps["counts"].entries()`
    events   records in ring buffers and perf event arrays that nobody has taken, by map, the oldest first
    printed  lines of bpf_trace_printk
    context  the context's bytes afterwards
    packet   the packet afterwards; empty without one
    trace    with `trace=True` the indices of the instructions that ran, in order; else empty
    """

    value: int
    maps: Mapping[str, VmMap]
    events: Mapping[str, list[bytes]]
    printed: tuple[str, ...]
    context: bytes = b""
    packet: bytes = b""
    trace: tuple[int, ...] = ()
    instructions: tuple[Instruction, ...] = field(default=(), repr=False)

    @property
    def executed(self) -> dict[Op, int]:
        """Counts of each operation that ran; needs `trace=True`."""
        counts: dict[Op, int] = {}
        for index in self.trace:
            op = self.instructions[index].op
            counts[op] = counts.get(op, 0) + 1
        return counts


class Machine:
    """Interprets programs that share maps, memory and surroundings.

    The surroundings are attributes, to be changed between runs: `time` in nanoseconds (a number, or an iterable or
    function that gives one for each question), `pid`, `tid`, `uid`, `gid`, `comm`, `cpu` of `cpus`, `cgroup_id`, `task`
    (address of struct task_struct), `kernel_stack` and `user_stack` (addresses, the innermost first).

    `memory` is what probe_read finds: bytes by address. `helpers` and `kfuncs` replace or add emulations, functions of
    the machine and the registers, by name: NotFound for a helper that Linux has not. `strict` refuses what the verifier
    lets privileged programs do though it is a mistake: reading bytes of the stack that were not written, sending
    records with such bytes.
    """

    def __init__(
        self,
        maps: Iterable[MapSpec] = (),
        *,
        memory: Mapping[int, bytes] | None = None,
        time: int | Iterable[int] | Callable[[], int] = 0,
        pid: int = 1,
        tid: int | None = None,
        uid: int = 0,
        gid: int = 0,
        comm: str = "test",
        cpu: int = 0,
        cpus: int = 2,
        seed: int = 0,
        helpers: Mapping[str, Callable[..., int | None]] | None = None,
        kfuncs: Mapping[str | int, Callable[..., int | None]] | None = None,
        strict: bool = True,
        trace: bool = False,
        max_steps: int = MAX_STEPS,
    ) -> None:
        maps = list(maps)
        for each in maps:
            check_argument("maps", each, MapSpec, "MapSpecs")
        self.memory = Memory()
        self.time = time
        self.pid = pid
        self.tid = pid if tid is None else tid
        self.uid = uid
        self.gid = gid
        self.comm = comm
        if not 0 <= cpu < cpus:
            raise InvalidValue(f"cpu={cpu}: there are {cpus} processors, from 0")
        self.cpu = cpu
        self.cpus = cpus
        self.cgroup_id = 1
        #: Addresses of control groups by id, for bpf_cgroup_from_id.
        self.cgroups: dict[int, int] = {}
        #: Masks of processors by address; the processor that bpf_cpumask_any_distribute gave last.
        self.cpumasks: dict[int, Region] = {}
        self.distributed = -1
        #: References to such objects that a program took and has not given back, by address.
        self.acquired: dict[int, int] = {}
        self.task = 0
        #: Sockets that look-ups find; the packet's or event's own socket, and the one that sk_assign gave it.
        self.sockets = Sockets()
        self.socket: Socket | None = None
        self.assigned: Socket | None = None
        self.netns_cookie = 1
        #: Devices' MTUs by their index; the class of net_cls; what sk_select_reuseport chose, a map's value.
        self.mtus = {1: 65536}
        self.cgroup_classid = 0
        #: Routes that bpf_fib_lookup finds.
        self.routes = Routes()
        self.selected: bytes | None = None
        #: The tunnel's key that packets come with; what the last program had its packet leave with.
        self.tunnel: TunnelKey | None = None
        self.tunnel_set: bytes | None = None
        self.tunnel_options = b""
        self.function_ip = 0
        #: Whether a kprobe session's program runs at its function's return, and its cookie, which both runs share.
        self.returning = False
        self.session = Region("mem", "session cookie", bytearray(8))
        self.cookie = 0
        #: Bytes that programs wrote to the sequence file that they were given.
        self.sequence = bytearray()
        self.kernel_stack: Sequence[int] = ()
        self.user_stack: Sequence[int] = ()
        self.random = random.Random(seed)  # noqa: S311 - a test's numbers, to be had again from the seed
        #: The key that signs SYN cookies.
        self.secret = (seed & (1 << 128) - 1).to_bytes(16, "little")
        self.helpers = {helper(name).name: emulation for name, emulation in (helpers or {}).items()}
        self.kfuncs = dict(kfuncs or {})
        self.ksyms: dict[str | int, int] = {}
        self.strict = strict
        self.trace = trace
        self.max_steps = max_steps
        self.maps: dict[str, VmMap] = {}
        #: Maps by the descriptors or indices that instructions name them by.
        self.descriptors: dict[int, str] = {}
        self.functions: dict[int, Callable[..., int]] = {}
        self.timers = Timers()
        self.iterators: dict[int, tuple[Region, int, int]] = {}
        self.dynptrs: dict[int, Dynptr] = {}
        self.locked: int | None = None
        self.printed: list[str] = []
        self.packet: Packet | None = None
        self.ran: list[int] = []
        self._programs: dict[int, LoadedProgram] = {}
        for spec in maps:
            self.add_map(spec)
        for address, data in (memory or {}).items():
            self.memory.give(address, data)

    # --- maps and programs ---

    def add_map(self, spec: MapSpec, descriptor: int | None = None) -> VmMap:
        """Make a map; `descriptor` is the number that instructions may name it by. InvalidValue: its name is taken."""
        if spec.name in self.maps:
            raise InvalidValue(f"there are two maps {spec.name}")
        made = make_map(spec, self.memory, self.cpus)
        self.maps[spec.name] = made
        if descriptor is not None:
            self.descriptors[descriptor] = spec.name
        return made

    def load(self, program: Code, *, program_type: ProgramType | None = None) -> LoadedProgram:
        """Translate a program: a spec, instructions and labels, or bytes. Running it again then costs nothing."""
        if isinstance(program, ProgramSpec):
            names = {each.name: each.start for each in program.code.subprograms}
            return LoadedProgram(self, program.code.instructions, names, program.type, program.cookie)
        if isinstance(program, bytes | bytearray):
            program = decode(bytes(program), raw=True)
        check_items(program)
        return LoadedProgram(self, instructions_of(link(program)), {}, program_type)

    def tail_calls(self, name: str, programs: Mapping[int, Code], *, program_type: ProgramType | None = None) -> None:
        """Fill a program array. Raises NotFound without a map of that name, InvalidValue if it is of another type."""
        found = self.maps.get(name)
        if found is None:
            raise NotFound(f"no map is called {name!r}{closest(name, self.maps)}")
        if not isinstance(found, ProgramArrayMap):
            raise InvalidValue(f"{name} is not a program array")
        for index, program in programs.items():
            found.programs[index] = self.load(program, program_type=program_type)

    # --- running ---

    def run(
        self,
        program: Code | LoadedProgram,
        context: bytes | None = None,
        *,
        packet: bytes | None = None,
        fields: Mapping[str, int] | None = None,
        program_type: ProgramType | None = None,
        arguments: Sequence[int] | None = None,
    ) -> Result:
        """Run a program from its first instruction.

        R1 is the address of the context: `context` as it is, or with `packet` a struct __sk_buff or xdp_md of it with
        the members `fields`. `arguments` instead are R1 and the following themselves. VmError for what the verifier
        would refuse, as it happens.
        """
        loaded = program if isinstance(program, LoadedProgram) else self.load(program, program_type=program_type)
        region = self._context(loaded.program_type, context, packet, fields or {})
        if region is not None:
            arguments = (self.memory.add(region),)
        self.printed.clear()
        self.assigned = self.tunnel_set = self.selected = None
        self.tunnel_options = b""
        self.ran = []
        self.memory.trusted = loaded.program_type is ProgramType.TRACING
        self.cookie = loaded.cookie
        try:
            value = loaded.start(*(arguments or (0,)))
            self._released()
        finally:
            self._forget(region)
        return Result(
            value,
            self.maps,
            self.events(),
            tuple(self.printed),
            bytes(region.data) if region is not None else b"",
            bytes(self.packet.region.data) if self.packet is not None else b"",
            loaded.executed(self.ran),
            loaded.translation.instructions,
        )

    def _context(
        self, kind: ProgramType | None, context: bytes | None, packet: bytes | None, fields: Mapping[str, int]
    ) -> Region | None:
        """The region of the context; None where the program has none. The packet is there from now on."""
        for name, data in (("context", context), ("packet", packet)):
            if data is not None and not isinstance(data, (bytes, bytearray, memoryview)):
                raise InvalidValue(f"{name} is bytes, not {type(data).__name__}")
        self.packet = None
        if packet is not None:
            writable = kind is not ProgramType.SOCKET_FILTER
            self.packet = Packet(packet, fields, xdp=kind is ProgramType.XDP, writable=writable)
            self.memory.add(self.packet.region)
            self.packet.refer()
            return self.packet.context
        return None if context is None else plain_context(kind, context)

    def _forget(self, context: Region | None) -> None:
        """Let go of what a program held, and take away its context and packet."""
        self.locked = None
        self.iterators.clear()
        self.dynptrs.clear()
        self.sockets.held.clear()
        self.acquired.clear()
        for mask in self.cpumasks.values():
            self.memory.remove(mask)
        self.cpumasks.clear()
        for each in (context, self.packet.region if self.packet is not None else None):
            if each is not None:
                self.memory.remove(each)

    def _released(self) -> None:
        """Check that a program gave back what it held: as the verifier would, by VmError."""
        for each in self.maps.values():
            if isinstance(each, RingBufferMap) and each.unfinished:
                raise VmError(
                    f"Unreleased reference: a record of ring buffer {each.name} is neither submitted nor discarded"
                )
        if any(self.sockets.held.values()):
            raise VmError("Unreleased reference: a socket that was looked up is not released by bpf_sk_release")
        if any(self.acquired.values()):
            raise VmError("Unreleased reference: an object that a kernel function handed out is not given back")
        if self.locked is not None:
            raise VmError("bpf_spin_lock is still held at the exit")

    def fire(self, until: int | None = None) -> int:
        """Run the callbacks of timers that are due at `until` (by default the machine's time); how many."""
        now = self.peek_time() if until is None else until
        fired = 0
        while (found := self.timers.next_due()) is not None:
            address, timer = found
            assert timer.due is not None
            if timer.due > now:
                break
            timer.due = None
            base = address >> 32 << 32
            key = next((key for key, value in timer.map.elements(self.cpu) if value == base), b"")
            region = Region("map_key", timer.map.name, bytearray(key), writable=False)
            self.function_at(timer.callback)(timer.map.address, self.memory.add(region), base)
            self.memory.remove(region)
            fired += 1
        return fired

    def events(self) -> dict[str, list[bytes]]:
        """Records that wait in ring buffers and perf event arrays."""
        found: dict[str, list[bytes]] = {}
        for name, each in self.maps.items():
            if isinstance(each, RingBufferMap):
                found[name] = each.events
            elif isinstance(each, PerfEventArrayMap):
                found[name] = [data for _, data in each.events]
        return found

    # --- what helpers ask ---

    def now(self) -> int:
        """The time, which goes on if it is an iterable or a function."""
        time = self.time
        if isinstance(time, int):
            return time
        if callable(time):
            return time()
        if not isinstance(time, Iterator):
            self.time = time = iter(time)
        value: int | None = next(time, None)
        if value is None:
            raise VmError("the program asks for the time once more than `time` has values")
        return value

    def peek_time(self) -> int:
        """The time, if it is a number; else 0."""
        return self.time if isinstance(self.time, int) else 0

    def map_at(self, address: int) -> VmMap:
        """The map that a pointer means."""
        found = self.memory.maps.get(address)
        if found is None:
            raise VmError(f"R1 type=scalar expected=map_ptr: {address:#x} is not a map")
        return found

    def map_named(self, name: str | int) -> VmMap:
        """The map that an instruction names."""
        known = self.descriptors.get(name) if isinstance(name, int) else name
        if known is None:
            raise VmError(f"fd {name} is not pointing to valid bpf_map: give it with add_map(spec, descriptor={name})")
        if known not in self.maps:
            raise VmError(f"there is no map {known}{closest(known, self.maps)}: give its spec in `maps`")
        return self.maps[known]

    def function_at(self, address: int) -> Callable[..., int]:
        """The subprogram that a pointer means."""
        found = self.functions.get(address)
        if found is None:
            raise VmError(f"R2 type=scalar expected=func: {address:#x} is not a function")
        return found

    @property
    def xdp(self) -> bool:
        """Whether the current packet is an XDP program's."""
        return self.packet is not None and self.packet.xdp

    def packet_data(self) -> memoryview:
        """The current packet's bytes, without the metadata in front of them."""
        if self.packet is None:
            raise VmError("this run has no packet: give run(packet=…)")
        return memoryview(self.packet.region.data)[self.packet.metadata :]

    def move_packet(self, head: int, tail: int, metadata: int = 0) -> None:
        """Cut `head` bytes off the front and add `tail` at the end (negative: the other way); pointers to it end.

        `metadata` is how many bytes there are more in front of it, less where negative.
        """
        assert self.packet is not None
        old, size = self.packet.region, self.packet.metadata
        data = bytes(old.data[size:])
        data = bytes(-head) + data if head < 0 else data[head:]
        data = data + bytes(tail) if tail >= 0 else data[:tail]
        before = bytes(max(metadata, 0)) + bytes(old.data[max(-metadata, 0) : size])
        self.memory.remove(old)
        self.packet.metadata = len(before)
        self.packet.region = Region("packet", "packet", bytearray(before + data), writable=old.writable)
        self.memory.add(self.packet.region)
        self.packet.refer()


def run(
    program: Code,
    context: bytes | None = None,
    *,
    memory: Mapping[int, bytes] | None = None,
    maps: Iterable[MapSpec] = (),
    packet: bytes | None = None,
    program_type: ProgramType | None = None,
    **surroundings: Any,
) -> Result:
    """Run one program in a machine of its own; `surroundings` are what `Machine` takes."""
    return Machine(maps, memory=memory, **surroundings).run(program, context, packet=packet, program_type=program_type)
