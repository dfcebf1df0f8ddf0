"""Scripts in bpftrace's language, compiled and run by pyebpf.

    from pyebpf.script import Script

    bpf = Script('tracepoint:raw_syscalls:sys_enter { @[comm] = count(); } interval:s:5 { exit(); }')
    for text in bpf.output():
        print(text, end="")

A script is a BPF like any other: `with bpf:` runs BEGIN and attaches it, `bpf["@"]` is its map.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace.module import ScriptModule
from pyebpf.bpftrace.printer import Printer
from pyebpf.bpftrace.translate.body import EXITED_MAP
from pyebpf.bpftrace.translate.builtins import STARTED_MAP
from pyebpf.bpftrace.translate.series import TAI_MAP
from pyebpf.errors import InvalidValue, NotLoaded, check_argument
from pyebpf.kernel.wait import Epoll
from pyebpf.maps import over
from pyebpf.runtime import BPF
from pyebpf.script_files import ProgramFiles, beginning, included_files, new_file
from pyebpf.script_names import MachineNames, booted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    from pyebpf.bpftrace.packets import Captures
    from pyebpf.events import PerfBuffer
    from pyebpf.module.linking import Excluded
    from pyebpf.runtime.loaded import Loaded
    from pyebpf.specs import ModuleSpec
    from pyebpf.target import Target

#: Seconds between two looks at whether the end was asked for.
_PERIOD = 0.1
#: Seconds for which more events may come while these were few: a probe wakes only a reader that waits. They are spent
#: in the call that waits for events, too, so that scripts about sleep() and the like do not see their own tracer.
_REST, _MANY = 0.001, 1000
#: Characters of an attach point that each repetition of a filter is taken to try.
_PART = 24


class Script(BPF):
    """A script. `arguments` are its `$1`, `$2` and so on; with `pid` it sees events of that process alone.

    Only with `unsafe` it may do more than look: `system`, `signal`, `write_user`, `override`. `child` is the process
    that it calls `cpid`, and whose memory its uprobes, USDT probes and watchpoints are in.
    `settings` are as those of a script's `config` block, and go before them. With `only` it has no other probes than
    those whose attach points this regular expression finds, and BEGIN and END.

    Raises CompileError, at its place, for a script that is not right, or asks for what is not supported yet;
    InvalidValue for arguments that are none, NotFound when it is loaded and there is no such process.
    """

    def __init__(
        self,
        text: str,
        arguments: Sequence[str] = (),
        *,
        file: str = "<script>",
        pid: int | None = None,
        unsafe: bool = False,
        child: int | None = None,
        settings: Mapping[str, str] | None = None,
        only: str = "",
        target: Target | None = None,
    ) -> None:
        _check_arguments(text, arguments, pid, child)
        check_argument("Script(file=...)", file, str, "the name that errors have for it")
        check_argument("Script(settings=...)", settings or {}, Mapping, 'a dictionary, such as {"max_strlen": "64"}')
        if only:
            _check_filter(only)
        super().__init__(target)
        self._pid = pid
        self._files = included_files() if "#include" in text else None
        self._script = ScriptModule(
            self, text, arguments, file, pid, child, settings, only, self._files, ProgramFiles()
        )
        self._signals = 0
        self._unwinding = _Unwinding(self, pid or child) if "dw_ustack" in text else None
        self._script.script.unsafe = unsafe
        self._script.script.cgroup_id = _cgroup_id
        #: What BEGIN ran for, and END has not yet.
        self._begun: Loaded | None = None
        #: Whether warnf() prints anything.
        self.warns = True
        #: The status that the script's last `exit()` gave, END's among them.
        self.status = 0
        #: Whether `printed()` has come to an `exit()`.
        self.exited = False
        #: Whether names of processes and files, and all other strings, are printed as tools print them: what a
        #: terminal would obey escaped. bpftrace prints them as they are.
        self.escapes = False
        #: Whether a signal asked for the end: commands of `system()` that wait then are not run, END's are.
        self.is_interrupted: Callable[[], bool] = lambda: False
        #: What was dropped in the last run, by reason (see `dropped`).
        self.last_dropped: Mapping[str, int] = {}

    def __enter__(self) -> Self:
        script = self._script
        kinds = {"iter": script.iterators, "self:signal": script.signals, "bench": script.benchmarks}
        only = [kind for kind, probes in kinds.items() if probes]
        if only and not script.attached:
            call = "output(benchmarks=True)" if only == ["bench"] else "output()"
            raise InvalidValue(
                f"`with` does not run the {' and '.join(only)} probes of a script, and this one has no others to "
                f"attach: write for text in script.{call}"
            )
        return super().__enter__()

    def __getitem__(self, name: str) -> Any:
        if self._loaded is None and not self.maps:
            raise NotLoaded(f"maps of a script are known once it is loaded: read [{name!r}] inside `with script:`")
        return super().__getitem__(name)

    def _before_attaching(self) -> None:
        super()._before_attaching()
        self._run_begin()

    def _run_begin(self) -> None:
        """Run BEGIN, unless it has run for what is loaded now."""
        if self._begun is not self._running:
            self._begun = self._running
            self._begin()
            for each in self._script.begins:
                each.program.test_run()

    def detach(self) -> None:
        """Detach every program, and run END; maps can still be read."""
        super().detach()
        if self._begun is self._running:
            self._begun = None
            for each in self._script.ends:
                each.program.test_run()

    def reopen(self, path: str) -> Self:
        super().reopen(path)
        self._begun = self._running  # whoever pinned it ran BEGIN
        return self

    def try_attaching(self, attached: Callable[[], object] = lambda: None) -> None:
        """Load and attach the script, and end at once: neither BEGIN nor END run. Raises what `with` does.

        `attached` is called in between.
        """
        try:
            self.load()
            self._begun = self._running
            self.attach()
            attached()
        finally:
            self.close()

    def printed(self) -> Iterator[str]:
        """Carry out what probes asked for since the last call, up to `exit()`, and yield the text: inside `with`.

        An `exit()` ends nothing here: `exited` and `status` tell of it.
        """
        printer = self.printer()
        yield from self._printed(printer, 0.0)
        yield from self._exited(printer)
        if printer.status is not None:
            self.exited, self.status = True, printer.status

    def _start(self, *, attach: bool) -> None:
        """Load and attach as any BPF, if the process is there whose events are wanted."""
        if self._pid is not None:
            self.check_exists([("pid", "process", self._pid)])
        super()._start(attach=attach)

    def linked(self, target: Target, excluded: Excluded | None) -> ModuleSpec:
        """Find the types of the script, and link it."""
        link = super().linked
        return self._script.compile(target, lambda: link(target, excluded))

    def take_bare_arguments(self) -> None:
        """Let `size` stand for `args.size` where it is nothing else, as in bcc's specifications."""
        self._script.script.takes_bare_arguments = True

    @property
    def remarks(self) -> Sequence[str]:
        """Warnings about the script, once it is compiled: probes that were left out, maps that nothing uses."""
        return self._script.remarks

    def kernel_changes(self, target: Target | None = None) -> list[str]:
        """Lines on what the script takes for granted and this kernel, or `target`, has otherwise, each at its place.

        Arguments by number that BTF has other types for, functions and members that are gone, structs of the script's
        own. Such a script may be compiled all the same, and then reads something else than its author meant. Files that
        it includes and that are not there come first.
        """
        missing = [] if self._files is None else self._files.missing
        from pyebpf.bpftrace.changed import concerns

        parsed = self._script.script
        if not concerns(parsed.program):
            return missing
        from pyebpf.bpftrace.changes import changes
        from pyebpf.runtime.loaded import Loaded

        chosen = self._target if target is None else target
        if chosen is not None:
            return missing + changes(parsed.program, parsed.structs, chosen)
        with Loaded() as loaded:
            return missing + changes(parsed.program, parsed.structs, loaded.target())

    def output(
        self,
        stop: Callable[[], bool] = lambda: False,
        *,
        duration: float | None = None,
        attached: Callable[[int], None] = lambda _: None,
        json: bool = False,
        benchmarks: bool = False,
        waits: bool = False,
    ) -> Iterator[str]:
        """Run the script, and yield its text as it comes: until it calls exit(), `stop()` is true, or seconds are over.

        BEGIN comes before anything is attached, END and the maps after all is detached; a script that has nothing else
        ends at once, unless it `waits` for `stop()`. `attached` is told the number of attach points, before there is
        any text, which comes in pieces of any number of lines. With `json` each line is an object. With `benchmarks`
        nothing is attached: the `bench` probes are run and timed.
        """
        if self._entered:
            raise InvalidValue("output() attaches the script by itself, and closes it: leave out the `with` around it")
        for name, function in (("stop", stop), ("attached", attached)):
            if not callable(function):
                raise InvalidValue(f"output({name}={function!r}): give a function")
        if duration is not None:
            check_argument("output(duration=...)", duration, (int, float), "seconds")
            if not duration >= 0:  # nor nan
                raise InvalidValue(f"output(duration={duration}): give seconds, 0 or more")
        others = [each for each in self._script.lists if each is not self._script.benchmarks]
        if self._script.benchmarks and not any(others) and not benchmarks:
            raise InvalidValue("No probes attached: --mode bench, or output(benchmarks=True), runs the bench probes")
        end = None if duration is None else time.monotonic() + duration
        printer = self.printer(json=json)
        captured, rest = _Captured(), Epoll()
        try:
            self.load()
            # Known now: probes whose places are missing may have been left out.
            goes_on = bool(self._script.attached or self._script.signals or waits) and not benchmarks
            captured = self._captured()
            self._run_begin()
            begun = [*self._printed(printer, 0.0), *self._exited(printer)]
            if not benchmarks:  # also where BEGIN ends the script: what cannot be attached is told
                self.attach()
            by_hand = [self._script.begins, self._script.ends, self._script.signals, self._script.iterators]
            attached(sum(map(len, by_hand)) + len(self.attachments))
            yield from begun
            if benchmarks:
                from pyebpf.bpftrace.benchmarks import measured
                from pyebpf.kernel.bpf import enable_stats

                yield from measured(self._script.benchmarks, enable_stats, stop, json=json)
            elif printer.status is None:
                yield from self._iterated(printer)
                yield from self._exited(printer)
            while goes_on and printer.status is None and not stop() and (end is None or time.monotonic() < end):
                left = _PERIOD if end is None else max(min(_PERIOD, end - time.monotonic()), 0.0)
                records = self._script.script.events.poll(left)
                self._answer_signals()
                if self._unwinding is not None:
                    self._unwinding.look()
                captured.write()
                yield from printer.texts(self._script.script.events, records)
                yield from self._exited(printer)
                if 0 < len(records) < _MANY and printer.status is None:
                    rest.wait(_REST)
            if printer.status is None:
                yield from self._printed(printer, 0.0)
            else:
                self._script.script.events.poll(0.0)  # what came after exit() is not wanted
            super().detach()  # END's text comes behind all other
            captured.write()
            self._script.script.events.poll(0.0)
            self.is_interrupted = lambda: False  # the commands of END are run
            for each in self._script.ends:
                each.program.test_run()
            stopped = printer.taken_status()
            yield from self._printed(printer, 0.0)
            last = printer.taken_status()
            self.status = (stopped or 0) if last is None else last
            prints_maps = self._script.script.settings.print_maps_on_exit
            if printer.before_maps and (prints_maps or not self.escapes):
                yield printer.before_maps
            if prints_maps and (maps := printer.maps()):
                yield maps
            self.last_dropped = dict(self.dropped)
        finally:
            captured.close()
            rest.close()
            self.close()

    def _captured(self) -> _Captured:
        """The packets that probes copy, if any do."""
        packets, pages = self._script.script.packets, self._script.script.settings.perf_rb_pages
        if not packets.files:
            return _Captured()
        from pyebpf.bpftrace.packets import Captures
        from pyebpf.events import PerfBuffer

        files = Captures(packets.files, booted(), new_file)
        return _Captured(PerfBuffer(self.loaded_map(packets.map_name), pages=pages), files)

    @property
    def checks_lookups(self) -> bool:
        """Whether probes warn of entries that they do not find; to be set before the script is compiled."""
        return self._script.script.checks_lookups

    @checks_lookups.setter
    def checks_lookups(self, on: bool) -> None:
        self._script.script.checks_lookups = on

    @property
    def wants_signals(self) -> bool:
        """Whether it has probes for SIGUSR1: `signal_arrived` is then to be called for each."""
        return bool(self._script.signals)

    def signal_arrived(self) -> None:
        """Note that SIGUSR1 came, from a handler: `output()` runs the probes for it."""
        self._signals += 1

    def _answer_signals(self) -> None:
        while self._signals:
            self._signals -= 1
            for each in self._script.signals:
                each.program.test_run()

    def _iterated(self, printer: Printer) -> Iterator[str]:
        """Go over the lists of the iterators once, and yield what their probes print: for all elements, as bpftrace."""
        events = self._script.script.events
        for each in self._script.iterators:
            link: Any = each.attach()
            with link:
                for _ in link.read():
                    pass  # there are no records: they print
            yield from printer.texts(events, events.poll(0.0), until_exit=False)  # exit() ends the script, not the list

    def _begin(self) -> None:
        """Tell programs when the script was started."""
        maps = self._running.maps
        if STARTED_MAP in maps:
            over(maps[STARTED_MAP])[0] = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        if TAI_MAP in maps:
            over(maps[TAI_MAP])[0] = time.clock_gettime_ns(time.CLOCK_TAI) - time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def _printed(self, printer: Printer, timeout: float) -> Iterator[str]:
        """Carry out what probes asked for by now, until one asked for the end."""
        events = self._script.script.events
        return printer.texts(events, events.poll(timeout))

    def _exited(self, printer: Printer) -> Iterator[str]:
        """End where exit() was called, and the buffer had no room for the event that says so."""
        maps = self._running.maps
        if printer.status is None and EXITED_MAP in maps and (behind := over(maps[EXITED_MAP])[0]):
            yield from self._printed(printer, 0.0)  # where the event is, if it is there
            if printer.status is None:
                printer.status = behind - 1

    def printer(self, *, json: bool = False) -> Printer:
        """A printer of this script's actions."""
        limit = self._script.script.settings.max_cat_bytes
        kind = Printer
        if json:
            from pyebpf.bpftrace.json_printer import JsonPrinter

            kind = JsonPrinter
        made = kind(
            _Tables(self), MachineNames(self), lambda path: beginning(path, limit, _complain), self._run, _complain
        )
        made.warns, made.escapes, made.unwatch = self.warns, self.escapes, self._unwatch
        return made

    def _run(self, command: str) -> str:
        """Run a command of `system()`, and return what it prints; run none once a signal has ended the script."""
        return "" if self.is_interrupted() else _system(command)

    def _unwatch(self, address: int) -> None:
        from pyebpf.attach.perf_events import Breakpoint

        address %= 1 << 64
        self._running.detach_from(lambda place: isinstance(place, Breakpoint) and place.place == address)


def _check_arguments(text: str, arguments: Sequence[str], pid: int | None, child: int | None) -> None:
    """Refuse arguments of other types than Script has. A string is a sequence of strings, too."""
    check_argument("Script(text)", text, str, "the text of a script")
    if isinstance(arguments, str):
        raise InvalidValue(f"Script(arguments={arguments!r}): give a list of strings, such as [{arguments!r}]")
    check_argument("Script(arguments=...)", arguments, (list, tuple), "a list of strings")
    for number, each in enumerate(arguments, 1):
        check_argument(f"Script(arguments=...), ${number}", each, str, "a string")
    for name, process in (("pid", pid), ("child", child)):
        if process is None:
            continue
        check_argument(f"Script({name}=...)", process, int, "the number of a process")
        if process is True or process <= 0:
            raise InvalidValue(f"Script({name}={process}): give the number of a process, 1 or more")


def _check_filter(only: str) -> None:
    """Refuse a regular expression that may try more ways than there is time for, as `(a+)+$` does."""
    from pyebpf.dsl.backtracking import may_backtrack

    check_argument("Script(only=...)", only, str, "a regular expression")
    if may_backtrack(only, _PART):
        raise InvalidValue(
            f"--probe-filter {only!r}: this regular expression may take for ever: repeat no repetition, as in (a+)+, "
            "and have four of * and + at most"
        )


class _Unwinding:
    """The stacks of dw_ustack(): of one process from its first event on, of all others from soon after theirs."""

    def __init__(self, script: Script, pid: int | None) -> None:
        from pyebpf.unwinding import Unwinder

        self._unwinder = script._script.script.unwinder = Unwinder(script, () if pid is None else (pid,))
        self._next = 0.0

    def look(self) -> None:
        """Read more of the programs that events came from, if it is time to."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._unwinder.look()


class _Captured:
    """The packets that probes copy on their way to their files; without a buffer there are none."""

    def __init__(self, buffer: PerfBuffer | None = None, files: Captures | None = None) -> None:
        self._buffer, self._files = buffer, files

    def write(self) -> None:
        """Write those that are there."""
        if self._buffer is not None and self._files is not None:
            self._files.write(self._buffer.poll(0.0))

    def close(self) -> None:
        """Close the buffer and the files."""
        if self._buffer is not None and self._files is not None:
            self._buffer.close()
            self._files.close()


class _Tables(dict[str, Any]):
    """The maps of a script by name, found when they are asked for: types are known once it is compiled."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self._maps = script._script.script.maps

    def __missing__(self, name: str) -> Any:
        return next(each for each in self._maps.tables() if each.name == name)

    def __iter__(self) -> Iterator[str]:
        return iter([each.name for each in self._maps.tables()])


def _cgroup_id(path: str) -> int:
    """The number of a control group by its directory. Raises NotFound for one of another file system, and OSError."""
    from pathlib import Path

    from pyebpf.errors import NotFound
    from pyebpf.kernel.mounts import cgroup2_mounts

    found, mounts = Path(path).stat(), cgroup2_mounts()
    if Path(path).is_dir() and any(Path(each).stat().st_dev == found.st_dev for each in mounts):
        return found.st_ino
    where = f"is mounted at {' and '.join(mounts)}" if mounts else "is not mounted (mount -t cgroup2 none DIRECTORY)"
    raise NotFound(f"{path} is not the directory of a control group of cgroup2, which {where}")


def _complain(text: str) -> None:
    import sys

    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _system(command: str) -> str:
    import subprocess

    found = subprocess.run(  # noqa: S602 - the command is the author of the script's
        command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if found.returncode > 0:
        _complain(f"ERROR: command exited with code {found.returncode}")
    elif found.returncode:
        _complain(f"ERROR: child process did not exit normally (signal {-found.returncode})")
    return found.stdout.decode(errors="surrogateescape")
