"""`bench` probes: run again and again, and timed by the kernel's statistics, which leave out all but the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from pyebpf.module.probe import AnyProbe

#: How often each is run.
RUNS = 10_000
_NAME, _TIME = 41, 15


def measured(
    probes: Sequence[AnyProbe], statistics: Callable[[], AbstractContextManager[object]], *, json: bool
) -> Iterator[str]:
    """Run them, and yield a table of nanoseconds, or a line of JSON each. Within `statistics()` the kernel counts."""
    names = [each.requests[0].targets[0].partition(":")[2] for each in probes]
    width = max([_NAME, *[len(name) + 1 for name in names]])
    if probes and not json:
        heading = f"{'Benchmark':<{width}}{'Time(ns)':<{_TIME}}Iterations"
        yield f"{heading}\n{'-' * len(heading)}\n"
    for name, probe in zip(names, probes, strict=True):
        with statistics():
            nanoseconds, runs = _timed(probe)
        average = nanoseconds // max(runs, 1)
        if json:
            from pyebpf.bpftrace.json_printer import message, quoted

            yield message("benchmark_result", f'{{{quoted(name)}: {{"average": {average}, "iters": {runs}}}}}')
        else:
            yield f"{name:<{width}}{average:<{_TIME}}{runs}\n"


def _timed(probe: AnyProbe) -> tuple[int, int]:
    """Nanoseconds of all runs, and their number."""
    program = probe.program
    before = program.info()
    for _ in range(RUNS):
        program.test_run()
    after = program.info()
    return after.run_time_ns - before.run_time_ns, after.run_count - before.run_count
