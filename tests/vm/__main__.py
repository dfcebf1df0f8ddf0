"""Run a command, or the kernel tests, under other kernels: `python -m tests.vm --kernel 6.12 -- COMMAND`.

Without a command it runs pytest over tests/kernel with this interpreter, in each kernel asked for, and ends
with a summary of each (`tests.vm.plan` says which tests). `--all` is every kernel with all of its tests, `--shard`
those that Debian's suites offer, each with its share for this commit (`tests.vm.shards`), `--core` the same with what
each of them runs in any case. Needs qemu-system-x86, busybox-static, kmod and, for a kernel not fetched before,
apt.
"""

from __future__ import annotations

import argparse
import compileall
import fcntl
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tests.support.python import FORKED
from tests.vm import kernels, plan, report, root as roots, shards
from tests.vm.devices import DEVICES
from tests.vm.initramfs import RESULTS, Task
from tests.vm.kernels import Kernel, KernelUnavailable
from tests.vm.machine import STOP, Machine, MachineUnusable
from tests.vm.platforms import PLATFORMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.vm.machine import Outcome
    from tests.vm.plan import Run, Wishes

CHECKOUT = Path(__file__).resolve().parents[2]
MACHINES = "machines"  # the names of those to run, in the folder of all results
RECORD = "record"  # what the tests' results are written to, in a machine's folder of results
SLOTS = 2  # machines up at once
_WORTH_BOOTING = 30.0  # seconds
STARTS = 3  # of a machine whose kernel panics: the emulation's races with kernels that patch their code cause panics
ABSENT = -1  # in place of a status: a kernel that apt does not reach, and need not
LOST = 125  # exit status when a machine did not report one, which no test runner uses


def main() -> int:
    """Parse the command line, run the machines, print what came of them; 0 if all went well."""
    parser = _parser()
    options = parser.parse_args()
    names = _names(options)
    if options.interactive and len(names) != 1:
        parser.error("--interactive takes one --kernel")
    options.deadline = time.monotonic() + options.total if options.total else float("inf")
    compileall.compile_dir(CHECKOUT / "pyebpf", quiet=1)
    asked = bool(options.command or options.interactive)
    wishes = [] if asked else plan.collect(options.tests or plan.TESTS)
    plain = [name for name in names if not plan.RUNS[name].flavour]
    options.shares = {}
    if options.core:
        options.shares = dict.fromkeys(plain, ())
    elif options.shard and not asked:
        seen = shards.passed(report.read(options.seen)) if options.seen else frozenset()
        options.shares = shards.deal(wishes, plain, shards.commit(), shards.changed(), seen=seen)
    results = Path(options.results or tempfile.mkdtemp(prefix="pyebpf-vm-")).resolve()
    results.mkdir(parents=True, exist_ok=True)
    (results / MACHINES).write_text("".join(f"{name}\n" for name in names))
    output = _Output(prefixed=len(names) > 1)
    with ThreadPoolExecutor(SLOTS) as pool:
        statuses = list(pool.map(lambda name: _run(name, options, wishes, results / name, output), names))
    absent = {name for name, (status, _) in zip(names, statuses, strict=True) if status == ABSENT}
    (results / MACHINES).write_text("".join(f"{name}\n" for name in names if name not in absent))
    output.say("")
    for name, (_, summary) in zip(names, statuses, strict=True):
        output.say(f"Linux {name}: {summary}")
    worst = max(0, *(status for status, _ in statuses))
    if options.results is None and worst == 0:
        shutil.rmtree(results)
    else:
        output.say(f"Logs: {results}")
    return worst


def _names(options: argparse.Namespace) -> list[str]:
    """The kernels to run, those that take longest first."""
    if options.all:
        return list(plan.RUNS)
    if (options.shard or options.core) and not options.kernel:
        plain = [name for name in plan.DEALT if not plan.RUNS[name].flavour]
        return [*plain, *plan.OFFERED, shards.turn(shards.commit())]
    return options.kernel or list(plan.DEALT)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.vm", description=__doc__)
    parser.add_argument(
        "--kernel",
        action="append",
        metavar="NAME",
        choices=tuple(plan.RUNS),
        help=f"may be repeated; one of {', '.join(plan.RUNS)} (default: {', '.join(plan.DEALT)})",
    )
    parser.add_argument("--all", action="store_true", help="every kernel")
    parser.add_argument("--shard", action="store_true", help="each kernel's share for this commit")
    parser.add_argument(
        "--seen", type=Path, metavar="RESULTS", help="with --shard: tools that passed there may be left out"
    )
    parser.add_argument("--core", action="store_true", help="of each share only what is marked every_kernel")
    parser.add_argument(
        "--tests", action="append", metavar="PATH", help="run these tests instead of all; may be repeated"
    )
    parser.add_argument(
        "--device",
        action="append",
        default=[],
        choices=tuple(DEVICES),
        help="have this device, and its driver loaded; may be repeated",
    )
    parser.add_argument("--module", action="append", default=[], help="load this module first; may be repeated")
    parser.add_argument("--qemu", action="append", default=[], metavar="ARG", help="a further argument for QEMU")
    parser.add_argument("--parameter", action="append", default=[], help="a further kernel parameter")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="for the command")
    parser.add_argument("--memory", type=int, default=4096, help="in MiB (default: 4096)")
    parser.add_argument("--processors", type=int, default=2)
    parser.add_argument(
        "--thread",
        choices=("multi", "single"),
        help="emulate processors at the same time, or in turn, without the emulation's own races (default: by kernel)",
    )
    parser.add_argument("--limit", type=float, help="seconds until a machine is killed (default: by its tests)")
    parser.add_argument("--total", type=float, help="seconds until no machine is left, whatever is not done")
    parser.add_argument("--cache", type=Path, default=kernels.default_cache(), help="where unpacked kernels are kept")
    parser.add_argument("--results", help="folder for logs and results (default: a new temporary one)")
    parser.add_argument("--resume", action="store_true", help="run only the tests that --results holds no result of")
    parser.add_argument("--interactive", action="store_true", help="sit at the command, by default a shell")
    parser.add_argument("command", nargs="*", help="run in the checkout's root; default: the kernel tests")
    return parser


def _run(
    name: str, options: argparse.Namespace, wishes: Sequence[Wishes], results: Path, output: _Output
) -> tuple[int, str]:
    """Exit status and one paragraph of summary for one kernel."""
    run = plan.RUNS[name]
    if options.tests:  # these, whatever their marks
        run = replace(run, select="")
    elif name in options.shares:
        run = replace(run, whole=options.shares[name])
        if options.core:
            run = replace(run, thread=plan.short_thread(run.series))
    results.mkdir(parents=True, exist_ok=True)
    record = results / RECORD
    if not options.resume:
        record.unlink(missing_ok=True)
    asked = bool(options.command or options.interactive)
    try:
        platform = PLATFORMS[run.architecture]
        kernel = kernels.obtain(run.series, options.cache, flavour=run.flavour, architecture=run.architecture)
        root = roots.obtain(platform, options.cache) if platform.own_root else None
        devices, modules = ([], []) if asked else plan.union(run, wishes)
        devices = list(dict.fromkeys((*devices, *options.device)))
        if options.interactive:
            command = options.command or ["bash", "-i"]
        else:
            python = sys.executable if root is None else f"/usr/bin/{roots.PYTHON}"
            command = options.command or _pytest(python, run, options.tests or plan.files(run, wishes))
        task = Task(
            command,
            CHECKOUT,
            _environment(kernel, options.env, own_root=root is not None),
            [*plan.drivers(devices), *modules, *options.module],
            interactive=options.interactive,
        )
        machine = Machine(
            kernel,
            options.memory,
            options.processors,
            devices,
            options.qemu,
            options.parameter,
            options.thread or run.thread,
            platform,
            root,
        )
        with _slot(options.cache, options.deadline):
            limit = min(options.limit or run.limit, options.deadline - time.monotonic())
            deadline = time.monotonic() + (float("inf") if options.interactive else limit)
            follow = partial(output.add, name)
            panics: list[str] = []
            if asked:
                outcome = machine.run(task, results, limit=deadline - time.monotonic(), output=follow)
            else:
                outcome, panics = _run_to_the_end(machine, task, results, deadline, follow)
    except (KernelUnavailable, MachineUnusable, FileNotFoundError) as error:
        if isinstance(error, KernelUnavailable) and name in plan.OFFERED and not options.kernel:
            return ABSENT, f"not run: {error}"
        return LOST, f"machine unusable: {error}"
    output.end(name)
    took = f"{kernel.release}, {outcome.seconds:.0f} s"
    lost = "" if outcome.status is not None else f"machine lost: {outcome.reason}; see {outcome.console}"
    status = LOST if outcome.status is None else outcome.status
    if asked:
        return status, f"{lost or f'exit status {status}'} ({took})"
    tests = report.read(record)
    lines = [f"{tests} ({took})", *([lost] if lost else []), *tests.lines()]
    lines += [f"started again after a panic: {reason}" for reason in panics]
    return status or (1 if tests.failed else 0), "\n  ".join(lines)


def _run_to_the_end(
    machine: Machine, task: Task, results: Path, deadline: float, output: Callable[[bytes], object]
) -> tuple[Outcome, list[str]]:
    """Run a machine's tests; where its kernel panics, again those without a result.

    Returns how the last of at most STARTS starts ended, and the panics before.
    """
    panics: list[str] = []
    record = results / RECORD
    while True:
        limit = deadline - time.monotonic()
        left = replace(task, command=[*task.command, "--resume"]) if record.exists() else task
        outcome = machine.run(left, results, limit=limit, output=output)
        if not outcome.panicked or len(panics) + 1 == STARTS or limit - outcome.seconds < _WORTH_BOOTING:
            return outcome, panics
        panics.append(outcome.reason)
        outcome.console.rename(results / f"console-{len(panics)}.log")


@contextmanager
def _slot(cache: Path, deadline: float) -> Iterator[None]:
    """Wait until fewer than SLOTS machines are up on this computer, whoever started them, and be one of them.

    More than it has processors for would all take longer, and miss their limits. Raises MachineUnusable where
    `deadline` (time.monotonic) leaves no time for one.
    """
    with ExitStack() as stack:
        locks = [stack.enter_context((cache / f"slot-{number}.lock").open("w")) for number in range(SLOTS)]
        while not any(_locked(lock) for lock in locks):
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)
        if time.monotonic() + _WORTH_BOOTING > deadline:
            raise MachineUnusable("no time is left for it")
        yield


def _locked(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pytest(python: str, run: Run, tests: Sequence[str]) -> list[str]:
    return [
        *(python, "-m", "pytest", "-ra", "-q", "-p", "no:cacheprovider"),
        *("-p", "tests.vm.record", "--record", f"{RESULTS}/{RECORD}", "--test-limit", str(run.test_limit)),
        *(("-m", f"{run.select} or every_kernel") if run.select else ()),
        *(("--whole", ",".join(run.whole)) if run.whole is not None else ()),
        *(tests or plan.TESTS),
    ]


def _environment(kernel: Kernel, extra: list[str], *, own_root: bool) -> dict[str, str]:
    environment = {name: os.environ[name] for name in ("HOME", "LANG", "TERM", "CI") if name in os.environ}
    # This interpreter's programs first: version managers' shims on a user's PATH are slow in emulation.
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    environment["PATH"] = path if own_root else f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    environment |= {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "NO_COLOR": "1",
        "PYEBPF_VM": kernel.release,
        FORKED: "1",
    }
    if own_root:  # as if it were installed there: whatever a test starts, too
        environment["PYTHONPATH"] = str(CHECKOUT)
    return environment | dict(pair.split("=", 1) for pair in extra)


class _Output:
    """Standard output, shared by machines; where there are several, each line begins with its kernel's name."""

    def __init__(self, *, prefixed: bool) -> None:
        self._prefixed = prefixed
        self._pending: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def add(self, series: str, piece: bytes) -> None:
        if not self._prefixed:
            self._write(piece)
            return
        *lines, self._pending[series] = (self._pending.get(series, b"") + piece).split(b"\n")
        self._write(b"".join(b"[%s] %s\n" % (series.encode(), line) for line in lines))

    def end(self, series: str) -> None:
        """Print a last line that has no newline."""
        if rest := self._pending.pop(series, b""):
            self.add(series, rest + b"\n")

    def say(self, text: str) -> None:
        self._write(text.encode() + b"\n")

    def _write(self, content: bytes) -> None:
        with self._lock:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    # Here, since who calls main() has handlers of its own.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: STOP.set())
    sys.exit(main())
