"""A module of this kernel's own facts, run by the interpreter."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyebpf.kernel.tracefs import Tracefs
from pyebpf.runtime.host import host_target
from pyebpf.testing import Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf import BPF

__all__ = ["simulated"]


@contextmanager
def simulated(bpf: BPF) -> Iterator[Simulation]:
    """Compiled for this kernel, its maps served by the interpreter's."""
    with Tracefs() as tracefs:
        simulation = Simulation(bpf, host_target(lambda: tracefs))
    with simulation:
        yield simulation
