"""`Simulation`: a module compiled for a target, its programs run by the interpreter when the test says so."""

from __future__ import annotations

from struct import pack_into
from typing import TYPE_CHECKING, Any, Self

from pyebpf.attach.perf_events import PERF_EVENT_FIELDS, REGISTERS, PerfEvent
from pyebpf.attach.tail_calls import TailCalled
from pyebpf.attach.tracepoints import BtfTracepoint, RawTracepoint, Tracepoint
from pyebpf.dataclass import replace
from pyebpf.dsl.module import Module
from pyebpf.errors import InvalidValue, NotFound, check_argument, closest
from pyebpf.maps import over
from pyebpf.target import Target
from pyebpf.testing.event_source import EventSource, UserRing
from pyebpf.testing.events import PacketEvents
from pyebpf.testing.functions import SimulatedSymbols
from pyebpf.testing.hooks import HookEvents
from pyebpf.testing.iterators import IteratorEvents
from pyebpf.testing.kernel_objects import KernelMemory
from pyebpf.testing.usdt import UsdtEvents
from pyebpf.uapi.bpf import MapType
from pyebpf.vm import Machine
from pyebpf.vm.maps.arena import PAGE, ArenaMap
from pyebpf.vm.maps.user_ringbuf import UserRingBufferMap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyebpf.builder.drop_counters import DropReason
    from pyebpf.module.declared import DeclaredMap
    from pyebpf.specs import AttachSpec, MapSpec, ModuleSpec
    from pyebpf.target import KernelType
    from pyebpf.testing.kernel_objects import Value
    from pyebpf.vm import Result
    from pyebpf.vm.loaded import LoadedProgram

_ARGUMENTS = 12
_POINTER = 8
#: Bytes at the start of every tracepoint's record.
_COMMON_FIELDS = 8


class Simulation(UsdtEvents, PacketEvents, HookEvents, IteratorEvents):
    """A module's maps and programs without a kernel.

    While the context is open, the module's maps are read and written as if it were loaded. Events are what the test
    makes: `tracepoint`, `raw_tracepoint`, `perf_event`, `function`, `user_function`, `usdt`, `frame`, `packet`, `hook`,
    `iterate`; each
    runs every program that is attached there, in order, and returns their results. `machine` is the interpreter's: its
    attributes say who and when (see `process`, `at`), and `options` are passed to it.
    """

    def __init__(self, module: Module, target: Target, **options: Any) -> None:
        check_argument("module", module, Module, "a BPF or a Module")
        check_argument("target", target, Target, "a target, such as recorded(path)")
        self.module = module
        self.target = target
        self.spec: ModuleSpec = module.compile(target)
        options.setdefault("cpus", self._cpus())
        self.machine = Machine([self._in_pages(each) for each in self.spec.maps], **options)
        self.memory = KernelMemory(self.machine.memory, target)
        #: The symbols by which `bpf.stacks` and `bpf.function_name` name addresses.
        self.function_names = SimulatedSymbols()
        self._programs: list[tuple[AttachSpec, LoadedProgram]] = []
        for spec in self.spec.programs:
            assert spec.attach is not None  # a probe's
            self._programs.append((spec.attach, self.machine.load(spec)))
        for attach, program in self._programs:
            if isinstance(attach, TailCalled):
                self.machine.maps[attach.map_name].programs[attach.index] = program  # type: ignore[attr-defined]  # it is one
        self.maps = self.machine.maps
        for made in self.maps.values():
            if isinstance(made, ArenaMap):
                self._open_arena(made)

    def _open_arena(self, arena: ArenaMap) -> None:
        """As the loader does: all pages are there, and programs are told where."""
        from pyebpf.maps.arena import base_name

        arena.window()
        over(self.maps[base_name(arena.name)])[0] = arena.base

    def _in_pages(self, spec: MapSpec) -> MapSpec:
        """The spec with an arena's size in pages of 4 KiB, which are the interpreter's."""
        if spec.type is not MapType.ARENA:
            return spec
        return replace(spec, max_entries=spec.max_entries * self.target.page_size // PAGE)

    def _cpus(self) -> int:
        try:
            return self.target.possible_cpus
        except NotFound:
            return 2

    def __enter__(self) -> Self:
        if getattr(self.module, "_loaded", None) is not None:
            raise InvalidValue("this is loaded, or simulated already: simulate it outside of that `with`")
        for each in self.module.maps:
            self._bind(each)
        self._answer(self, self.function_names)
        return self

    def __exit__(self, *_: object) -> None:
        self._answer(None, None)
        for each in self.module.maps:
            each.bind(None)

    def _answer(self, loaded: Simulation | None, symbols: SimulatedSymbols | None) -> None:
        """Make BPF answer from this what it answers from loaded programs (`dropped`, `stacks`)."""
        if all(hasattr(self.module, name) for name in ("_loaded", "_symbols", "_stacks")):
            module: Any = self.module
            module._loaded, module._symbols, module._stacks = loaded, symbols, None

    def _bind(self, each: DeclaredMap) -> None:
        made = self.maps[each.spec.name]
        if made.spec.type in {MapType.RINGBUF, MapType.PERF_EVENT_ARRAY}:
            each.bind(EventSource(made, each.record_class))
        elif isinstance(made, UserRingBufferMap):
            assert each.record_class is not None
            each.bind(UserRing(made, each.record_class))
        else:
            each.bind(made)

    def dropped(self, reasons: Sequence[DropReason] = ()) -> dict[str, int]:
        """Drops that programs counted, by reason, without those that never happened."""
        from pyebpf.builder.drop_counters import DROPS_MAP

        reasons = reasons or self.module.drop_reasons
        counts = over(self.maps[DROPS_MAP])[0] if reasons else ()
        return {str(reason): count for reason, count in zip(reasons, counts, strict=True) if count}

    # --- who and when ---

    def process(
        self,
        *,
        pid: int | None = None,
        tid: int | None = None,
        uid: int | None = None,
        gid: int | None = None,
        comm: str | None = None,
        cpu: int | None = None,
    ) -> None:
        """Let events happen in this process from now on; what is not given stays. `pid` sets `tid`, too."""
        machine = self.machine
        if pid is not None:
            machine.pid = machine.tid = pid
        machine.tid = machine.tid if tid is None else tid
        machine.uid = machine.uid if uid is None else uid
        machine.gid = machine.gid if gid is None else gid
        machine.comm = machine.comm if comm is None else comm
        if cpu is not None:
            if not 0 <= cpu < machine.cpus:
                raise InvalidValue(f"cpu={cpu}: there are {machine.cpus} processors, from 0")
            machine.cpu = cpu

    def at(self, nanoseconds: int | Iterable[int]) -> None:
        """Let it be this time from now on; several times are given out one a question."""
        self.machine.time = nanoseconds

    def stacks(self, *, kernel: Iterable[int | str] = (), user: Iterable[int | str] = ()) -> None:
        """Let call stacks be these from now on, the innermost frame first; empty: there is none.

        A frame is an address, or text as `bpf.stacks` prints frames, "vfs_read+0x1a" or "vfs_read", in front of it the
        kernel module or file: "xfs:xfs_file_read_iter", "/usr/lib/libc.so.6:read". Addresses have no names.
        """
        names = self.function_names
        self.machine.kernel_stack = names.text.addresses(kernel)
        self.machine.user_stack = names.user_text.addresses(user)

    # --- memory ---

    def user(self, data: str | bytes) -> int:
        """Address of user memory that holds `data`; text ends with a NUL."""
        return self.memory.user(data)

    def kernel(self, data: str | bytes) -> int:
        """Address of kernel memory that holds `data`; text ends with a NUL."""
        return self.memory.kernel(data)

    def object(self, type_name: str, **members: Value) -> int:
        """Address of a kernel object, such as "struct request", with these members; all others are zero.

        A member that is a pointer takes an address, text, or the members of what it points to as a dictionary. Numbers
        are as a probe reads them, those of network order (`__be16`) too.
        Members lie where the recorded facts say, so that only members which programs use can be given.
        """
        return self.memory.object(self._type(type_name), members)

    def set(self, address: int, type_name: str, **members: Value) -> None:
        """Change members of a kernel object."""
        self.memory.set(address, self._type(type_name), members)

    def _type(self, name: str) -> KernelType:
        known: dict[str, KernelType] = {}
        for attach, _ in self._programs:
            if isinstance(attach, RawTracepoint | BtfTracepoint):
                for parameter in self.target.raw_tracepoint_parameters(attach.name):
                    if parameter.type.element is not None:
                        known[parameter.type.element.c_name] = parameter.type.element
        if name in known:
            return known[name]
        try:
            return self.target.type_named(name)
        except NotFound as error:
            raise NotFound(f"{name} is no type that these programs use{closest(name, known)} ({error})") from None

    # --- events ---

    def tracepoint(self, name: str, **fields: Value) -> list[Result]:
        """A tracepoint, "category:name", with fields by name; those not given are zero.

        Text for a field that is a pointer is put into memory: the user's for `syscalls`, else the kernel's.
        """
        category, _, event = name.partition(":")
        programs = list(self._attached(Tracepoint(category, event)))
        if programs and not fields and not self._knows(self.target.tracepoint_format, category, event):
            return [self.machine.run(each, bytes(_COMMON_FIELDS)) for each in programs]
        with self._named(f"tracepoint {name}"):
            layout = self.target.tracepoint_format(category, event)
        record = self.memory.record(category, layout, fields)
        return [self.machine.run(each, record) for each in programs]

    def raw_tracepoint(self, name: str, *arguments: Value, **named: Value) -> list[Result]:
        """A raw tracepoint, with its arguments in order or by name; programs with BTF trust (tp_btf) run as well.

        An argument that points to a struct takes an address (`object`) or the members as a dictionary.
        """
        programs = [*self._attached(RawTracepoint(name)), *self._attached(BtfTracepoint(name))]
        if programs and not arguments and not named and not self._knows(self.target.raw_tracepoint_parameters, name):
            return [self.machine.run(each, bytes(_POINTER * _ARGUMENTS)) for each in programs]
        with self._named(f"raw tracepoint {name}"):
            parameters = self.target.raw_tracepoint_parameters(name)
        names = [parameter.name for parameter in parameters]
        values: dict[str, Value] = dict(zip(names, arguments, strict=False))
        for key, value in named.items():
            plain = key if key in names else key.removesuffix("_")
            if plain not in names:
                raise InvalidValue(f"raw tracepoint {name} has no argument {key}{closest(key, names)}")
            values[plain] = value
        context = bytearray(_POINTER * _ARGUMENTS)
        for index, parameter in enumerate(parameters):
            given = values.get(parameter.name, 0)
            element = parameter.type.element
            if isinstance(given, dict) and element is not None:
                given = self.memory.object(element, given)
            elif isinstance(given, str | bytes):
                given = self.memory.kernel(given)
            if not isinstance(given, int):
                raise InvalidValue(f"{name}: {parameter.name} is {parameter.type.c_name}, not {given!r}")
            pack_into("<Q", context, _POINTER * index, given & 0xFFFF_FFFF_FFFF_FFFF)
        return [self.machine.run(each, bytes(context)) for each in programs]

    def perf_event(self, *, ip: int = 0, sample_period: int = 0, addr: int = 0) -> list[Result]:
        """A perf event or sample: every program that runs on one."""
        programs = self._programs_at("perf event", PerfEvent)
        if not self._knows(lambda: self.target.arch):
            # The facts are of programs that read nothing of their context.
            return [self.machine.run(each, bytes(max(REGISTERS.values())[0])) for each in programs]
        registers, instruction_pointer = REGISTERS[self.target.arch]
        context = bytearray(registers + _POINTER * len(PERF_EVENT_FIELDS))
        pack_into("<Q", context, instruction_pointer, ip)
        for name, value in (("sample_period", sample_period), ("addr", addr)):
            pack_into("<Q", context, registers + PERF_EVENT_FIELDS[name], value)
        return [self.machine.run(each, bytes(context)) for each in programs]

    @staticmethod
    def _knows(ask: Callable[..., Any], *place: str) -> bool:
        """Whether the facts describe an event: those of programs that read nothing of it need not."""
        try:
            ask(*place)
        except NotFound:
            return False
        return True

    def _attached(self, to: Tracepoint | RawTracepoint | BtfTracepoint) -> Iterator[LoadedProgram]:
        for attach, program in self._programs:
            if attach == to:
                yield program

    # --- what a loaded module answers ---

    @property
    def programs(self) -> Mapping[str, Any]:
        """The programs, by their names and targets."""
        return {
            f"{spec.name}@{spec.attach}": program
            for spec, (_, program) in zip(self.spec.programs, self._programs, strict=True)
        }

    def attachments(self) -> list[str]:
        """A line for each program."""
        return [f"{spec.name}: {spec.attach}, simulated" for spec in self.spec.programs]

    def warnings(self) -> list[str]:
        """Nothing that probes ask for is lacking."""
        return []

    @property
    def links(self) -> tuple[()]:
        """Nothing is attached by the kernel."""
        return ()

    def close(self) -> None:
        """Nothing is open."""
