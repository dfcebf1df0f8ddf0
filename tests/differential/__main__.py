"""Random programs by the thousand: `python -m tests.differential run --seed 1 --programs 200000 --processes 2`.

`run` compiles each program of a range of seeds for this kernel, runs it there on several inputs and compares what it
leaves with what CPython does; a line now and then says how far it is, and what fails is a line of JSON in `--failures`,
with its seed and text. `show` prints the program of a seed.

A slow machine only runs what a fast one has compiled: `facts` prints what compiling asks a kernel, on that kernel,
`compile` makes a file of programs for it, anywhere, and `execute` runs such a file there.
"""

from __future__ import annotations

import argparse
import collections
import functools
import gc
import multiprocessing
import os
import pickle
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyebpf.errors import PyebpfError
from pyebpf.runtime.host import host_target
from pyebpf.target import RecordedTarget, Recorder
from tests.differential.bench import Bench, Compiled, Failure, compiled, is_small, packed, tried, unpacked
from tests.differential.generator import generate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyebpf.target import Target

_SHARE = 50  # programs that a process is given at once
_PROGRESS = 20.0  # seconds
_MARK = "FACTS "
_ASKING = 30  # programs that ask a kernel everything that all of them ask

Answer = tuple[int, int, list[Failure]]


def main() -> int:
    """Run one of the commands; 1 if a program failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", choices=("run", "show", "facts", "compile", "execute"))
    parser.add_argument("file", nargs="?", type=Path, help="of compiled programs: what compile writes, execute reads")
    parser.add_argument("--seed", type=int, default=0, help="of the first program (default: 0)")
    parser.add_argument("--programs", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--facts", type=Path, help="what `facts` printed on the kernel to compile for")
    parser.add_argument("--failures", type=Path, help="where failures are appended, a line of JSON each")
    options = parser.parse_args()
    if options.command in ("compile", "execute") and options.file is None:
        parser.error(f"{options.command} takes a file")
    return _COMMANDS[options.command](options)


def _show(options: argparse.Namespace) -> int:
    print(generate(options.seed, small=is_small(options.seed)).text)
    return 0


def _facts(options: argparse.Namespace) -> int:
    """A few programs ask everything that all of them ask."""
    recorder = Recorder(_target())
    for seed in range(_ASKING):
        try:
            compiled(seed, recorder)
        except PyebpfError as error:
            print(f"seed {seed}: {error}", file=sys.stderr)
    print(_MARK + " ".join(recorder.to_json().split("\n")))
    return 0


def _target() -> Target:
    def none() -> Any:
        raise AssertionError("random programs ask for no tracepoint's format")

    return host_target(none)


def _run(options: argparse.Namespace) -> int:
    return _report(options, options.programs, _answers(options.processes, _run_share, _shares(options)))


def _shares(options: argparse.Namespace) -> list[range]:
    end = options.seed + options.programs
    return [range(first, min(first + _SHARE, end)) for first in range(options.seed, end, _SHARE)]


def _execute(options: argparse.Namespace) -> int:
    lines = pickle.loads(options.file.read_bytes())
    shares = [lines[first : first + _SHARE] for first in range(0, len(lines), _SHARE)]
    return _report(options, len(lines), _answers(options.processes, _execute_share, shares))


def _compile(options: argparse.Namespace) -> int:
    text = options.facts.read_text() if options.facts else ""
    _compile_share.target = RecordedTarget.from_json(text.partition(_MARK)[2].splitlines()[0]) if text else _target()
    shares = _shares(options)
    found, failed = [], 0
    for programs, failures in _answers(options.processes, _compile_share, shares):
        found += programs
        failed += len(failures)
        for each in failures:
            print(each, file=sys.stderr)
    options.file.write_bytes(pickle.dumps(found))
    print(f"{len(found)} programs compiled, {failed} not")
    return 1 if failed else 0


class _CompileShare:
    """Compiles for a target that every process has before it is forked."""

    target: Target

    def __call__(self, seeds: Sequence[int]) -> tuple[list[bytes], list[str]]:
        found, failures = [], []
        for seed in seeds:
            try:
                found.append(packed(compiled(seed, self.target)))
            except (PyebpfError, AssertionError) as error:
                failures.append(f"seed {seed}: {type(error).__name__}: {error}")
        return found, failures


_compile_share = _CompileShare()


@functools.cache
def _bench() -> tuple[Target, Bench]:
    # Nearly all that a compilation makes goes with it.
    gc.freeze()
    gc.set_threshold(50_000)
    return _target(), Bench()


def _tried(each: int, make: Callable[[int], Compiled]) -> Failure | None:
    return tried(each, _bench()[1], make)


def _run_share(seeds: Sequence[int]) -> Answer:
    target = _bench()[0]
    found = [_tried(seed, lambda seed: compiled(seed, target)) for seed in seeds]
    return len(seeds), 0, [each for each in found if each is not None]


def _execute_share(programs: Sequence[bytes]) -> Answer:
    found, left_out = [], 0
    for each in programs:
        made = unpacked(each)
        if made.program.called and not _bench()[0].has("program:syscall"):
            left_out += 1
            continue
        failure = _tried(made.program.seed, lambda _, made=made: made)  # type: ignore[misc]  # bound here
        found += [failure] if failure is not None else []
    return len(programs) - left_out, left_out, found


def _answers(processes: int, function: Callable[[Any], Any], shares: Sequence[Any]) -> Iterator[Any]:
    if processes == 1:
        yield from map(function, shares)
        return
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap_unordered(function, shares)


def _report(options: argparse.Namespace, programs: int, answers: Iterator[Answer]) -> int:
    begun = said = time.monotonic()
    done = left_out = 0
    kinds: collections.Counter[str] = collections.Counter()
    for count, without, failures in answers:
        done, left_out = done + count, left_out + without
        for failure in failures:
            kinds[failure.kind] += 1
            print(f"seed {failure.seed}: {failure.kind}: {failure.message}", flush=True)
            if options.failures:
                with options.failures.open("a") as file:
                    file.write(failure.line() + "\n")
        now = time.monotonic()
        if now - said >= _PROGRESS or done + left_out == programs:
            said = now
            what = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items())) or "no failure"
            rate = f"{done / (now - begun):.1f} a second"
            print(f"{done} of {programs} programs from seed {options.seed}, {rate}: {what}", flush=True)
    if left_out:
        print(f"{left_out} syscall programs left out, which this kernel has none of")
    print(f"Linux {os.uname().release}: {done} programs, {sum(kinds.values())} failures")
    return 1 if set(kinds) - {"gave up"} else 0


_COMMANDS = {"run": _run, "show": _show, "facts": _facts, "compile": _compile, "execute": _execute}

if __name__ == "__main__":
    sys.exit(main())
