"""What one loaded module holds: maps, programs, links, readers. Made and closed as a whole."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.builder.lost import Loss
    from pyebpf.kernel.tracefs import Tracefs
    from pyebpf.link import Link
    from pyebpf.objects import Program
    from pyebpf.specs import MapSpec, ModuleSpec
    from pyebpf.target import Target
    from pyebpf.types import Struct

__all__ = ["Loaded"]


class Loaded:
    """Owns every descriptor of a module. tracefs is opened once, and only if something asks for it."""

    def __init__(self) -> None:
        self.maps: dict[str, Any] = {}
        self.programs: dict[str, Program] = {}
        self.links: list[Link] = []
        self._open = ExitStack()
        self._tracefs: Tracefs | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tracefs(self) -> Tracefs:
        """The `events` directory, open as long as this is."""
        if self._tracefs is None:
            from pyebpf.kernel.tracefs import Tracefs

            self._tracefs = self._open.enter_context(Tracefs())
        return self._tracefs

    def target(self) -> Target:
        """This machine."""
        from pyebpf.runtime.host import host_target

        return host_target(self.tracefs)

    def load(self, spec: ModuleSpec) -> None:
        """Make the maps, then load the programs; programs that share code are loaded once for each way of attaching."""
        from pyebpf.objects import Program, make_map
        from pyebpf.runtime.host import kernel_btf

        for map_spec in spec.maps:
            made = make_map(map_spec)
            self._open.callback(made.close)
            self.maps[map_spec.name] = made
        for program_spec in spec.programs:
            program = Program(program_spec, self.maps, btf=kernel_btf)
            self._open.callback(program.close)
            self.programs[f"{program_spec.name}@{program_spec.attach}"] = program

    def backend(self, spec: MapSpec, record: type[Struct] | None, **options: Any) -> Any:
        """What the user side of a declared map reads: the loaded map, or a buffer's reader of `record`."""
        from pyebpf.specs import MapKind

        loaded = self.maps[spec.name]
        if spec.kind is not MapKind.RINGBUF and (record is None or spec.kind is not MapKind.PERF_EVENT_ARRAY):
            return loaded
        from pyebpf import events

        made = events.RingBuffer if spec.kind is MapKind.RINGBUF else events.PerfBuffer
        reader: events.RingBuffer | events.PerfBuffer = made(
            loaded, None if record is None else record.layout, **options
        )
        self._open.callback(reader.close)
        return reader

    def attach(self) -> None:
        """Attach each program that has a target and is not attached yet."""
        from pyebpf.link import attach
        from pyebpf.specs import Tracepoint

        attached = len(self.links)
        for program in list(self.programs.values())[attached:]:
            target = program.spec.attach
            assert target is not None
            tracefs = self.tracefs() if isinstance(target, Tracepoint) else None
            self.links.append(attach(program, target, tracefs=tracefs))

    def attachments(self) -> list[str]:
        """A line for each link."""
        programs = self.programs.values()
        return [f"{p.name}: {link.target}, by {link.how}" for p, link in zip(programs, self.links, strict=False)]

    def lost(self, losses: Sequence[Loss]) -> dict[str, int]:
        """Exact losses so far by reason, without those that never happened."""
        from pyebpf.builder.lost import LOST_MAP

        found: dict[str, int] = {}
        if losses:
            for loss, count in zip(losses, self.maps[LOST_MAP][0], strict=True):
                found[str(loss)] = count
        for program in self.programs.values():
            reason = f"{program.name}: running already on the processor"
            found[reason] = found.get(reason, 0) + program.recursion_misses
        for link in self.links:
            found[f"{link.target}: missed by the kernel"] = link.missed or 0
        return {reason: count for reason, count in found.items() if count}

    def detach(self) -> None:
        """Detach everything; maps and readers stay."""
        links, self.links = self.links, []
        with ExitStack() as stack:
            for link in links:
                stack.callback(link.detach)

    def close(self) -> None:
        """Detach, then close programs, readers and maps: in the reverse order of their making."""
        with self._open:
            self.detach()
