"""`pyebpf -e PROGRAM` and `pyebpf run FILE.bt`: scripts in bpftrace's language."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import ExitStack, contextmanager
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, TextIO

from pyebpf.cli.bpftrace_options import HELP, SEE, all_options, is_option, split_options
from pyebpf.cli.report import FAILED, UsageError, note, read_input
from pyebpf.cli.signals import until_signal
from pyebpf.errors import CompileError, PyebpfError, VerifierError, without_decorators
from pyebpf.output.escape import visible
from pyebpf.output.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyebpf.bcc.messages import Messages
    from pyebpf.cli.child import Child
    from pyebpf.script import Script

#: What is told of a map that was full, in bpftrace's words.
_FULL = (
    "WARNING: Map full; can't update element. Try increasing max_map_keys config or manually setting the max entries "
    "in a map declaration e.g. `let @a = hash(5000)`"
)

#: What is told of events that came faster than they were printed.
_NO_ROOM = (
    "the buffer of what is to be printed was full: give it more pages of 4 KiB, by config = { perf_rb_pages = 4096 } "
    "or BPFTRACE_PERF_RB_PAGES=4096 (256 without), or print less"
)


def run_text(arguments: list[str]) -> int:
    """Run `pyebpf -e`: the script is an argument."""
    if not arguments:
        raise UsageError("pyebpf -e", "give a script: -e 'BEGIN { printf(\"hello\\n\"); }'", SEE)
    if arguments[0] in ("-h", "--help"):
        Sink.of(sys.stdout).write(HELP)
        return 0
    if is_option(arguments[0]):  # options before the script
        rest, _ = split_options(arguments, "pyebpf -e")
        if not rest:
            raise UsageError("pyebpf -e", "give a script behind the options", SEE)
        options = arguments[: len(arguments) - len(rest)]
        if is_option(rest[0]) and options[-1:] != ["--"]:
            raise UsageError("pyebpf -e", f"unknown option {rest[0]}", SEE)
        arguments = [rest[0], *(each for each in options if each != "--"), *rest[1:]]
    text = os.fsencode(arguments[0]).decode("utf-8", "surrogateescape")  # whatever the locale
    return _run(text, "<script>", arguments[1:], "pyebpf -e")


def is_script(arguments: list[str]) -> bool:
    """Whether `pyebpf run` was given a script of bpftrace's: its first argument that is no option."""
    rest, _ = split_options(arguments, "pyebpf run")
    return bool(rest) and rest[0].endswith(".bt")


def run_file(arguments: list[str], program: str = "pyebpf run") -> int:
    """Run `pyebpf run FILE.bt`, or a script on standard input."""
    rest, _ = split_options(arguments, program)
    options = [each for each in arguments[: len(arguments) - len(rest)] if each != "--"]
    data, shown = read_input(rest[0])
    if b"\0" in data:
        raise UsageError(program, f"{shown} is no script: it has a byte that is 0", SEE)
    return _run(data.decode("utf-8", "surrogateescape"), shown, [*options, *rest[1:]], program)


def _run(text: str, file: str, arguments: list[str], program: str) -> int:
    rest, given = all_options(arguments, program)
    if given.get("help"):
        Sink.of(sys.stdout).write(HELP)
        return 0
    # As with tools, what a start makes stays: `print_output` looks for garbage again once all is attached.
    gc.disable()
    try:
        return _run_given(text, file, rest, given)
    except PyebpfError as error:
        note(f"{program}: {_told(error)}")
        return FAILED
    finally:
        gc.enable()


def _told(error: PyebpfError) -> str:
    """An error in the words of a script, with the attach point that it is about."""
    message = without_decorators(error, ", or allow more with config = {{ max_probes = {} }}")
    has_place = isinstance(error, CompileError | VerifierError)
    if error.probe and error.location is not None and not has_place:
        message = error.location.marked(message)
    return "\n".join(map(visible, message.split("\n")))


def _run_given(text: str, file: str, arguments: list[str], given: dict[str, Any]) -> int:
    from pyebpf.script import Script

    if "output" in given:
        from pyebpf.cli.files import check_file

        check_file(given["output"], file)

    with ExitStack() as stack:
        child = None
        if "command" in given and not given.get("dump"):
            from pyebpf.cli.child import Child

            child = stack.enter_context(Child(given["command"]))
        number = None if child is None else child.pid
        script = Script(
            text,
            arguments,
            file=file,
            pid=given.get("pid"),
            unsafe=bool(given.get("unsafe")),
            child=number,
            settings=_outer_settings(),
            only=given.get("only", ""),
        )
        script.warns = not given.get("unwarned")
        script.progress = note
        script.checks_lookups = bool(given.get("checks_lookups"))
        for line in script.kernel_changes():
            note("\n".join(map(visible, line.split("\n"))))
        if given.get("dump"):
            return dump(script)
        if given.get("dry"):
            script.try_attaching((lambda: _list_attachments(script)) if given.get("verbose") else lambda: None)
            return 0
        return print_output(
            script,
            verbose=bool(given.get("verbose")),
            quiet=bool(given.get("quiet")),
            json=given.get("format") == "json",
            held=given.get("buffering") == "full",
            output=given.get("output", "-"),
            child=child,
            benchmarks="mode" in given,
        )


def _outer_settings() -> dict[str, str]:
    """Settings from the environment, by bpftrace's names: BPFTRACE_MAX_STRLEN is max_strlen."""
    return {
        name.removeprefix("BPFTRACE_").lower(): value
        for name, value in os.environ.items()
        if name.startswith("BPFTRACE_")
    }


def dump(script: Script) -> int:
    """Print the bytecode of a script."""
    from pyebpf.asm import listing

    sink = Sink.of(sys.stdout)
    for each in script.specs().programs:
        sink.line(f"{each.name}: {each.attach}")
        sink.line(listing(each.code.instructions))
    return 0


def _list_attachments(script: Script) -> None:
    """List what a script was attached to, for `--dry-run -v`."""
    for line in script.attachments:
        note(line)
    if not script.attachments:
        note("nothing is attached: BEGIN, END, self, bench and iter probes are run by pyebpf itself")


def tell_attached(script: Script, count: int, *, verbose: bool) -> None:
    """Say that a script traces, and what it could not do."""
    if verbose:
        for line in script.attachments:
            note(line)
    for line in script.warnings:
        note(line)
    note(f"Tracing {count} probe{'s' if count != 1 else ''}... Hit Ctrl-C to end")


def print_output(
    script: Script,
    *,
    verbose: bool,
    quiet: bool = False,
    json: bool = False,
    held: bool = False,
    output: str = "-",
    child: Child | None = None,
    benchmarks: bool = False,
    messages: Messages | None = None,
    duration: float | None = None,
) -> int:
    """Run a script and print what it prints, to standard output or a file; its status.

    The file is begun when all is attached: a script that is wrong leaves what was there. The child begins then, too,
    and the script ends with it. `messages` choose what is printed. The `duration` in seconds begins then, too.
    """
    if json:
        from pyebpf.bpftrace.json_printer import counted

    sink = text_sink()
    sink.holds = held
    script.load()  # which a signal ends at once: from `until_signal` on it is heard between events only
    for line in script.remarks:
        note("\n".join(map(visible, line.split("\n"))))

    def attached(count: int) -> None:
        nonlocal sink
        if output != "-":
            from pyebpf.cli.files import open_text

            sink = text_sink(files.enter_context(open_text(output)))
            sink.holds = held
        gc.freeze()
        gc.enable()
        if duration is not None:
            stop.end_after(duration)
        if not quiet:
            tell_attached(script, count, verbose=verbose)
            if json:
                sink.write(counted("attached_probes", "probes", count))

    with ExitStack() as files, until_signal() as stop, _signals_of(script):
        script.is_interrupted = stop.is_set

        def is_over() -> bool:
            if child is not None:
                child.start()  # this is asked from when BEGIN's text is written, and the command's comes behind it
            shown = messages is not None and messages.is_over
            return stop.is_set() or shown or (child is not None and child.is_over())

        running = script.output(is_over, attached=attached, json=json, benchmarks=benchmarks, waits=child is not None)
        for text in running:
            sink.write(text if messages is None else messages.shown(text))
        if json and script.last_dropped:
            sink.write(counted("lost_events", "events", sum(script.last_dropped.values())))
        sink.flush()
    tell_dropped(script.last_dropped)
    if messages is None and any(each.endswith("buffer full") for each in script.last_dropped):
        note(_NO_ROOM)
    return script.status


@contextmanager
def _signals_of(script: Script) -> Iterator[None]:
    """Give a script the signals that it has probes for."""
    if not script.wants_signals:
        yield
        return
    import signal

    before = signal.signal(signal.SIGUSR1, lambda _number, _frame: script.signal_arrived())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def tell_dropped(dropped: Mapping[str, int]) -> None:
    """Say what was dropped, by reason."""
    from pyebpf.builder.drop_counters import FULL

    for reason, count in dropped.items():
        note(f"dropped: {count} ({reason})")
    if any(reason.endswith(FULL) for reason in dropped):
        note(_FULL)


def text_sink(stream: TextIO | None = None) -> Sink:
    """A stream, standard output by default, for text with the bytes of processes in it, as bpftrace prints them."""
    found = stream or sys.stdout
    assert isinstance(found, TextIOWrapper)  # the process's own, or a file
    found.reconfigure(encoding="utf-8", errors="surrogateescape")  # whatever the locale: those bytes go through
    return Sink(found)
