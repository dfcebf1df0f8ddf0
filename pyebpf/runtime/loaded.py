"""Maps, programs, links and readers of one loaded module, made and closed as a whole."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from pyebpf.closing import Closing
from pyebpf.maps import over

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from pyebpf.builder.drop_counters import DropReason
    from pyebpf.events import PerfBuffer, RingBuffer, UserRingBuffer
    from pyebpf.link import Link
    from pyebpf.module.declared import DeclaredMap
    from pyebpf.objects import KernelMap, Program
    from pyebpf.runtime.functions import FunctionNames
    from pyebpf.specs import AttachSpec, Choice, ModuleSpec, ProgramSpec
    from pyebpf.target import Target

#: Seconds that detaching takes before it says so.
_PATIENCE = 1.0


class Loaded(Closing):
    """Owns every descriptor of a module. What attaching opens in common is opened once, and only if asked for.

    `failing` is the choice whose program could not be loaded or attached, after an error of either.
    """

    def __init__(self, progress: Callable[[str], None] | None = None) -> None:
        from pyebpf.link.host import Host

        self.maps: dict[str, KernelMap] = {}
        self.programs: dict[str, Program] = {}
        self.failing: Choice | None = None
        self._spec: ModuleSpec | None = None
        #: For each program of the spec, the loaded one: those that differ in nothing but their place are one.
        self._loaded: list[Program] = []
        self._links: list[tuple[Program, Link]] = []
        #: The number of the spec's programs that are attached, or left for later.
        self._done = 0
        self._open = ExitStack()
        self._names: FunctionNames | None = None
        self.host = self._open.enter_context(Host(progress))

    @property
    def function_names(self) -> FunctionNames:
        """Names of the kernel's functions by address."""
        if self._names is None:
            from pyebpf.runtime.functions import FunctionNames

            self._names = FunctionNames(self.host)
        return self._names

    def target(self) -> Target:
        """This machine."""
        from pyebpf.runtime.host import host_target

        return host_target(self.host.tracefs, self.host.traceable)

    def load(self, spec: ModuleSpec) -> None:
        """Make the maps, then load the programs; programs that share code are loaded once for each way of attaching."""
        from pyebpf.objects import Program, make_map
        from pyebpf.runtime.host import kernel_btf
        from pyebpf.uapi.bpf import MapType

        for map_spec in spec.maps:
            made = make_map(map_spec)
            self._open.callback(made.close)
            self.maps[map_spec.name] = made
        for map_spec in spec.maps:
            if map_spec.type is MapType.ARENA:
                self._open_arena(map_spec.name)
        if ".tracer" in self.maps:
            from pyebpf.runtime.tracer_frames import tracer_ranges

            callers = (each.attach.caller_event for each in spec.programs if each.attach is not None)
            over(self.maps[".tracer"])[0] = tracer_ranges(dict.fromkeys(filter(None, callers)))
        if ".stack" in self.maps:
            from pyebpf.runtime.first_stacks import make_ready

            make_ready(self.maps)
        self._spec = spec
        shared: dict[Hashable, Program] = {}
        for number, program_spec in enumerate(spec.programs):
            key = _sharing(program_spec)
            program = shared.get(key)
            if program is None:
                with self._blaming(number):
                    program = shared[key] = Program(program_spec, self.maps, btf=kernel_btf, name=_marked(program_spec))
                self._open.callback(program.close)
            self._loaded.append(program)
            self.programs[f"{program_spec.name}@{program_spec.attach}"] = program
        if any(each.type is MapType.PROG_ARRAY for each in spec.maps):
            self._fill_program_arrays(spec)

    def _fill_program_arrays(self, spec: ModuleSpec) -> None:
        from pyebpf.attach.tail_calls import TailCalled

        for program_spec, program in zip(spec.programs, self._loaded, strict=True):
            if isinstance(place := program_spec.attach, TailCalled):
                over(self.maps[place.map_name])[place.index] = program

    def _open_arena(self, name: str) -> None:
        """Map an arena, which programs that use it need before they are loaded, and tell them where."""
        from pyebpf.kernel.memory import PAGE_SIZE
        from pyebpf.kernel.syscall import address_of
        from pyebpf.maps.arena import base_name

        memory = self.maps[name].window().memory
        for offset in range(0, len(memory), PAGE_SIZE):
            memory[offset] = 0  # a page is there once it has been touched
        over(self.maps[base_name(name)])[0] = address_of(memory)

    def store(self, declared: DeclaredMap) -> KernelMap | RingBuffer | PerfBuffer | UserRingBuffer:
        """The store of a declared map: the loaded map, or a buffer's reader or writer of its records."""
        from pyebpf.uapi.bpf import MapType

        loaded, record = self.maps[declared.spec.name], declared.record_class
        layout = None if record is None else record.layout
        reader: RingBuffer | PerfBuffer | UserRingBuffer
        if loaded.spec.type is MapType.RINGBUF:
            from pyebpf.events import RingBuffer

            reader = RingBuffer(loaded, layout)
        elif loaded.spec.type is MapType.USER_RINGBUF:
            from pyebpf.events import UserRingBuffer

            reader = UserRingBuffer(loaded, layout)
        elif loaded.spec.type is MapType.PERF_EVENT_ARRAY and layout is not None:
            from pyebpf.events import PerfBuffer

            reader = PerfBuffer(loaded, layout, **declared.reader_options)
        else:
            return loaded
        self._open.callback(reader.close)
        return reader

    def attach(self) -> None:
        """Attach each program that has a place and is not attached yet; those whose place is open are left."""
        from pyebpf.link import prepare

        assert self._spec is not None
        for number in range(self._done, len(self._loaded)):
            target = self._spec.programs[number].attach
            assert target is not None
            if not target.is_deferred:
                with self._blaming(number):
                    prepare(target, self.host)
        for number in range(self._done, len(self._loaded)):
            target = self._spec.programs[number].attach
            assert target is not None
            if target.link_group is not None:
                with self._blaming(number):
                    self._attach_group(number, target.link_group)
            elif not target.is_deferred:
                with self._blaming(number):
                    self._attach(self._loaded[number], target)
            self._done = number + 1
        self.host.located.clear()  # files may change until something is attached again

    def program_of(self, choices: Sequence[int]) -> Program:
        """The first program of `choices`."""
        assert self._spec is not None
        return next(self._loaded[i] for i, chosen in enumerate(self._spec.chosen) if chosen in choices)

    def attach_at(self, choices: Sequence[int], place: tuple[object, ...], options: dict[str, object]) -> Link:
        """Attach the program of one of `choices` whose place was left open."""
        assert self._spec is not None
        specs = [each.attach for each in self._spec.programs]
        mine = [i for i, chosen in enumerate(self._spec.chosen) if chosen in choices]
        opens = [i for i in mine if (attach := specs[i]) is not None and attach.is_deferred]
        number = (opens or mine)[0]
        target = specs[number]
        assert target is not None
        # A program may be attached again and again, as an iterator is for each pass.
        self._links = [(program, link) for program, link in self._links if not link.detached]
        return self._attach(self._loaded[number], target.with_target(*place, **options))

    def _attach(self, program: Program, target: AttachSpec) -> Link:
        from pyebpf.link import attach

        link = attach(program, target, self.host)
        link.program = program
        self._links.append((program, link))
        return link

    def _attach_group(self, number: int, group: Hashable) -> None:
        """Attach the programs of a group, if `number` is the first of them."""
        from pyebpf.link import attach_group

        assert self._spec is not None
        places = [each.attach for each in self._spec.programs]
        numbers = [i for i, attach in enumerate(places) if attach is not None and attach.link_group == group]
        if number == numbers[0]:
            members = [(self._loaded[i], attach) for i in numbers if (attach := places[i]) is not None]
            self._links.append((members[0][0], attach_group(members, self.host)))

    @contextmanager
    def _blaming(self, number: int) -> Iterator[None]:
        """Note whose program it is that an error comes from."""
        try:
            yield
        except Exception:
            assert self._spec is not None
            if self._spec.choices:
                self.failing = self._spec.choices[self._spec.chosen[number]]
            raise

    def detach_from(self, unwanted: Callable[[AttachSpec], bool]) -> None:
        """Detach the programs that were loaded for a place that is not wanted any more."""
        for program, link in self._links:
            if program.spec.attach is not None and unwanted(program.spec.attach):
                link.detach()

    def attachments(self) -> list[str]:
        """A line for each link that is attached."""
        return [f"{p.name}: {link.target}, by {link.how}" for p, link in self._links if not link.detached]

    def warnings(self) -> list[str]:
        """Lines on all links that are attached, each once: what was asked for and left out, what may go wrong."""
        return list(dict.fromkeys(note for _, link in self._links if not link.detached for note in link.warnings))

    def dropped(self, reasons: Sequence[DropReason]) -> dict[str, int]:
        """Exact numbers of drops so far by reason, without reasons that never occurred."""
        from pyebpf.builder.drop_counters import DROPS_MAP

        found: dict[str, int] = {}
        if reasons:
            for drop, count in zip(reasons, over(self.maps[DROPS_MAP])[0], strict=True):
                found[str(drop)] = count
        for program in {id(each): each for each in self._loaded}.values():
            reason = f"{program.name}: running already on the processor"
            found[reason] = found.get(reason, 0) + program.recursion_misses
        for _, link in self._links:
            found[f"{link.target}: missed by the kernel"] = link.missed or 0
        return {reason: count for reason, count in found.items() if count}

    @property
    def links(self) -> list[Link]:
        """Links, in the order of attaching."""
        return [link for _, link in self._links if not link.detached]

    def pin(self, path: str) -> None:
        """Pin everything into a new directory."""
        from pyebpf.runtime.pins import pin

        assert self._spec is not None
        pin(path, self._spec, self.maps, self._loaded, self.links)

    def reopen(self, spec: ModuleSpec, path: str) -> None:
        """Open what is pinned, in place of loading and attaching."""
        from pyebpf.runtime.pins import reopen

        self._spec = spec
        maps, programs, links = reopen(path, spec)
        self.maps.update(maps)
        self._loaded, self._done = programs, len(programs)
        for close in (*(each.close for each in maps.values()), *(each.close for each in programs)):
            self._open.callback(close)
        for program_spec, program in zip(spec.programs, programs, strict=True):
            self.programs[f"{program_spec.name}@{program_spec.attach}"] = program
        self._links = [(link.program or programs[0], link) for link in links]

    def detach(self) -> None:
        """Detach everything; maps and readers stay.

        After each perf event the kernel waits until no processor can be in its program: a tenth of a second, or more.
        """
        links, self._links, self._done = self._links, [], 0
        began = monotonic()
        told = False

        def detach(link: Link, left: int) -> None:
            nonlocal told
            link.detach()
            if left and not told and monotonic() - began > _PATIENCE:
                told = True
                self.host.report(f"Detaching {left} more of {len(links)} attachments: this kernel takes its time...")

        with ExitStack() as stack:
            for left, (_, link) in enumerate(links):
                stack.callback(detach, link, left)

    def close(self) -> None:
        """Detach, then close programs, readers and maps: in the reverse order of their making."""
        with self._open:
            self.detach()


def _marked(spec: ProgramSpec) -> str:
    """The name in the kernel of a program that must tell whose it is; empty for one that keeps its own."""
    if spec.attach is None or not spec.attach.named_after_owner:
        return ""
    from pyebpf.kernel.owners import owned_name

    return owned_name(spec.name, most=15)


def _sharing(spec: ProgramSpec) -> Hashable:
    """Return the key that programs loaded as one share."""
    return (
        id(spec.code),
        spec.name,
        spec.type,
        spec.expected_attach_type,
        spec.attach_btf,
        spec.attach_module,
        spec.flags,
        spec.cookie,
        spec.attach.device if spec.attach is not None else "",
        _marked(spec),
    )
