"""`bench` probes: run again and again, and timed by the kernel's statistics, which leave out all but the program."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from pyebpf.module.probe import AnyProbe

#: How often each is run, and the seconds after which it is not run again.
RUNS, SECONDS = 10_000, 5.0
_NAME, _TIME = 41, 15


def measured(
    probes: Sequence[AnyProbe],
    statistics: Callable[[], AbstractContextManager[object]],
    stop: Callable[[], bool],
    *,
    json: bool,
) -> Iterator[str]:
    """Run them until `stop()`, and yield a table of nanoseconds, or a line of JSON each.

    Within `statistics()` the kernel counts.
    """
    names = [each.requests[0].targets[0].partition(":")[2] for each in probes]
    width = max([_NAME, *[len(name) + 1 for name in names]])
    if probes and not json:
        heading = f"{'Benchmark':<{width}}{'Time(ns)':<{_TIME}}Iterations"
        yield f"{heading}\n{'-' * len(heading)}\n"
    for name, probe in zip(names, probes, strict=True):
        with statistics():
            nanoseconds, runs = _timed(probe, stop)
        average = nanoseconds // max(runs, 1)
        if json:
            from pyebpf.bpftrace.json_printer import message, quoted

            yield message("benchmark_result", f'{{{quoted(name)}: {{"average": {average}, "iters": {runs}}}}}')
        else:
            yield f"{name:<{width}}{average:<{_TIME}}{runs}\n"
        if stop():
            break


def _timed(probe: AnyProbe, stop: Callable[[], bool]) -> tuple[int, int]:
    """Nanoseconds of all runs, and their number."""
    program = probe.program
    before = program.info()
    end = monotonic() + SECONDS
    for _ in range(RUNS):
        program.test_run()
        if stop() or monotonic() >= end:
            break
    after = program.info()
    return after.run_time_ns - before.run_time_ns, after.run_count - before.run_count
