"""Run a command, or the kernel tests, under other kernels: `python -m tests.vm --kernel 6.12 -- COMMAND`.

Without a command it runs pytest over tests/kernel with this interpreter, in each kernel asked for, and ends
with a summary of each. Needs qemu-system-x86, busybox-static, kmod and, for a kernel not fetched before, apt.
"""

from __future__ import annotations

import argparse
import compileall
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO
from xml.etree.ElementTree import ParseError

from tests.vm import kernels, report
from tests.vm.initramfs import RESULTS, Task
from tests.vm.kernels import Kernel, KernelUnavailable
from tests.vm.machine import Machine, MachineUnusable

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).resolve().parents[2]
JUNIT = "junit.xml"
TEST_MODULES = ("loop",)  # what tests use and the kernel does not load by itself when asked for
SLOTS = 2  # machines up at once
LOST = 125  # exit status when a machine did not report one, which no test runner uses


def main() -> int:
    """Parse the command line, run the machines, print what came of them; 0 if all went well."""
    options = _parser().parse_args()
    _compile(tests=not options.command)
    series = options.kernel or list(kernels.SERIES)
    results = Path(options.results or tempfile.mkdtemp(prefix="pyebpf-vm-")).resolve()
    output = _Output(prefixed=len(series) > 1)
    with ThreadPoolExecutor(SLOTS) as pool:
        statuses = list(pool.map(lambda name: _run(name, options, results / name, output), series))
    output.say("")
    for name, (_, summary) in zip(series, statuses, strict=True):
        output.say(f"Linux {name}: {summary}")
    worst = max(status for status, _ in statuses)
    if options.results is None and worst == 0:
        shutil.rmtree(results)
    else:
        output.say(f"Logs: {results}")
    return worst


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.vm", description=__doc__)
    parser.add_argument(
        "--kernel", action="append", metavar="SERIES", help="6.1 or 6.12; may be repeated (default: both)"
    )
    parser.add_argument(
        "--flavour", default="", choices=kernels.FLAVOURS, help="Debian's flavour (default: the plain one)"
    )
    parser.add_argument("--module", action="append", default=[], help="load this module first; may be repeated")
    parser.add_argument("--qemu", action="append", default=[], metavar="ARG", help="a further argument for QEMU")
    parser.add_argument("--parameter", action="append", default=[], help="a further kernel parameter")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="for the command")
    parser.add_argument("--memory", type=int, default=4096, help="in MiB (default: 4096)")
    parser.add_argument("--processors", type=int, default=2)
    parser.add_argument("--limit", type=float, default=1200, help="seconds until the machine is killed (default: 1200)")
    parser.add_argument("--cache", type=Path, default=kernels.default_cache(), help="where unpacked kernels are kept")
    parser.add_argument("--results", help="folder for logs and JUnit files (default: a new temporary one)")
    parser.add_argument("command", nargs="*", help="run in the checkout's root; default: the kernel tests")
    return parser


def _compile(*, tests: bool) -> None:
    """Leave bytecode for the guests, whose own would be lost in the overlay, so that each import compiled afresh."""
    compileall.compile_dir(CHECKOUT / "pyebpf", quiet=1)
    if tests:
        # pytest caches test modules, and plugins, with its assertions rewritten: 8 s of a guest's time.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests/kernel"],
            cwd=CHECKOUT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=False,  # what is wrong with a test module is told by the run itself
        )


def _run(series: str, options: argparse.Namespace, results: Path, output: _Output) -> tuple[int, str]:
    """Exit status and one paragraph of summary for one kernel."""
    results.mkdir(parents=True, exist_ok=True)
    junit = results / JUNIT
    junit.unlink(missing_ok=True)
    try:
        kernel = kernels.obtain(series, options.cache, flavour=options.flavour)
        machine = Machine(kernel, options.memory, options.processors, options.qemu, options.parameter)
        modules = [*options.module, *(() if options.command else TEST_MODULES)]
        task = Task(options.command or _pytest(), CHECKOUT, _environment(kernel, options.env), modules)
        with _slot(options.cache):
            outcome = machine.run(task, results, limit=options.limit, output=lambda piece: output.add(series, piece))
    except (KernelUnavailable, MachineUnusable, FileNotFoundError) as error:
        return LOST, f"not run: {error}"
    output.end(series)
    took = f"{kernel.release}, {outcome.seconds:.0f} s"
    if outcome.status is None:
        return LOST, f"machine lost ({took}): {outcome.reason}; see {outcome.console}"
    if options.command:
        return outcome.status, f"exit status {outcome.status} ({took})"
    try:
        tests = report.read(junit)
    except (OSError, ParseError) as error:
        return outcome.status or LOST, f"exit status {outcome.status} and no results ({took}): {error}"
    lines = [f"{tests} ({took})"]
    lines += [f"  failed: {name}: {reason}" for name, reason in tests.failures]
    lines += [f"  skipped: {name}: {reason}" for name, reason in tests.skips]
    return outcome.status, "\n".join(lines)


@contextmanager
def _slot(cache: Path) -> Iterator[None]:
    """Wait until fewer than SLOTS machines are up on this computer, whoever started them, and be one of them.

    More than it has processors for would all take longer, and miss their limits.
    """
    with ExitStack() as stack:
        locks = [stack.enter_context((cache / f"slot-{number}.lock").open("w")) for number in range(SLOTS)]
        while not any(_locked(lock) for lock in locks):
            time.sleep(0.5)
        yield


def _locked(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pytest() -> list[str]:
    options = ["-ra", "-q", "-p", "no:cacheprovider", f"--junitxml={RESULTS}/{JUNIT}"]
    return [sys.executable, "-m", "pytest", *options, "tests/kernel"]


def _environment(kernel: Kernel, extra: list[str]) -> dict[str, str]:
    environment = {name: os.environ[name] for name in ("HOME", "LANG", "CI") if name in os.environ}
    # This interpreter's programs first: version managers' shims on a user's PATH are slow in emulation.
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    environment |= {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "NO_COLOR": "1",
        "PYEBPF_VM": kernel.release,
    }
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
    sys.exit(main())
