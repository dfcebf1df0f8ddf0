"""The search: mutate, run, keep what goes a new way; make what breaks a target small and write it down."""

from __future__ import annotations

import hashlib
import math
import random
import resource
import signal
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.coverage import Coverage
from fuzz.mutation import minimised_pieces, mutate

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

    from fuzz.targets import Target

__all__ = ["EXECUTION_LIMIT", "Search", "TooSlow", "failure_of", "read_corpus"]

EXECUTION_LIMIT = 10.0
"""CPU seconds that one execution may take; more is a finding."""
_MINIMISING = 30.0  # CPU seconds


class TooSlow(BaseException):
    """An execution took longer than the limit. No Exception, so that no target handles it."""


def cpu_seconds() -> float:
    """User and system time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def read_corpus(folder: Path) -> list[bytes]:
    """The inputs in a folder, in the order of their names."""
    return [path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()] if folder.is_dir() else []


def failure_of(error: BaseException) -> str:
    """What tells one finding from another: the exception's type and the last place in the project's code."""
    frames = traceback.extract_tb(error.__traceback__)
    root = str(Path(__file__).resolve().parent.parent)
    ours = [frame for frame in frames if frame.filename.startswith((f"{root}/pyebpf", f"{root}/fuzz/targets"))]
    frame = (ours or frames)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"


@dataclass
class Search:
    """One run over a target.

    `seconds` counts CPU time; `share` is the part of the executions that is traced (tracing costs several times the
    execution itself). `max_executions` ends a search at the same place on every machine, however fast that is.
    """

    name: str
    target: Target
    seconds: float
    seed: int = 0
    share: float = 1.0
    max_executions: float = math.inf
    findings_folder: Path = Path("fuzz-findings")
    executions: int = 0
    findings: dict[str, bytes] = field(default_factory=dict)
    corpus: list[bytes] = field(default_factory=list)

    def run(self, inputs: Iterable[bytes]) -> None:
        """Search until the time is over, or the last execution, or until SIGINT."""
        start = cpu_seconds()
        previous = signal.signal(signal.SIGVTALRM, _alarm)
        chance = random.Random(self.seed)  # noqa: S311 - a seed gives the same search again
        coverage = Coverage(self.target.COVERS)
        try:
            for data in inputs:
                self._one(data, coverage, keep=True)
            self.corpus = self.corpus or [b""]
            while cpu_seconds() - start < self.seconds and self.executions < self.max_executions:
                # Half of them from what was found last: it leads on to more.
                recent = self.corpus[-max(len(self.corpus) // 4, 1) :]
                parent = chance.choice(recent if chance.randrange(2) else self.corpus)
                data = mutate(parent, chance, self.corpus, self.target.DICTIONARY, text=self.target.TEXT)
                self._one(data, coverage if chance.random() < self.share else None)
        except KeyboardInterrupt:
            self._say(f"{self.name}: interrupted")
        finally:
            signal.signal(signal.SIGVTALRM, previous)
        self._say(
            f"{self.name}: {self.executions} executions in {cpu_seconds() - start:.0f} s of CPU time, "
            f"seed {self.seed}, {len(coverage.seen)} pairs of lines, "
            f"corpus of {len(self.corpus)}, {len(self.findings)} findings"
        )

    def _one(self, data: bytes, coverage: Coverage | None, *, keep: bool = False) -> None:
        self.executions += 1
        try:
            new = _limited(self.target, data, coverage)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - any exception is a finding
            self._found(data, error)
            return
        if new or keep:
            self.corpus.append(data)

    def _found(self, data: bytes, error: BaseException) -> None:
        failure = failure_of(error)
        if failure in self.findings:
            return
        self.findings[failure] = data = self._minimised(data, failure)
        self.findings_folder.mkdir(parents=True, exist_ok=True)
        path = self.findings_folder / f"{self.name}-{hashlib.sha256(data).hexdigest()[:12]}"
        path.write_bytes(data)
        self._say(f"{self.name}: {failure}: {str(error)[:300]!r}\n  {path}: {data[:200]!r}")
        traceback.print_exception(error, limit=-6)

    def _minimised(self, data: bytes, failure: str) -> bytes:
        start = cpu_seconds()
        smaller = True
        while smaller:
            smaller = False
            for piece in minimised_pieces(data):
                if cpu_seconds() - start > _MINIMISING:
                    return data
                try:
                    _limited(self.target, piece, None)
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # noqa: BLE001 - any exception is a finding
                    if failure_of(error) == failure:
                        data, smaller = piece, True
                        break
        return data

    def _say(self, line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _alarm(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler's signature
    raise TooSlow(f"more than {EXECUTION_LIMIT:g} s of CPU time")


def _limited(target: Target, data: bytes, coverage: Coverage | None) -> bool:
    """Run once, within the limit; whether it went a new way."""
    signal.setitimer(signal.ITIMER_VIRTUAL, EXECUTION_LIMIT)
    try:
        if coverage is not None:
            return coverage.run(lambda: target.target(data))
        target.target(data)
        return False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
