"""`BaseModule`: probes and maps that belong together, whatever the probes are written in.

Declared without touching the kernel, compiled by a pure function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.collector import collector_paused
from pyebpf.dataclass import replace
from pyebpf.errors import InvalidValue
from pyebpf.module.body import Body
from pyebpf.module.linking import link_module
from pyebpf.specs.maps import map_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.builder.drop_counters import DropReason
    from pyebpf.module.declared import D, DeclaredMap
    from pyebpf.module.linking import Excluded
    from pyebpf.module.probe import AnyProbe
    from pyebpf.specs import Choice, ModuleSpec
    from pyebpf.target import Target


class BaseModule:
    """Maps and probes of one program.

    Nothing is compiled before `compile(target)`, which gives the same result for the same input on every machine.
    """

    def __init__(self) -> None:
        self.probes: list[AnyProbe] = []
        self.maps: list[DeclaredMap] = []
        #: Limit of different stacks that are kept, half a kilobyte each up to 55 frames, two above; None for what
        #: `pyebpf.builder.intrinsics.stacks` says.
        self.max_stacks: int | None = None
        #: Called with the target before the probes are compiled for it. They refuse a kernel that lacks what these
        #: need, in words of their own, by NotSupported or NotFound.
        self.before_compiling: list[Callable[[Target], None]] = []
        self._drop_reasons: tuple[DropReason, ...] = ()
        self._choices: tuple[Choice, ...] = ()

    def declare(self, entity: D) -> D:
        """Make a map of the caller's own kind (an aggregation's) part of this module, and return it.

        Raises InvalidValue for a name that another map has, or that none can have.
        """
        name = entity.name
        if name:
            if name.startswith("."):
                raise InvalidValue(f"name={name!r}: names with a dot at the front are pyebpf's own: leave the dot out")
            if any(each.name == name for each in self.maps):
                raise InvalidValue(f"name={name!r}: another map of this BPF has that name: give this one another")
        self.maps.append(entity)
        return entity

    def body_of(self, value: object, decorator: str) -> Body:
        """The body of what a decorator was put on: itself, or what a front end makes of it. Raises InvalidValue."""
        if isinstance(value, Body):
            return value
        raise InvalidValue(f"@bpf.{decorator} takes a body (pyebpf.module.body.Body), not {value!r}")

    def compile(self, target: Target, *, excluded: Excluded | None = None) -> ModuleSpec:
        """Compile every probe for each of its targets.

        `excluded` are candidates that are not to be taken, each with the reason. Raises CompileError, NotFound for a
        target that the kernel lacks, or NotSupported for a probe that has no candidate left.
        """
        for check in self.before_compiling:
            check(target)
        return self.linked(target, excluded)

    def linked(self, target: Target, excluded: Excluded | None) -> ModuleSpec:
        """Build and link every probe: `compile` behind the checks. A front end that finds types first builds again."""
        with collector_paused():
            spec, self._drop_reasons = link_module(self.probes, self.maps, target, excluded)
        self._choices = spec.choices
        if self.max_stacks is None:
            return spec
        from pyebpf.builder.intrinsics.stacks import limited

        limit = map_size(self.max_stacks)
        maps = tuple(replace(each, max_entries=limited(each, limit)) for each in spec.maps)
        return replace(spec, maps=maps)

    @property
    def drop_reasons(self) -> tuple[DropReason, ...]:
        """The drop reasons that the compiled programs count, in the order of the counters in the map `.drops`."""
        return self._drop_reasons

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Of what was compiled last: the candidate that each request takes, and the reasons against those before it."""
        return self._choices
