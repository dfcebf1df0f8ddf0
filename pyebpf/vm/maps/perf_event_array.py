"""Perf event arrays."""

from __future__ import annotations

from pyebpf.vm.maps.base import VmMap


class PerfEventArrayMap(VmMap):
    """A perf event array: what programs output, in `events` as (processor, bytes). Every processor has its event."""

    def begin(self) -> None:
        self.max_entries = self.spec.max_entries or self.cpus
        self.events: list[tuple[int, bytes]] = []
