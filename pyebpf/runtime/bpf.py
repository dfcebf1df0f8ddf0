"""`BPF`: probes and maps that are compiled, loaded, attached, read and closed as one context manager."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Self

from pyebpf.dsl.module import Module
from pyebpf.errors import (
    InvalidValue,
    NotFound,
    NotLoaded,
    NotPermitted,
    NotSupported,
    PyebpfError,
    check_argument,
    closest,
)
from pyebpf.runtime.loaded import Loaded
from pyebpf.target import Target
from pyebpf.tracebacks import install as show_own_frames_only

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from pyebpf.link import Link
    from pyebpf.module.body import Body
    from pyebpf.module.declared import D
    from pyebpf.module.probe import AnyProbe
    from pyebpf.objects import KernelMap, Program
    from pyebpf.runtime.processes import ProcessWatch
    from pyebpf.runtime.stacks import Stacks
    from pyebpf.specs import Choice, ModuleSpec
    from pyebpf.symbols.stacks import Symbols


class BPF(Module):
    """Declares maps and probes (see `Module`), and runs them.

        bpf = BPF()
        opens = bpf.hash(key=char[16], value=u64)

        @bpf.tracepoint("syscalls:sys_enter_openat")
        def on_open() -> None:
            opens[comm()] += 1

        with bpf:
            time.sleep(5)
            print(dict(opens))

    Entering compiles for this machine (or for `target`), loads, and attaches every probe; if anything fails, what was
    done is undone and the error raised: CompileError, NotFound, VerifierError, NotPermitted, NotSupported or
    KernelError. Leaving detaches and closes everything. Between, it holds all descriptors; nothing is pinned, no
    signal handler is set. It can be entered again after that, but not inside its own `with`, whose end would come
    early: that is InvalidValue.
    """

    def __init__(self, target: Target | None = None) -> None:
        super().__init__()
        self._target = target
        self._loaded: Loaded | None = None
        #: Whether `with` has been entered, and will close.
        self._entered = False
        #: The path that it is pinned at.
        self._pinned = ""
        self._symbols: Symbols | None = None
        self._stacks: Stacks | None = None
        self._processes: ProcessWatch | None = None
        #: Called with a line of text where attaching or detaching takes the kernel seconds.
        self.progress: Callable[[str], None] | None = None
        #: Called when all is loaded and nothing attached yet: what it raises ends the start.
        self.before_attaching: Callable[[], None] | None = None

    def __repr__(self) -> str:
        state = "declared" if self._loaded is None else f"loaded, {len(self.attachments)} attachments"
        return f"<BPF: {len(self.probes)} probes, {len(self.maps)} maps, {state}>"

    # -- life
    # ------------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self._entered:
            raise InvalidValue(
                "this is already running, inside a `with` that will close it: leave out the inner `with`"
            )
        if self._loaded is None:
            self._start(attach=True)
        else:
            try:
                self.attach()
            except BaseException:
                self.close()
                raise
        self._entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def declare(self, entity: D) -> D:
        self._check_declares(f"the map {entity.name}" if entity.name else "this map")
        return super().declare(entity)

    def body_of(self, value: object, decorator: str) -> Body:
        self._check_declares(f"@bpf.{decorator}")
        return super().body_of(value, decorator)

    def _check_declares(self, what: str) -> None:
        if self._loaded is not None:
            raise InvalidValue(
                f"{what} is declared after this BPF was loaded, which has only what was there then: declare it before, "
                "in a new BPF()"
            )

    def load(self) -> None:
        """Compile, and load maps and programs; attach nothing. Events come after `attach`."""
        if self._loaded is None:
            self._start(attach=False)

    def _start(self, *, attach: bool) -> None:
        """Load, and attach if asked to, each probe by the first candidate that the kernel does not refuse."""
        show_own_frames_only()  # in threads, too, whose module is there by now
        excluded: dict[tuple[str, int, str], str] = {}
        while True:
            loaded = Loaded(self.progress)
            try:
                loaded.load(self.compile(self._target or loaded.target(), excluded=excluded))
                self._bind(loaded)
                if attach:
                    self._prepare(loaded)
                    loaded.attach()
            except (NotSupported, NotPermitted) as error:
                self._release(loaded)
                choice = loaded.failing
                # What is optional is left out where the kernel does not have it; that it may not be had is an error.
                left_out = choice is not None and choice.optional and isinstance(error, NotSupported)
                if choice is None or (choice.is_last and not choice.rejected and not left_out):
                    self._blame(error, choice)
                    raise
                # The next candidate is another program: it is compiled, loaded and attached anew.
                excluded[choice.probe, choice.number, choice.candidate] = str(error)
            except BaseException as error:
                self._release(loaded)
                self._blame(error, loaded.failing)
                raise
            else:
                self._loaded = loaded
                return

    def _blame(self, error: BaseException, choice: Choice | None) -> None:
        """Name the probe whose request, the one with this choice, could not be loaded or attached."""
        if choice is None or not isinstance(error, PyebpfError):
            return
        requests = [(probe, number) for probe in self.probes for number in range(len(probe.requests))]
        for (probe, number), each in zip(requests, self.choices, strict=False):
            if each is choice:
                probe.blame(error, number)

    def _prepare(self, loaded: Loaded) -> None:
        """Do with what is loaded as `attach` does before it attaches."""
        self._loaded = loaded
        try:
            self._before_attaching()
        finally:
            self._loaded = None

    def _before_attaching(self) -> None:
        """Let others look at what is loaded."""
        if self.before_attaching is not None:
            self.before_attaching()

    def _bind(self, loaded: Loaded) -> None:
        """Connect maps with what they read, and probes with what attaches them."""
        for each in self.maps:
            each.bind(loaded.store(each))
        for probe in self.probes:
            probe.bind(self._attach_at, self._program_of)
        if ".processes" in loaded.maps:
            from pyebpf.builder.intrinsics.processes import PROCESSES_MAP
            from pyebpf.runtime.processes import ProcessWatch

            self._processes = ProcessWatch(loaded.maps[PROCESSES_MAP], self._names().processes)

    def _requests(self, probe: AnyProbe) -> list[int]:
        """The numbers of a probe's requests, in `choices`."""
        numbers = iter(range(len(self.choices)))
        return {id(each): [next(numbers) for _ in each.requests] for each in self.probes}[id(probe)]

    def _attach_at(self, probe: AnyProbe, place: tuple[object, ...], options: dict[str, object]) -> Link:
        return self._running.attach_at(self._requests(probe), place, options)

    def _program_of(self, probe: AnyProbe) -> Program:
        return self._running.program_of(self._requests(probe))

    def attach(self) -> None:
        """Attach every loaded program to what it was written for."""
        running = self._running
        self._before_attaching()
        try:
            running.attach()
        except PyebpfError as error:
            self._blame(error, running.failing)
            raise

    def detach(self) -> None:
        """Detach every program; maps can still be read."""
        self._running.detach()

    def pin(self, path: str) -> None:
        """Leave everything running when this process ends: pinned into `path`, a new directory on a bpf file system.

        The next process, or this one again, takes it up with the same declarations. Raises NotSupported for an
        attachment that no link holds, KernelError for a path that is none.
        """
        self._running.pin(path)
        self._pinned = path

    def reopen(self, path: str) -> Self:
        """Open what was pinned at `path` in place of loading and attaching: `with bpf.reopen(path):`.

        Raises NotFound where nothing is pinned, InvalidValue where it was by other declarations.
        """
        if self._loaded is not None:
            raise InvalidValue("this is already loaded: call reopen instead of load, not after it")
        check_argument("bpf.reopen(path)", path, (str, PathLike), "the path of a directory")
        loaded = Loaded()
        try:
            loaded.reopen(self.compile(self._target or loaded.target()), path)
            self._bind(loaded)
        except BaseException:
            self._release(loaded)
            raise
        self._loaded, self._pinned = loaded, path
        return self

    def unpin(self) -> None:
        """Remove what `pin` left or `reopen` found: it ends with this process, or with `close`."""
        from pyebpf.runtime.pins import unpin

        if not self._pinned:
            raise InvalidValue("no part of this is pinned")
        path, self._pinned = self._pinned, ""
        unpin(path)

    def close(self) -> None:
        """Detach and close everything. A second call does nothing."""
        self._entered = False
        if self._loaded is not None:
            loaded, self._loaded = self._loaded, None
            self._release(loaded)

    def _release(self, loaded: Loaded) -> None:
        self._stacks = None
        if self._processes is not None:
            watch, self._processes = self._processes, None
            watch.close()
        for each in self.maps:
            each.bind(None)
        for probe in self.probes:
            probe.bind(None)
        loaded.close()

    @property
    def _running(self) -> Loaded:
        if self._loaded is None:
            msg = "nothing is loaded: do this inside `with bpf:`, or after bpf.load()"
            raise NotLoaded(msg)
        return self._loaded

    # -- what is there
    # -----------------------------------------------------------------------------------------------------

    @property
    def dropped(self) -> Mapping[str, int]:
        """Exact numbers of events, records and counts dropped so far, by reason; without reasons that never occurred.

        Failed reservations in ring buffers, keys that found no room in a map, and programs that an event found
        running already on its processor.
        """
        return self._running.dropped(self.drop_reasons)

    @property
    def links(self) -> Sequence[Link]:
        """Links in the order of attaching: each can be updated, pinned or detached by itself."""
        return self._running.links

    @property
    def attachments(self) -> Sequence[str]:
        """A line for each attachment: the program, its target, and by which interface of the kernel it is attached."""
        return self._running.attachments()

    @property
    def warnings(self) -> Sequence[str]:
        """Lines on what probes ask for and this host lacks, where the rest was attached, and on harm they may do."""
        return self._running.warnings()

    def check_exists(self, named: Iterable[tuple[str, str, Any]]) -> None:
        """Raise NotFound for an option that names nothing on this machine: (option, kind, number or name)."""
        from pyebpf.kernel.processes import check_exists

        check_exists(named)

    @property
    def programs(self) -> Mapping[str, Program]:
        """The loaded programs, by their names and targets."""
        return self._running.programs

    def __getitem__(self, name: str) -> Any:
        """The declared map of that name."""
        for each in self.maps:
            if each.name == name:
                return each
        msg = f"no map is called {name!r}{closest(name, [each.name for each in self.maps])}"
        raise NotFound(msg)

    @staticmethod
    def iterators() -> Sequence[str]:
        """The running kernel's lists, as `@bpf.iter` names them."""
        from pyebpf.btf import Kind
        from pyebpf.runtime.host import kernel_btf

        context = "bpf_iter__"
        structs = (name for name in kernel_btf().names((Kind.STRUCT,)) if name.startswith(context))
        names = sorted({name.removeprefix(context) for name in structs})
        return [name for name in names if kernel_btf().find(f"bpf_iter_{name}", (Kind.FUNC,))]

    @staticmethod
    def enumerators(name: str) -> Mapping[int, str]:
        """Names by value of one of the running kernel's enums, such as "skb_drop_reason". Raises NotFound."""
        from pyebpf.btf import Enumeration, Kind
        from pyebpf.runtime.host import kernel_btf

        btf, kinds = kernel_btf(), (Kind.ENUM, Kind.ENUM64)
        for number in btf.find(name, kinds):
            node = btf.type_by_id(number)
            assert isinstance(node, Enumeration)
            return {each.value: each.name for each in reversed(node.enumerators)}  # of two for a value the first
        raise btf.not_found(name, kinds, "enum")

    @property
    def stacks(self) -> Stacks:
        """The stacks that `kstack()` and `ustack()` gave numbers of, as addresses and as frames with names."""
        if self._stacks is None:
            from pyebpf.runtime.stacks import Stacks

            self._stacks = Stacks(self._running.maps, self._names(), self._processes)
        return self._stacks

    def _names(self) -> Symbols:
        if self._symbols is None:
            from pyebpf.symbols.stacks import Symbols

            self._symbols = Symbols()
        return self._symbols

    def function_name(self, address: int) -> str:
        """Name of the kernel's function at an address that `function_ip()` gave; in hexadecimal if it has none."""
        return self._running.function_names[address]

    def function_names(self, address: int) -> Sequence[str]:
        """All names of that function: several have one address where their code is the same; none if none is known."""
        return self._running.function_names.names(address)

    def loaded_map(self, name: str) -> KernelMap:
        """The kernel's map of that name, hidden ones included. Raises NotFound."""
        maps = self._running.maps
        if name not in maps:
            raise NotFound(f"no map is called {name!r}{closest(name, maps)}")
        return maps[name]

    def specs(self, target: Target | None = None) -> ModuleSpec:
        """Compile for `target` (this machine without one) and load nothing."""
        chosen = self._target if target is None else target
        if chosen is not None:
            check_argument("target", chosen, Target, "a target, such as RecordedTarget.from_json(facts)")
            return self.compile(chosen)
        with Loaded() as loaded:
            return self.compile(loaded.target())

    def facts(self) -> str:
        """Return what compiling asks of this machine's kernel, with the answers, as JSON.

        `RecordedTarget.from_json` makes a target of it, for which the program compiles to the same bytes anywhere.
        """
        from pyebpf.target import Recorder

        with Loaded() as loaded:
            recorder = Recorder(loaded.target())
            self.compile(recorder)
            return recorder.to_json()

    def resize_buffers(self, size: int) -> None:
        """Give each ring buffer of records `size` bytes, a power of two from 4096 on; before anything is loaded."""
        from pyebpf.maps.buffer import ring_size
        from pyebpf.maps.ringbuf import RingBufferEntity

        for each in self.maps:
            if isinstance(each, RingBufferEntity):
                each.size = ring_size(size, "resize_buffers")

    def buffer_sizes(self) -> Sequence[int]:
        """Bytes of each ring buffer of records."""
        from pyebpf.maps.ringbuf import RingBufferEntity

        return [each.size for each in self.maps if isinstance(each, RingBufferEntity)]

    def listing(self, target: Target | None = None) -> str:
        """The bytecode of every program as text, with source lines.

        Loads nothing; kernel types need BTF, tracepoints tracefs.
        """
        from pyebpf.asm import listing

        return "\n".join(
            f"; {program.name}, {program.attach}\n{listing(program.code.instructions)}"
            for program in self.specs(target).programs
        )
