"""`Module`: probes and maps that belong together.

Declared without touching the kernel, compiled by a pure function.
"""

from __future__ import annotations

import linecache
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from pyebpf import aggregations
from pyebpf.collector import collector_paused
from pyebpf.dataclass import replace
from pyebpf.dsl.assembly import assemble
from pyebpf.dsl.decorators import DecoratorMethods
from pyebpf.dsl.lazy_method import LazyMethod
from pyebpf.dsl.map_methods import MapMethods
from pyebpf.dsl.maps import map_size
from pyebpf.dsl.probe import SubprogramEntity, plain_function
from pyebpf.errors import CompileError, Location

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.builder.drop_counters import DropReason
    from pyebpf.dsl.assembly import Struck
    from pyebpf.dsl.maps import Declared
    from pyebpf.specs import Choice, ModuleSpec
    from pyebpf.target import Target

__all__ = ["Module"]

F = TypeVar("F", bound="Callable[..., Any]")


class Module(DecoratorMethods, MapMethods):
    """Maps and probes of one program.

    Each method that declares a map returns it; each decorator returns a Probe. Nothing is compiled before
    `compile(target)`, which gives the same result for the same input on every machine.
    """

    def __init__(self) -> None:
        super().__init__([])
        self.maps: list[Declared] = []
        #: Limit of different stacks that are kept, half a kilobyte each up to 55 frames, two above; None for what
        #: `pyebpf.builder.intrinsics.stacks` says.
        self.max_stacks: int | None = None
        self._drop_reasons: tuple[DropReason, ...] = ()
        self._choices: tuple[Choice, ...] = ()

    log2_hist = LazyMethod(lambda: aggregations.log2_hist)
    linear_hist = LazyMethod(lambda: aggregations.linear_hist)
    log_linear_hist = LazyMethod(lambda: aggregations.log_linear_hist)
    counter = LazyMethod(lambda: aggregations.counter)
    total = LazyMethod(lambda: aggregations.total)
    minimum = LazyMethod(lambda: aggregations.minimum)
    maximum = LazyMethod(lambda: aggregations.maximum)
    stats = LazyMethod(lambda: aggregations.stats)

    # -- functions that probes call --------------------------------------------------------------------------------

    def subprogram(self, function: F) -> F:
        """Compile a function once for each program that calls it (BPF-to-BPF).

        A plain function is written out at each call instead.
        """
        entity: Any = SubprogramEntity(plain_function(function, "subprogram"))
        return entity  # type: ignore[no-any-return]  # to a probe's author it is the function

    def replaceable(self, function: F) -> F:
        """A `subprogram` that another program may take the place of while this one is loaded, by `@bpf.freplace`.

        The verifier looks at it by itself, for any arguments. It has no context: it is given numbers only.
        """
        entity: Any = SubprogramEntity(plain_function(function, "replaceable"), replaceable=True)
        return entity  # type: ignore[no-any-return]  # to a probe's author it is the function

    def define(self, text: str, names: dict[str, Any] | None = None) -> SimpleNamespace:
        """Run source text whose probes belong here: for places that keep no source, such as piped input.

        The text sees the caller's names, then `names`, and `bpf` as this module. Returns what it defines.
        """
        frame = sys._getframe(1)
        # Named by its content: the same in every run, and one text's lines are never shown for another's.
        from hashlib import sha256

        file = f"<bpf.define {sha256(text.encode()).hexdigest()[:12]}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        before: dict[str, Any] = {**frame.f_globals, **frame.f_locals, "bpf": self, **(names or {})}
        after = dict(before)
        try:
            code = compile(text, file, "exec", dont_inherit=True)
        except SyntaxError as error:
            column = max((error.offset or 1) - 1, 0)
            where = Location(file, error.lineno or 1, column, text=(error.text or "").rstrip("\n"))
            raise CompileError(f"this is no Python: {error.msg}", where) from None
        exec(code, after)  # noqa: S102 - the caller's own source
        missing = object()
        return SimpleNamespace(
            **{
                name: value
                for name, value in after.items()
                if before.get(name, missing) is not value and name != "__builtins__"
            }
        )

    # -- compiling -----------------------------------------------------------------------------------------------------

    def compile(self, target: Target, *, struck: Struck | None = None) -> ModuleSpec:
        """Compile every probe for each of its targets.

        `struck` are ways of attaching that are out of the question, each with the reason. Raises CompileError,
        NotFound for a target that the kernel lacks, or NotSupported for a probe that has no way left.
        """
        with collector_paused():
            spec, self._drop_reasons = assemble(self.probes, self.maps, target, struck)
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
        """Of what was compiled last: which way each probe's request takes, and why not those before it."""
        return self._choices
