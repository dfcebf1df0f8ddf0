"""A front end of a few lines: bodies and subprograms that are Python functions of the program builder, run at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.subprograms import Signature, Subprogram
from pyebpf.errors import Location
from pyebpf.module.body import Body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.integers import Int
    from pyebpf.types import IntType

#: Where everything that is written by hand says that it stands.
HERE = Location("by_hand.b", 3, 0, 4, "open")


class HandBody(Body):
    """A body that `build` makes; `maps` are those that it names."""

    def __init__(
        self,
        name: str,
        build: Callable[[ProgramBuilder], None],
        parameters: Sequence[str] = (),
        maps: Mapping[str, object] | None = None,
    ) -> None:
        self.name = name
        self.parameters = parameters
        self._build = build
        self._maps = maps or {}

    @property
    def where(self) -> Location:
        return HERE

    def map_names(self) -> Iterable[tuple[object, str]]:
        return [(each, name) for name, each in self._maps.items()]

    def build(self, p: ProgramBuilder) -> None:
        self._build(p)


class HandSubprogram(Subprogram):
    """A subprogram of numbers that `build` makes; it is called by position."""

    def __init__(
        self,
        name: str,
        parameters: dict[str, IntType],
        result: IntType | None,
        build: Callable[..., None],
        *,
        replaceable: bool = False,
    ) -> None:
        super().__init__(name, replaceable=replaceable)
        self._signature = Signature(parameters, result)
        self._build_body = build

    @property
    def where(self) -> Location:
        return HERE

    def signature(self, p: Any) -> Signature:  # noqa: ARG002 - nothing can be wrong with it
        return self._signature

    def bound(self, p: ProgramBuilder, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002 - the protocol's
        return dict(zip(self._signature.parameters, arguments, strict=True))

    def build(self, p: ProgramBuilder, signature: Signature, arguments: Mapping[str, Int]) -> None:  # noqa: ARG002 - the protocol's
        self._build_body(p, **arguments)


def leave(p: ProgramBuilder, result: Any = None) -> None:
    """Return a number, or what a program returns that has nothing to say."""
    from pyebpf.builder.values.operations import to_int

    if result is None:
        result = p.program_context.default_return(p.program_type)
    p.b.ret(to_int(p, result).value)
